//go:build linux

package stream

import (
	"io"
	"sync"

	"rigs/internal/rig"
	"rigs/internal/wire"
)

// Stdin holds what a client has sent and the command has not read yet: never
// more than wire.Window, since the client must wait for acknowledgements.
type Stdin struct {
	w *wire.Writer

	mu     sync.Mutex
	change sync.Cond
	buf    []byte
	unread int // sent by the client, not acknowledged
	ended  bool
	closed bool
}

func newStdin(w *wire.Writer) *Stdin {
	s := &Stdin{w: w}
	s.change.L = &s.mu
	return s
}

func (s *Stdin) push(b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return rig.Errorf(rig.CodeInvalidRequest, "the stream was ended: standard input was sent after its end")
	}
	if s.unread+len(b) > wire.Window {
		return rig.Errorf(rig.CodeTooLarge, "the stream was ended: more than %d bytes of standard input were sent without an acknowledgement", wire.Window)
	}
	s.unread += len(b)
	s.buf = append(s.buf, b...)
	s.change.Signal()
	return nil
}

func (s *Stdin) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.change.Signal()
}

// Close makes Feed return.
func (s *Stdin) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.change.Signal()
}

// take waits for input and swaps it for spare. It returns nothing at the end.
func (s *Stdin) take(spare []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.buf) == 0 && !s.ended && !s.closed {
		s.change.Wait()
	}
	if s.closed {
		return nil
	}
	b := s.buf
	s.buf = spare[:0]
	return b
}

func (s *Stdin) ack(n int) error {
	s.mu.Lock()
	s.unread -= n
	s.mu.Unlock()
	return s.w.WriteAck(n)
}

// Feed writes the input to w, acknowledging what w took, until it ends or is
// closed. What w does not take any more is acknowledged and dropped, as a
// command that has closed its input would have it. It reports whether the
// client ended its input.
func (s *Stdin) Feed(w io.Writer) bool {
	var b []byte
	broken := false
	for {
		if b = s.take(b); len(b) == 0 {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.ended && !s.closed
		}
		for rest := b; len(rest) > 0; {
			n := min(len(rest), wire.MaxFrame)
			if !broken {
				_, err := w.Write(rest[:n])
				broken = err != nil
			}
			if s.ack(n) != nil {
				return false // the client is gone
			}
			rest = rest[n:]
		}
	}
}
