package egress

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"rigs/internal/keeperapi"
	"rigs/internal/rig"
)

// An admission that ends by itself takes its open connections with it.
func admissionExpires(t *testing.T, s *server, g, _ *guest) {
	s.name("soon.test")
	// As long as it takes to connect on a host that may be very busy, and no longer:
	// the end of it is waited for.
	var held *process
	for ttl := 5; held == nil; ttl *= 2 {
		s.rigs(t, "egress", g.ref, "allow", "soon.test:7000", "--for", fmt.Sprintf("%ds", ttl))
		p := g.start("hold", "soon.test:7000")
		switch got := p.line(); {
		case got == "connected":
			held = p
		case got != "ECONNREFUSED" || ttl > 300:
			t.Fatalf("before: %s", got)
		}
	}
	if got := held.line(); got != "ECONNRESET" { // printed when it ends
		t.Errorf("an open connection: %s", got)
	}
	if got := g.probe("dial", "tcp", "soon.test:7000"); got != "ECONNREFUSED" {
		t.Errorf("after: %s", got)
	}
	g.logged("deny tcp soon.test:7000 expired")
	if rules := s.rigs(t, "egress", g.ref); strings.Contains(rules, "soon.test") {
		t.Errorf("still in the list:\n%s", rules)
	}
	var rules keeperapi.EgressRules
	must(t, json.Unmarshal([]byte(s.rigs(t, "egress", g.ref, "--json")), &rules))
	if slices.ContainsFunc(rules.Entries, func(e keeperapi.EgressEntry) bool { return strings.Contains(e.Pattern, "soon.test") }) {
		t.Errorf("still in the list: %+v", rules)
	}
}

// What a hostile guest may make its keeper use, in resident memory: its own start
// and the gate's bounds (docs/egress.md, "Limits"), twice over.
const keeperMemory = 200 << 20

// A guest that floods cannot keep anybody from its rig, nor its keeper from its
// bounds, nor can it fill the log.
func TestFloods(t *testing.T) {
	w := newWorld(t)
	s := w.serve()
	g := s.openRig(t, "flood", "sink.test", "endless.test")
	sink, endless := w.name("sink.test"), w.name("endless.test")
	// The scan meets a network that exists. Not one address of it may be reached.
	for _, f := range []struct{ kind, address string }{
		{"frames", "-"}, {"scan", "93.185.0.0"}, {"garbage", "sink.test:80"}, {"deaf", "endless.test:80"},
	} {
		t.Run(f.kind, func(t *testing.T) {
			g := g.as(t)
			var last int64
			for _, e := range g.log() {
				last = max(last, e.Seq)
			}
			flood := g.start("flood", f.kind, f.address)
			if got := flood.line(); got != "started" {
				t.Fatal(got)
			}
			if f.kind == "deaf" {
				if got := flood.line(); !strings.HasPrefix(got, "open ") {
					t.Fatal(got)
				}
			}
			// Meanwhile the rig answers: a command, a file, and the list.
			for range 3 {
				if r := g.run("echo", "here"); r.out != "here" {
					t.Errorf("a command: %v", r)
				}
				s.rigs(t, "egress", g.ref, "allow", "while-flooded.test")
				s.rigs(t, "egress", g.ref, "deny", "while-flooded.test")
			}
			if got := keeperResident(t, s, g.id); got > keeperMemory {
				t.Errorf("the keeper has %d MB resident", got>>20)
			} else {
				t.Logf("the keeper has %d MB resident", got>>20)
			}
			must(t, flood.in.Close())
			sent, err := strconv.Atoi(flood.line())
			must(t, err)
			lines := slices.DeleteFunc(g.log(), func(e rig.EgressEvent) bool { return e.Seq <= last })
			t.Logf("%d sent, %d lines in the log", sent, len(lines))
			if sent == 0 {
				t.Error("it was no flood")
			}
			// 200 lines at once and 50 a second (docs/egress.md), by the log's own clock,
			// and the lines that stand for many.
			if n := len(lines); n > 0 {
				if most := 1000 + 50*int(lines[n-1].Time.Sub(lines[0].Time)/time.Second+1); n > most {
					t.Errorf("%d lines in the log, at most %d were to be", n, most)
				}
			}
			// And the gate works as before.
			g.reaches("sink.test here", "http://sink.test")
		})
	}
	if n := w.bytesAt(sink, 80); n > 4096 {
		t.Errorf("%d bytes of garbage went out", n)
	}
	if len(w.sent(endless)) == 0 {
		t.Error("the deaf flood reached nobody")
	}
	// The card is taken down while bytes flow towards the guest: nobody reads.
	flood := g.start("flood", "deaf", "endless.test:80")
	flood.line()
	flood.line()
	g.root("ip link set eth0 down")
	for range 3 {
		if r := g.run("echo", "here"); r.out != "here" {
			t.Errorf("without a network: %v", r)
		}
	}
	if got := keeperResident(t, s, g.id); got > keeperMemory {
		t.Errorf("the keeper has %d MB resident", got>>20)
	}
	g.deny("endless.test", "sink.test")
	must(t, flood.in.Close())
	s.rigs(t, "close", g.ref)
}

