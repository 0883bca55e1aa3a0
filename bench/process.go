package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"rigs/internal/keeperapi"
)

// processes calls f for every process of a rig, which is found by its ownership
// mark, with its directory in /proc and its program.
func processes(id string, f func(dir, exe string) error) error {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		env, err := os.ReadFile(dir + "/environ")
		if err != nil || !marked(env, id) {
			continue // another user's, or gone
		}
		exe, err := os.Readlink(dir + "/exe")
		if err != nil {
			continue
		}
		if err := f(dir, exe); err != nil {
			return err
		}
	}
	return nil
}

func isQEMU(exe string) bool { return strings.Contains(filepath.Base(exe), "qemu") }

func marked(env []byte, id string) bool {
	for kv := range bytes.SplitSeq(env, []byte{0}) {
		if bytes.HasPrefix(kv, []byte(keeperapi.OwnerEnv+"=")) && bytes.HasSuffix(kv, []byte("/"+id)) {
			return true
		}
	}
	return false
}

// qemuArgv is the command line of a rig's QEMU.
func qemuArgv(id string) ([]string, error) {
	var argv []string
	err := processes(id, func(dir, exe string) error {
		if !isQEMU(exe) {
			return nil
		}
		b, err := os.ReadFile(dir + "/cmdline")
		argv = strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
		return err
	})
	if err == nil && len(argv) < 2 {
		err = fmt.Errorf("rig %s: no QEMU found", id)
	}
	return argv, err
}
