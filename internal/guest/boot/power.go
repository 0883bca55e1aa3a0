//go:build linux

package boot

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// PowerOff writes everything to the disks and turns the machine off. It returns
// only an error.
func PowerOff() error {
	unix.Sync()
	// What was printed last must reach the host: wait for the serial line.
	drainErr := unix.IoctlSetInt(int(os.Stderr.Fd()), unix.TCSBRK, 1)
	err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	return fmt.Errorf("cannot power off: %w", errors.Join(err, drainErr))
}

// CatchCtrlAltDel makes the kernel send us SIGINT for ctrl-alt-del instead of
// restarting the machine.
func CatchCtrlAltDel() error { return unix.Reboot(unix.LINUX_REBOOT_CMD_CAD_OFF) }

// Trim writes dirty data out and gives memory back: page cache, and then free
// memory made contiguous, so that it can be reported to the host as free.
func Trim() error {
	unix.Sync()
	return errors.Join(
		os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0),
		os.WriteFile("/proc/sys/vm/compact_memory", []byte("1"), 0),
	)
}
