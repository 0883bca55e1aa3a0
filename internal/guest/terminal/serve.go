//go:build linux

package terminal

import (
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"rigs/internal/guest/stream"
	"rigs/internal/guestapi"
	"rigs/internal/rig"
	"rigs/internal/wire"
)

// serve carries one client's bytes both ways, until it or the session has gone,
// and closes its stream.
func (s *session) serve(peer *stream.Peer, c *client, size guestapi.Size) {
	defer peer.Close()
	in, err := s.input(size)
	if err != nil {
		peer.Fail(rig.Errorf(rig.CodeCapacity, "cannot attach to terminal %s: %w", s.name, err))
		return
	}
	var feed sync.WaitGroup
	var resize func(guestapi.Size) error
	if in != nil {
		defer in.Close()
		feed.Go(func() { peer.Stdin.Feed(in) })
		resize = func(size guestapi.Size) error {
			if err := stream.CheckSize(size); err != nil {
				return err
			}
			return stream.SetSize(in, size)
		}
	}
	served := make(chan error, 1)
	go func() {
		err := peer.Serve(stream.Handler{Resize: resize})
		served <- err
		s.leave(c) // which ends send
	}()
	exit := s.send(c)

	// Nothing may follow the last frame, so the acknowledgements end first.
	peer.Stdin.Close()
	if in != nil {
		_ = in.SetWriteDeadline(time.Unix(1, 0)) // it is open: this cannot fail
	}
	if exit == nil && len(served) == 0 {
		peer.Close() // it was dropped, or takes nothing any more
	}
	feed.Wait()
	switch {
	case exit != nil:
		_ = peer.WriteJSON(wire.KindExit, exit) // the client may be gone
		peer.Close()
		if <-served != nil {
			return // said after the session had ended; there is nothing to answer
		}
	default:
		if err := <-served; err != nil {
			peer.Fail(err)
		}
	}
}

// input returns a descriptor of the terminal of the client's own: what it writes
// to a shell that does not read can then be given up without the others
// noticing. It is nil when the shell has ended meanwhile.
func (s *session) input(size guestapi.Size) (*os.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil, nil
	}
	c, err := s.tty.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd := -1
	var derr error
	err = c.Control(func(tty uintptr) { fd, derr = unix.FcntlInt(tty, unix.F_DUPFD_CLOEXEC, 0) })
	if err := errors.Join(err, derr); err != nil {
		return nil, err
	}
	in := os.NewFile(uintptr(fd), "terminal")
	if size == (guestapi.Size{}) {
		return in, nil
	}
	if err := stream.SetSize(in, size); err != nil {
		in.Close()
		return nil, err
	}
	return in, nil
}

// send sends the session's output to c. It returns how the session has ended,
// or nil when the client has gone, one way or the other.
func (s *session) send(c *client) *guestapi.ExitStatus {
	var b []byte
	for {
		var exit *guestapi.ExitStatus
		var more bool
		if b, exit, more = s.next(c, b); !more {
			return exit
		}
		for rest := b; len(rest) > 0; {
			n := min(len(rest), wire.MaxFrame)
			if s.dropped(c) || c.peer.SetWriteDeadline(time.Now().Add(stall)) != nil {
				return nil
			}
			if c.peer.Write(wire.KindStdout, rest[:n]) != nil {
				s.leave(c)
				return nil
			}
			rest = rest[n:]
		}
	}
}

func (s *session) dropped(c *client) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return c.gone
}
