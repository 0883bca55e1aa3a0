package host

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"rigs/internal/keeper/vm"
	"rigs/internal/rig"
)

// qemuName is the program that machines run in.
const qemuName = "qemu-system-x86_64"

// qemuEnv names another QEMU than the one on the PATH.
const qemuEnv = "RIGS_QEMU"

// InstallQEMU says how to get QEMU.
const InstallQEMU = "Debian, Ubuntu: sudo apt install qemu-system-x86"

// QEMU is an installed QEMU.
type QEMU struct {
	Path string // absolute
	// Text is its version as it says itself, with the package's revision:
	// "7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)".
	Text    string
	Version vm.Version
}

// FindQEMU finds QEMU: RIGS_QEMU, or else on the PATH, and asks for its version.
// One that is too old is returned with an error.
func FindQEMU(ctx context.Context) (QEMU, error) {
	name := os.Getenv(qemuEnv)
	from := qemuEnv
	if name == "" {
		name, from = qemuName, "PATH"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return QEMU{}, rig.Errorf(rig.CodeUnavailable, "QEMU is not there: no %s (from %s): install it (%s)", name, from, InstallQEMU)
	}
	if path, err = filepath.Abs(path); err != nil {
		return QEMU{}, rig.Errorf(rig.CodeUnavailable, "QEMU: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		var ee *exec.ExitError
		if errors.As(err, &ee) {
			return QEMU{}, rig.Errorf(rig.CodeUnavailable, "QEMU does not start: %w: %s", err, vm.Clean(string(ee.Stderr)))
		}
		return QEMU{}, rig.Errorf(rig.CodeUnavailable, "QEMU does not start: %w", err)
	}
	q, err := parseQEMU(string(out))
	q.Path = path
	return q, err
}

// parseQEMU reads the output of --version.
func parseQEMU(out string) (QEMU, error) {
	line, _, _ := strings.Cut(out, "\n")
	_, text, ok := strings.Cut(line, "version ")
	if !ok {
		return QEMU{}, rig.Errorf(rig.CodeUnavailable, "QEMU's version: %.80q says none: set %s to a QEMU of version %s or newer", line, qemuEnv, vm.Oldest)
	}
	text = strings.TrimSpace(vm.Clean(text))
	v, err := vm.ParseVersion(text)
	if err != nil {
		return QEMU{}, rig.Errorf(rig.CodeUnavailable, "QEMU's version: %w: set %s to a QEMU of version %s or newer", err, qemuEnv, vm.Oldest)
	}
	q := QEMU{Text: text, Version: v}
	if !v.AtLeast(vm.Oldest) {
		return q, rig.Errorf(rig.CodeUnavailable, "QEMU %s is too old: version %s or newer is needed: install one, and name it with %s if it is not first on the PATH", v, vm.Oldest, qemuEnv)
	}
	return q, nil
}
