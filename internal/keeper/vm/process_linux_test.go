package vm

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// This test binary is also the processes that the tests start.
func TestMain(m *testing.M) {
	if os.Getenv("VM_TEST_AS") == "puncher" {
		f, err := os.OpenFile(os.Getenv("VM_TEST_FILE"), os.O_RDWR, 0)
		if err == nil {
			err = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 4096)
		}
		if err != nil {
			os.Stderr.WriteString(err.Error())
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// What a clone's process inherits keeps it from punching holes into a template;
// others may.
func TestFilter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "memory")
	for _, filter := range []bool{true, false} {
		if err := os.WriteFile(path, []byte(strings.Repeat("x", 8192)), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = []string{"VM_TEST_AS=puncher", "VM_TEST_FILE=" + path}
		var m Machine
		m.exited = make(chan struct{})
		tail := NewTail(4096)
		cmd.Stderr = tail
		if err := m.run(cmd, filter); err != nil {
			t.Fatal(err)
		}
		<-m.exited
		said := tail.Lines(5, 1000)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if filter && (said != unix.EOPNOTSUPP.Error() || b[0] != 'x') {
			t.Errorf("with the filter: said %q, the file begins with %q", said, b[0])
		}
		if !filter && said == "" && b[0] != 0 {
			t.Errorf("without the filter nothing was punched: the test shows nothing")
		}
	}
	// The filter is one thread's: the test itself goes on without.
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Fallocate(int(f.Fd()), 0, 0, 16384); err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
		t.Error(err)
	}
}

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
