package confine

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data (linux/seccomp.h). Arguments have 64 bits; on
// both of our processors, which are little-endian, the low half comes first.
const (
	seccompNr   = 0
	seccompArch = 4
	seccompArgs = 16
)

// x32 marks the system calls of amd64's third ABI.
const x32 = 0x40000000

var auditArch = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// rule makes a system call fail with an error. Without flags and only it always does.
type rule struct {
	nr    uintptr
	errno unix.Errno
	flags uint32   // it fails if one of these is in its first argument
	only  []uint32 // it fails unless its first argument is one of these
}

// refuse makes rules without conditions.
func refuse(errno unix.Errno, nrs ...uintptr) []rule {
	rules := make([]rule, len(nrs))
	for i, nr := range nrs {
		rules[i] = rule{nr: nr, errno: errno}
	}
	return rules
}

// program compiles rules, at most one for each system call.
func program(rules []rule) ([]unix.SockFilter, error) {
	arch, ok := auditArch[runtime.GOARCH]
	if !ok {
		return nil, fmt.Errorf("not written for %s", runtime.GOARCH)
	}
	stmt := func(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }
	jump := func(test uint16, k uint32, yes, no int) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, Jt: uint8(yes), Jf: uint8(no), K: k}
	}
	load := func(offset uint32) unix.SockFilter { return stmt(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offset) }
	allow := stmt(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ALLOW)
	prog := []unix.SockFilter{
		load(seccompArch),
		jump(unix.BPF_JEQ, arch, 1, 0),
		stmt(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_KILL_PROCESS), // a foreign ABI has other numbers
		load(seccompNr),
		stmt(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, ^uint32(x32)),
	}
	for _, r := range rules {
		fail := stmt(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ERRNO|uint32(r.errno))
		var body []unix.SockFilter
		switch {
		case r.flags != 0:
			body = []unix.SockFilter{load(seccompArgs), jump(unix.BPF_JSET, r.flags, 0, 1), fail, allow}
		case r.only != nil:
			body = []unix.SockFilter{load(seccompArgs)}
			for i, v := range r.only {
				body = append(body, jump(unix.BPF_JEQ, v, len(r.only)-i, 0))
			}
			body = append(body, fail, allow)
		default:
			body = []unix.SockFilter{fail}
		}
		prog = append(prog, jump(unix.BPF_JEQ, uint32(r.nr), 0, len(body)))
		prog = append(prog, body...)
	}
	return append(prog, allow), nil
}

// install adds a filter to the calling thread, or to all threads of the process. The
// threads must have given up new privileges.
func install(rules []rule, allThreads bool) error {
	prog, err := program(rules)
	if err != nil {
		return err
	}
	flags := uintptr(0)
	if allThreads {
		flags = unix.SECCOMP_FILTER_FLAG_TSYNC
	}
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&fprog)))
	runtime.KeepAlive(prog)
	if errno != 0 {
		return errno
	}
	if thread != 0 {
		return fmt.Errorf("thread %d has another filter", thread)
	}
	return nil
}

// newNamespaces are the flags of clone(2) that make namespaces, in which an unprivileged process
// is root over code of the kernel's that it could not reach otherwise.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// keeperFilter is what neither a keeper nor QEMU calls, and what whoever has taken one
// over would: access to other processes, the kernel's less travelled interfaces, and
// ways to more of them. It is a list of refusals and not of permissions, because
// Go's runtime and QEMU's libraries change which calls they make.
func keeperFilter() []rule {
	rules := refuse(unix.EPERM,
		unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE, unix.SYS_KCMP, unix.SYS_PIDFD_GETFD,
		unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_MOUNT_SETATTR,
		unix.SYS_FSOPEN, unix.SYS_FSMOUNT, unix.SYS_FSCONFIG, unix.SYS_FSPICK, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD,
		unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_OPEN_BY_HANDLE_AT,
		unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_FANOTIFY_INIT,
		unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
		unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD,
		unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_SYSLOG, unix.SYS_PERSONALITY,
		unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_ADJTIMEX, unix.SYS_CLOCK_ADJTIME, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_VHANGUP,
		unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	)
	// The flags of clone3 are in memory, where a filter cannot see them; without it
	// everybody uses clone.
	rules = append(rules, refuse(unix.ENOSYS, unix.SYS_CLONE3)...)
	return append(rules,
		rule{nr: unix.SYS_CLONE, errno: unix.EPERM, flags: newNamespaces},
		rule{nr: unix.SYS_SOCKET, errno: unix.EAFNOSUPPORT, only: []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}},
	)
}

// machineFilter is for QEMU, which is given its connections and makes none. fallocate
// is how QEMU would punch holes into the template that a clone maps privately:
// ram_block_discard_range does so for every page that a guest's balloon gives back. Disks
// do without: the block layer falls back to writing.
func machineFilter(clone bool) []rule {
	rules := []rule{{nr: unix.SYS_SOCKET, errno: unix.EAFNOSUPPORT, only: []uint32{unix.AF_UNIX}}}
	if clone {
		rules = append(rules, refuse(unix.EOPNOTSUPP, unix.SYS_FALLOCATE)...)
	}
	return rules
}
