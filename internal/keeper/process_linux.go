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

// dataLimit is far above what a keeper uses (some MB in use, 64 MB at a time
// mapped by its runtime) and keeps one that a guest has got to hoard memory from
// taking the host's.
const dataLimit = 1 << 30

// limitMemory is called when QEMU runs: a child would inherit the limit.
func limitMemory() {
	_ = unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: dataLimit, Max: dataLimit}) // lowering cannot fail
}
