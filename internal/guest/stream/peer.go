//go:build linux

package stream

import (
	"bufio"
	"errors"
	"io"
	"net"
	"time"

	"rigs/internal/guestapi"
	"rigs/internal/rig"
	"rigs/internal/wire"
)

// startTimeout is how long a client may take to say what it wants.
const startTimeout = 30 * time.Second

// failTimeout is how long a client may take to read why its stream failed.
const failTimeout = 5 * time.Second

// Peer is the client of one stream.
type Peer struct {
	*wire.Writer
	Stdin *Stdin

	conn net.Conn
	r    *wire.Reader
}

// NewPeer returns the Peer at the other end of conn, which it owns.
func NewPeer(conn net.Conn) *Peer {
	w := wire.NewWriter(conn)
	return &Peer{Writer: w, Stdin: newStdin(w), conn: conn, r: wire.NewReader(bufio.NewReaderSize(conn, wire.MaxFrame))}
}

// Start reads the first frame into v.
func (p *Peer) Start(v any) error {
	if err := p.conn.SetReadDeadline(time.Now().Add(startTimeout)); err != nil {
		return err
	}
	f, err := p.r.Next()
	if err != nil {
		return rig.Errorf(rig.CodeInvalidRequest, "cannot start: the stream did not begin with a start frame: %w", err)
	}
	if f.Kind != wire.KindStart {
		return rig.Errorf(rig.CodeInvalidRequest, "cannot start: the first frame has kind %d, not that of a start", f.Kind)
	}
	if err := f.Decode(v); err != nil {
		return rig.Errorf(rig.CodeInvalidRequest, "cannot start: %w", err)
	}
	return p.conn.SetReadDeadline(time.Time{})
}

// Handler is what a client's frames other than standard input do.
type Handler struct {
	Resize func(guestapi.Size) error   // nil: not a terminal, ignored
	Signal func(guestapi.Signal) error // nil: refused
}

// Serve reads frames until the client is gone (nil) or has said something that
// it must not (a problem). It ends when the Peer is closed.
func (p *Peer) Serve(h Handler) error {
	defer p.Stdin.Close()
	for {
		f, err := p.r.Next()
		if err != nil {
			if errors.Is(err, wire.ErrFrame) && !errors.Is(err, io.ErrUnexpectedEOF) {
				return rig.Errorf(rig.CodeInvalidRequest, "the stream was ended: %w", err)
			}
			return nil // any failure to read means that the client is gone
		}
		if err := p.handle(f, h); err != nil {
			return err
		}
	}
}

func (p *Peer) handle(f wire.Frame, h Handler) error {
	switch f.Kind {
	case wire.KindStdin:
		return p.Stdin.push(f.Payload)
	case wire.KindEOF:
		p.Stdin.end()
		return nil
	case wire.KindResize:
		var s guestapi.Size
		if err := f.Decode(&s); err != nil {
			return rig.FieldErrorf("size", "cannot resize: %w", err)
		}
		if h.Resize == nil {
			return nil
		}
		return h.Resize(s)
	case wire.KindSignal:
		var s guestapi.Signal
		if err := f.Decode(&s); err != nil {
			return rig.FieldErrorf("name", "cannot signal: %w", err)
		}
		if h.Signal == nil {
			return rig.FieldErrorf("name", "cannot signal a terminal session: write the control character to it instead")
		}
		return h.Signal(s)
	default:
		return rig.Errorf(rig.CodeInvalidRequest, "the stream was ended: a client must not send frames of kind %d", f.Kind)
	}
}

// SetWriteDeadline bounds the writes that follow.
func (p *Peer) SetWriteDeadline(t time.Time) error { return p.conn.SetWriteDeadline(t) }

// Fail ends the stream with err.
func (p *Peer) Fail(err error) {
	// The client may be gone, or not read.
	_ = p.SetWriteDeadline(time.Now().Add(failTimeout))
	_ = p.WriteJSON(wire.KindError, rig.AsProblem(err))
	p.Close()
}

// Close ends the stream, and Serve.
func (p *Peer) Close() {
	p.Stdin.Close()
	p.conn.Close()
}
