package gate

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// clientHello returns what a client sends first.
func clientHello(t testing.TB, serverName string, change ...func(*tls.Config)) []byte {
	t.Helper()
	client, server := net.Pipe()
	defer server.Close()
	cfg := &tls.Config{ServerName: serverName, InsecureSkipVerify: true}
	for _, c := range change {
		c(cfg)
	}
	go func() { _ = tls.Client(client, cfg).Handshake(); client.Close() }()
	head := make([]byte, 5)
	if _, err := io.ReadFull(server, head); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, binary.BigEndian.Uint16(head[3:]))
	if _, err := io.ReadFull(server, body); err != nil {
		t.Fatal(err)
	}
	return append(head, body...)
}

// bigHello is a ClientHello of more than 16 KB, in more than one record.
func bigHello(t testing.TB, serverName string) []byte {
	t.Helper()
	protos := make([]string, 250)
	for i := range protos {
		protos[i] = strings.Repeat(string(rune('a'+i%26)), 70)
	}
	client, server := net.Pipe()
	defer server.Close()
	go func() {
		_ = tls.Client(client, &tls.Config{ServerName: serverName, InsecureSkipVerify: true, NextProtos: protos}).Handshake()
		client.Close()
	}()
	server.SetReadDeadline(time.Now().Add(deadline))
	var all []byte
	for head := make([]byte, 5); len(all) < 17<<10; {
		if _, err := io.ReadFull(server, head); err != nil {
			t.Fatal(err)
		}
		body := make([]byte, binary.BigEndian.Uint16(head[3:]))
		if _, err := io.ReadFull(server, body); err != nil {
			t.Fatal(err)
		}
		all = append(append(all, head...), body...)
	}
	return all
}

// records cuts a ClientHello's one record into records of n bytes each.
func records(hello []byte, n int) []byte {
	var out []byte
	for body := hello[5:]; len(body) > 0; {
		piece := body[:min(n, len(body))]
		body = body[len(piece):]
		out = append(out, hello[0], hello[1], hello[2], byte(len(piece)>>8), byte(len(piece)))
		out = append(out, piece...)
	}
	return out
}

// tlsWorld is a guest with an admitted TLS host, whose server counts what goes up.
func tlsWorld(t testing.TB, limits Limits) (p *peer, up *atomic.Int64) {
	p = newPeerWith(t, limits, "good.test", "other.test")
	up = new(atomic.Int64)
	for host, addr := range map[string]string{"good.test": "1.2.3.4", "other.test": "1.2.3.4"} {
		p.world.name(host, addr)
	}
	sink := func(c *net.TCPConn) {
		buf := make([]byte, 64<<10)
		for {
			n, err := c.Read(buf)
			up.Add(int64(n))
			if err != nil {
				return
			}
		}
	}
	p.world.serve(t, "1.2.3.4:443", sink)
	p.world.serve(t, "1.2.3.4:80", sink)
	return p, up
}

