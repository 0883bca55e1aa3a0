//go:build linux

package rekey

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// ioctlBytes calls an ioctl whose argument is a structure laid out in b.
func ioctlBytes(fd, req uintptr, b []byte) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, req, uintptr(unsafe.Pointer(&b[0]))); errno != 0 {
		return errno
	}
	return nil
}
