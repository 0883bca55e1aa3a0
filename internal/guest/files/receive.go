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
		return x.place(name, func() error { return x.root.Symlink(h.Linkname, name) })
	case tar.TypeLink:
		target, err := local(h.Linkname)
		if err != nil {
			return err
		}
		return x.place(name, func() error { return x.root.Link(target, name) })
	}
	return rig.Errorf(rig.CodeInvalidRequest, "cannot extract: entry %.300q is refused: it is neither a file nor a directory nor a link (type %q)", h.Name, h.Typeflag)
}

func (x *receiver) mkdir(h *tar.Header, name string) error {
	if name == "." {
		return nil
	}
	err := x.root.Mkdir(name, 0o700)
	if errors.Is(err, fs.ErrNotExist) {
		if err = x.root.MkdirAll(path.Dir(name), 0o755); err == nil {
			err = x.root.Mkdir(name, 0o700)
		}
	}
	if errors.Is(err, fs.ErrExist) {
		// Merged: what is there keeps its mode. A link is followed, if it leads to
		// a directory inside.
		fi, serr := x.root.Stat(name)
		if serr != nil {
			return serr
		}
		if !fi.IsDir() {
			return syscall.ENOTDIR
		}
		return nil
	}
	if err == nil {
		x.made = append(x.made, &tar.Header{Name: name, Mode: h.Mode, ModTime: h.ModTime})
	}
	return err
}

// place makes a file that is not a directory: parents that are missing are made,
// and what is in its place is removed, so that nothing is written through a
// link.
func (x *receiver) place(name string, create func() error) error {
	err := create()
	if errors.Is(err, fs.ErrNotExist) {
		if err := x.root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return err
		}
		err = create()
	}
	if errors.Is(err, fs.ErrExist) {
		fi, err := x.root.Lstat(name)
		if err != nil {
			return err
		}
		if fi.IsDir() {
			return syscall.EISDIR
		}
		if err := x.root.Remove(name); err != nil {
			return err
		}
		return create()
	}
	return err
}

func (x *receiver) file(t *tar.Reader, h *tar.Header, name string) (err error) {
	var f *os.File
	err = x.place(name, func() (err error) {
		f, err = x.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		return err
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
	if err := f.Chmod(fs.FileMode(h.Mode).Perm()); err != nil {
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
