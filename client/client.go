// Package client talks to a Rigs server. The command line is built on it, and
// a program can be too:
//
//	c, err := client.New("", "")          // the socket of the data directory
//	r, _, err := c.Open(ctx, client.Spec{Surface: "terminal"})
//	r, err = c.WaitReady(ctx, r.ID, nil)
//	st, err := c.Exec(ctx, r.ID, client.ExecRequest{Shell: "uname -a"}, client.StreamIO{Stdout: os.Stdout})
//	_, err = c.Close(ctx, r.ID)
//
// # Server
//
// A server is a URL (http://127.0.0.1:7878, with a token) or the path of a Unix
// socket, which admits the uid that owns it and needs no token.
//
// # Errors
//
// What the server refuses comes back as a *Problem with a stable Code. A server
// that cannot be reached is CodeUnavailable and says how to start one.
//
// # Rigs
//
// Wherever a rig is named, its id, a unique prefix of at least three characters
// or SPACE/SURFACE[:ENGINE] will do. The last is looked up in the workspace
// that In chose.
package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"rigs/internal/paths"
	"rigs/internal/rig"
	"rigs/internal/serverapi"
	"rigs/internal/wire"
)

// maxAnswer bounds a JSON answer, in bytes. The largest is an exec's: two
// outputs in base64.
const maxAnswer = 16 << 20

// Client is a connection to one server. It is safe for several goroutines.
type Client struct {
	base      *url.URL // scheme and host of requests
	display   string   // how messages name the server
	token     string
	workspace string
	agent     string              // as which requests are made; "": as whoever the caller is
	notice    func(notice string) // may be nil
	dial      wire.DialFunc       // raw connections for streams
	http      *http.Client
}

// New returns a client of the server at a URL or a socket path. An empty server
// means the socket of the default data directory. Nothing is dialled yet.
func New(server, token string) (*Client, error) {
	if server == "" {
		dir, err := paths.DefaultDataDir()
		if err != nil {
			return nil, err
		}
		l, err := paths.New(dir)
		if err != nil {
			return nil, err
		}
		server = l.ServerSocket()
	}
	if !strings.Contains(server, "://") {
		return newSocket(server, token)
	}
	u, err := url.Parse(server)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "unix" {
		return nil, rig.FieldErrorf("server", "server %q: not an http or https URL, and not the path of a socket: set RIGS_SERVER to something like http://127.0.0.1:7878", server)
	}
	if strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil {
		return nil, rig.FieldErrorf("server", "server %q: a URL with a path, a query or a user: give scheme, host and port only", server)
	}
	base := &url.URL{Scheme: u.Scheme, Host: u.Host}
	d := &net.Dialer{Timeout: 10 * time.Second}
	c := &Client{base: base, display: base.String(), token: token}
	c.dial = func(ctx context.Context) (net.Conn, error) {
		addr := u.Host
		if u.Port() == "" {
			addr = net.JoinHostPort(u.Hostname(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
		}
		if u.Scheme == "https" {
			return (&tls.Dialer{NetDialer: d, Config: &tls.Config{ServerName: u.Hostname(), NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12}}).DialContext(ctx, "tcp", addr)
		}
		return d.DialContext(ctx, "tcp", addr)
	}
	c.http = &http.Client{Transport: &http.Transport{DialContext: d.DialContext, ForceAttemptHTTP2: false, MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: 10 * time.Second, DisableCompression: true, Proxy: http.ProxyFromEnvironment}, CheckRedirect: noRedirect}
	return c, nil
}

func newSocket(path, token string) (*Client, error) {
	if err := paths.CheckSocket(path); err != nil {
		return nil, rig.FieldErrorf("server", "%w", err)
	}
	d := &net.Dialer{Timeout: 10 * time.Second}
	c := &Client{base: &url.URL{Scheme: "http", Host: "localhost"}, display: path, token: token}
	c.dial = func(ctx context.Context) (net.Conn, error) { return d.DialContext(ctx, "unix", path) }
	c.http = &http.Client{Transport: &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return c.dial(ctx) },
		MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute, DisableCompression: true,
		ReadBufferSize: wire.MaxFrame, WriteBufferSize: wire.MaxFrame,
	}, CheckRedirect: noRedirect}
	return c, nil
}

