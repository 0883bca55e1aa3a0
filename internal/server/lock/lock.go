// Package lock keeps two servers off one data directory.
//
// The lock is an flock on a file: the kernel drops it with the process, however
// that ends, so a stale one cannot exist. The file's content, the holder's
// process id, is for messages only.
package lock

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"rigs/internal/rig"
)

// Lock is held until Release or the process's end.
type Lock struct{ f *os.File }

// Acquire takes the lock at path, or fails at once with a conflict that names
// the holder.
func Acquire(path string) (*Lock, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("the server's lock: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("the server's lock %s: %w", path, err)
		}
		return nil, rig.Errorf(rig.CodeConflict, "another server (process %s) uses this data directory: %s is locked: stop it, or choose another directory with RIGS_HOME", holder(f), path)
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("the server's lock %s: %w", path, err)
	}
	return &Lock{f}, nil
}

func holder(f *os.File) string {
	b, err := io.ReadAll(io.LimitReader(f, 32))
	if s := strings.TrimSpace(string(b)); err == nil && s != "" {
		return s
	}
	return "unknown"
}

// Release gives the lock up. The file stays: removing it would let two servers
// lock two files of one name.
func (l *Lock) Release() error { return l.f.Close() }
