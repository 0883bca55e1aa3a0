package gate

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"rigs/internal/keeperapi"
	"rigs/internal/upstream"
)

// httpProxy is a real HTTP proxy, which also resolves names.
type httpProxy struct {
	*httptest.Server
	hosts map[string]string // "host:port" → where it really is

	mu    sync.Mutex
	saw   []string // "CONNECT host:port", "GET http://host/path"
	heads []http.Header
}

const (
	proxySecret = "s3cret" //nolint:gosec // of a proxy that lives as long as the test
	proxyBasic  = "Basic dXNlcjpzM2NyZXQ="
)

func newHTTPProxy(t *testing.T, secure bool) *httpProxy {
	t.Helper()
	p := &httpProxy{hosts: map[string]string{}}
	p.Server = httptest.NewUnstartedServer(p)
	p.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes fail on purpose
	if secure {
		p.StartTLS()
	} else {
		p.Start()
	}
	t.Cleanup(p.Close)
	return p
}

func (p *httpProxy) seen() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.saw)
}

func (p *httpProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	what := r.Method + " " + r.RequestURI
	p.mu.Lock()
	p.saw = append(p.saw, what)
	p.heads = append(p.heads, r.Header.Clone())
	p.mu.Unlock()
	switch {
	case r.Header.Get("Proxy-Authorization") != proxyBasic:
		w.Header().Set("Proxy-Authenticate", "Basic")
		w.WriteHeader(http.StatusProxyAuthRequired)
		return
	case strings.HasPrefix(r.Host, "forbidden."):
		w.WriteHeader(http.StatusForbidden)
		return
	}
	host := r.Host
	if !strings.Contains(host, ":") {
		host += ":80"
	}
	var d net.Dialer
	up, err := d.DialContext(r.Context(), "tcp", p.hosts[host])
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer up.Close()
	r.Header.Del("Proxy-Authorization") // of this hop
	if r.Method != http.MethodConnect {
		if r.Write(up) != nil {
			return
		}
		res, err := http.ReadResponse(bufio.NewReader(up), r)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer res.Body.Close()
		w.WriteHeader(res.StatusCode)
		_, _ = io.Copy(w, res.Body)
		return
	}
	down, buffered, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer down.Close()
	io.WriteString(down, "HTTP/1.1 200 Connection established\r\n\r\n")
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(up, buffered)
		up.(*net.TCPConn).CloseWrite()
	})
	_, _ = io.Copy(down, up)
	if half, ok := down.(interface{ CloseWrite() error }); ok {
		half.CloseWrite()
	}
	both.Wait()
}

// proxied makes a guest whose gate goes through p.
func proxied(t *testing.T, p *httpProxy, cfg Config) *peer {
	t.Helper()
	w := newWorld()
	scheme := "http"
	if p.TLS != nil {
		scheme = "https"
		cfg.proxyRoots = x509.NewCertPool()
		cfg.proxyRoots.AddCert(p.Certificate())
	}
	w.servers["example.com:3128"] = p.Listener.Addr().String() // the name in httptest's certificate
	if cfg.Proxy == nil {
		at := scheme + "://user:" + proxySecret + "@example.com:3128"
		cfg.Proxy = &keeperapi.Proxy{HTTPS: at, HTTP: at, NoProxy: "direct.test"}
	}
	return newPeerFrom(t, cfg, w)
}

