package gate

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"

	"rigs/internal/policy"
)

// maxHello bounds what is read to find a ClientHello. One with post-quantum key
// shares takes 2 KB; with a large session ticket it can reach 16.
const maxHello = 32 << 10

// up moves what the guest sends, after it has shown where it goes.
func (s *session) up(ctx context.Context, c *connection, upstream net.Conn, guest *guestConn, answer *answerWatch) error {
	switch c.flow.port {
	case portTLS:
		hello, o := readHello(ctx, guest, s.gate.cfg.Limits.FirstBytes)
		if len(hello) == 0 {
			return nil // it said nothing and is done
		}
		if err := s.check(c, o); err != nil {
			return err
		}
		n, err := upstream.Write(hello)
		c.out.Add(int64(n))
		c.touch()
		if err != nil {
			return err
		}
	case portHTTP:
		return s.upHTTP(ctx, c, upstream, guest, answer)
	}
	return s.copy(upstream, guest, &c.out, c.touch)
}

// check judges a connection by what its bytes say.
func (s *session) check(c *connection, o opening) error {
	if o.kind == openingUnread {
		o.kind = openingOther // it was read: whoever forgot to say what it is gets no admission for it
	}
	if v := s.gate.learn(c, func(f *flow) { f.opening = o }); !v.allow {
		return errRefused{v}
	}
	return nil
}

// readHello reads a ClientHello and returns every byte that was read, and what it
// says. It is crypto/tls that parses, on a connection that only reads; bytes after
// the hello are returned and not looked at. Reading may take for ever until the
// first byte came, and patience from then on.
func readHello(ctx context.Context, conn net.Conn, patience time.Duration) ([]byte, opening) {
	r := &recorder{Conn: conn, patience: patience}
	o := opening{kind: openingOther}
	// The handshake always fails: at the latest where its callback stops it.
	_ = tls.Server(r, &tls.Config{
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			// With an encrypted hello this is the outer name. GREASE and real ECH look
			// alike; the gate's DNS hands out no ECH keys, so the outer name is what a
			// browser goes by.
			o.kind = openingTLS
			o.host = wireName(hello.ServerName)
			return nil, errors.New("only the name was wanted")
		},
	}).HandshakeContext(context.WithoutCancel(ctx)) // its end closes conn, which is enough
	// What follows is read by somebody else, without a deadline.
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		o.kind = openingOther
	}
	return r.read.Bytes(), o
}

// wireName returns the canonical form of a name as protocols carry it, which is
// ASCII; "" for all else. What people may type, and the policy maps to ASCII, the
// other end would read as it came, and perhaps as another host.
func wireName(s string) string {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return ""
		}
	}
	name, err := policy.Canonical(s)
	if err != nil {
		return ""
	}
	return name
}

// recorder is a connection that keeps what is read from it, up to maxHello, and
// writes nowhere.
type recorder struct {
	net.Conn
	patience time.Duration
	read     bytes.Buffer
}

func (r *recorder) Read(p []byte) (int, error) {
	if r.read.Len() >= maxHello {
		return 0, errors.New("the hello is too long")
	}
	n, err := r.Conn.Read(p[:min(len(p), maxHello-r.read.Len())])
	if n > 0 && r.read.Len() == 0 {
		if err := r.Conn.SetReadDeadline(time.Now().Add(r.patience)); err != nil {
			return 0, err
		}
	}
	r.read.Write(p[:n])
	return n, err
}

func (r *recorder) Write(p []byte) (int, error)      { return len(p), nil } // alerts
func (r *recorder) Close() error                     { return nil }
func (r *recorder) SetDeadline(time.Time) error      { return nil }
func (r *recorder) SetReadDeadline(time.Time) error  { return nil }
func (r *recorder) SetWriteDeadline(time.Time) error { return nil }

var _ io.ReadWriter = (*recorder)(nil)