// E6: nothing goes up on port 443 before a ClientHello has named the right host.
func TestClientHelloMustNameTheHost(t *testing.T) {
	good := clientHello(t, "good.test")
	ssl2 := []byte{0x80, 0x2e, 1, 0, 2, 0, 0x15, 0, 0, 0, 0x10}
	for name, hello := range map[string][]byte{
		"no server name":         clientHello(t, ""),
		"another's":              clientHello(t, "evil.test"),
		"another admitted one":   clientHello(t, "other.test"),
		"garbage":                bytes.Repeat([]byte("garbage\x00"), 100),
		"zeros":                  make([]byte, 4096),
		"HTTP":                   []byte("GET / HTTP/1.1\r\nHost: good.test\r\n\r\n"),
		"SSH":                    []byte("SSH-2.0-OpenSSH_9.2\r\n"),
		"SSL 2":                  append(ssl2, make([]byte, 64)...),
		"an alert first":         append([]byte{21, 3, 1, 0, 2, 2, 40}, good...),
		"data first":             append([]byte{23, 3, 3, 0, 4, 1, 2, 3, 4}, good...),
		"another handshake":      append([]byte{22, 3, 1, 0, 4, 2, 0, 0, 0}, good...),
		"16 KB, of another":      bigHello(t, "evil.test"),
		"more than there can be": append([]byte{22, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff}, make([]byte, 100<<10)...),
		"split, of another":      records(clientHello(t, "evil.test"), 7),
	} {
		t.Run(name, func(t *testing.T) {
			p, up := tlsWorld(t, Limits{})
			c := p.mustConnect("good.test", 443)
			go c.Write(hello) // it is closed in the middle
			mustEnd(t, c)
			if e := p.log.reason(t, ReasonServerName, "good.test"); e.Verdict != "deny" || e.BytesOut != 0 {
				t.Errorf("%+v", e)
			}
			if up.Load() != 0 {
				t.Errorf("%d bytes went up", up.Load())
			}
		})
	}
	for name, hello := range map[string][]byte{
		"whole":          good,
		"one byte each":  records(good, 1),
		"split":          records(good, 100),
		"16 KB":          bigHello(t, "good.test"),
		"TLS 1.2":        clientHello(t, "good.test", func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }),
		"upper case":     clientHello(t, "GOOD.Test"),
		"data after it":  append(bytes.Clone(good), "and more"...),
		"ECH, outer one": clientHello(t, "secret.test", withECH(t, "good.test")),
	} {
		t.Run(name, func(t *testing.T) {
			p, up := tlsWorld(t, Limits{})
			c := p.mustConnect("good.test", 443)
			// In segments of their own.
			for piece := range chunks(hello, 1+len(hello)/9) {
				if _, err := c.Write(piece); err != nil {
					t.Fatal(err)
				}
			}
			c.CloseWrite()
			mustEnd(t, c)
			if e := p.log.reason(t, ReasonClosed, "good.test"); e.BytesOut != int64(len(hello)) || up.Load() != e.BytesOut {
				t.Errorf("%d of %d bytes went up: %+v", up.Load(), len(hello), e)
			}
		})
	}
	t.Run("never complete", func(t *testing.T) {
		p, up := tlsWorld(t, Limits{FirstBytes: 50 * time.Millisecond})
		c := p.mustConnect("good.test", 443)
		c.Write(good[:50])
		mustEnd(t, c)
		p.log.reason(t, ReasonServerName, "good.test")
		if up.Load() != 0 {
			t.Errorf("%d bytes went up", up.Load())
		}
	})
	t.Run("nothing at all", func(t *testing.T) {
		p, _ := tlsWorld(t, Limits{})
		c := p.mustConnect("good.test", 443)
		c.CloseWrite()
		mustEnd(t, c)
		p.log.reason(t, ReasonClosed, "good.test")
	})
}

func chunks(b []byte, n int) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(b) > 0 {
			piece := b[:min(n, len(b))]
			b = b[len(piece):]
			if !yield(piece) {
				return
			}
		}
	}
}

// withECH encrypts the server name, with outer as the visible one.
func withECH(t testing.TB, outer string) func(*tls.Config) {
	t.Helper()
	key := make([]byte, 32)
	key[0] = 9 // the X25519 base point: any point will do
	config := []byte{0, 0x20, 0, 32}
	config = append(config, key...)
	config = append(config, 0, 4, 0, 1, 0, 1, 0) // HKDF-SHA256, AES-128-GCM; maximum name length
	config = append(config, byte(len(outer)))
	config = append(append(config, outer...), 0, 0)
	config = append([]byte{1}, config...) // config id
	list := binary.BigEndian.AppendUint16([]byte{0xfe, 0x0d}, uint16(len(config)))
	list = append(list, config...)
	list = append(binary.BigEndian.AppendUint16(nil, uint16(len(list))), list...)
	return func(c *tls.Config) { c.EncryptedClientHelloConfigList = list; c.MinVersion = tls.VersionTLS13 }
}

// A whole TLS connection through the gate, with a real server.
func TestTLSWorks(t *testing.T) {
	p := newPeer(t, "good.test")
	p.world.name("good.test", "1.2.3.4")
	cert, roots := selfSigned(t, "good.test")
	p.world.serve(t, "1.2.3.4:443", func(c *net.TCPConn) {
		s := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{cert}})
		io.Copy(s, s)
		s.CloseWrite()
	})
	c := tls.Client(p.mustConnect("good.test", 443), &tls.Config{ServerName: "good.test", RootCAs: roots})
	roundTrip(t, c, "over TLS")
	c.Close()
	p.log.reason(t, ReasonClosed, "good.test")
}

