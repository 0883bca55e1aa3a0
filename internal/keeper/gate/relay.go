package gate

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// errRefused ends the upward direction of a connection whose first bytes say that
// it goes somewhere else. It carries the verdict.
type errRefused struct{ verdict verdict }

func (e errRefused) Error() string { return e.verdict.reason }

// relay moves bytes both ways until both sides are done, and says how it ended.
// One side's end is passed on as the end of that direction only; a failure of
// either ends both, with a reset.
func (s *session) relay(ctx context.Context, c *connection, guest *guestConn, upstream net.Conn) verdict {
	var (
		both sync.WaitGroup
		up   error
	)
	answer := newAnswerWatch(c.answerTo(guest))
	both.Go(func() {
		up = s.up(ctx, c, upstream, guest, answer)
		c.finish(up, upstream)
	})
	down := s.copy(answer, upstream, &c.in, c.touch)
	answer.end()
	c.finish(down, guest)
	both.Wait()
	upstream.Close()
	guest.settle(ctx)
	_ = guest.Close() // it never fails
	if refused := (errRefused{}); errors.As(up, &refused) || errors.As(down, &refused) {
		return refused.verdict
	}
	return closedVerdict(ctx, verdict{allow: true, reason: ReasonClosed})
}

// finish passes the end of one direction on to to, or ends both after a failure.
func (c *connection) finish(err error, to net.Conn) {
	c.halfClosed.Store(true)
	if err == nil {
		if half, ok := to.(interface{ CloseWrite() error }); ok {
			err = half.CloseWrite()
		} else {
			err = errors.New("this connection has only one end")
		}
	}
	if err != nil {
		c.close(err)
	}
}

// copy moves bytes from src to dst until src ends. It holds a large buffer only
// while there is much to move.
func (s *session) copy(dst io.Writer, src io.Reader, count *atomic.Int64, touch func()) error {
	small := s.buffers.small.Get().(*[smallCopy]byte)
	defer s.buffers.small.Put(small)
	var large *[largeCopy]byte
	defer func() { s.buffers.giveLarge(large) }()
	for {
		b := small[:]
		if large != nil {
			b = large[:]
		}
		n, err := src.Read(b)
		if n > 0 {
			touch()
			written, err := dst.Write(b[:n])
			count.Add(int64(written))
			touch()
			if err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case large == nil && n == len(b):
			large = s.buffers.tryLarge()
		case large != nil && n <= smallCopy:
			s.buffers.giveLarge(large)
			large = nil
		}
	}
}
