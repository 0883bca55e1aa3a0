//go:build linux

package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"rigs/internal/guest/account"
	"rigs/internal/guestapi"
	"rigs/internal/rig"
)

const (
	// maxNames bounds how much of a directory is looked at before it is sorted.
	maxNames = 100_000
	// maxListing bounds a listing's names and targets together, in bytes.
	maxListing = 1 << 20
)

// Read returns a piece of a regular file. Links are followed.
func Read(a account.Account, r guestapi.ReadFile) (guestapi.FilePiece, error) {
	name, err := resolve(a, r.Path)
	if err != nil {
		return guestapi.FilePiece{}, err
	}
	if r.Offset < 0 || r.Limit < 1 || r.Limit > guestapi.MaxContent {
		return guestapi.FilePiece{}, rig.FieldErrorf("limit", "cannot read %d bytes from %d: 1 to %d bytes can be read at once", r.Limit, r.Offset, guestapi.MaxContent)
	}
	out := guestapi.FilePiece{Path: name, Offset: r.Offset}
	err = a.Do(func() error {
		f, fi, err := openRegular(name, os.O_RDONLY)
		if err != nil {
			return explain("read", name, err)
		}
		defer f.Close()
		out.Size = fi.Size()
		buf := make([]byte, r.Limit+1)
		n, err := io.ReadFull(io.NewSectionReader(f, r.Offset, int64(len(buf))), buf)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return explain("read", name, err)
		}
		if out.More = n > r.Limit; out.More {
			n = r.Limit
		}
		out.Data = buf[:n]
		return nil
	})
	return out, err
}

// openRegular opens a file unless it is one that never ends, or waits for somebody:
// a pipe, a device, a socket.
func openRegular(name string, flag int) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(name, flag|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, noReader(name, err)
	}
	fi, err := f.Stat()
	if err == nil {
		err = regular(name, fi)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, fi, nil
}

// noReader says in words what opening a pipe that nobody reads fails with.
func noReader(name string, err error) error {
	if errors.Is(err, syscall.ENXIO) {
		return rig.Errorf(rig.CodeConflict, "%q is no regular file", name)
	}
	return err
}

func regular(name string, fi fs.FileInfo) error {
	switch {
	case fi.IsDir():
		return rig.Errorf(rig.CodeConflict, "%q is a directory: list_dir lists it", name)
	case !fi.Mode().IsRegular():
		return rig.Errorf(rig.CodeConflict, "%q is no regular file", name)
	}
	return nil
}

// Write writes a file and returns what it is then. Directories on the way are made,
// links are followed.
func Write(a account.Account, w guestapi.WriteFile) (guestapi.FileInfo, error) {
	name, err := resolve(a, w.Path)
	if err != nil {
		return guestapi.FileInfo{}, err
	}
	switch {
	case len(w.Data) > guestapi.MaxContent:
		return guestapi.FileInfo{}, rig.Errorf(rig.CodeTooLarge, "cannot write %q: %d bytes at once are the most", name, guestapi.MaxContent)
	case w.Mode&^0o777 != 0:
		return guestapi.FileInfo{}, rig.FieldErrorf("mode", "cannot write %q: mode %o: only permissions can be given", name, w.Mode)
	case strings.HasSuffix(w.Path, "/"):
		return guestapi.FileInfo{}, rig.FieldErrorf("path", "cannot write %q: it is the name of a directory", w.Path)
	}
	err = a.Do(func() error {
		if err := os.MkdirAll(path.Dir(name), 0o755); err != nil {
			return explain("make directory", path.Dir(name), err)
		}
		// Through a link, as an editor would: the link stays one.
		to := name
		if fi, err := os.Lstat(name); err == nil && fi.Mode()&fs.ModeSymlink != 0 {
			if to, err = realPath(name); err != nil {
				return explain("write to the link", name, err)
			}
		}
		write := replace
		if w.Append {
			write = extend
		}
		return explainNil("write", name, write(to, w))
	})
	if err != nil {
		return guestapi.FileInfo{}, err
	}
	return Stat(a, name)
}

func explainNil(what, name string, err error) error {
	if err == nil {
		return nil
	}
	return explain(what, name, err)
}

