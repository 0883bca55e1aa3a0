package keeper

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// hardenProcess keeps a guest's memory out of core files and everything that is
// made here private.
func hardenProcess() {
	syscall.Umask(0o077)
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}) // lowering cannot fail
}
