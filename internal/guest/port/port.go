//go:build linux

package port

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"rigs/internal/wire"
)

// Port is an open port.
type Port struct{ f *os.File }

// Open waits for the port with that name and opens it.
func Open(ctx context.Context, name string) (*Port, error) {
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		path, err := find(name)
		if err != nil {
			return nil, err
		}
		if path != "" {
			fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
			if err == nil {
				return New(os.NewFile(uintptr(fd), path)), nil
			}
			if !errors.Is(err, unix.ENOENT) { // else the node is not there yet
				return nil, fmt.Errorf("cannot open port %s: %s: %w", name, path, err)
			}
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("cannot open port %s: there is none with that name: %w", name, ctx.Err())
		case <-time.After(wait):
		}
	}
}

// New returns a Port on f, which must be non-blocking.
func New(f *os.File) *Port { return &Port{f} }

// find looks for the port among those that have told their names.
func find(name string) (string, error) {
	names, err := filepath.Glob("/sys/class/virtio-ports/*/name")
	if err != nil {
		return "", err
	}
	for _, file := range names {
		b, err := os.ReadFile(file)
		if err == nil && strings.TrimSpace(string(b)) == name {
			return "/dev/" + filepath.Base(filepath.Dir(file)), nil
		}
	}
	return "", nil
}

// Serve runs one session after the other, each by a call of session with its
// listener, which fails when the session has ended. It returns when ctx is done
// or the port is broken.
func (p *Port) Serve(ctx context.Context, session func(net.Listener)) error {
	stop := context.AfterFunc(ctx, func() { p.f.Close() })
	defer stop()
	var tail []byte
	for ctx.Err() == nil {
		if err := p.f.SetDeadline(time.Time{}); err != nil {
			return err
		}
		if err := wire.GuestHandshake(waiting{p.f}, tail); err != nil {
			return err
		}
		t := &wire.Tail{ReadWriteCloser: connected{p.f}}
		m, err := wire.NewMux(t, false)
		if err != nil {
			return err
		}
		session(m.Listener())
		_ = m.Close() // waits for the reader; the port itself stays open
		tail = t.Last()
	}
	return ctx.Err()
}

// waiting reads the port when a host may not be there: it waits for one.
type waiting struct{ *os.File }

func (w waiting) Read(b []byte) (int, error) {
	c, err := w.SyscallConn()
	if err != nil {
		return 0, err
	}
	var n int
	var rerr error
	err = c.Read(func(fd uintptr) bool {
		n, rerr = unix.Read(int(fd), b)
		// Nothing: no host (0), or one that has not written yet (EAGAIN).
		return n > 0 || rerr != nil && !errors.Is(rerr, unix.EAGAIN) && !errors.Is(rerr, unix.EINTR)
	})
	if err == nil && rerr != nil {
		err = os.NewSyscallError("read", rerr)
	}
	return max(n, 0), err
}

// connected is the port during a session: when the host goes that is the end of
// the file, and Close ends reads and writes but leaves the port open.
type connected struct{ f *os.File }

func (c connected) Read(b []byte) (int, error)  { return c.f.Read(b) }
func (c connected) Write(b []byte) (int, error) { return c.f.Write(b) }
func (c connected) Close() error                { return c.f.SetDeadline(time.Unix(1, 0)) }

var _ io.ReadWriteCloser = connected{}
