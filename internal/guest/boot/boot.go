//go:build linux

package boot

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Params are the parameters for the guest on the kernel's command line.
type Params struct {
	RootFS  string // rigs.rootfs: the type of the image's file system
	Surface string // rigs.surface
}

// ParseParams reads a kernel command line. Parameters that begin with "rigs."
// and are not known are an error: they are a keeper's that expects more of this
// binary than it can do.
func ParseParams(cmdline string) (Params, error) {
	var p Params
	for _, word := range strings.Fields(cmdline) {
		name, value, _ := strings.Cut(word, "=")
		if !strings.HasPrefix(name, "rigs.") {
			continue
		}
		switch name {
		case "rigs.rootfs":
			p.RootFS = value
		case "rigs.surface":
			p.Surface = value
		default:
			return p, fmt.Errorf("unknown kernel parameter %s: the keeper is newer than this guest binary", name)
		}
	}
	switch p.RootFS {
	case "erofs", "ext4":
		return p, nil
	case "":
		return p, errors.New("the kernel parameter rigs.rootfs is missing")
	}
	return p, fmt.Errorf("the kernel parameter rigs.rootfs=%s is no file system that can be mounted: erofs and ext4 are", p.RootFS)
}

// Run makes the image's system the root of this process.
func Run() error {
	if err := mountAll("", early); err != nil {
		return err
	}
	if err := openConsole(); err != nil {
		return err
	}
	cmdline, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return err
	}
	params, err := ParseParams(string(cmdline))
	if err != nil {
		return err
	}
	if err := loadModules("/modules"); err != nil {
		return err
	}
	d, err := findDisks()
	if err != nil {
		return err
	}
	if err := mountRoot(d, params.RootFS); err != nil {
		return err
	}
	if err := switchRoot(newRoot); err != nil {
		return err
	}
	if err := mountAll("/", late); err != nil {
		return err
	}
	if err := prepare(); err != nil {
		return err
	}
	return MakeUser("/")
}

// prepare sets what a login expects of a running system.
func prepare() error {
	unix.Umask(0o022)
	if err := loopbackUp(); err != nil {
		return fmt.Errorf("cannot bring up the loopback interface: %w", err)
	}
	// As much as systemd lets a process ask for, and more than its default at
	// once: build tools and file watchers run out of 1024.
	files := unix.Rlimit{Cur: 65536, Max: 524288}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return fmt.Errorf("cannot set the limit of open files: %w", err)
	}
	for link, target := range map[string]string{
		"/dev/fd": "/proc/self/fd", "/dev/stdin": "/proc/self/fd/0",
		"/dev/stdout": "/proc/self/fd/1", "/dev/stderr": "/proc/self/fd/2",
	} {
		if err := os.Symlink(target, link); err != nil && !os.IsExist(err) {
			return err
		}
	}
	for dir, mode := range map[string]os.FileMode{"/tmp": 0o777, "/var/tmp": 0o777} {
		if err := os.MkdirAll(dir, mode); err != nil {
			return fmt.Errorf("cannot make %s: %w", dir, err)
		}
		if err := os.Chmod(dir, mode|os.ModeSticky); err != nil {
			return fmt.Errorf("cannot make %s writable for all: %w", dir, err)
		}
	}
	return nil
}

func loopbackUp() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(s) }() // nothing can be lost with it
	r, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	r.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, r)
}

// waitFor polls until ready says so: the kernel has no notification for all
// that is waited for here.
func waitFor(what string, ready func() (bool, error)) error {
	const limit = 15 * time.Second
	began := time.Now()
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		ok, err := ready()
		if ok || err != nil {
			return err
		}
		if time.Since(began) > limit {
			return fmt.Errorf("no %s appeared within %s", what, limit)
		}
		time.Sleep(wait)
	}
}