// E11: what the host itself can reach only through a proxy.
func TestProxy(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(map[bool]string{false: "http", true: "https"}[secure], func(t *testing.T) {
			p := newHTTPProxy(t, secure)
			guest := proxied(t, p, Config{Patterns: []string{"tls.test", "plain.test", "ssh.test:22", "direct.test:7", "localhost:7", "*.wide.test:22"}})
			where := newWorld() // as the proxy sees it
			web := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "secure ", r.Host) }))
			t.Cleanup(web.Close)
			p.hosts["tls.test:443"] = web.Listener.Addr().String()
			plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				fmt.Fprintf(w, "%s %s%s %s %d", r.Method, r.Host, r.RequestURI, body, len(r.Header["Proxy-Authorization"]))
			}))
			t.Cleanup(plain.Close)
			p.hosts["plain.test:80"] = plain.Listener.Addr().String()
			p.hosts["ssh.test:22"] = where.serve(t, "ssh", func(c *net.TCPConn) {
				io.WriteString(c, "SSH-2.0-first\r\n")
				echo(c)
			})

			// TLS to an admitted host.
			dial := func(host string, port int) func(context.Context, string, string) (net.Conn, error) {
				return func(context.Context, string, string) (net.Conn, error) { return guest.connect(host, port) }
			}
			get := func(client *http.Client, method, url, body string) string {
				t.Helper()
				req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				res, err := client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				b, err := io.ReadAll(res.Body)
				if err != nil {
					t.Fatal(err)
				}
				return string(b)
			}
			secureTransport := &http.Transport{DialContext: dial("tls.test", 443), TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ServerName: "tls.test"}}
			defer secureTransport.CloseIdleConnections()
			if got := get(&http.Client{Transport: secureTransport}, "GET", "https://tls.test/", ""); got != "secure tls.test" {
				t.Errorf("TLS: %q", got)
			}
			// Plain HTTP, every request of a kept-alive connection.
			transport := &http.Transport{DialContext: dial("plain.test", 80), MaxConnsPerHost: 1}
			defer transport.CloseIdleConnections()
			for _, tc := range [][3]string{{"GET", "/a?b=c", ""}, {"POST", "/d", "body"}, {"PUT", "//e/", strings.Repeat("x", 5000)}} {
				want := fmt.Sprintf("%s plain.test%s %s 0", tc[0], tc[1], tc[2])
				if got := get(&http.Client{Transport: transport}, tc[0], "http://plain.test"+tc[1], tc[2]); got != want {
					t.Errorf("plain: %q, want %q", got, want)
				}
			}
			// Another port, where the other end speaks first.
			c := guest.mustConnect("ssh.test", 22)
			banner := make([]byte, len("SSH-2.0-first\r\n"))
			if _, err := io.ReadFull(c, banner); err != nil || string(banner) != "SSH-2.0-first\r\n" {
				t.Errorf("%q, %v", banner, err)
			}
			roundTrip(t, c, "hello")
			c.CloseWrite()
			mustEnd(t, c)
			want := []string{
				"CONNECT tls.test:443", "GET http://plain.test/a?b=c", "POST http://plain.test/d", "PUT http://plain.test//e/", "CONNECT ssh.test:22",
			}
			if got := p.seen(); !slices.Equal(got, want) {
				t.Errorf("the proxy saw %q, want %q", got, want)
			}
			if asked := guest.world.asked(); len(asked) != 0 {
				t.Errorf("resolved here: %q", asked)
			}
			if e := guest.log.reason(t, ReasonClosed, "ssh.test"); e.Address != "" || e.BytesOut != 5 || e.BytesIn != int64(len(banner)+5) {
				t.Errorf("%+v", e)
			}

			// What does not go through the proxy is resolved and judged here.
			guest.world.name("direct.test", "1.2.3.4")
			guest.world.serve(t, "1.2.3.4:7", echo)
			roundTrip(t, guest.mustConnect("direct.test", 7), "directly")
			guest.world.name("localhost", "127.0.0.1")
			guest.world.serve(t, "127.0.0.1:7", echo)
			guest.mustRefuseName("localhost", 7)
			guest.log.reason(t, ReasonForbiddenRange, "localhost")
			guest.mustRefuseName("evil.test", 443) // and the proxy hears nothing of it
			// Nor of what it could read as another host's name with a path behind it.
			guest.mustRefuseName("evil.test/x.wide.test", 22)
			guest.log.reason(t, ReasonNotAdmitted, "evil.test/x.wide.test")
			if got := p.seen(); !slices.Equal(got, want) {
				t.Errorf("the proxy saw %q, want %q", got, want)
			}
		})
	}
}

