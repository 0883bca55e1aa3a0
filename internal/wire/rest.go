package wire

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

// HostRest ends whatever session there is on c and leaves the guest waiting for
// the next one to begin, in the middle of a handshake: it has answered a hello,
// and goes on with the one that it reads next. A machine that is frozen so has
// nothing to tear down when it is restored, and answers sooner.
func HostRest(c net.Conn, timeout time.Duration) error {
	var nonce [preambleSize - nonceAt]byte
	rand.Read(nonce[:]) // never fails since Go 1.24
	if err := c.SetDeadline(time.Now().Add(timeout)); err != nil {
		return fmt.Errorf("%w: %w", ErrHandshake, err)
	}
	if err := sayHello(c, nonce[:]); err != nil {
		return fmt.Errorf("%w: %w", ErrHandshake, err)
	}
	return c.SetDeadline(time.Time{})
}

// sayHello repeats a hello until it is answered.
func sayHello(c net.Conn, nonce []byte) error {
	// Hellos are written while the answer is read: the guest may have to get rid
	// of old bytes before it reads ours.
	answered, said := make(chan struct{}), make(chan error, 1)
	go func() {
		err := repeatHello(c, newPreamble(helloKind, nonce), answered)
		if err != nil {
			_ = c.SetReadDeadline(time.Unix(1, 0)) // end find; said has the reason
		}
		said <- err
	}()
	err := find(c, newPreamble(ackKind, nonce))
	close(answered)
	if err != nil {
		_ = c.SetWriteDeadline(time.Unix(1, 0)) // end a write that nobody takes
	}
	if serr := <-said; serr != nil && !errors.Is(serr, os.ErrDeadlineExceeded) {
		return serr
	}
	return err
}
