package sweep

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxEnviron bounds how much of a process's environment is read, in bytes.
const maxEnviron = 1 << 20

// Find returns the processes that carry owner's mark or run as a uid that owner has handed
// out, those of rig id only unless that is empty: process id to rig id. They may be gone, or others, by
// the time they are used: they are good for measuring, not for signalling.
func Find(owner, id string) (map[int]string, error) {
	uids, err := Claims(owner, id)
	if err != nil {
		return nil, err
	}
	all, err := processes()
	if err != nil {
		return nil, err
	}
	pids := map[int]string{}
	for _, pid := range all {
		if r, ok := belongs(pid, owner, id, uids); ok && pid != os.Getpid() {
			pids[pid] = r
		}
	}
	return pids, nil
}

func processes() ([]int, error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, n := range names {
		if pid, err := strconv.Atoi(n); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// belongs reports whether a process has one of the two marks. One that has
// been taken over can erase its environment, but not change its user.
func belongs(pid int, owner, id string, uids map[uint32]string) (string, bool) {
	if r, ok := marked(pid, owner, id); ok || len(uids) == 0 {
		return r, ok
	}
	uid, ok := userOf(pid)
	if !ok {
		return "", false
	}
	r, ok := uids[uid]
	return r, ok
}

// userOf is the real user of a process that has not ended.
func userOf(pid int) (uint32, bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0, false // it has ended
	}
	// Before these lines is the process's name, which it chose; the kernel escapes line feeds in it.
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		switch f[0] {
		case "State:":
			if f[1] == "Z" || f[1] == "X" {
				return 0, false
			}
		case "Uid:":
			uid, err := strconv.ParseUint(f[1], 10, 32)
			return uint32(uid), err == nil
		}
	}
	return 0, false
}

// inUse reports whether a process runs as uid.
func inUse(uid uint32) (bool, error) {
	pids, err := processes()
	if err != nil {
		return false, err
	}
	for _, pid := range pids {
		if u, ok := userOf(pid); ok && u == uid {
			return true, nil
		}
	}
	return false, nil
}

func marked(pid int, owner, id string) (string, bool) {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return "", false // another user's, or gone
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxEnviron))
	if err != nil {
		return "", false // it has ended
	}
	return matches(string(b), owner, id)
}

// Kill ends every process with one of owner's marks, those of rig id only unless that
// is empty, and waits until they are gone or ctx ends. It returns how many it
// killed.
func Kill(ctx context.Context, owner, id string) (int, error) {
	if owner == "" {
		return 0, errors.New("sweep: no owner")
	}
	killed := 0
	for { // again: a keeper that was starting its VM may have forked meanwhile
		uids, err := Claims(owner, id)
		if err != nil {
			return killed, err
		}
		pids, err := Find(owner, id)
		if err != nil {
			return killed, err
		}
		var errs []error
		n := 0
		for pid := range pids {
			ok, err := kill(ctx, pid, owner, id, uids)
			if ok {
				n++
			}
			errs = append(errs, err)
		}
		killed += n
		if err := errors.Join(errs...); err != nil {
			return killed, err
		}
		if n == 0 {
			return killed, nil
		}
	}
}

// kill ends one process if it still carries the mark, and waits for its end.
func kill(ctx context.Context, pid int, owner, id string, uids map[uint32]string) (bool, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("process %d: %w", pid, err)
	}
	defer func() { _ = unix.Close(fd) }()
	// The pidfd now stands for one process for good. If that still carries the
	// mark, it is the one that was meant.
	if _, ok := belongs(pid, owner, id, uids); !ok {
		return false, nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil {
		if errors.Is(err, unix.ESRCH) {
			return false, nil
		}
		return false, fmt.Errorf("killing process %d: %w", pid, err)
	}
	for {
		if ctx.Err() != nil {
			return true, fmt.Errorf("process %d does not end: %w", pid, ctx.Err())
		}
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}} // readable when it has ended
		n, err := unix.Poll(p, 50)
		if n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
			return true, err
		}
	}
}

// Resident returns the proportional memory of a process in bytes: shared pages
// count by the share that is its own.
func Resident(pid int) (int64, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "Pss:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(v), "kB")), 10, 64)
			return kb << 10, err
		}
	}
	return 0, fmt.Errorf("process %d: no Pss in smaps_rollup", pid)
}