// E11: a proxy's failure is the guest's refusal, and is logged as what it is.
func TestProxyFailures(t *testing.T) {
	p := newHTTPProxy(t, false)
	patterns := []string{"a.test", "forbidden.test"}
	answers := func(answer string) func(*testing.T) *peer {
		return func(t *testing.T) *peer {
			w := newWorld()
			w.serve(t, "proxy.test:1", func(c *net.TCPConn) {
				if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
					io.WriteString(c, answer)
				}
				io.Copy(io.Discard, c)
			})
			at := "http://user:" + proxySecret + "@proxy.test:1"
			return newPeerFrom(t, Config{Patterns: patterns, Proxy: &keeperapi.Proxy{HTTPS: at, HTTP: at}, Limits: Limits{Dial: 300 * time.Millisecond}}, w)
		}
	}
	with := func(url string) func(*testing.T) *peer {
		return func(t *testing.T) *peer {
			return proxied(t, p, Config{Patterns: patterns, Proxy: &keeperapi.Proxy{HTTPS: url, HTTP: url}})
		}
	}
	good := "http://user:" + proxySecret + "@example.com:3128"
	for name, tc := range map[string]struct {
		guest  func(*testing.T) *peer
		host   string
		port   int
		reason string
	}{
		"another password":     {with("http://user:wrong@example.com:3128"), "a.test", 443, ReasonProxyAuthentication},
		"no password":          {with("http://example.com:3128"), "a.test", 443, ReasonProxyAuthentication},
		"403":                  {with(good), "forbidden.test", 443, ReasonProxyRefused},
		"502":                  {with(good), "a.test", 443, ReasonProxyFailed},
		"no route to it":       {with("http://nowhere.test:3128"), "a.test", 443, ReasonProxyUnreachable},
		"no route, port 80":    {with("http://nowhere.test:3128"), "a.test", 80, ReasonProxyUnreachable},
		"TLS to one without":   {with("https://example.com:3128"), "a.test", 80, ReasonProxyUnreachable},
		"another certificate":  {func(t *testing.T) *peer { return untrusted(t, "a.test") }, "a.test", 80, ReasonProxyUnreachable},
		"silence":              {answers(""), "a.test", 443, ReasonProxyUnreachable},
		"half an answer":       {answers("HTTP/1.1 200 OK\r\n"), "a.test", 443, ReasonProxyUnreachable},
		"an endless answer":    {answers("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 100<<10)), "a.test", 443, ReasonProxyUnreachable},
		"bare line feeds":      {answers("HTTP/1.1 200 OK\n\n"), "a.test", 443, ReasonProxyUnreachable},
		"an interim answer":    {answers("HTTP/1.1 100 Continue\r\n\r\n"), "a.test", 443, ReasonProxyUnreachable},
		"a switch of protocol": {answers("HTTP/1.1 101 Switching Protocols\r\n\r\n"), "a.test", 443, ReasonProxyUnreachable},
		"a redirect":           {answers("HTTP/1.1 302 Found\r\nLocation: http://evil.test/\r\n\r\n"), "a.test", 443, ReasonProxyRefused},
		"403, with a page":     {answers("HTTP/1.1 403 Forbidden\r\nContent-Length: 10\r\n\r\n0123456789"), "a.test", 443, ReasonProxyRefused},
		"503, with a page":     {answers("HTTP/1.1 503 Unavailable\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"), "a.test", 443, ReasonProxyFailed},
		"407, with a page":     {answers("HTTP/1.1 407 Who\r\nContent-Length: 10\r\nProxy-Authenticate: Basic\r\n\r\n0123456789"), "a.test", 443, ReasonProxyAuthentication},
		"HTTP/2":               {answers("HTTP/2.0 200 OK\r\n\r\n"), "a.test", 443, ReasonProxyUnreachable},
		"not HTTP":             {answers("SSH-2.0-OpenSSH_9.2\r\n\r\n"), "a.test", 443, ReasonProxyUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			guest := tc.guest(t)
			guest.mustRefuseName(tc.host, tc.port)
			if e := guest.log.reason(t, tc.reason, tc.host); e.Verdict != verdictAllow || e.Address != "" {
				t.Errorf("%+v", e)
			}
		})
	}
	t.Run("another password, port 80", func(t *testing.T) {
		guest := with("http://user:wrong@example.com:3128")(t)
		c := guest.mustConnect("a.test", 80)
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
		mustEnd(t, c) // the proxy's answer is not the guest's
		guest.log.reason(t, ReasonProxyAuthentication, "a.test")
	})
	t.Run("a denial while it waits for the proxy", func(t *testing.T) {
		w := newWorld()
		asked := make(chan struct{})
		w.serve(t, "proxy.test:1", func(c *net.TCPConn) {
			if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				close(asked)
			}
			io.Copy(io.Discard, c)
		})
		guest := newPeerFrom(t, Config{Patterns: []string{"a.test"}, Proxy: &keeperapi.Proxy{HTTPS: "http://proxy.test:1"}}, w)
		at := guest.lookup("a.test").String() + ":443"
		refused := make(chan error, 1)
		go func() {
			_, err := guest.dial(at)
			refused <- err
		}()
		<-asked
		if err := guest.gate.Deny("a.test"); err != nil {
			t.Fatal(err)
		}
		if err := <-refused; err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("the guest sees %v", err)
		}
		guest.log.reason(t, ReasonRemoved, "a.test")
	})
}