func selfSigned(t testing.TB, host string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{host}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots
}

// E5, cleartext: every request of a connection must be for the host.
func TestEveryRequestMustBeForTheHost(t *testing.T) {
	const ok = "GET /a HTTP/1.1\r\nHost: good.test\r\n\r\n"
	evil := strings.ReplaceAll(ok, "good", "evil")
	for name, tc := range map[string]struct {
		send string
		up   int // bytes that may go up
	}{
		"another host":                    {evil, 0},
		"another admitted host":           {strings.ReplaceAll(ok, "good", "other"), 0},
		"another after the first":         {ok + evil, len(ok)},
		"another after a body":            {"POST / HTTP/1.1\r\nHost: good.test\r\nContent-Length: 4\r\n\r\nbody" + evil, 59},
		"another after chunks":            {"POST / HTTP/1.1\r\nHost: good.test\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n" + evil, -1},
		"no host":                         {"GET / HTTP/1.1\r\n\r\n", 0},
		"two hosts":                       {"GET / HTTP/1.1\r\nHost: good.test\r\nHost: evil.test\r\n\r\n", 0},
		"two equal hosts":                 {"GET / HTTP/1.1\r\nHost: good.test\r\nhost: good.test\r\n\r\n", 0},
		"host with another port":          {"GET / HTTP/1.1\r\nHost: good.test:8080\r\n\r\n", 0},
		"absolute form, another":          {"GET http://evil.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n", 0},
		"absolute form, host another":     {"GET http://good.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n", 0},
		"absolute form, user":             {"GET http://good.test@evil.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n", 0},
		"absolute form, other scheme":     {"GET ftp://good.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n", 0},
		"CONNECT":                         {"CONNECT good.test:80 HTTP/1.1\r\nHost: good.test\r\n\r\n", 0},
		"HTTP/2 with prior knowledge":     {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 0},
		"length and chunks":               {"POST / HTTP/1.1\r\nHost: good.test\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 0},
		"two lengths":                     {"POST / HTTP/1.1\r\nHost: good.test\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nbody", 0},
		"odd length":                      {"POST / HTTP/1.1\r\nHost: good.test\r\nContent-Length: +4\r\n\r\nbody", 0},
		"odd encoding":                    {"POST / HTTP/1.1\r\nHost: good.test\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 0},
		"chunks in HTTP/1.0":              {"POST / HTTP/1.0\r\nHost: good.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 0},
		"space before the colon":          {"GET / HTTP/1.1\r\nHost: good.test\r\nHost : evil.test\r\n\r\n", 0},
		"folded line":                     {"GET / HTTP/1.1\r\nX: y\r\n Host: evil.test\r\nHost: good.test\r\n\r\n", 0},
		"bare line feed":                  {"GET / HTTP/1.1\nHost: good.test\n\n", 0},
		"bare line feed in a header":      {"GET / HTTP/1.1\r\nX: y\nHost: evil.test\r\nHost: good.test\r\n\r\n", 0},
		"bare carriage return":            {"GET / HTTP/1.1\r\nX: y\rHost: evil.test\r\nHost: good.test\r\n\r\n", 0},
		"NUL":                             {"GET / HTTP/1.1\r\nX: \x00\r\nHost: good.test\r\n\r\n", 0},
		"empty line first":                {"\r\n" + ok, 0},
		"TLS":                             {string(clientHello(t, "good.test")), 0},
		"garbage":                         {strings.Repeat("garbage", 20<<10), 0},
		"an endless head":                 {"GET / HTTP/1.1\r\nHost: good.test\r\n" + strings.Repeat("X: "+strings.Repeat("y", 1000)+"\r\n", 100), 0},
		"an upgrade that did not happen":  {"GET / HTTP/1.1\r\nHost: good.test\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n" + evil, -1},
		"an upgrade that is not first":    {ok + "GET / HTTP/1.1\r\nHost: good.test\r\nUpgrade: websocket\r\n\r\n" + evil, -1},
		"a chunk's size that is negative": {"POST / HTTP/1.1\r\nHost: good.test\r\nTransfer-Encoding: chunked\r\n\r\n-4\r\nbody\r\n0\r\n\r\n", -2},
		"a host after the body":           {"POST / HTTP/1.1\r\nHost: good.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nHost: evil.test\r\n\r\n", -2},
		"a length after the body":         {"POST / HTTP/1.1\r\nHost: good.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 9\r\n\r\nevil", -2},
		"a trailer without a colon":       {"POST / HTTP/1.1\r\nHost: good.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nevil\r\n\r\n", -2},
		"a chunk that is longer":          {"POST / HTTP/1.1\r\nHost: good.test\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nbody\r\n0\r\n\r\n", -2},
		"a chunk with a bare line feed":   {"POST / HTTP/1.1\r\nHost: good.test\r\nTransfer-Encoding: chunked\r\n\r\n4\nbody\r\n0\r\n\r\n", -2},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, "good.test", "other.test")
			seen := new(lockedBuffer)
			for _, host := range []string{"good.test", "other.test"} {
				p.world.name(host, "1.2.3.4")
			}
			p.world.serve(t, "1.2.3.4:80", func(c *net.TCPConn) {
				// A server that answers the first request, without switching.
				buf := make([]byte, 64<<10)
				for answered := false; ; {
					n, err := c.Read(buf)
					seen.Write(buf[:n])
					if err != nil {
						return
					}
					if !answered {
						io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
						answered = true
					}
				}
			})
			c := p.mustConnect("good.test", 80)
			go io.WriteString(c, tc.send)
			io.Copy(io.Discard, c) // until it is closed
			e := p.log.wait(t, "the refusal", func(e rigEvent) bool { return e.Reason == ReasonHTTPHost })
			if e.Verdict != "deny" || e.Host != "good.test" {
				t.Errorf("%+v", e)
			}
			if strings.Contains(seen.String(), "evil") {
				t.Errorf("went up: %q", seen.String())
			}
			if tc.up >= 0 && e.BytesOut != int64(tc.up) {
				t.Errorf("%d bytes went up, want %d: %q", e.BytesOut, tc.up, seen.String())
			}
		})
	}
}

