//go:build linux

package account

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Account is one user.
type Account struct {
	Name   string
	UID    int
	GID    int
	Groups []int // supplementary
	Home   string
	Shell  string
}

// Lookup reads the account with that name from the files under root ("/"
// usually).
func Lookup(root, name string) (Account, error) {
	passwd, err := os.ReadFile(root + "/etc/passwd")
	if err != nil {
		return Account{}, fmt.Errorf("cannot look up user %s: %w", name, err)
	}
	a, ok := parsePasswd(passwd, name)
	if !ok {
		return Account{}, fmt.Errorf("cannot look up user %s: it is not in /etc/passwd", name)
	}
	group, err := os.ReadFile(root + "/etc/group")
	if err != nil && !os.IsNotExist(err) {
		return Account{}, fmt.Errorf("cannot look up the groups of user %s: %w", name, err)
	}
	a.Groups = parseGroups(group, name, a.GID)
	return a, nil
}

func parsePasswd(b []byte, name string) (Account, bool) {
	for line := range lines(b) {
		f := strings.Split(line, ":")
		if len(f) != 7 || f[0] != name {
			continue
		}
		uid, uerr := strconv.ParseUint(f[2], 10, 31)
		gid, gerr := strconv.ParseUint(f[3], 10, 31)
		if uerr != nil || gerr != nil {
			continue
		}
		a := Account{Name: name, UID: int(uid), GID: int(gid), Home: f[5], Shell: f[6]}
		if a.Home == "" {
			a.Home = "/"
		}
		if a.Shell == "" {
			a.Shell = "/bin/sh"
		}
		return a, true
	}
	return Account{}, false
}

func parseGroups(b []byte, name string, gid int) []int {
	groups := []int{gid}
	for line := range lines(b) {
		f := strings.Split(line, ":")
		if len(f) != 4 || !slices.Contains(strings.Split(f[3], ","), name) {
			continue
		}
		if g, err := strconv.ParseUint(f[2], 10, 31); err == nil && !slices.Contains(groups, int(g)) {
			groups = append(groups, int(g))
		}
	}
	return groups
}

func lines(b []byte) func(func(string) bool) {
	return func(yield func(string) bool) {
		s := bufio.NewScanner(bytes.NewReader(b))
		for s.Scan() {
			if !yield(s.Text()) {
				return
			}
		}
	}
}

// path is where commands are looked for, for every user: those that sudo makes
// useful are found too.
const path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Env is the login environment, with term as TERM when it is not empty.
func (a Account) Env(term string) []string {
	env := []string{
		"HOME=" + a.Home, "USER=" + a.Name, "LOGNAME=" + a.Name, "SHELL=" + a.Shell,
		"PATH=" + path, "LANG=C.UTF-8",
	}
	if term != "" {
		env = append(env, "TERM="+term)
	}
	return env
}

// Credential is what a process needs to run as the account, nil when this
// process already does and could not change anyway.
func (a Account) Credential() *syscall.Credential {
	if os.Geteuid() != 0 {
		return nil
	}
	c := &syscall.Credential{Uid: uint32(a.UID), Gid: uint32(a.GID)}
	for _, g := range a.Groups {
		c.Groups = append(c.Groups, uint32(g))
	}
	return c
}

// Abs makes a path of a request absolute: "~", "~/x" and relative paths begin
// at the home directory.
func (a Account) Abs(p string) string {
	switch {
	case p == "" || p == "~":
		return a.Home
	case strings.HasPrefix(p, "~/"):
		return a.Home + p[1:]
	case strings.HasPrefix(p, "/"):
		return p
	}
	return a.Home + "/" + p
}
