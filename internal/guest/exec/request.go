//go:build linux

package exec

import (
	"math"
	"strings"
	"time"

	"rigs/internal/guest/stream"
	"rigs/internal/guestapi"
	"rigs/internal/rig"
)

// check says what is wrong with a request.
func check(r guestapi.ExecRequest) error {
	switch {
	case len(r.Argv) == 0 && r.Shell == "":
		return rig.FieldErrorf("argv", "cannot run: there is no command: set argv or shell")
	case len(r.Argv) > 0 && r.Shell != "":
		return rig.FieldErrorf("shell", "cannot run: both argv and shell are set: set one")
	case len(r.Argv) > guestapi.MaxArgs:
		return rig.FieldErrorf("argv", "cannot run: %d arguments: at most %d are allowed", len(r.Argv), guestapi.MaxArgs)
	case len(r.Argv) > 0 && r.Argv[0] == "":
		return rig.FieldErrorf("argv", "cannot run: the command's name is empty")
	case len(r.Env) > guestapi.MaxEnv:
		return rig.FieldErrorf("env", "cannot run: %d environment variables: at most %d are allowed", len(r.Env), guestapi.MaxEnv)
	case len(r.Cwd) > guestapi.MaxPath:
		return rig.FieldErrorf("cwd", "cannot run: the directory's path is longer than %d bytes", guestapi.MaxPath)
	case strings.ContainsRune(r.Cwd, 0):
		return rig.FieldErrorf("cwd", "cannot run: the directory's path has a NUL byte")
	case strings.ContainsRune(r.Shell, 0):
		return rig.FieldErrorf("shell", "cannot run: the line has a NUL byte")
	}
	for i, a := range r.Argv {
		if strings.ContainsRune(a, 0) {
			return rig.FieldErrorf("argv", "cannot run: argument %d has a NUL byte", i)
		}
	}
	for _, e := range r.Env {
		name, value, ok := strings.Cut(e, "=")
		if !ok || !isEnvName(name) {
			return rig.FieldErrorf("env", "cannot run: %.64q is not NAME=value", e)
		}
		if strings.ContainsRune(value, 0) {
			return rig.FieldErrorf("env", "cannot run: the value of %s has a NUL byte", name)
		}
	}
	if _, err := timeout(r); err != nil {
		return err
	}
	return stream.CheckSize(r.Size)
}

// timeout returns the command's time, 0 for no limit.
func timeout(r guestapi.ExecRequest) (time.Duration, error) {
	s := r.TimeoutSeconds
	if math.IsNaN(s) || s < 0 || s > math.MaxInt64/1e9/2 {
		return 0, rig.FieldErrorf("timeoutSeconds", "cannot run: a timeout of %v seconds cannot be kept", s)
	}
	if s == 0 {
		return 0, nil
	}
	return max(time.Duration(s*float64(time.Second)), time.Nanosecond), nil
}

// environ adds extra to the login environment; what comes later wins.
func environ(login, extra []string) []string {
	at := map[string]int{}
	var env []string
	for _, e := range append(login, extra...) {
		name, _, _ := strings.Cut(e, "=")
		if i, ok := at[name]; ok {
			env[i] = e
			continue
		}
		at[name] = len(env)
		env = append(env, e)
	}
	return env
}

// isEnvName says whether a shell can name s as a variable.
func isEnvName(s string) bool {
	for i, b := range []byte(s) {
		letter := b == '_' || b >= 'A' && b <= 'Z' || b >= 'a' && b <= 'z'
		if !letter && (i == 0 || b < '0' || b > '9') {
			return false
		}
	}
	return s != ""
}
