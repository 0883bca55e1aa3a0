package vm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestProgramThatIsNotThere(t *testing.T) {
	_, err := Start(plan(nil), Options{QEMU: filepath.Join(t.TempDir(), "qemu"), Dir: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "install QEMU") {
		t.Errorf("%v", err)
	}
}

// What a program says before it gives up is in the error.
func TestProgramThatFails(t *testing.T) {
	script := filepath.Join(t.TempDir(), "qemu")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho 'qemu: no such machine' >&2\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	m, err := Start(plan(func(p *Plan) { p.Memory, p.MemoryFile = Private, "/t/memory" }), Options{QEMU: script, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	state, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer state.Close()
	err = m.Restore(t.Context(), state)
	if err == nil || !strings.Contains(err.Error(), "no such machine") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("%v", err)
	}
	for range 2 {
		if err := m.Kill(); err != nil {
			t.Error(err)
		}
	}
}
