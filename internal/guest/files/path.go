//go:build linux

package files

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"rigs/internal/guest/account"
	"rigs/internal/guestapi"
	"rigs/internal/rig"
)

// resolve makes the path of a request absolute and clean.
func resolve(a account.Account, p string) (string, error) {
	switch {
	case p == "":
		return "", rig.FieldErrorf("path", "there is no path in the request")
	case len(p) > guestapi.MaxPath:
		return "", rig.FieldErrorf("path", "the path is longer than %d bytes", guestapi.MaxPath)
	case strings.ContainsRune(p, 0):
		return "", rig.FieldErrorf("path", "the path has a NUL byte")
	}
	return path.Clean(a.Abs(p)), nil
}

// escapes is os.Root's refusal, which it does not export.
const escapes = "path escapes from parent"

// explain turns a failure of the file system into a problem that names the path.
func explain(what, name string, err error) error {
	var p *rig.Problem
	if errors.As(err, &p) {
		return err
	}
	var perr *fs.PathError
	var lerr *os.LinkError
	switch { // their own paths are of no use to the reader
	case errors.As(err, &perr):
		err = perr.Err
	case errors.As(err, &lerr):
		err = lerr.Err
	}
	code := rig.CodeInternal
	switch {
	case err.Error() == escapes:
		code = rig.CodeInvalidRequest
	case errors.Is(err, fs.ErrNotExist):
		code = rig.CodeNotFound
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		code = rig.CodeForbidden
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.EMFILE):
		code = rig.CodeCapacity
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EISDIR), errors.Is(err, fs.ErrExist), errors.Is(err, syscall.ENOTEMPTY), errors.Is(err, syscall.EBUSY):
		code = rig.CodeConflict
	case errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.EINVAL):
		code = rig.CodeInvalidRequest
	}
	return rig.Errorf(code, "cannot %s %q: %w", what, name, err)
}

// Stat describes the file at a path; a link is not followed.
func Stat(a account.Account, name string) (guestapi.FileInfo, error) {
	name, err := resolve(a, name)
	if err != nil {
		return guestapi.FileInfo{}, err
	}
	var info guestapi.FileInfo
	err = a.Do(func() error {
		fi, err := os.Lstat(name)
		if err != nil {
			return explain("look at", name, err)
		}
		info = guestapi.FileInfo{Path: name, Type: "other", Size: fi.Size(), Mode: uint32(fi.Mode().Perm()), MTime: fi.ModTime().UTC()}
		switch fi.Mode().Type() {
		case 0:
			info.Type = "file"
		case fs.ModeDir:
			info.Type = "dir"
		case fs.ModeSymlink:
			info.Type = "symlink"
			if info.Target, err = os.Readlink(name); err != nil {
				return explain("read the link", name, err)
			}
		}
		return nil
	})
	return info, err
}
