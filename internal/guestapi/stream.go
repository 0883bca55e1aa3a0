package guestapi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"sync"
	"time"

	"rigs/internal/rig"
	"rigs/internal/wire"
)

// StreamIO is what a client connects to a stream. Every field may be nil: no
// input, output that is dropped.
type StreamIO struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Resize         <-chan Size
	Signals        <-chan Signal
}

// overtime is how long after a command's time a guest has to say that it ended
// it: the guest gives the command some seconds to end by itself, and may be busy.
var overtime = 15 * time.Second

// errLate is the cause of a stream's end when a guest did not keep a command's time.
var errLate = rig.Errorf(rig.CodeTimeout, "the command's time was over, and its machine did not end it: close the rig if it does not answer any more")

// stdinChunk is how much input is read and sent at a time, in bytes.
const stdinChunk = 32 << 10

// RunStream is the client's side of an exec or terminal stream on conn, which it
// owns and closes. It sends start (an ExecRequest or TerminalRequest), carries
// the input, output, sizes and signals, and returns the exit status when the
// stream has ended with one. A problem that the other end reports is returned as
// a *rig.Problem; when ctx is done the stream is closed, which ends an exec's
// command, and the error has code canceled.
//
// The other end is hostile: what it says is bounded, decoded strictly and
// checked against what was sent to it.
//
// A guest that does not keep an ExecRequest's time has its stream closed, with
// code timeout.
//
// A Read of Stdin that is under way is not waited for; it may take one more
// piece of input, which is lost.
func RunStream(ctx context.Context, conn net.Conn, start any, sio StreamIO) (ExitStatus, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if d := patience(start); d > 0 {
		t := time.AfterFunc(d, func() { cancel(errLate) })
		defer t.Stop()
	}
	s := &clientStream{w: wire.NewWriter(conn), sio: sio, credit: wire.Window}
	s.change.L = &s.mu
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	defer conn.Close()
	defer s.end()

	err := s.w.WriteJSON(wire.KindStart, start)
	var status ExitStatus
	if err == nil {
		if sio.Stdin != nil {
			go s.sendStdin()
		}
		if sio.Resize != nil {
			go sendEach(ctx, s.w, wire.KindResize, sio.Resize)
		}
		if sio.Signals != nil {
			go sendEach(ctx, s.w, wire.KindSignal, sio.Signals)
		}
		status, err = s.receive(bufio.NewReaderSize(conn, wire.MaxFrame))
	}
	if err != nil && errors.Is(context.Cause(ctx), errLate) {
		return ExitStatus{}, errLate
	}
	if err != nil && ctx.Err() != nil {
		return ExitStatus{}, rig.Errorf(rig.CodeCanceled, "the stream was closed: %w", context.Cause(ctx))
	}
	return status, err
}

// patience is how long a stream may take; 0 is for ever.
func patience(start any) time.Duration {
	r, ok := start.(ExecRequest)
	if !ok || !(r.TimeoutSeconds > 0) || r.TimeoutSeconds > math.MaxInt64/1e9/2 {
		return 0 // the guest refuses a time that is none
	}
	return time.Duration(r.TimeoutSeconds*float64(time.Second)) + overtime
}

type clientStream struct {
	w   *wire.Writer
	sio StreamIO

	mu     sync.Mutex
	change sync.Cond
	credit int // how many bytes of input may be sent now
	ended  bool
}

func (s *clientStream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.change.Broadcast()
}

// receive reads frames until the one that ends the stream.
func (s *clientStream) receive(r io.Reader) (ExitStatus, error) {
	frames := wire.NewReader(r)
	for {
		f, err := frames.Next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("it ended without an exit status")
			}
			return ExitStatus{}, rig.Errorf(rig.CodeBackendFailure, "the stream broke: %w", err)
		}
		switch f.Kind {
		case wire.KindStdout:
			err = write(s.sio.Stdout, f.Payload)
		case wire.KindStderr:
			err = write(s.sio.Stderr, f.Payload)
		case wire.KindAck:
			err = s.acked(f)
		case wire.KindExit:
			var st ExitStatus
			if err := f.Decode(&st); err != nil {
				return ExitStatus{}, broken(err)
			}
			return st, checkExit(st)
		case wire.KindError:
			return ExitStatus{}, problem(f)
		default:
			err = broken(fmt.Errorf("%w: kind %d from the guest", wire.ErrFrame, f.Kind))
		}
		if err != nil {
			return ExitStatus{}, err
		}
	}
}

func write(w io.Writer, b []byte) error {
	if w == nil {
		return nil
	}
	if _, err := w.Write(b); err != nil {
		return fmt.Errorf("cannot pass the output on: %w", err)
	}
	return nil
}

func broken(err error) error {
	return rig.Errorf(rig.CodeBackendFailure, "the stream broke: %w", err)
}

func checkExit(st ExitStatus) error {
	if st.Code < 0 || st.Code > 255 || len(st.Signal) > 16 || st.Seconds < 0 || math.IsInf(st.Seconds, 0) || math.IsNaN(st.Seconds) {
		return broken(fmt.Errorf("%w: an exit status that cannot be", wire.ErrFrame))
	}
	return nil
}

// problem returns the problem in f. Its HTTP status follows from its code, not
// from what the other end says.
func problem(f wire.Frame) error {
	p := new(rig.Problem)
	if err := f.Decode(p); err != nil {
		return broken(err)
	}
	if p.Code == "" {
		return broken(fmt.Errorf("%w: a problem without a code", wire.ErrFrame))
	}
	q := rig.Errorf(p.Code, "%s", p.Detail)
	q.Field = p.Field
	return q
}

// acked gives the sender of input credit for what was consumed.
func (s *clientStream) acked(f wire.Frame) error {
	n, err := f.Ack()
	if err != nil {
		return broken(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > wire.Window-s.credit {
		return broken(fmt.Errorf("%w: %d bytes of input acknowledged, %d were sent", wire.ErrFrame, n, wire.Window-s.credit))
	}
	s.credit += n
	s.change.Broadcast()
	return nil
}

// claim waits for credit and takes up to n of it; 0 when the stream has ended.
func (s *clientStream) claim(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.credit == 0 && !s.ended {
		s.change.Wait()
	}
	if s.ended {
		return 0
	}
	n = min(n, s.credit)
	s.credit -= n
	return n
}

// sendStdin sends the input. A failure to write is seen by receive too.
func (s *clientStream) sendStdin() {
	buf := make([]byte, stdinChunk)
	for {
		n, err := s.sio.Stdin.Read(buf)
		for rest := buf[:n]; len(rest) > 0; {
			k := s.claim(len(rest))
			if k == 0 || s.w.Write(wire.KindStdin, rest[:k]) != nil {
				return
			}
			rest = rest[k:]
		}
		if err != nil {
			// Whatever ended the input, for the command it is its end.
			_ = s.w.Write(wire.KindEOF, nil)
			return
		}
	}
}

// sendEach sends what comes from ch until ctx is done or ch is closed.
func sendEach[T any](ctx context.Context, w *wire.Writer, kind wire.Kind, ch <-chan T) {
	for {
		select {
		case v, ok := <-ch:
			if !ok || w.WriteJSON(kind, v) != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}
