package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"rigs/internal/rig"
)

// lockPoll is how often a lock that another process holds is tried again: flock(2) cannot wait
// for a context.
const lockPoll = 100 * time.Millisecond

// lock takes the exclusive lock of a directory, which it makes, and returns how to release it. Several
// servers may share a cache.
func lock(ctx context.Context, dir string, progress func(rig.Step)) (func(), error) {
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o644)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for said := false; ; {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if !said {
			said = true
			report(progress, rig.Step{Text: "Wait for another program that is changing " + dir})
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		}
	}
}

// makeDir makes a directory that the user of the virtual machines can enter, whatever the umask.
func makeDir(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.Chmod(dir, 0o755)
}

// work makes a temporary directory in dir, for something that is renamed when it is
// complete. Under the lock, whatever has such a name was left by a crash.
func work(dir string) (string, error) {
	old, err := filepath.Glob(filepath.Join(dir, "tmp-*"))
	if err != nil {
		return "", err
	}
	for _, o := range old {
		if err := os.RemoveAll(o); err != nil {
			return "", err
		}
	}
	tmp, err := os.MkdirTemp(dir, "tmp-")
	if err != nil {
		return "", err
	}
	return tmp, os.Chmod(tmp, 0o755)
}

// publish gives a complete directory its name, in the place of what had it before. The
// temporary directory is gone afterwards in any case.
func publish(tmp, dir string) error {
	err := os.RemoveAll(dir)
	if err == nil {
		err = os.Rename(tmp, dir)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(tmp))
	}
	return syncDir(filepath.Dir(dir))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// writeFile writes a new file through write, and to the disk.
func writeFile(path string, write func(*os.File) error) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// replaceFile writes data to path in one step.
func replaceFile(path string, data []byte) error {
	tmp := path + ".tmp"
	if err := os.RemoveAll(tmp); err != nil {
		return err
	}
	err := writeFile(tmp, func(f *os.File) error {
		_, err := f.Write(data)
		return err
	})
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(tmp))
	}
	return syncDir(filepath.Dir(path))
}

func report(progress func(rig.Step), s rig.Step) {
	if progress != nil {
		progress(s)
	}
}
