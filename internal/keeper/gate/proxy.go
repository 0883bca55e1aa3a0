package gate

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	"rigs/internal/upstream"
)

// maxProxyAnswer bounds the head of what a proxy answers to CONNECT.
const maxProxyAnswer = 16 << 10

// dialProxy connects to a proxy, and for every port but 80 has it connect to the
// host: for port 80 each request says where it goes, see proxyHead. The host is
// not resolved here, so what range it is in is the proxy's to judge.
func (s *session) dialProxy(ctx context.Context, c *connection) (net.Conn, verdict) {
	failed := func(reason string) (net.Conn, verdict) {
		return nil, closedVerdict(ctx, verdict{allow: true, reason: reason})
	}
	raw, err := s.gate.cfg.Dial(ctx, "tcp", c.proxy.Address())
	if err != nil {
		return failed(ReasonProxyUnreachable)
	}
	// The end of ctx has to reach a read and a write that block.
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	defer stop()
	conn, reason := s.enterProxy(ctx, c, raw)
	if reason == "" && !stop() {
		reason = ReasonProxyUnreachable // too late
	}
	if reason != "" {
		raw.Close()
		return failed(reason)
	}
	if v := s.gate.learn(c, func(*flow) {}); !v.allow {
		raw.Close() // the policy changed meanwhile
		return nil, v
	}
	return conn, verdict{allow: true, reason: ReasonAdmitted}
}

// enterProxy makes of a connection to the proxy one to the host, or says why it
// cannot.
func (s *session) enterProxy(ctx context.Context, c *connection, raw net.Conn) (conn net.Conn, reason string) {
	conn = raw
	if c.proxy.TLS() {
		secure := tls.Client(raw, &tls.Config{
			ServerName: c.proxy.Host(), RootCAs: s.gate.cfg.proxyRoots, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12,
		})
		if secure.HandshakeContext(ctx) != nil {
			return nil, ReasonProxyUnreachable
		}
		conn = &tlsConn{secure, raw}
	}
	if c.flow.port == portHTTP {
		return conn, ""
	}
	return connectThrough(conn, net.JoinHostPort(c.flow.host, strconv.Itoa(c.flow.port)), c.proxy)
}

// connectThrough asks the proxy at the other end of conn for a tunnel to target
// (RFC 9110 §9.3.6).
func connectThrough(conn net.Conn, target string, p *upstream.Proxy) (tunnel net.Conn, reason string) {
	ask := "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n"
	if a := p.Authorization(); a != "" {
		ask += "Proxy-Authorization: " + a + "\r\n"
	}
	if _, err := io.WriteString(conn, ask+"\r\n"); err != nil {
		return nil, ReasonProxyUnreachable
	}
	r := bufio.NewReader(conn)
	status, err := readProxyAnswer(r)
	switch {
	case err != nil:
		return nil, ReasonProxyUnreachable
	case status == http.StatusProxyAuthRequired:
		return nil, ReasonProxyAuthentication
	case status >= 500:
		return nil, ReasonProxyFailed
	case status/100 != 2:
		return nil, ReasonProxyRefused
	}
	if r.Buffered() == 0 {
		return conn, ""
	}
	early, err := r.Peek(r.Buffered()) // the host spoke first, as SSH does
	if err != nil {
		return nil, ReasonProxyUnreachable
	}
	return &earlyConn{Conn: conn, early: bytes.Clone(early)}, ""
}

// readProxyAnswer reads the head of an answer to CONNECT and returns its status.
// What follows a head that says yes belongs to the tunnel, whatever its fields
// say of a length.
func readProxyAnswer(r *bufio.Reader) (status int, err error) {
	var head []byte
	for !bytes.HasSuffix(head, []byte("\r\n\r\n")) {
		line, err := r.ReadSlice('\n')
		head = append(head, line...)
		if len(head) > maxProxyAnswer || err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return 0, errNotHTTP
		}
		if err == nil && !bytes.HasSuffix(line, []byte("\r\n")) {
			return 0, errNotHTTP // a bare line feed: where it ends would be a matter of opinion
		}
	}
	answer, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(head)), &http.Request{Method: http.MethodConnect})
	if err != nil || answer.ProtoMajor != 1 || answer.StatusCode < 200 {
		return 0, errNotHTTP
	}
	_ = answer.Body.Close() // a refusal's page was not read, and says nothing
	return answer.StatusCode, nil
}

