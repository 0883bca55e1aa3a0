package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"rigs/internal/rig"
)

// Protocol is the token of the Upgrade header.
const Protocol = "rigs-stream"

// DialFunc opens a connection to the peer.
type DialFunc func(ctx context.Context) (net.Conn, error)

// IsUpgrade reports whether r asks for a raw stream.
func IsUpgrade(r *http.Request) bool { return r.Header.Get("Upgrade") == Protocol }

// Accept answers r with 101 and returns its connection, which the caller
// closes. On error a response has been written.
func Accept(w http.ResponseWriter, r *http.Request) (net.Conn, error) {
	if !IsUpgrade(r) {
		err := rig.Errorf(rig.CodeInvalidRequest, "this address is a stream: send Connection: Upgrade and Upgrade: %s", Protocol)
		WriteProblem(w, err)
		return nil, err
	}
	c, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		WriteProblem(w, err)
		return nil, err
	}
	_ = c.SetDeadline(time.Time{})
	if _, err := rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + Protocol + "\r\n\r\n"); err != nil {
		c.Close()
		return nil, err
	}
	if err := rw.Flush(); err != nil {
		c.Close()
		return nil, err
	}
	return &bufferedConn{Conn: c, r: rw.Reader}, nil
}

// Dial opens a stream: it sends a GET for path (with query) over a connection
// from dial and waits for the 101. A refusal is returned as its *rig.Problem.
// ctx bounds the handshake only; the caller closes the stream.
func Dial(ctx context.Context, dial DialFunc, host, path string, header http.Header) (net.Conn, error) {
	c, err := dial(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	answer := &bounded{Reader: c, left: maxAnswer}
	br := bufio.NewReaderSize(answer, MaxFrame)
	err = handshake(ctx, c, br, host, path, header)
	answer.left = -1
	if !stop() {
		err = errors.Join(ctx.Err(), err)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return &bufferedConn{Conn: c, r: br}, nil
}

func handshake(ctx context.Context, c net.Conn, br *bufio.Reader, host, path string, header http.Header) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+path, nil)
	if err != nil {
		return err
	}
	for k, v := range header {
		req.Header[k] = v
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", Protocol)
	if err := req.Write(c); err != nil {
		return err
	}
	res, err := http.ReadResponse(br, req)
	if err != nil {
		return brief{err}
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		defer res.Body.Close()
		return ReadProblem(res)
	}
	return nil
}

// brief is an error that quotes a peer, cut to what a message can hold.
type brief struct{ error }

func (b brief) Error() string {
	const most = 300
	s := b.error.Error()
	if len(s) > most {
		s = s[:most] + "…"
	}
	return strings.ToValidUTF8(s, "?")
}

func (b brief) Unwrap() error { return b.error }

// maxAnswer bounds what is read of an answer to a request for a stream: its head
// (64 KB), a problem, and what may already have been read of the stream. The
// library that parses it would read a head without end.
const maxAnswer = 64<<10 + maxProblem + MaxFrame

// bounded is a reader that ends with an error after left bytes. Below zero there
// is no bound.
type bounded struct {
	io.Reader
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left < 0 {
		return b.Reader.Read(p)
	}
	if b.left == 0 {
		return 0, fmt.Errorf("%w: the answer to a request for a stream", ErrTooLarge)
	}
	n, err := b.Reader.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// bufferedConn is a connection some of whose bytes were already read.
type bufferedConn struct {
	net.Conn
	r *bufio.Reader
}

func (c *bufferedConn) Read(p []byte) (int, error) { return c.r.Read(p) }

// CloseWrite half-closes the connection where the transport can.
func (c *bufferedConn) CloseWrite() error {
	if h, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return nil
}

// maxProblem bounds the body of an error answer.
const maxProblem = 64 << 10

// ReadProblem turns an error answer into an error. It never returns nil.
func ReadProblem(res *http.Response) error {
	b, err := io.ReadAll(io.LimitReader(res.Body, maxProblem))
	if err != nil {
		return fmt.Errorf("%s: %w", res.Status, err)
	}
	p := new(rig.Problem)
	if DecodeStrict(b, p) != nil || p.Code == "" {
		return rig.Errorf(rig.CodeInternal, "unexpected answer %s: %.200q", res.Status, b)
	}
	return p
}