// Real clients, a real server, kept-alive connections with bodies of all kinds.
func TestHTTPWorks(t *testing.T) {
	p := newPeer(t, "good.test")
	p.world.name("good.test", "1.2.3.4")
	var conns atomic.Int64
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // whole, because this server stops reading once it answers
		w.Write(body)
		io.WriteString(w, r.Method+" "+r.URL.Path)
	})}
	real, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(real)
	t.Cleanup(func() { server.Close() })
	p.world.mu.Lock()
	p.world.servers["1.2.3.4:80"] = real.Addr().String()
	p.world.mu.Unlock()
	at := p.lookup("good.test").String() + ":80"
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		conns.Add(1)
		return p.dial(at)
	}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: deadline}
	large := strings.Repeat("0123456789", 100<<10)
	for i := range 3 {
		for _, tc := range []struct {
			method string
			body   io.Reader
			want   string
		}{
			{"GET", nil, "GET /x"},
			{"POST", strings.NewReader("short"), "shortPOST /x"},
			{"PUT", strings.NewReader(large), large + "PUT /x"},
			{"POST", io.MultiReader(strings.NewReader("in "), strings.NewReader("chunks ")), "in chunks POST /x"},
			{"POST", io.MultiReader(strings.NewReader(large)), large + "POST /x"},
			{"DELETE", nil, "DELETE /x"},
		} {
			req, _ := http.NewRequest(tc.method, "http://good.test/x", tc.body)
			if i == 2 {
				req.Header.Set("Expect", "100-continue")
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatalf("%s: %v", tc.method, err)
			}
			got, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || string(got) != tc.want {
				t.Fatalf("%s: %d bytes, want %d, %v", tc.method, len(got), len(tc.want), err)
			}
		}
	}
	if conns.Load() != 1 {
		t.Errorf("%d connections for what fits one", conns.Load())
	}
}

// A switch to HTTP/2 would let later requests name other hosts.
func TestSwitchToHTTP2IsClosed(t *testing.T) {
	p := newPeer(t, "good.test")
	p.world.name("good.test", "1.2.3.4")
	seen := new(lockedBuffer)
	p.world.serve(t, "1.2.3.4:80", func(c *net.TCPConn) {
		r := bufio.NewReader(c)
		if _, err := http.ReadRequest(r); err != nil {
			return
		}
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
		io.Copy(seen, r)
	})
	c := p.mustConnect("good.test", 80)
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: good.test\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\nPRI * HTTP/2.0\r\n\r\n")
	io.Copy(io.Discard, c)
	p.log.reason(t, ReasonHTTPHost, "good.test")
	if seen.String() != "" {
		t.Errorf("went up: %q", seen)
	}
}