// proxyHead turns the head of a request for host, which was judged, into one that
// a proxy understands: its target says where it goes, and what is between a
// client and its proxy is ours to say and not the guest's. head must be one that
// parseHead takes.
func proxyHead(head []byte, host string, p *upstream.Proxy) ([]byte, error) {
	lines := bytes.Split(bytes.TrimSuffix(head, []byte("\r\n\r\n")), []byte("\r\n"))
	method, rest, _ := strings.Cut(string(lines[0]), " ")
	target, version, _ := strings.Cut(rest, " ")
	path, ok := pathOf(method, target)
	if !ok || method == http.MethodTrace {
		// A TRACE returns what the proxy was sent, with its password.
		return nil, errNotHTTP
	}
	own := map[string]bool{"connection": true, "keep-alive": true, "te": true, "upgrade": true, "max-forwards": true}
	persistence := ""
	for _, line := range lines[1:] {
		if name, value, _ := strings.Cut(string(line), ":"); strings.EqualFold(name, "connection") {
			for token := range strings.SplitSeq(value, ",") {
				switch token = strings.ToLower(strings.Trim(token, " \t")); token {
				case "host", "content-length", "transfer-encoding":
					return nil, errNotHTTP // it would be understood in two ways
				case "close", "keep-alive":
					persistence = token
				default:
					own[token] = true
				}
			}
		}
	}
	var out bytes.Buffer
	out.WriteString(method + " http://" + host + path + " " + version + "\r\n")
	for _, line := range lines[1:] {
		name, _, _ := strings.Cut(string(line), ":")
		if name = strings.ToLower(name); !own[name] && !strings.HasPrefix(name, "proxy-") {
			out.Write(line)
			out.WriteString("\r\n")
		}
	}
	if persistence != "" {
		out.WriteString("Connection: " + persistence + "\r\n")
	}
	if a := p.Authorization(); a != "" {
		out.WriteString("Proxy-Authorization: " + a + "\r\n")
	}
	out.WriteString("\r\n")
	return out.Bytes(), nil
}

// pathOf returns what follows the host in a request's target.
func pathOf(method, target string) (string, bool) {
	switch {
	case strings.HasPrefix(target, "/"):
		return target, true
	case target == "*":
		return "", method == http.MethodOptions // RFC 9112 §3.2.4
	case len(target) < len("http://") || !strings.EqualFold(target[:len("http://")], "http://"):
		return "", false
	}
	rest := target[len("http://"):]
	i := strings.IndexAny(rest, "/?#")
	switch {
	case i < 0:
		return "/", true
	case rest[i] == '/':
		return rest[i:], true
	}
	return "/" + rest[i:], true
}

// answerTo returns where what the other end answers is written.
func (c *connection) answerTo(guest io.Writer) io.Writer {
	if c.proxy == nil || c.flow.port != portHTTP {
		return guest
	}
	return &proxyAnswer{to: guest}
}

// proxyAnswer passes on what comes back on port 80, unless the first answer is
// that the proxy wants another password: that is between the proxy and the host.
type proxyAnswer struct {
	to    io.Writer
	start []byte // what was held back
	known bool
}

func (w *proxyAnswer) Write(p []byte) (int, error) {
	const upToStatus = len("HTTP/1.1 407")
	if w.known {
		return w.to.Write(p)
	}
	w.start = append(w.start, p...)
	if len(w.start) < upToStatus {
		return len(p), nil
	}
	w.known = true
	if bytes.HasPrefix(w.start, []byte("HTTP/1.")) && string(w.start[upToStatus-4:upToStatus]) == " 407" {
		return 0, errRefused{verdict{allow: true, reason: ReasonProxyAuthentication}}
	}
	if _, err := w.to.Write(w.start); err != nil {
		return 0, err
	}
	w.start = nil
	return len(p), nil
}

// tlsConn is a connection to a proxy in TLS. Its end waits for nobody: tls.Conn
// would first send an alert, to a proxy that may not read.
type tlsConn struct {
	*tls.Conn
	raw net.Conn
}

func (c *tlsConn) Close() error { return c.raw.Close() }

// earlyConn is a connection of which something was read already.
type earlyConn struct {
	net.Conn
	early []byte
}

func (c *earlyConn) Read(p []byte) (int, error) {
	if len(c.early) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.early)
	c.early = c.early[n:]
	return n, nil
}

// CloseWrite passes on the end of one direction.
func (c *earlyConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.New("this connection has only one end")
}
