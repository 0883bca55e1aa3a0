package wire

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/hashicorp/yamux"
)

// Mux is many connections over one: both ends serve HTTP and dial on it.
type Mux struct{ s *yamux.Session }

// MuxConfig tunes a session for a virtio-serial port (or any pipe).
func muxConfig() *yamux.Config {
	c := yamux.DefaultConfig()
	c.EnableKeepAlive = false // a stopped VM is not a dead one; its owner knows
	c.MaxStreamWindowSize = 4 << 20
	c.StreamOpenTimeout = 30 * time.Second
	c.StreamCloseTimeout = 30 * time.Second
	c.ConnectionWriteTimeout = 30 * time.Second
	c.LogOutput = io.Discard
	return c
}

// joined writes the header of a data frame together with its payload, which
// yamux writes one after the other, from one goroutine: on a virtio-serial port
// every write is a request to the hypervisor.
type joined struct {
	io.ReadWriteCloser
	buf []byte // a header that waits for its payload
}

// yamuxHeader is the size of a header: version, type (0 for data), 2 bytes of
// flags, 4 of the stream's number, 4 of the length.
const yamuxHeader = 12

func (j *joined) Write(b []byte) (int, error) {
	if len(j.buf) == 0 && len(b) == yamuxHeader && b[1] == 0 && binary.BigEndian.Uint32(b[8:]) > 0 {
		j.buf = append(j.buf, b...)
		return len(b), nil
	}
	if len(j.buf) == 0 {
		return j.ReadWriteCloser.Write(b)
	}
	head := len(j.buf)
	j.buf = append(j.buf, b...)
	n, err := j.ReadWriteCloser.Write(j.buf)
	j.buf = j.buf[:0]
	return max(n-head, 0), err
}

// NewMux starts a session on rwc, which it owns. Exactly one end is the client.
func NewMux(rwc io.ReadWriteCloser, client bool) (*Mux, error) {
	var s *yamux.Session
	var err error
	if client {
		s, err = yamux.Client(&joined{ReadWriteCloser: rwc}, muxConfig())
	} else {
		s, err = yamux.Server(&joined{ReadWriteCloser: rwc}, muxConfig())
	}
	if err != nil {
		return nil, err
	}
	return &Mux{s}, nil
}

// Dial opens a connection to the other end.
func (m *Mux) Dial(ctx context.Context) (net.Conn, error) {
	type result struct {
		c   net.Conn
		err error
	}
	done := make(chan result, 1)
	go func() {
		c, err := m.s.Open()
		done <- result{c, err}
	}()
	select {
	case r := <-done:
		return r.c, r.err
	case <-ctx.Done():
		go func() {
			if r := <-done; r.c != nil {
				r.c.Close()
			}
		}()
		return nil, ctx.Err()
	}
}

// Listener accepts what the other end dials.
func (m *Mux) Listener() net.Listener { return m.s }

// Transport is an HTTP transport whose requests go to the other end.
func (m *Mux) Transport() *http.Transport {
	return &http.Transport{
		DialContext:            func(ctx context.Context, _, _ string) (net.Conn, error) { return m.Dial(ctx) },
		DisableCompression:     true,
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        time.Minute,
		MaxResponseHeaderBytes: 16 << 10,
		ReadBufferSize:         MaxFrame,
		WriteBufferSize:        MaxFrame,
	}
}

// Done is closed when the session has ended.
func (m *Mux) Done() <-chan struct{} { return m.s.CloseChan() }

// Close ends the session and everything on it.
func (m *Mux) Close() error { return m.s.Close() }
