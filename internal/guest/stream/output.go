//go:build linux

package stream

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"rigs/internal/wire"
)

// Output is our end of a pipe or terminal that a command writes to.
//
// A command may leave processes behind that keep the other end open for ever;
// waiting for the end of file would then wait for them. So when the command has
// ended, Stop is called, and Copy takes only what is in the pipe already.
type Output struct {
	f   *os.File
	tty bool
}

// NewOutput returns the Output of f, which must be non-blocking.
func NewOutput(f *os.File, tty bool) *Output { return &Output{f, tty} }

// maxTTYBacklog bounds what is read of a terminal after Stop: more than the
// kernel keeps for one (a flip buffer of 64 KB and a line discipline of 4 KB).
const maxTTYBacklog = 128 << 10

// piece is the most that is sent at a time. With the headers of a frame and of
// yamux it makes 64 KB, two of the kernel's 32 KB buffers for a serial port.
const piece = wire.MaxFrame - 32

// Copy passes the output to emit in pieces of less than wire.MaxFrame, until its
// end, until Stop, or until emit fails.
func (o *Output) Copy(emit func([]byte) error) error {
	buf := make([]byte, piece)
	for {
		n, err := o.f.Read(buf)
		if n > 0 {
			if err := emit(buf[:n]); err != nil {
				return err
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			return o.drain(buf, emit)
		case errors.Is(err, io.EOF), o.tty && errors.Is(err, syscall.EIO):
			return nil // a terminal without users says EIO
		default:
			return err
		}
	}
}

// Stop makes Copy return after what is there now.
func (o *Output) Stop() {
	_ = o.f.SetReadDeadline(time.Unix(1, 0)) // fails only when Copy has returned and the file is closed
}

func (o *Output) drain(buf []byte, emit func([]byte) error) error {
	rest := maxTTYBacklog
	if !o.tty {
		// Those left behind may go on writing while we read: the bytes of the
		// command are at the front.
		err := o.raw(func(fd int) (err error) {
			rest, err = unix.IoctlGetInt(fd, unix.TIOCINQ)
			return err
		})
		if err != nil {
			return err
		}
	}
	for rest > 0 {
		n := 0
		err := o.raw(func(fd int) (err error) {
			n, err = unix.Read(fd, buf[:min(rest, len(buf))])
			return err
		})
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n <= 0 {
			return nil // empty (EAGAIN) or at its end
		}
		if err := emit(buf[:n]); err != nil {
			return err
		}
		rest -= n
	}
	return nil
}

// raw runs f on the descriptor, whatever the read deadline is.
func (o *Output) raw(f func(fd int) error) error {
	c, err := o.f.SyscallConn()
	if err != nil {
		return err
	}
	var ferr error
	if err := c.Control(func(fd uintptr) { ferr = f(int(fd)) }); err != nil {
		return err
	}
	return ferr
}
