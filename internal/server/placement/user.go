package placement

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"rigs/internal/keeper/confine"
	"rigs/internal/rig"
)

// User is an unprivileged user that keepers run as when the server is root.
type User struct {
	// Each says that every rig has a uid and gid of its own, which are set by as.
	Each     bool
	Name     string
	UID, GID uint32
	Groups   []uint32
}

// as is a rig's user. All of them are in the group that template memory belongs to.
func (u *User) as(uid uint32) *User {
	return &User{Each: true, Name: u.Name, UID: uid, GID: uid, Groups: append([]uint32{confine.TemplateGID}, u.Groups...)}
}

// keeperUser is a uid for each rig, or where the kernel does not know these, as in some containers,
// "rigs" if there is such a user, else "nobody"; nil when the server is not root.
func keeperUser() (*User, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	const first, last = confine.FirstUID, confine.LastUID
	if sweepSupported && mapped("/proc/self/uid_map", first, last) && mapped("/proc/self/gid_map", confine.TemplateGID, last) {
		return (&User{Each: true, Name: fmt.Sprintf("%d to %d, another for each", first, last), UID: first, GID: first, Groups: groups()}), nil
	}
	var u *user.User
	var err error
	for _, name := range []string{"rigs", "nobody"} {
		if u, err = user.Lookup(name); err == nil {
			break
		}
	}
	if err != nil {
		return nil, rig.Errorf(rig.CodeUnavailable, "no unprivileged user for machines: neither 'rigs' nor 'nobody' exists: add one with 'useradd --system rigs'")
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("user %s: %w", u.Username, err)
	}
	if uid == 0 {
		return nil, rig.Errorf(rig.CodeUnavailable, "the user for machines, %s, is root: give it a uid of its own", u.Username)
	}
	return &User{Name: u.Username, UID: uint32(uid), GID: uint32(gid), Groups: groups()}, nil
}

// groups is the group that /dev/kvm belongs to; without it there is software emulation only.
func groups() []uint32 {
	if g, err := user.LookupGroup("kvm"); err == nil {
		if id, err := strconv.ParseUint(g.Gid, 10, 32); err == nil {
			return []uint32{uint32(id)}
		}
	}
	return nil
}

// mapped reports whether the user namespace that we are in has these ids (user_namespaces(7)).
func mapped(file string, first, last uint32) bool {
	b, err := os.ReadFile(file)
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		var inside, outside, length uint64
		if n, _ := fmt.Sscan(line, &inside, &outside, &length); n == 3 && inside <= uint64(first) && uint64(last) < inside+length {
			return true
		}
	}
	return false
}

func (u *User) credential() *syscall.Credential {
	return &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: u.Groups}
}

// CanEnter returns an error that says what to do if the user cannot pass
// through dir or one of its parents. It goes by the mode bits.
func (u *User) CanEnter(dir string) error {
	for d := dir; ; d = filepath.Dir(d) {
		fi, err := os.Stat(d)
		if err != nil {
			return err
		}
		st, ok := fi.Sys().(*syscall.Stat_t)
		if !ok {
			return fmt.Errorf("%s: no owner", d)
		}
		bit := os.FileMode(0o001)
		switch {
		case st.Uid == u.UID:
			bit = 0o100
		case st.Gid == u.GID:
			bit = 0o010
		}
		if fi.Mode()&bit == 0 {
			return rig.Errorf(rig.CodeUnavailable, "machines run as user %s, who cannot enter %s: %s has mode %04o: choose another data directory with RIGS_HOME (and RIGS_CACHE), or run 'chmod o+x %s'", u.Name, dir, d, fi.Mode().Perm(), d)
		}
		if d == filepath.Dir(d) {
			return nil
		}
	}
}
