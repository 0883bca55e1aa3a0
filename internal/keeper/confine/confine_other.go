//go:build !linux

package confine

import (
	"os/exec"
	"runtime"
)

// ABI is 0: only Linux has Landlock.
func ABI() int { return 0 }

// OnOwnThread calls f on a thread of its own and does not wait.
func OnOwnThread(f func()) {
	go func() {
		runtime.LockOSThread()
		f()
	}()
}

// Start starts a keeper.
func Start(cmd *exec.Cmd) error { return cmd.Start() }

// Keeper does nothing here, where no machine runs.
func Keeper(Files) (lacks string, err error) { return "", nil }

// Machine does nothing here.
func Machine(Files, bool) error { return nil }
