//go:build linux

package account

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Do calls f on a thread of its own whose file system identity is the
// account's: every check of a path that f makes is the kernel's check for that
// user. The thread ends with f, so no other work can ever run on it. f must not
// hand file operations to other goroutines, and may change its directory.
//
// A thread and not a process, because starting a second copy of this program
// costs more than most of what is done this way, under emulation above all.
// setfsuid drops the capabilities that override file permissions from the
// thread; the runtime never clones a new thread from one that is locked.
func (a Account) Do(f func() error) error {
	type result struct {
		err      error
		panicked any
	}
	done := make(chan result, 1)
	go func() {
		var r result
		defer func() {
			r.panicked = recover()
			done <- r
		}()
		runtime.LockOSThread() // never unlocked: the thread is thrown away
		if r.err = a.become(); r.err == nil {
			r.err = f()
		}
	}()
	r := <-done
	if r.panicked != nil {
		panic(r.panicked) // on the caller's goroutine, where a server recovers it
	}
	return r.err
}

func (a Account) become() error {
	// The working directory and umask become the thread's own; f gives every mode
	// in full.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("cannot act as user %s: unshare: %w", a.Name, err)
	}
	unix.Umask(0)
	if os.Geteuid() != 0 {
		return nil
	}
	groups := make([]uint32, 0, len(a.Groups)+1)
	for _, g := range a.Groups {
		groups = append(groups, uint32(g))
	}
	if len(groups) == 0 {
		groups = append(groups, uint32(a.GID))
	}
	// The raw system calls: those of the syscall package change every thread.
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&groups[0])), 0); errno != 0 {
		return fmt.Errorf("cannot act as user %s: setgroups: %w", a.Name, errno)
	}
	set := func(nr uintptr, id int) bool {
		_, _, _ = unix.RawSyscall(nr, uintptr(id), 0, 0)
		// They never fail by value: asking for an impossible id tells the current one.
		now, _, _ := unix.RawSyscall(nr, ^uintptr(0), 0, 0)
		return int(int32(now)) == id
	}
	if !set(unix.SYS_SETFSGID, a.GID) || !set(unix.SYS_SETFSUID, a.UID) {
		return fmt.Errorf("cannot act as user %s: the kernel refused its ids", a.Name)
	}
	return nil
}
