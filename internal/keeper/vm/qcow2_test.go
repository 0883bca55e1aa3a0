package vm

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"rigs/internal/rig"
)

// QEMU's own tool has the last word on the format.
func TestOverlayIsValid(t *testing.T) {
	tool, err := exec.LookPath("qemu-img")
	if err != nil {
		t.Skip(err)
	}
	for _, sizeMB := range []int{64, 512, 8192, 1 << 20} {
		dir := t.TempDir()
		base, first, second := filepath.Join(dir, "base,x"), filepath.Join(dir, "first"), filepath.Join(dir, "second")
		f, err := os.Create(base)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Truncate(64 << 20); err != nil {
			t.Fatal(err)
		}
		f.Close()
		if err := WriteOverlay(first, sizeMB, base, "raw"); err != nil {
			t.Fatal(err)
		}
		if err := WriteOverlay(second, sizeMB, first, "qcow2"); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"check", first}, {"check", second}, {"info", "--backing-chain", second}} {
			out, err := exec.Command(tool, args...).CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %v: %s", args, err, out)
			}
			if args[0] == "info" && (!strings.Contains(string(out), "backing file: "+first) || !strings.Contains(string(out), "backing file format: raw")) {
				t.Errorf("%s", out)
			}
		}
	}
}

func TestOverlayRefusals(t *testing.T) {
	dir := t.TempDir()
	taken := filepath.Join(dir, "taken")
	if err := WriteOverlay(taken, 64, "/base", "raw"); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"a file in its place": WriteOverlay(taken, 64, "/base", "raw"),
		"no such directory":   WriteOverlay(filepath.Join(dir, "none", "d"), 64, "/base", "raw"),
		"no size":             WriteOverlay(filepath.Join(dir, "a"), 0, "/base", "raw"),
		"too large":           WriteOverlay(filepath.Join(dir, "a"), 8<<20, "/base", "raw"),
		"other format":        WriteOverlay(filepath.Join(dir, "a"), 64, "/base", "vmdk"),
		"relative":            WriteOverlay(filepath.Join(dir, "a"), 64, "base", "raw"),
		"long name":           WriteOverlay(filepath.Join(dir, "a"), 64, "/"+strings.Repeat("x", 2000), "raw"),
	} {
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if err := WriteOverlay(taken, 64, "/base", "raw"); rig.CodeOf(err) != rig.CodeCapacity {
		t.Errorf("%v", err)
	}
}