// noRedirect keeps the token from following a redirect to another server.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// FromEnv is New with RIGS_SERVER and RIGS_TOKEN.
func FromEnv() (*Client, error) { return New(os.Getenv("RIGS_SERVER"), os.Getenv("RIGS_TOKEN")) }

// In returns the client with workspace as the one in which SPACE/SURFACE and
// listings are looked up. An empty name means the default workspace.
func (c *Client) In(workspace string) *Client {
	d := *c
	d.workspace = workspace
	return &d
}

// Address is the server as New was given it.
func (c *Client) Address() string { return c.display }

// rigPath is the path below /v1/rigs of something of one rig's, with a query.
func (c *Client) rigPath(ref, sub string, q url.Values) string {
	if c.workspace != "" {
		if q == nil {
			q = url.Values{}
		}
		q.Set("workspace", c.workspace)
	}
	p := "/v1/rigs/" + url.PathEscape(ref) + sub
	if len(q) > 0 {
		p += "?" + q.Encode()
	}
	return p
}

// do sends one request and returns its answer, or the server's problem.
func (c *Client) do(ctx context.Context, method, path string, body io.Reader, contentType string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base.String()+path, body)
	if err != nil {
		return nil, err
	}
	c.authorize(req.Header)
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if c.notice != nil {
		for _, n := range res.Header.Values(serverapi.NoticeHeader) {
			c.notice(n)
		}
	}
	if res.StatusCode >= 300 {
		defer res.Body.Close()
		return nil, wire.ReadProblem(res)
	}
	return res, nil
}

func (c *Client) authorize(h http.Header) {
	if c.token != "" {
		h.Set("Authorization", "Bearer "+c.token)
	}
	if c.agent != "" {
		h.Set(serverapi.AgentHeader, c.agent)
	}
}

// unreachable makes a transport's error one that says what to do.
func (c *Client) unreachable(ctx context.Context, err error) error {
	if cause := ctx.Err(); cause != nil {
		code := rig.CodeCanceled
		if errors.Is(cause, context.DeadlineExceeded) {
			code = rig.CodeTimeout
		}
		return rig.Errorf(code, "the request was given up: %w", cause)
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		switch {
		case errors.Is(err, syscall.EACCES):
			return rig.Errorf(rig.CodeForbidden, "cannot open the server's socket %s: %w: it admits only its owner; use a URL and a token (RIGS_SERVER, RIGS_TOKEN)", c.display, op.Err)
		case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ECONNREFUSED):
			return rig.Errorf(rig.CodeUnavailable, "no server answers at %s: %w: start one with 'rigs serve', or name another with RIGS_SERVER", c.display, op.Err)
		}
		return rig.Errorf(rig.CodeUnavailable, "cannot reach the server at %s: %w", c.display, op.Err)
	}
	return rig.Errorf(rig.CodeUnavailable, "the connection to the server at %s failed: %w", c.display, err)
}

// call sends in as JSON, unless it is nil, and decodes the answer into out,
// unless that is nil. Unknown fields are ignored: the server may be newer.
func (c *Client) call(ctx context.Context, method, path string, in, out any) (int, error) {
	var body io.Reader
	ct := ""
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return 0, err
		}
		body, ct = bytes.NewReader(b), "application/json"
	}
	res, err := c.do(ctx, method, path, body, ct)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	if out == nil {
		_, err = io.Copy(io.Discard, io.LimitReader(res.Body, maxAnswer)) // so that the connection can be used again
		return res.StatusCode, err
	}
	b, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil {
		return res.StatusCode, c.unreachable(ctx, err)
	}
	if len(b) > maxAnswer {
		return res.StatusCode, rig.Errorf(rig.CodeTooLarge, "%s %s: the answer is over %d bytes", method, path, maxAnswer)
	}
	if err := json.Unmarshal(b, out); err != nil {
		return res.StatusCode, fmt.Errorf("%s %s: the answer is not what this client understands: %w", method, path, err)
	}
	return res.StatusCode, nil
}

func get[T any](ctx context.Context, c *Client, path string) (T, error) {
	var out T
	_, err := c.call(ctx, http.MethodGet, path, nil, &out)
	return out, err
}

func post[T any](ctx context.Context, c *Client, path string, in any) (T, error) {
	var out T
	_, err := c.call(ctx, http.MethodPost, path, in, &out)
	return out, err
}
