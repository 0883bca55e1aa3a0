//go:build linux

package files

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"rigs/internal/guest/account"
	"rigs/internal/guestapi"
	"rigs/internal/rig"
)

// Receive extracts a tar archive into directory name, which is made when it is
// missing. Files of the archive replace those that are there; directories are
// merged. It reads r to its end.
func Receive(a account.Account, name string, r io.Reader) error {
	name, err := resolve(a, name)
	if err != nil {
		return err
	}
	return a.Do(func() error {
		if err := os.MkdirAll(name, 0o755); err != nil {
			return explain("make directory", name, err)
		}
		root, err := os.OpenRoot(name)
		if err != nil {
			return explain("write to", name, err)
		}
		defer func() { _ = root.Close() }() // nothing can be lost with it
		x := receiver{root: root, dir: name, buf: make([]byte, copyBuffer)}
		defer x.leave()
		if err := x.extract(tar.NewReader(r)); err != nil {
			return err
		}
		// What follows an archive is padding; that it ends well says that the
		// archive was not cut off between two files.
		if _, err := io.CopyBuffer(io.Discard, struct{ io.Reader }{r}, x.buf); err != nil {
			return cutOff(err)
		}
		return x.finish()
	})
}

func cutOff(err error) error {
	return rig.Errorf(rig.CodeInvalidRequest, "cannot extract: the archive is cut off or damaged: %w", err)
}

type receiver struct {
	root *os.Root
	dir  string
	buf  []byte
	made []*tar.Header // directories, whose mode and time are set last

	// The directory of the last entry, which is mostly the next one's too: opening
	// the way to it again for each file costs as much as the file.
	last     *os.Root
	lastName string
}

// in calls do with the directory of an entry, made when it is missing, and the
// entry's name in it.
func (x *receiver) in(name string, do func(dir *os.Root, base string) error) error {
	dir, base := path.Dir(name), path.Base(name)
	if x.last != nil && x.lastName == dir {
		err := do(x.last, base)
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		// It was removed meanwhile.
	}
	x.leave()
	if dir == "." {
		return do(x.root, base)
	}
	d, err := x.root.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err := x.root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		d, err = x.root.OpenRoot(dir)
	}
	if err != nil {
		return err
	}
	x.last, x.lastName = d, dir
	return do(d, base)
}

func (x *receiver) leave() {
	if x.last != nil {
		_ = x.last.Close() // nothing can be lost with it
		x.last = nil
	}
}

func (x *receiver) extract(t *tar.Reader) error {
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return cutOff(err)
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue // a comment of git's
		}
		name, err := local(h.Name)
		if err != nil {
			return err
		}
		if err := x.entry(t, h, name); err != nil {
			return explain("extract", path.Join(x.dir, name), err)
		}
	}
}

// local checks the name of an entry.
func local(name string) (string, error) {
	refuse := func(why string) (string, error) {
		return "", rig.Errorf(rig.CodeInvalidRequest, "cannot extract: entry %.300q is refused: its name %s", name, why)
	}
	switch {
	case name == "":
		return refuse("is empty")
	case strings.HasPrefix(name, "/"):
		return refuse("is absolute")
	case len(name) > guestapi.MaxPath:
		return refuse(fmt.Sprintf("is longer than %d bytes", guestapi.MaxPath))
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return refuse(`has a ".."`)
		}
	}
	return path.Clean(name), nil
}

func (x *receiver) entry(t *tar.Reader, h *tar.Header, name string) error {
	switch h.Typeflag {
	case tar.TypeDir:
		return x.mkdir(h, name)
	case tar.TypeReg:
		return x.file(t, h, name)
	case tar.TypeSymlink:
		return x.in(name, func(d *os.Root, base string) error {
			return place(d, base, func() error { return d.Symlink(h.Linkname, base) })
		})
	case tar.TypeLink:
		target, err := local(h.Linkname)
		if err != nil {
			return err
		}
		return x.in(name, func(d *os.Root, base string) error {
			return place(d, base, func() error { return x.root.Link(target, name) })
		})
	}
	return rig.Errorf(rig.CodeInvalidRequest, "cannot extract: entry %.300q is refused: it is neither a file nor a directory nor a link (type %q)", h.Name, h.Typeflag)
}

func (x *receiver) mkdir(h *tar.Header, name string) error {
	if name == "." {
		return nil
	}
	return x.in(name, func(d *os.Root, base string) error {
		err := d.Mkdir(base, 0o700)
		if errors.Is(err, fs.ErrExist) {
			// Merged: what is there keeps its mode. A link is followed, if it leads
			// to a directory inside.
			fi, err := x.root.Stat(name)
			if err == nil && !fi.IsDir() {
				err = syscall.ENOTDIR
			}
			return err
		}
		if err == nil {
			x.made = append(x.made, &tar.Header{Name: name, Mode: h.Mode, ModTime: h.ModTime})
		}
		return err
	})
}

// place makes a file that is not a directory. What is in its place is removed,
// so that nothing is written through a link.
func place(d *os.Root, base string, create func() error) error {
	err := create()
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	fi, err := d.Lstat(base)
	if err != nil {
		return err
	}
	if fi.IsDir() {
		return syscall.EISDIR
	}
	if err := d.Remove(base); err != nil {
		return err
	}
	return create()
}

func (x *receiver) file(t *tar.Reader, h *tar.Header, name string) (err error) {
	var f *os.File
	err = x.in(name, func(d *os.Root, base string) error {
		return place(d, base, func() (err error) {
			f, err = d.OpenFile(base, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fs.FileMode(h.Mode).Perm())
			return err
		})
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := io.CopyBuffer(struct{ io.Writer }{f}, struct{ io.Reader }{t}, x.buf); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return cutOff(err)
		}
		return err
	}
	return setTime(f, h.ModTime)
}

// setTime sets the modification time of an open file.
func setTime(f *os.File, t time.Time) error {
	ts, err := unix.TimeToTimespec(t)
	if err != nil {
		return err
	}
	return futimens(f, ts)
}

// finish sets the modes and times of directories made, the inner ones first: a
// mode may forbid writing, and every file made in one changes its time.
func (x *receiver) finish() error {
	for i := len(x.made) - 1; i >= 0; i-- {
		h := x.made[i]
		d, err := x.root.Open(h.Name)
		if err != nil {
			return explain("extract", path.Join(x.dir, h.Name), err)
		}
		err = errors.Join(d.Chmod(fs.FileMode(h.Mode).Perm()), setTime(d, h.ModTime))
		d.Close()
		if err != nil {
			return explain("extract", path.Join(x.dir, h.Name), err)
		}
	}
	return nil
}
