//go:build linux

package files

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"rigs/internal/guest/account"
	"rigs/internal/guestapi"
	"rigs/internal/rig"
)

// copyBuffer is how much of a file is read and written at a time, in bytes.
const copyBuffer = 256 << 10

// Send writes the file or tree at name to w as a tar archive. A link at name
// itself is followed, links inside a tree are kept. What cannot be read in a tree is
// named in the archive (guestapi.SkippedName) and left out; name itself must be
// readable. Before the first byte everything is looked at once: begin is
// called after that, so an error before it can still be answered. A file that changes
// its size later breaks the archive off.
func Send(a account.Account, name string, begin func(), w io.Writer) error {
	name, err := resolve(a, name)
	if err != nil {
		return err
	}
	if name == "/" {
		return rig.FieldErrorf("path", "cannot send the whole file system: name a directory in it")
	}
	return a.Do(func() error {
		full, err := filepath.EvalSymlinks(name)
		if err != nil {
			return explain("send", name, err)
		}
		dir, err := os.OpenRoot(path.Dir(full))
		if err != nil {
			return explain("send", name, err)
		}
		defer func() { _ = dir.Close() }() // nothing can be lost with it
		s := sender{a: a, buf: make([]byte, copyBuffer)}
		top := entry{in: dir, file: path.Base(full), path: name, name: path.Base(name)}
		if err := s.walk(top); err != nil {
			return err
		}
		begin()
		s.out = tar.NewWriter(w)
		if err := s.walk(top); err != nil {
			return err
		}
		return s.out.Close()
	})
}

// entry is one file on the way.
type entry struct {
	in   *os.Root
	file string // in that directory
	path string // for people
	name string // in the archive
}

// sender walks a tree. Without out it only checks.
type sender struct {
	a   account.Account
	out *tar.Writer
	buf []byte
}

func (s *sender) walk(e entry) error {
	if len(e.name) > guestapi.MaxPath {
		return rig.Errorf(rig.CodeTooLarge, "cannot send %.100q…: its name in the archive is longer than %d bytes", e.path, guestapi.MaxPath)
	}
	inTree := e.name != path.Base(e.name)
	fi, err := e.in.Lstat(e.file)
	if err != nil {
		if inTree && errors.Is(err, fs.ErrNotExist) {
			return nil // removed since its directory was read
		}
		return explain("send", e.path, err)
	}
	h := &tar.Header{Name: e.name, Mode: int64(fi.Mode().Perm()), ModTime: fi.ModTime().Truncate(time.Second)}
	switch fi.Mode().Type() {
	case 0:
		h.Typeflag = tar.TypeReg
		err = s.file(e, h, fi)
	case fs.ModeDir:
		h.Typeflag = tar.TypeDir
		err = s.dir(e, h)
	case fs.ModeSymlink:
		h.Typeflag = tar.TypeSymlink
		if h.Linkname, err = e.in.Readlink(e.file); err == nil {
			err = s.header(h)
		}
	default:
		if !inTree {
			return rig.FieldErrorf("path", "cannot send %q: it is a %s", e.path, kind(fi.Mode()))
		}
	}
	if no := (unreadable{}); inTree && errors.As(err, &no) {
		return s.skip(e, no.error)
	}
	if err != nil {
		return explain("send", e.path, err)
	}
	return nil
}

// unreadable is why nothing, or nothing more, was sent of a file.
type unreadable struct{ error }

func (u unreadable) Unwrap() error { return u.error }

// skip says in the archive that e is not in it.
func (s *sender) skip(e entry, why error) error {
	var errno syscall.Errno
	reason := "it cannot be read"
	if errors.As(why, &errno) {
		reason = errno.Error()
	}
	return s.header(&tar.Header{Typeflag: tar.TypeXGlobalHeader, Name: "skipped", PAXRecords: map[string]string{
		guestapi.SkippedName: e.name, guestapi.SkippedReason: reason,
	}})
}

func kind(m fs.FileMode) string {
	switch m.Type() {
	case fs.ModeSocket:
		return "socket"
	case fs.ModeNamedPipe:
		return "named pipe"
	}
	return "device"
}

func (s *sender) header(h *tar.Header) error {
	if s.out == nil {
		return nil
	}
	return s.out.WriteHeader(h)
}

func (s *sender) dir(e entry, h *tar.Header) error {
	d, err := e.in.OpenRoot(e.file)
	if err != nil {
		return unreadable{err}
	}
	defer func() { _ = d.Close() }() // nothing can be lost with it
	h.Name += "/"
	if err := s.header(h); err != nil {
		return err
	}
	names, err := list(d)
	if err != nil {
		return unreadable{err}
	}
	for _, n := range names {
		if err := s.walk(entry{in: d, file: n, path: e.path + "/" + n, name: e.name + "/" + n}); err != nil {
			return err
		}
	}
	return nil
}

func list(d *os.Root) ([]string, error) {
	f, err := d.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

func (s *sender) file(e entry, h *tar.Header, fi fs.FileInfo) error {
	if s.out == nil && s.mayRead(fi) {
		return nil
	}
	// Not following and not blocking, should it have been replaced meanwhile.
	f, err := e.in.OpenFile(e.file, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return unreadable{err}
	}
	defer f.Close()
	if s.out == nil {
		return nil
	}
	if fi, err = f.Stat(); err != nil {
		return err
	}
	if !fi.Mode().IsRegular() {
		return rig.Errorf(rig.CodeConflict, "cannot send %q: it was replaced while it was sent", e.path)
	}
	if fi.Size() == 0 {
		return s.sizeless(f, h)
	}
	h.Size = fi.Size()
	if err := s.out.WriteHeader(h); err != nil {
		return err
	}
	n, err := io.CopyBuffer(struct{ io.Writer }{s.out}, struct{ io.Reader }{io.LimitReader(f, h.Size)}, s.buf)
	if err == nil && n < h.Size {
		return rig.Errorf(rig.CodeConflict, "cannot send %q: it became shorter while it was sent", e.path)
	}
	return err
}

// maxSizeless is how much of a file that claims to be empty is read, in bytes.
const maxSizeless = 4 << 20

// sizeless sends a file that says that it is empty. Those of the kernel (/proc,
// /sys) always do.
func (s *sender) sizeless(f *os.File, h *tar.Header) error {
	b, err := io.ReadAll(io.LimitReader(f, maxSizeless))
	if err != nil {
		return unreadable{err}
	}
	h.Size = int64(len(b))
	if err := s.out.WriteHeader(h); err != nil {
		return err
	}
	_, err = s.out.Write(b)
	return err
}

// mayRead says whether the mode of a file surely lets the account read it. A no
// is not the last word (access control lists), which opening it has.
func (s *sender) mayRead(fi fs.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	switch perm := fi.Mode().Perm(); {
	case int(st.Uid) == s.a.UID:
		return perm&0o400 != 0
	case int(st.Gid) == s.a.GID || slices.Contains(s.a.Groups, int(st.Gid)):
		return perm&0o040 != 0
	default:
		return perm&0o004 != 0
	}
}
