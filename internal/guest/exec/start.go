//go:build linux

package exec

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"rigs/internal/guest/account"
	"rigs/internal/guest/proc"
	"rigs/internal/rig"
)

// notStarted is a command that could not be started, with the exit status that
// a shell gives it.
type notStarted struct {
	status int // 126 or 127
	why    string
}

func (e *notStarted) Error() string { return e.why }

// start starts spec, whose Path is looked for as execvp does: in PATH of the
// environment unless the name has a slash, and a file of an unknown format is
// given to /bin/sh.
func start(r *proc.Reaper, spec proc.Spec) (*proc.Process, error) {
	name := spec.Argv[0]
	var denied error
	for _, path := range candidates(name, spec.Env) {
		if _, err := os.Stat(inDir(spec.Dir, path)); err != nil && !strings.Contains(name, "/") {
			continue // spares a fork for each directory of PATH
		}
		spec.Path = path
		p, err := r.Start(spec)
		if errors.Is(err, syscall.ENOEXEC) {
			shell := spec
			shell.Path = "/bin/sh"
			shell.Argv = append([]string{"/bin/sh", path}, spec.Argv[1:]...)
			p, err = r.Start(shell)
		}
		switch {
		case err == nil:
			return p, nil
		case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENOTDIR):
			if _, serr := os.Stat(inDir(spec.Dir, path)); serr == nil {
				denied = &notStarted{127, name + ": its interpreter or loader was not found"}
			}
		case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.EMFILE):
			return nil, rig.Errorf(rig.CodeCapacity, "cannot start %s: the machine is out of processes or memory: %w", name, err)
		default:
			denied = &notStarted{126, name + ": " + err.Error()}
		}
	}
	if denied != nil {
		return nil, denied
	}
	if strings.Contains(name, "/") {
		return nil, &notStarted{127, name + ": no such file or directory"}
	}
	return nil, &notStarted{127, name + ": command not found"}
}

func candidates(name string, env []string) []string {
	if strings.Contains(name, "/") {
		return []string{name}
	}
	var paths []string
	for _, e := range env {
		if list, ok := strings.CutPrefix(e, "PATH="); ok {
			for _, dir := range filepath.SplitList(list) {
				if dir == "" {
					dir = "."
				}
				paths = append(paths, dir+"/"+name)
			}
		}
	}
	return paths
}

func inDir(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return dir + "/" + path
}

// checkDir finds out whether the account can work in dir, which the failure of
// a start would not tell apart from a failure to execute.
func checkDir(a account.Account, dir string) error {
	err := a.Do(func() error { return syscall.Chdir(dir) })
	if err == nil {
		return nil
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return rig.FieldErrorf("cwd", "cannot run in %.256q: %w", dir, errno)
	}
	return err
}
