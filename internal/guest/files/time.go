//go:build linux

package files

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// futimens sets the modification time of f and leaves its access time.
func futimens(f *os.File, mtime unix.Timespec) error {
	ts := [2]unix.Timespec{{Nsec: unix.UTIME_OMIT}, mtime}
	_, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, f.Fd(), 0, uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
	if errno != 0 {
		return os.NewSyscallError("futimens", errno)
	}
	return nil
}
