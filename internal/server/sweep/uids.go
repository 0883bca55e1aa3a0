package sweep

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"rigs/internal/keeper/confine"
	"rigs/internal/paths"
)

// A claim is a symbolic link in a directory of the host's, which is root's alone: its
// name is a uid, its target the mark of the rig that the uid was handed out to. A
// link is made with its target in one step. Servers of different data
// directories find each other's claims there, and none sees its own ones as
// another's. They are gone when the host starts anew, as are the processes.

var claims = paths.UIDs() // but for tests

// PrepareClaims makes the directory of claims.
func PrepareClaims() error { return paths.MakePrivate(claims) }

// Claim hands a uid out to a rig that no other rig, no user and no process of this host
// has. It is picked at random among 16 million, so what an earlier rig may have
// left anywhere is not found by the next one that gets its uid.
func Claim(owner, id string) (uint32, error) {
	for range 100 {
		var b [4]byte
		rand.Read(b[:]) // never fails since Go 1.24
		uid := confine.FirstUID + binary.LittleEndian.Uint32(b[:])%(confine.LastUID-confine.FirstUID+1)
		name := strconv.FormatUint(uint64(uid), 10)
		if _, err := user.LookupId(name); err == nil {
			continue // somebody uses the range for people
		}
		err := os.Symlink(Mark(owner, id), filepath.Join(claims, name))
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("a user for the rig: %w", err)
		}
		used, err := inUse(uid)
		if err == nil && !used {
			return uid, nil
		}
		if rerr := os.Remove(filepath.Join(claims, name)); err != nil || rerr != nil {
			return 0, fmt.Errorf("a user for the rig: %w", errors.Join(err, rerr))
		}
	}
	return 0, errors.New("a user for the rig: every uid that was tried is in use")
}

// Claims returns the uids that owner has handed out, to rig id only unless that
// is empty: uid to rig id.
func Claims(owner, id string) (map[uint32]string, error) {
	entries, err := os.ReadDir(claims)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // none was ever handed out
	}
	if err != nil {
		return nil, err
	}
	uids := map[uint32]string{}
	for _, e := range entries {
		uid, err := strconv.ParseUint(e.Name(), 10, 32)
		if err != nil || uid < confine.FirstUID || uid > confine.LastUID {
			continue // not ours to judge
		}
		mark, err := os.Readlink(filepath.Join(claims, e.Name()))
		if err != nil {
			continue // just released
		}
		o, r, ok := strings.Cut(mark, "/")
		if ok && o == owner && (id == "" || r == id) {
			uids[uint32(uid)] = r
		}
	}
	return uids, nil
}

// Release ends owner's claims, those of rig id only unless that is empty. No
// process and no file of theirs must be left.
func Release(owner, id string) error {
	uids, err := Claims(owner, id)
	if err != nil {
		return err
	}
	var errs []error
	for uid := range uids {
		errs = append(errs, os.Remove(filepath.Join(claims, strconv.FormatUint(uint64(uid), 10))))
	}
	return errors.Join(errs...)
}
