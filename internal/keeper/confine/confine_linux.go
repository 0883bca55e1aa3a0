package confine

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
	"kernel.org/pub/linux/libs/security/libcap/psx"
)

// Start starts a keeper, whose process can never gain privileges: not by a program with the
// set-user-ID bit, and not from its bounding set of capabilities, which is
// emptied if we may. Nor can it signal processes that it did not start, where the
// kernel has a way to say so.
func Start(cmd *exec.Cmd) error {
	started := make(chan error)
	OnOwnThread(func() {
		err := renounce(func(nr, a, b, c uintptr) unix.Errno {
			_, _, errno := unix.RawSyscall6(nr, a, b, c, 0, 0, 0)
			return errno
		})
		if err == nil && unix.Geteuid() != 0 { // root's go when the child changes its user, for which they are needed
			err = clearCapabilities(func(nr, a, b, c uintptr) unix.Errno {
				_, _, errno := unix.RawSyscall(nr, a, b, c)
				return errno
			})
		}
		if err == nil {
			err = scope()
		}
		if err == nil {
			err = cmd.Start()
		}
		started <- err
	})
	return <-started
}

// OnOwnThread calls f on a thread that nothing else uses, before or after: what f does to
// it ends with it. It does not wait. It is never the main thread, which does not end, and
// whose domain is what the kernel compares when somebody signals the process.
func OnOwnThread(f func()) {
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			f()
			return // still locked
		}
		elsewhere := make(chan struct{})
		OnOwnThread(func() {
			close(elsewhere) // not before: this thread is taken until then
			f()
		})
		<-elsewhere
		runtime.UnlockOSThread()
	}()
}

// syscall3 makes a system call, of the calling thread or of all.
type syscall3 func(nr, a, b, c uintptr) unix.Errno

func onAllThreads(nr, a, b, c uintptr) unix.Errno {
	_, _, errno := psx.Syscall6(nr, a, b, c, 0, 0, 0)
	return errno
}

// renounce gives up new privileges, ambient capabilities and, where we may, the bounding set.
func renounce(call syscall3) error {
	if errno := call(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0); errno != 0 {
		return fmt.Errorf("no new privileges: %w", errno)
	}
	if errno := call(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0); errno != 0 {
		return fmt.Errorf("ambient capabilities: %w", errno)
	}
	for c := uintptr(0); ; c++ {
		in, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			return nil // the kernel has no more of them
		}
		if err != nil {
			return fmt.Errorf("bounding set: %w", err)
		}
		if in == 0 {
			continue
		}
		switch errno := call(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c, 0); errno {
		case 0:
		case unix.EPERM:
			return nil // not privileged: without new privileges the set gives nothing
		default:
			return fmt.Errorf("bounding set: %w", errno)
		}
	}
}

// noCapabilities are capset's arguments. They are global because other threads read
// them, by address.
var noCapabilities = struct {
	header unix.CapUserHeader
	data   [2]unix.CapUserData
}{header: unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}}

func clearCapabilities(call syscall3) error {
	errno := call(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&noCapabilities.header)), uintptr(unsafe.Pointer(&noCapabilities.data)), 0)
	if errno != 0 {
		return fmt.Errorf("capabilities: %w", errno)
	}
	return nil
}

// Keeper confines the calling process and whatever it starts. It returns what the
// kernel lacks, if anything, for the log.
func Keeper(f Files) (lacks string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("confine the keeper: %w", err)
		}
	}()
	if err := limitTasks(); err != nil {
		return "", fmt.Errorf("limit of tasks: %w", err)
	}
	if err := renounce(onAllThreads); err != nil {
		return "", err
	}
	if err := clearCapabilities(onAllThreads); err != nil {
		return "", err
	}
	if err := restrictKeeper(f); err != nil {
		return "", err
	}
	if err := install(keeperFilter(), true); err != nil {
		return "", fmt.Errorf("system-call filter: %w", err)
	}
	return Lacks(ABI()), nil
}

// Machine confines the calling thread, which must be locked and never unlocked, for
// the QEMU that it is about to start. Clone says that QEMU maps a template.
func Machine(f Files, clone bool) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	if err := restrictMachine(f); err != nil {
		return err
	}
	if err := install(machineFilter(clone), false); err != nil {
		return fmt.Errorf("system-call filter: %w", err)
	}
	return nil
}

// maxTasks is many times what a keeper and its QEMU use, some fifty.
const maxTasks = 512

// limitTasks bounds how many tasks the rig's user may have, if it is the rig's alone. A
// server cannot do this from outside without CAP_SYS_RESOURCE, which containers lack.
func limitTasks() error {
	if uid := os.Getuid(); uid < FirstUID || uid > LastUID {
		return nil
	}
	return unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: maxTasks, Max: maxTasks})
}
