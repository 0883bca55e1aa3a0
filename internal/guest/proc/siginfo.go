//go:build linux

package proc

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// waitInfo is the siginfo_t of waitid, whose union x/sys leaves opaque: after
// three ints, aligned to the word size, si_pid comes first.
type waitInfo struct{ unix.Siginfo }

func (w *waitInfo) siginfo() *unix.Siginfo { return &w.Siginfo }

func (w *waitInfo) pid() int {
	const word = unsafe.Sizeof(uintptr(0))
	const at = (3*unsafe.Sizeof(int32(0)) + word - 1) / word * word
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(&w.Siginfo), at)))
}