// keeperResident is the most memory that the keeper of a rig ever had resident.
func keeperResident(t *testing.T, s *server, id string) int64 {
	t.Helper()
	for _, pid := range s.processes(id) {
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		if err != nil || strings.Contains(exe, "qemu") {
			continue
		}
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		must(t, err)
		for l := range strings.Lines(string(b)) {
			if f := strings.Fields(l); f[0] == "VmHWM:" {
				kb, err := strconv.ParseInt(f[1], 10, 64)
				must(t, err)
				return kb << 10
			}
		}
	}
	t.Fatal("the rig has no keeper")
	return 0
}

// proxy is an upstream HTTP proxy that wants a password.
type proxy struct {
	mu     sync.Mutex
	asked  []string // request lines, in order
	refuse atomic.Bool
}

const proxyUser, proxyPassword = "corp", "s3cret"

// proxy starts one in the world.
func (w *world) proxy(port string) *proxy {
	w.t.Helper()
	p := new(proxy)
	var l net.Listener
	must(w.t, w.in(func() (err error) { l, err = net.Listen("tcp", ":"+port); return err }))
	w.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			w.wg.Go(func() {
				defer c.Close()
				p.serve(w, c)
			})
		}
	})
	w.t.Cleanup(func() { l.Close() })
	return p
}

func (p *proxy) serve(w *world, c net.Conn) {
	in := bufio.NewReader(c)
	r, err := http.ReadRequest(in)
	if err != nil {
		return
	}
	p.mu.Lock()
	p.asked = append(p.asked, r.Method+" "+r.RequestURI)
	p.mu.Unlock()
	answer := func(status string) {
		fmt.Fprintf(c, "HTTP/1.1 %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", status)
	}
	switch {
	case r.Header.Get("Proxy-Authorization") != "Basic "+base64.StdEncoding.EncodeToString([]byte(proxyUser+":"+proxyPassword)):
		answer("407 Proxy Authentication Required")
		return
	case p.refuse.Load():
		answer("403 Forbidden")
		return
	}
	target := r.Host
	if _, _, err := net.SplitHostPort(target); err != nil {
		target = net.JoinHostPort(target, "80")
	}
	host, port, _ := net.SplitHostPort(target)
	w.mu.Lock()
	addrs := w.names[host]
	w.mu.Unlock()
	if len(addrs) == 0 {
		answer("502 Bad Gateway")
		return
	}
	var up net.Conn
	if err := w.in(func() (err error) {
		up, err = net.Dial("tcp", net.JoinHostPort(addrs[0].String(), port))
		return err
	}); err != nil {
		answer("502 Bad Gateway")
		return
	}
	defer up.Close()
	if r.Method == http.MethodConnect {
		io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n")
		w.wg.Go(func() {
			_, _ = io.Copy(up, in) // until either side ends
			_ = up.(*net.TCPConn).CloseWrite()
		})
		_, _ = io.Copy(c, up)
		return
	}
	r.Header.Del("Proxy-Authorization")
	r.Close = true
	if r.Write(up) == nil {
		_, _ = io.Copy(c, up)
	}
}

