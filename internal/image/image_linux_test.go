package image

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"rigs/internal/rig"
)

// The disk is really full here.
func TestAFullDisk(t *testing.T) {
	b := newBench(t)
	if err := os.Mkdir(b.cache, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("rigs-test", b.cache, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("a small disk cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(b.cache, 0); err != nil {
			t.Error(err)
		}
	})
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