// realPath is where a link leads. The last file on the way need not be there.
func realPath(name string) (string, error) {
	for range 40 { // as many as the kernel follows
		to, err := os.Readlink(name)
		if errors.Is(err, syscall.EINVAL) || errors.Is(err, fs.ErrNotExist) {
			return name, nil
		}
		if err != nil {
			return "", err
		}
		if !path.IsAbs(to) {
			to = path.Dir(name) + "/" + to // not cleaned: ".." means what it means behind a link
		}
		name = to
	}
	return "", &fs.PathError{Op: "readlink", Path: name, Err: syscall.ELOOP}
}

// replace puts a new file in the place of the one that is there.
func replace(name string, w guestapi.WriteFile) (err error) {
	mode := fs.FileMode(0o644)
	// Who could not write to the file must not replace it.
	old, fi, err := openRegular(name, os.O_WRONLY)
	switch {
	case err == nil:
		mode = fi.Mode().Perm()
		old.Close()
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if w.Mode != 0 {
		mode = fs.FileMode(w.Mode)
	}
	dir := name[:strings.LastIndexByte(name, '/')+1]
	f, err := os.CreateTemp(dir, ".rigs-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(w.Data)
	if err := errors.Join(err, f.Chmod(mode), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

// extend adds to the end of a file.
func extend(name string, w guestapi.WriteFile) error {
	mode := fs.FileMode(0o644)
	if w.Mode != 0 {
		mode = fs.FileMode(w.Mode)
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK|syscall.O_NOCTTY, mode)
	if err != nil {
		return noReader(name, err)
	}
	fi, err := f.Stat()
	if err == nil {
		err = regular(name, fi)
	}
	if err == nil {
		_, err = f.Write(w.Data)
	}
	if err == nil && w.Mode != 0 {
		err = f.Chmod(mode)
	}
	return errors.Join(err, f.Close())
}

// List lists a directory by name.
func List(a account.Account, l guestapi.ListDir) (guestapi.Dir, error) {
	name, err := resolve(a, l.Path)
	if err != nil {
		return guestapi.Dir{}, err
	}
	if l.Limit < 1 || l.Limit > guestapi.MaxEntries {
		return guestapi.Dir{}, rig.FieldErrorf("limit", "cannot list %d entries: 1 to %d can be listed at once", l.Limit, guestapi.MaxEntries)
	}
	out := guestapi.Dir{Path: name, Entries: []guestapi.DirEntry{}}
	err = a.Do(func() error {
		d, err := os.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return explain("list", name, err)
		}
		defer d.Close()
		names, err := d.Readdirnames(maxNames)
		if err != nil && !errors.Is(err, io.EOF) {
			return explain("list", name, err)
		}
		if len(names) == maxNames {
			_, err := d.Readdirnames(1)
			out.More = err == nil
		}
		slices.Sort(names)
		size := 0
		for _, n := range names {
			e, ok := listed(name, n)
			if !ok {
				continue // it went in between
			}
			if size += len(e.Name) + len(e.Target); len(out.Entries) == l.Limit || size > maxListing {
				out.More = true
				break
			}
			out.Entries = append(out.Entries, e)
		}
		return nil
	})
	return out, err
}

func listed(dir, name string) (guestapi.DirEntry, bool) {
	full := dir + "/" + name
	fi, err := os.Lstat(full)
	if err != nil {
		return guestapi.DirEntry{}, false
	}
	e := guestapi.DirEntry{Name: visible(name), Type: typeOf(fi.Mode()), Size: fi.Size(), Mode: uint32(fi.Mode().Perm()), MTime: fi.ModTime().UTC()}
	if e.Name != name {
		e.Raw = []byte(name)
	}
	if e.Type == "symlink" {
		if to, err := os.Readlink(full); err == nil {
			e.Target = visible(to)
		}
	}
	return e, true
}

func typeOf(m fs.FileMode) string {
	switch m.Type() {
	case 0:
		return "file"
	case fs.ModeDir:
		return "dir"
	case fs.ModeSymlink:
		return "symlink"
	}
	return "other"
}

// visible is a name as it can be carried in JSON.
func visible(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&b, `\x%02x`, s[0])
		} else {
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}
