package image

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"rigs/internal/rig"
)

// The disk is really full here: the test runs itself again in namespaces of its own, where it may
// mount a small one, which is gone with the process.
func TestAFullDisk(t *testing.T) {
	const inside = "RIGS_TEST_FULL_DISK"
	if os.Getenv(inside) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAFullDisk$", "-test.v")
		cmd.Env = append(os.Environ(), inside+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		}
		out, err := cmd.CombinedOutput()
		switch {
		case strings.Contains(string(out), "--- SKIP"), err != nil && len(out) == 0:
			t.Skipf("a small disk cannot be mounted here: %v %s", err, out)
		case err != nil:
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	b := newBench(t)
	if err := os.Mkdir(b.cache, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("rigs-test", b.cache, "tmpfs", 0, "size=1m"); err != nil {
		t.Skip(err)
	}
	defer func() {
		if err := syscall.Unmount(b.cache, 0); err != nil {
			t.Error(err)
		}
	}()
	random := make([]byte, 4<<20)
	var seed uint32 = 1
	for i := range random { // does not compress
		seed = seed*1664525 + 1013904223
		random[i] = byte(seed >> 24)
	}
	b.mill.extra.Store(string(random))
	_, err := b.Build(t.Context(), "terminal", BuildOptions{}, nil)
	if rig.CodeOf(err) != rig.CodeCapacity || !strings.Contains(err.Error(), "free some space") {
		t.Errorf("%s: %v", rig.CodeOf(err), err)
	}
	if left := b.leftovers(t); left != nil {
		t.Errorf("left behind: %v", left)
	}
	b.mill.extra.Store("")
	b.build(t, BuildOptions{})
}
