//go:build linux

package boot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"rigs/internal/guestapi"
)

// MakeUser makes the ordinary user of a guest in the system under root, as far
// as the image has not done so: entries in passwd, group and shadow, a home
// directory, and sudo without a password where there is sudo.
func MakeUser(root string) error {
	if err := makeUser(root); err != nil {
		return fmt.Errorf("cannot make user %s: %w", guestapi.User, err)
	}
	return nil
}

func makeUser(root string) error {
	etc := filepath.Join(root, "etc")
	if err := os.MkdirAll(etc, 0o755); err != nil {
		return err
	}
	shell := "/bin/sh"
	if _, err := os.Stat(filepath.Join(root, "bin/bash")); err == nil {
		shell = "/bin/bash"
	}
	files := []struct {
		name string
		mode os.FileMode
		edit func(string) string
	}{
		{"passwd", 0o644, func(s string) string { return editPasswd(s, shell) }},
		{"group", 0o644, editGroup},
		{"shadow", 0o640, editShadow},
	}
	for _, f := range files {
		if err := edit(filepath.Join(etc, f.name), f.mode, f.edit); err != nil {
			return err
		}
	}
	if err := makeHome(root); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(etc, "sudoers")); err != nil {
		return nil //nolint:nilerr // an image without sudo
	}
	rule := filepath.Join(etc, "sudoers.d", guestapi.User)
	if _, err := os.Stat(rule); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(rule), 0o750); err != nil {
		return err
	}
	return os.WriteFile(rule, []byte(guestapi.User+" ALL=(ALL:ALL) NOPASSWD:ALL\n"), 0o440)
}

// edit rewrites a file when change changes it.
func edit(path string, mode os.FileMode, change func(string) string) error {
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if s := change(string(old)); s != string(old) {
		return os.WriteFile(path, []byte(s), mode)
	}
	return nil
}

// editPasswd puts the user's entry in front of another one with the same uid
// (many images have one), so that the uid is shown as ours, and replaces one
// of the same name with another uid. An image's own entry that fits stays.
func editPasswd(s, shell string) string {
	uid, gid := strconv.Itoa(guestapi.UID), strconv.Itoa(guestapi.GID)
	return editEntries(s, func(f []string) entry {
		switch {
		case len(f) != 7:
			return other
		case f[0] == guestapi.User && f[2] == uid && f[3] == gid && f[5] == guestapi.Home:
			return fits
		case f[0] == guestapi.User:
			return stale
		case f[2] == uid:
			return rival
		}
		return other
	}, strings.Join([]string{guestapi.User, "x", uid, gid, "", guestapi.Home, shell}, ":"), rootPasswd)
}

// rootPasswd is root's entry in an image that has none.
const rootPasswd = "root:x:0:0:root:/root:/bin/sh"

func editGroup(s string) string {
	gid := strconv.Itoa(guestapi.GID)
	return editEntries(s, func(f []string) entry {
		switch {
		case len(f) != 4:
			return other
		case f[0] == guestapi.User && f[2] == gid:
			return fits
		case f[0] == guestapi.User:
			return stale
		case f[2] == gid:
			return rival
		}
		return other
	}, guestapi.User+":x:"+gid+":", "root:x:0:")
}

// editShadow adds an entry that no password matches but that is not locked:
// sudo asks PAM whether the account is valid.
func editShadow(s string) string {
	return editEntries(s, func(f []string) entry {
		if f[0] == guestapi.User {
			return fits
		}
		return other
	}, guestapi.User+":*:19000:0:99999:7:::", "root:*:19000:0:99999:7:::")
}

// entry is what a line is to the one that is wanted.
type entry int

const (
	other entry = iota
	fits        // it is there already
	stale       // to be replaced
	rival       // has the same id: ours must come first
)

// editEntries makes want the entry of a file of colon-separated lines, and root
// the first when root has none.
func editEntries(s string, classify func(fields []string) entry, want, root string) string {
	var keep []string
	at, hasRoot := -1, false
	for line := range strings.Lines(s) {
		line = strings.TrimRight(line, "\n")
		f := strings.Split(line, ":")
		hasRoot = hasRoot || f[0] == "root"
		switch classify(f) {
		case fits:
			if at < 0 {
				return s
			}
			continue // behind a rival, so it moves to the front
		case stale:
			continue
		case rival:
			if at < 0 {
				at = len(keep)
			}
		}
		keep = append(keep, line)
	}
	if at < 0 {
		at = len(keep)
	}
	keep = append(keep[:at], append([]string{want}, keep[at:]...)...)
	if !hasRoot {
		keep = append([]string{root}, keep...)
	}
	return strings.Join(keep, "\n") + "\n"
}

// makeHome makes the home directory, with what /etc/skel has for it.
func makeHome(root string) error {
	home := filepath.Join(root, guestapi.Home)
	fi, err := os.Stat(home)
	switch {
	case err == nil && fi.IsDir():
		return os.Lchown(home, guestapi.UID, guestapi.GID)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := os.MkdirAll(home, 0o755); err != nil {
		return err
	}
	skel := filepath.Join(root, "etc/skel")
	if _, err := os.Stat(skel); err == nil {
		if err := os.CopyFS(home, os.DirFS(skel)); err != nil {
			return err
		}
	}
	return filepath.WalkDir(home, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, guestapi.UID, guestapi.GID)
	})
}