// untrusted is a guest whose proxy has a certificate that nobody vouches for.
func untrusted(t *testing.T, pattern string) *peer {
	p := newHTTPProxy(t, true)
	w := newWorld()
	w.servers["example.com:3128"] = p.Listener.Addr().String()
	return newPeerFrom(t, Config{Patterns: []string{pattern}, proxyRoots: x509.NewCertPool(), Proxy: &keeperapi.Proxy{HTTP: "https://example.com:3128"}}, w)
}

// A guest cannot speak for its keeper, or to another host, on a connection to the
// proxy.
func TestProxyIsNotTheGuests(t *testing.T) {
	p := newHTTPProxy(t, false)
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }))
	t.Cleanup(plain.Close)
	p.hosts["plain.test:80"] = plain.Listener.Addr().String()
	evil := "GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n"
	for name, send := range map[string]string{
		"another host":               evil,
		"another host, second":       "GET / HTTP/1.1\r\nHost: plain.test\r\n\r\n" + evil,
		"another host's target":      "GET http://evil.test/ HTTP/1.1\r\nHost: plain.test\r\n\r\n",
		"a tunnel":                   "CONNECT evil.test:443 HTTP/1.1\r\nHost: plain.test\r\n\r\n",
		"a tunnel to itself":         "CONNECT plain.test:80 HTTP/1.1\r\nHost: plain.test\r\n\r\n",
		"what the proxy was sent":    "TRACE / HTTP/1.1\r\nHost: plain.test\r\nMax-Forwards: 0\r\n\r\n",
		"a length nobody else sees":  "POST / HTTP/1.1\r\nHost: plain.test\r\nConnection: content-length\r\nContent-Length: 5\r\n\r\nevil.",
		"a host nobody else sees":    "POST / HTTP/1.1\r\nHost: plain.test\r\nConnection: Host\r\nContent-Length: 5\r\n\r\nevil.",
		"a star that is no question": "GET * HTTP/1.1\r\nHost: plain.test\r\n\r\n",
		"a password after the body":  "POST / HTTP/1.1\r\nHost: plain.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nProxy-Authorization: x\r\n\r\n",
		"after an upgrade":           "GET / HTTP/1.1\r\nHost: plain.test\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n" + evil,
	} {
		t.Run(name, func(t *testing.T) {
			before := len(p.seen())
			guest := proxied(t, p, Config{Patterns: []string{"plain.test"}})
			c := guest.mustConnect("plain.test", 80)
			go io.WriteString(c, send)
			io.Copy(io.Discard, c) // until it is closed
			guest.log.reason(t, ReasonHTTPHost, "plain.test")
			for _, saw := range p.seen()[before:] {
				if _, target, _ := strings.Cut(saw, " "); target != "http://plain.test/" {
					t.Errorf("the proxy saw %s", saw)
				}
			}
		})
	}
	t.Run("its own fields", func(t *testing.T) {
		guest := proxied(t, p, Config{Patterns: []string{"plain.test"}})
		c := guest.mustConnect("plain.test", 80)
		io.WriteString(c, "GET HTTP://PLAIN.test:80/?q HTTP/1.1\r\nHost: plain.test\r\nProxy-Authorization: Basic ZXZpbDpldmls\r\nproxy-connection: keep-alive\r\n"+
			"Connection: x-private, close\r\nX-Private: 1\r\nKeep-Alive: 5\r\nTE: trailers\r\nMax-Forwards: 0\r\nUpgrade: h2c\r\nX-Public: 1\r\n\r\n")
		answer, err := io.ReadAll(c)
		if err != nil || !bytes.Contains(answer, []byte("200 OK")) {
			t.Fatalf("%q, %v", answer, err)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		last, saw := p.heads[len(p.heads)-1], p.saw[len(p.saw)-1]
		if saw != "GET http://plain.test/?q" || len(last["Proxy-Authorization"]) != 1 || last.Get("Proxy-Authorization") != proxyBasic || last.Get("X-Public") != "1" {
			t.Errorf("%s %v", saw, last)
		}
		for _, gone := range []string{"Proxy-Connection", "X-Private", "Keep-Alive", "Te", "Max-Forwards", "Upgrade"} {
			if last.Get(gone) != "" {
				t.Errorf("%s: %q went up", gone, last.Get(gone))
			}
		}
	})
}