// An answer that never comes ends the wait for it.
func TestUpgradeWithoutAnswer(t *testing.T) {
	p := newPeer(t, "good.test")
	p.world.name("good.test", "1.2.3.4")
	p.world.serve(t, "1.2.3.4:80", func(c *net.TCPConn) { http.ReadRequest(bufio.NewReader(c)) })
	c := p.mustConnect("good.test", 80)
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: good.test\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
	c.CloseWrite()
	mustEnd(t, c)
	p.log.reason(t, ReasonClosed, "good.test")
}

// A switch of protocols that the other end agrees to makes the connection opaque.
func TestWebSocketWorks(t *testing.T) {
	p := newPeer(t, "good.test")
	p.world.name("good.test", "1.2.3.4")
	p.world.serve(t, "1.2.3.4:80", func(c *net.TCPConn) {
		r := bufio.NewReader(c)
		if _, err := http.ReadRequest(r); err != nil {
			return
		}
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
		io.Copy(c, r)
	})
	c := p.mustConnect("good.test", 80)
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: good.test\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
	answer := "HTTP/1.1 101 Switching Protocols\r\n\r\n"
	if got := make([]byte, len(answer)); true {
		if _, err := io.ReadFull(c, got); err != nil || string(got) != answer {
			t.Fatalf("%q, %v", got, err)
		}
	}
	roundTrip(t, c, "not HTTP at all")
}

func FuzzParseHead(f *testing.F) {
	for _, s := range []string{
		"GET / HTTP/1.1\r\nHost: good.test\r\n\r\n", "POST http://good.test/ HTTP/1.1\r\nHost: good.test:80\r\nContent-Length: 4\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: good.test\r\nTransfer-Encoding: chunked\r\n\r\n", "GET / HTTP/1.1\r\nHost : good.test\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: good.test\r\nUpgrade: x\r\n\r\n", "PRI * HTTP/2.0\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, head []byte) {
		r, err := parseHead(head)
		if err != nil {
			if r.opening.kind != openingOther {
				t.Fatalf("%q: %v, but %+v", head, err, r)
			}
			return
		}
		// The standard library's own server-side view must not disagree.
		req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(head)))
		if err != nil {
			t.Fatalf("%q is accepted, and is no request: %v", head, err)
		}
		if r.opening.host != "" && hostOnPort80(req.Host) != r.opening.host {
			t.Fatalf("%q is for %q, and the server sees %q", head, r.opening.host, req.Host)
		}
		if r.length < 0 || r.chunked && r.length != 0 {
			t.Fatalf("%q: %+v", head, r)
		}
		if n := strings.Count(strings.ToLower(string(head)), "\nhost:"); n != 1 {
			t.Fatalf("%q has %d hosts", head, n)
		}
	})
}

func FuzzReadHello(f *testing.F) {
	// The seeds are in testdata: a ClientHello made here would be another each time.
	f.Fuzz(func(t *testing.T, data []byte) {
		read, o := readHello(context.Background(), readOnly{bytes.NewReader(data)}, time.Hour)
		if !bytes.HasPrefix(data, read) || len(read) > maxHello {
			t.Fatalf("read %d bytes of %d", len(read), len(data))
		}
		if o.host != "" && (o.kind != openingTLS || !bytes.Contains(bytes.ToLower(read), []byte(o.host[:1]))) {
			t.Fatalf("%+v", o)
		}
	})
}

// readOnly is a connection over a reader.
type readOnly struct{ io.Reader }

func (readOnly) Write([]byte) (int, error)        { panic("written to") }
func (readOnly) Close() error                     { panic("closed") }
func (readOnly) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (readOnly) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (readOnly) SetDeadline(time.Time) error      { panic("deadline") }
func (readOnly) SetReadDeadline(time.Time) error  { return nil }
func (readOnly) SetWriteDeadline(time.Time) error { panic("deadline") }
