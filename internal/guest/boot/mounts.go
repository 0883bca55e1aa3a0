//go:build linux

package boot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

type mount struct {
	fs, target string
	flags      uintptr
	data       string
	optional   bool // the kernel may not have it
}

const nodev, noexec, nosuid = unix.MS_NODEV, unix.MS_NOEXEC, unix.MS_NOSUID

// early are mounted in the initramfs and moved to the new root.
var early = []mount{
	{fs: "proc", target: "proc", flags: nodev | noexec | nosuid},
	{fs: "sysfs", target: "sys", flags: nodev | noexec | nosuid},
	{fs: "devtmpfs", target: "dev", flags: nosuid, data: "mode=0755"},
}

// late are mounted in the new root.
var late = []mount{
	{fs: "devpts", target: "dev/pts", flags: noexec | nosuid, data: "mode=0620,gid=5,ptmxmode=0666"},
	{fs: "tmpfs", target: "dev/shm", flags: nodev | nosuid, data: "mode=1777"},
	{fs: "mqueue", target: "dev/mqueue", flags: nodev | noexec | nosuid, optional: true},
	{fs: "tmpfs", target: "run", flags: nodev | nosuid, data: "mode=0755,size=25%"},
	{fs: "cgroup2", target: "sys/fs/cgroup", flags: nodev | noexec | nosuid, data: "nsdelegate", optional: true},
}

func mountAll(root string, list []mount) error {
	for _, m := range list {
		target := "/" + filepath.Join(root, m.target)
		if err := os.MkdirAll(target, 0o755); err != nil && !m.optional {
			return fmt.Errorf("cannot make the mount point %s: %w", target, err)
		}
		err := unix.Mount(m.fs, target, m.fs, m.flags, m.data)
		if err != nil && !errors.Is(err, unix.EBUSY) && !m.optional { // EBUSY: the kernel did it
			return fmt.Errorf("cannot mount %s on %s: %w", m.fs, target, err)
		}
	}
	return nil
}

// openConsole makes the console the standard streams when the kernel found none
// in the initramfs.
func openConsole() error {
	if _, err := unix.FcntlInt(2, unix.F_GETFD, 0); err == nil {
		return nil
	}
	fd, err := unix.Open("/dev/console", unix.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return fmt.Errorf("cannot open the console: %w", err)
	}
	for i := range 3 {
		if fd != i {
			if err := unix.Dup3(fd, i, 0); err != nil {
				return fmt.Errorf("cannot use the console: %w", err)
			}
		}
	}
	return nil
}

// Where things are mounted in the initramfs. They stay reachable for the kernel
// when the new root hides them, and for nobody else.
const (
	imageDir = "/image"
	layerDir = "/layer"
	newRoot  = "/root"
)

func mountRoot(d disks, fsType string) error {
	for _, dir := range []string{imageDir, layerDir, newRoot} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if err := unix.Mount(d.image, imageDir, fsType, unix.MS_RDONLY|unix.MS_NOATIME, ""); err != nil {
		return fmt.Errorf("cannot mount the image, %s as %s: %w", d.image, fsType, err)
	}
	if err := unix.Mount(d.layer, layerDir, "ext4", unix.MS_NOATIME, ""); err != nil {
		return fmt.Errorf("cannot mount the writable layer, %s as ext4: %w", d.layer, err)
	}
	if err := grow(d.layer, layerDir); err != nil {
		return fmt.Errorf("cannot grow the writable layer to its disk: %w", err)
	}
	upper, work := layerDir+"/upper", layerDir+"/work"
	for _, dir := range []string{upper, work} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("cannot write to the writable layer: %w", err)
		}
	}
	// The disk is thrown away with the machine, so nothing is gained by making
	// every fsync wait for it: volatile. Directories of the image can be renamed:
	// redirect_dir.
	opts := "lowerdir=" + imageDir + ",upperdir=" + upper + ",workdir=" + work + ",volatile,redirect_dir=on"
	if err := unix.Mount("overlay", newRoot, "overlay", unix.MS_NOATIME, opts); err != nil {
		return fmt.Errorf("cannot merge the image and the writable layer with overlayfs: %w", err)
	}
	return nil
}

// switchRoot makes dir the root, and frees the memory of the initramfs.
func switchRoot(dir string) error {
	if !hasShell(dir) {
		return errors.New("the image has no /bin/sh: rigs boots images with a shell")
	}
	for _, m := range early {
		target := filepath.Join(dir, m.target)
		if err := os.MkdirAll(target, 0o755); err != nil {
			return fmt.Errorf("cannot make the mount point %s in the image: %w", m.target, err)
		}
		if err := unix.Mount("/"+m.target, target, "", unix.MS_MOVE, ""); err != nil {
			return fmt.Errorf("cannot move /%s to the image: %w", m.target, err)
		}
	}
	if err := os.Chdir(dir); err != nil {
		return err
	}
	// This binary's file goes too; its pages stay as long as it runs.
	for _, name := range []string{"/init", "/modules"} {
		if err := os.RemoveAll(name); err != nil {
			return fmt.Errorf("cannot empty the initramfs: %w", err)
		}
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("cannot make the image the root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("cannot enter the image: %w", err)
	}
	return os.Chdir("/")
}

// hasShell looks for the shell without following links out of dir: an absolute
// link is one of the image's own.
func hasShell(dir string) bool {
	for _, name := range []string{"bin/sh", "usr/bin/sh"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}