func TestProxyIsChecked(t *testing.T) {
	_, err := New(Config{Proxy: &keeperapi.Proxy{HTTPS: "socks5://user:" + proxySecret + "@proxy.test:1080"}})
	if err == nil || !strings.Contains(err.Error(), "SOCKS") || strings.Contains(err.Error(), proxySecret) {
		t.Errorf("SOCKS: %v", err)
	}
}

// Whatever a guest's request looks like: if the gate takes it, the proxy is asked
// for the host and for nothing else, with the keeper's own password.
func FuzzProxyHead(f *testing.F) {
	rules, err := upstream.New(&keeperapi.Proxy{HTTP: "http://user:" + proxySecret + "@proxy.test"})
	if err != nil {
		f.Fatal(err)
	}
	via := rules.For("good.test", 80)
	f.Fuzz(func(t *testing.T, head []byte) {
		req, err := parseHead(head)
		if err != nil || req.opening.host != "good.test" {
			return
		}
		sent, err := proxyHead(head, "good.test", via)
		if err != nil {
			return
		}
		again, err := parseHead(sent)
		if err != nil || again.opening.host != "good.test" || again.length != req.length || again.chunked != req.chunked {
			t.Fatalf("%q became %q: %+v and %+v, %v", head, sent, req, again, err)
		}
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(sent)))
		if err != nil || r.Method == http.MethodTrace || r.Method == http.MethodConnect {
			t.Fatalf("%q became %q: %v", head, sent, err)
		}
		if r.URL.Scheme != "http" || r.URL.Host != "good.test" || r.URL.User != nil {
			t.Fatalf("%q became %q, for %s", head, sent, r.URL)
		}
		if got := r.Header["Proxy-Authorization"]; len(got) != 1 || got[0] != proxyBasic {
			t.Fatalf("%q became %q", head, sent)
		}
	})
}