func (p *proxy) requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.asked)
}

// Case E11: the server's way out is a proxy.
func TestUpstreamProxy(t *testing.T) {
	w := newWorld(t)
	p := w.proxy("3128")
	at := w.name("proxy.corp")
	secure, plain, direct, local := w.name("secure.e11.test"), w.name("plain.e11.test"), w.name("direct.e11.test"), w.name("other.e11.test")
	address := "http://" + proxyUser + ":" + proxyPassword + "@proxy.corp:3128"
	s := w.serve("HTTPS_PROXY="+address, "HTTP_PROXY="+address, "NO_PROXY=direct.e11.test")
	g := s.openRig(t, "proxied", "secure.e11.test", "plain.e11.test", "direct.e11.test", "secure.e11.test:7000")

	g.reaches("secure.e11.test here", "https://secure.e11.test/one")
	g.reaches("plain.e11.test here", "http://plain.e11.test/two")
	g.reaches("direct.e11.test here", "http://direct.e11.test/three")
	for _, want := range []string{"CONNECT secure.e11.test:443", "GET http://plain.e11.test/two"} {
		if !slices.Contains(p.requests(), want) {
			t.Errorf("the proxy was not asked for %q but for %q", want, p.requests())
		}
	}
	if got := p.requests(); len(got) != 2 {
		t.Errorf("the proxy was asked for %q", got)
	}
	// Names that go through the proxy are its to resolve.
	if got := append(w.lookups("secure.e11.test"), w.lookups("plain.e11.test")...); len(got) > 0 {
		t.Errorf("the host's resolver was asked %q", got)
	}
	if len(w.sent(at)) == 0 || len(w.sent(direct)) == 0 {
		t.Error("the record of packets is not whole")
	}
	nothingSent(t, w, secure, plain) // the proxy sends there, the host does not
	g.logged("allow tcp secure.e11.test:443 admitted", "allow tcp plain.e11.test:80 admitted", "allow tcp direct.e11.test:80 admitted")

	// Nothing else goes there: not a name that is not admitted, not the proxy itself.
	g.refused("http://other.e11.test")
	g.refused("--proxy", "http://proxy.corp:3128", "http://other.e11.test")
	g.refused("--proxy", "http://"+at.String()+":3128", "http://other.e11.test")
	if r := g.curl("-H", "Host: other.e11.test", "http://plain.e11.test/four"); !slices.Contains([]int{52, 55, 56}, r.code) {
		t.Errorf("another host through the proxy: %v", r)
	}
	if got := p.requests(); len(got) != 2 {
		t.Errorf("the proxy was asked for %q", got)
	}
	nothingSent(t, w, local)
	g.logged("deny tcp other.e11.test:80 notAdmitted", "deny tcp plain.e11.test:80 httpHost", "deny tcp proxy.corp:3128 notAdmitted", "deny tcp "+at.String()+":3128 rawAddress")
	// The password stays on the host: no log has it, and no answer that the guest gets.
	if log := s.rigs(t, "egress", g.ref, "log", "--json"); strings.Contains(log, proxyPassword) {
		t.Errorf("the password is in the log: %s", log)
	}

	// A proxy that refuses is said to be one.
	p.refuse.Store(true)
	g.refused("https://secure.e11.test/five")
	g.logged("allow tcp secure.e11.test:443 proxyRefused")
}
