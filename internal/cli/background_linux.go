package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// serverProcess is a running server, held by a descriptor that a reused
// process id cannot fool.
type serverProcess struct {
	pid int
	fd  int
}

// findServer returns the process that listens on socket, nil when nobody does.
// The kernel says who that is: a file with a process id could be stale.
func findServer(ctx context.Context, socket string) (*serverProcess, error) {
	pid, err := listener(ctx, socket)
	if err != nil || pid == 0 {
		return nil, err
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the server's process %d: %w", pid, err)
	}
	// The process could have ended, and its id gone to another, between the two
	// calls. It still listens, so it did not.
	again, err := listener(ctx, socket)
	if err != nil || again != pid {
		_ = unix.Close(fd) // nothing was written to it
		if err == nil && again != 0 {
			err = errors.New("the server was replaced while it was looked at: try again")
		}
		return nil, err
	}
	return &serverProcess{pid, fd}, nil
}

func listener(ctx context.Context, socket string) (pid int, err error) {
	c, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("the server's socket: %w", err)
	}
	defer c.Close()
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var cerr error
	if err := raw.Control(func(fd uintptr) {
		cred, cerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if cerr != nil {
		return 0, fmt.Errorf("asking who listens on %s: %w", socket, cerr)
	}
	if int(cred.Uid) != os.Getuid() && os.Getuid() != 0 {
		return 0, fmt.Errorf("the server at %s: %w", socket, errOtherUser)
	}
	return int(cred.Pid), nil
}

func (p *serverProcess) signal(s syscall.Signal) error {
	err := unix.PidfdSendSignal(p.fd, s, nil, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// pollSlice is how often waiting looks whether its context has ended.
const pollSlice = 200 * time.Millisecond

// wait returns when the process has ended.
func (p *serverProcess) wait(ctx context.Context) error {
	fds := []unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, int(pollSlice.Milliseconds()))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if n > 0 {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// Close forgets the process; it goes on.
func (p *serverProcess) Close() { _ = unix.Close(p.fd) }
