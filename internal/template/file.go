package template

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"rigs/internal/wire"
)

var errBusy = errors.New("somebody else is at it")

// tryLock takes the lock in a file, which stays: removing it would let two
// processes hold locks on two files of one name.
func tryLock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errBusy
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}

// lock waits for the lock. The kernel has no way to wait for one and for a
// context, so it is tried again and again.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 250*time.Millisecond) {
		unlock, err := tryLock(path)
		if !errors.Is(err, errBusy) {
			return unlock, err
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil, context.Cause(ctx)
		case <-t.C:
		}
	}
}

// diskUse is the number of bytes that the files of dir occupy.
func diskUse(dir string) int64 {
	var n int64
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // what cannot be seen is not counted
		}
		if fi, err := d.Info(); err == nil {
			if st, ok := fi.Sys().(*syscall.Stat_t); ok {
				n += st.Blocks * 512
			}
		}
		return nil
	})
	return n
}

func readJSON(r io.Reader, limit int64, v any) error { return wire.ReadJSON(r, limit, v) }
