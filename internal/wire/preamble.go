package wire

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// The preamble makes both ends of a serial port agree where a session begins.
//
// A serial port is one pipe for the life of the guest: it has no connections,
// so a keeper that opens it may find the guest in the middle of a session with
// the one before (a template's, after a restore), bytes of that session still
// under way, and half a frame in the guest's decoder. Four messages of 32 bytes
// settle it. A message is an 8-byte magic, a kind, 7 zero bytes and the 16
// random bytes that the host has chosen for this attempt:
//
//	host → guest  hello   repeated until it is answered
//	guest → host  ack     to each hello
//	host → guest  go      once, after the first ack
//	guest → host  ready   then only the session's bytes follow, both ways
//
// The host discards everything before an ack, and then before the ready, with
// its own random bytes: no leftover can contain them. The guest discards
// everything that is not a message. Since ready follows go, repeated hellos and
// their acks can never be taken for the session's bytes.
//
// A guest that is still in an old session takes a hello for that session's
// bytes. Its first byte is no version of yamux, so at the border of a frame the
// session ends at once, and the guest finds the hello in what it read last (see
// Tail). Inside a frame the hello is swallowed as its payload: therefore each
// repetition is preceded by more bytes that are no yamux header, until the
// largest frame must have been filled.
const (
	preambleSize = 32
	nonceAt      = 16

	helloKind byte = 1
	ackKind   byte = 2
	goKind    byte = 3
	readyKind byte = 4

	// helloEvery is the first wait for an answer; each further one is twice as
	// long, up to helloSlow.
	helloEvery = 20 * time.Millisecond
	helloSlow  = time.Second
	// maxFill is the most filler before one repetition: above the receive window
	// of muxConfig, which no frame can exceed.
	maxFill = 8 << 20
	// filler is no version of yamux, and not the first byte of the magic.
	filler byte = 0xff
)

var preambleMagic = [8]byte{'R', 'I', 'G', 'S', 0xfe, 0x0d, 0x0a, 0x01}

// ErrHandshake is wrapped by every error of HostHandshake.
var ErrHandshake = errors.New("the guest's agent did not answer")

type preamble [preambleSize]byte

func newPreamble(kind byte, nonce []byte) preamble {
	var p preamble
	copy(p[:], preambleMagic[:])
	p[len(preambleMagic)] = kind
	copy(p[nonceAt:], nonce)
	return p
}

// kind returns the kind of a well-formed preamble, 0 for anything else.
func (p *preamble) kind() byte {
	if !bytes.Equal(p[:len(preambleMagic)], preambleMagic[:]) {
		return 0
	}
	for _, b := range p[len(preambleMagic)+1 : nonceAt] {
		if b != 0 {
			return 0
		}
	}
	return p[len(preambleMagic)]
}

// HostHandshake begins a session on c, the host's end of the port. Nothing of
// what follows the handshake is read. It fails after timeout, or when c is
// closed; c is then of no further use.
func HostHandshake(c net.Conn, timeout time.Duration) error {
	var nonce [preambleSize - nonceAt]byte
	if _, err := rand.Read(nonce[:]); err != nil {
		return fmt.Errorf("%w: %w", ErrHandshake, err)
	}
	if err := c.SetDeadline(time.Now().Add(timeout)); err != nil {
		return fmt.Errorf("%w: %w", ErrHandshake, err)
	}
	if err := hostHandshake(c, nonce[:]); err != nil {
		return fmt.Errorf("%w: %w", ErrHandshake, err)
	}
	return c.SetDeadline(time.Time{})
}

func hostHandshake(c net.Conn, nonce []byte) error {
	if err := sayHello(c, nonce); err != nil {
		return err
	}
	start := newPreamble(goKind, nonce)
	if _, err := c.Write(start[:]); err != nil {
		return err
	}
	return find(c, newPreamble(readyKind, nonce))
}

// repeatHello says hello, again and again with more filler before it, until
// answered is closed.
func repeatHello(w io.Writer, hello preamble, answered <-chan struct{}) error {
	wait, fill := helloEvery, 0
	for {
		msg := append(bytes.Repeat([]byte{filler}, fill), hello[:]...)
		if _, err := w.Write(msg); err != nil {
			return err
		}
		t := time.NewTimer(wait)
		select {
		case <-answered:
			t.Stop()
			return nil
		case <-t.C:
		}
		wait, fill = min(2*wait, helloSlow), min(max(4<<10, 4*fill), maxFill)
	}
}

// find reads r up to the end of want, and nothing behind it.
func find(r io.Reader, want preamble) error {
	var have preamble
	n := 0
	for n < len(want) {
		m, err := r.Read(have[n:])
		n = realign(&have, n+m, want[:])
		if err != nil && n < len(want) {
			return err
		}
	}
	return nil
}

// realign drops bytes from the front of p's first n until they are the
// beginning of want (or the whole of it and more), and returns how many remain.
func realign(p *preamble, n int, want []byte) int {
	for n > 0 && !bytes.HasPrefix(want, p[:min(n, len(want))]) {
		copy(p[:], p[1:n])
		n--
	}
	return n
}

// GuestHandshake waits for a host to begin a session on rw, the guest's end of
// the port. tail is what the session before read last (see Tail); it may hold
// the beginning of this one.
func GuestHandshake(rw io.ReadWriter, tail []byte) error {
	var acked preamble // the hello answered last
	r := io.MultiReader(bytes.NewReader(tail), rw)
	// p holds the last n bytes read; only as many more are asked for as can still
	// belong to the message that they begin.
	var p preamble
	n := 0
	for {
		m, err := r.Read(p[n:])
		if err != nil {
			return err
		}
		if n = realign(&p, n+m, preambleMagic[:]); n < preambleSize {
			continue
		}
		switch p.kind() {
		case helloKind:
			acked = p
			answer := newPreamble(ackKind, p[nonceAt:])
			if _, err := rw.Write(answer[:]); err != nil {
				return err
			}
		case goKind:
			if acked.kind() == helloKind && bytes.Equal(acked[nonceAt:], p[nonceAt:]) {
				answer := newPreamble(readyKind, p[nonceAt:])
				_, err := rw.Write(answer[:])
				return err
			}
		default:
			// It only looked like a message; one may begin inside.
			copy(p[:], p[1:])
			n = realign(&p, preambleSize-1, preambleMagic[:])
			continue
		}
		n = 0
	}
}

// Tail is a connection that remembers the last bytes read from it, for
// GuestHandshake.
type Tail struct {
	io.ReadWriteCloser
	last []byte
}

// Read reads and remembers.
func (t *Tail) Read(p []byte) (int, error) {
	n, err := t.ReadWriteCloser.Read(p)
	if n >= preambleSize {
		t.last = append(t.last[:0], p[n-preambleSize:n]...)
	} else if n > 0 {
		t.last = append(t.last[max(0, len(t.last)+n-preambleSize):], p[:n]...)
	}
	return n, err
}

// Last returns the bytes remembered. The reader must have stopped.
func (t *Tail) Last() []byte { return t.last }
