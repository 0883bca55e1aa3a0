// Package egress is the suite of the gate with real machines: what a guest is told
// whatever it tries, what the outside sees of it, and what the rig's log says.
//
// Everything outside is the test's own (see world): the server under test runs in
// a network namespace in which every address answers. The guest's tools are real
// ones (curl, python3), and a probe of ours for what no tool does.
package egress

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"rigs/internal/policy"
)

// The cases share one world, one server and two rigs: "open", whose list grows with
// each case, and "none", whose list stays empty. Every case has names and addresses
// of its own.
var cases = []struct {
	name string
	run  func(*testing.T, *server, *guest, *guest)
}{
	{"E1 lookups carry nothing out", lookupsCarryNothing},
	{"E2 a denied request costs no lookup", deniedCostsNoLookup},
	{"E3 raw addresses are refused", rawAddressesAreRefused},
	{"E5 two names behind one address", twoNamesBehindOneAddress},
	{"E6 a ClientHello must name the host", clientHelloMustNameTheHost},
	{"E8 other protocols are refused at once", otherProtocolsAreRefused},
	{"E9 names are resolved at connect time", resolvedAtConnectTime},
	{"E10 forbidden ranges", forbiddenRanges},
	{"E13 an empty list reaches nothing", emptyListReachesNothing},
	{"E14 the list changes while connections are open", listChangesWhileOpen},
	{"E15 spellings of a name", spellingsOfAName},
	{"an admission expires", admissionExpires},
	{"two rigs with opposite lists", oppositeLists},
	{"the log is followed while a page loads", logFollowedWhileAPageLoads},
}

func TestCases(t *testing.T) {
	w := newWorld(t)
	s := w.serve()
	open, none := s.openRig(t, "open"), s.openRig(t, "none")
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.run(t, s, open.as(t), none.as(t)) })
	}
}

// nothingSent fails the test if anything reached an address.
func nothingSent(t *testing.T, w *world, addrs ...netip.Addr) {
	t.Helper()
	for _, a := range addrs {
		if got := w.sent(a); len(got) > 0 {
			t.Errorf("the outside saw %q", got)
		}
	}
}

func lookupsCarryNothing(t *testing.T, s *server, g, _ *guest) {
	s.name("good.test")
	g.allow("good.test")
	n, lines := 0, []string{}
	for _, network := range []string{"udp", "tcp"} {
		for kind, want := range map[string]string{"A": "NOERROR 198.1", "AAAA": "NOERROR", "TXT": "NOERROR", "HTTPS": "NOERROR", "NS": "NOERROR", "NULL": "NOERROR"} {
			n++
			name := fmt.Sprintf("onswg4tfoq%d.evil.test", n)
			if got := g.probe("lookup", network, kind, name); !strings.HasPrefix(got, want) || kind != "A" && got != want {
				t.Errorf("%s over %s: %s", kind, network, got)
			}
			lines = append(lines, "deny dns "+name+":0 notAdmitted")
		}
	}
	g.logged(lines...)
	// What programs do, and a name server of the guest's own choice.
	g.refused("https://payload.evil.test")
	g.logged("deny tcp payload.evil.test:443 notAdmitted")
	for _, network := range []string{"udp", "tcp"} {
		if got := g.probe("ask", network, "A", "direct.evil.test", "8.8.8.8:53"); got != "ECONNREFUSED" {
			t.Errorf("8.8.8.8 over %s: %s", network, got)
		}
	}
	g.logged("deny udp 8.8.8.8:53 protocol", "deny tcp 8.8.8.8:53 rawAddress")
	if got := s.lookups("evil.test"); len(got) > 0 {
		t.Errorf("the outside was asked %q", got)
	}
	nothingSent(t, s.world, netip.MustParseAddr("8.8.8.8"))
	// The other side of it: the admitted name is asked for when it is connected to.
	g.reaches("good.test here", "http://good.test")
	if got := s.lookups("good.test"); !slices.Contains(got, "A good.test") {
		t.Errorf("the outside was asked %q", got)
	}
	g.logged("allow tcp good.test:80 admitted", "allow tcp good.test:80 closed")
}

func deniedCostsNoLookup(t *testing.T, s *server, _, none *guest) {
	none.refused("http://payload.e2.test")
	none.refused("https://payload.e2.test")
	none.logged("deny tcp payload.e2.test:80 notAdmitted", "deny tcp payload.e2.test:443 notAdmitted")
	if got := s.lookups("e2.test"); len(got) > 0 {
		t.Errorf("the outside was asked %q", got)
	}
}

func rawAddressesAreRefused(t *testing.T, s *server, g, _ *guest) {
	for _, a := range []string{"8.8.8.8", "9.9.9.9", resolverAddress, hostAddress, "169.254.169.254", "10.0.0.77", "198.18.200.1"} {
		if got := g.probe("dial", "tcp", a+":443"); got != "ECONNREFUSED" {
			t.Errorf("%s: %s", a, got)
		}
		g.logged("deny tcp " + a + ":443 rawAddress")
		if a != resolverAddress { // to which the host itself sends
			nothingSent(t, s.world, netip.MustParseAddr(a))
		}
	}
	if r := g.run("env", "-i", "/usr/bin/curl", "-sS", "--max-time", "60", "https://9.9.9.9:8443"); r.code != 7 {
		t.Errorf("without an environment: %v", r)
	}
	g.logged("deny tcp 9.9.9.9:8443 rawAddress")
}

func twoNamesBehindOneAddress(t *testing.T, s *server, g, _ *guest) {
	at := s.name("in.e5.test")
	s.name("out.e5.test", at.String())
	g.allow("in.e5.test")
	g.reaches("in.e5.test here", "http://in.e5.test")
	g.reaches("in.e5.test here", "https://in.e5.test")
	g.reaches("over HTTP/2.0", "--http2", "https://in.e5.test")

	// Cleartext: every request is looked at, and HTTP/2 is not let through at all.
	// 52: no answer, 55 and 56: reset, 16: not HTTP/2.
	for _, args := range [][]string{
		{"-H", "Host: out.e5.test", "http://in.e5.test/1"},
		{"--http2-prior-knowledge", "http://in.e5.test/2"},
		{"--http2-prior-knowledge", "-H", "Host: out.e5.test", "http://in.e5.test/3"},
		{"--request-target", "http://out.e5.test/4", "http://in.e5.test/4"},
	} {
		if r := g.curl(args...); !slices.Contains([]int{16, 52, 55, 56}, r.code) || r.out != "" {
			t.Errorf("curl %q: %v", args, r)
		}
	}
	g.logged("deny tcp in.e5.test:80 httpHost")
	two := "GET /first HTTP/1.1\r\nHost: in.e5.test\r\n\r\nGET /second HTTP/1.1\r\nHost: out.e5.test\r\n\r\n"
	if got := g.probeWith(two, "talk", "in.e5.test:80"); strings.Contains(got, "out.e5.test") || !strings.HasSuffix(got, "ECONNRESET") && !strings.HasSuffix(got, "EOF") {
		t.Errorf("a second request on the same connection: %s", got)
	}
	if got := s.requested("out.e5.test"); len(got) > 0 {
		t.Errorf("the outside saw %q", got)
	}
	for _, path := range []string{"/1", "/2", "/3", "/4", "/second"} {
		if got := s.requested("in.e5.test " + path); len(got) > 0 {
			t.Errorf("the outside saw %q", got)
		}
	}

	// TLS: the name in the ClientHello decides …
	before := s.bytesAt(at, 443)
	if r := g.curl("--connect-to", "out.e5.test:443:in.e5.test:443", "https://out.e5.test/5"); r.code != 35 || r.out != "" {
		t.Errorf("another's name: %v", r)
	}
	if n := s.bytesAt(at, 443) - before; n != 0 {
		t.Errorf("%d bytes of another's ClientHello went out", n)
	}
	g.logged("deny tcp in.e5.test:443 serverName")
	// … and what is said inside is not seen: docs/egress.md, "What is not inspected".
	g.reaches("out.e5.test here", "-H", "Host: out.e5.test", "https://in.e5.test/6")
}

func clientHelloMustNameTheHost(t *testing.T, s *server, g, _ *guest) {
	right := s.name("right.e6.test")
	g.allow("right.e6.test")
	for _, shape := range []string{"plain", "split", "large"} {
		if got := g.probe("tls", "right.e6.test:443", shape, "right.e6.test"); !strings.Contains(got, "right.e6.test here") {
			t.Errorf("%s: %s", shape, got)
		}
	}
	for _, c := range []struct{ shape, name string }{
		{"unnamed", ""}, {"plain", "other.test"}, {"split", "other.test"}, {"large", "other.test"}, {"plain", "sub.right.e6.test"}, {"plain", "e6.test"},
		{"garbage", "-"}, {"garbage record", "-"}, {"endless", "-"}, {"http", "right.e6.test"},
	} {
		before := s.bytesAt(right, 443)
		if got := g.probe("tls", "right.e6.test:443", c.shape, c.name); got != "ECONNRESET" && got != "EOF" && got != "EPIPE" {
			t.Errorf("%s %s: %s", c.shape, c.name, got)
		}
		if n := s.bytesAt(right, 443) - before; n != 0 {
			t.Errorf("%s %s: %d bytes went out", c.shape, c.name, n)
		}
	}
	g.logged("deny tcp right.e6.test:443 serverName")
}

func otherProtocolsAreRefused(t *testing.T, s *server, g, _ *guest) {
	quic := s.name("quic.e8.test")
	g.allow("quic.e8.test")
	for _, c := range []struct {
		log  string // protocol:port of the log
		want string
		args []string
	}{
		{"udp", "ECONNREFUSED", []string{"udp", "connected", "8.8.4.4:443"}},
		{"udp", "ECONNREFUSED", []string{"udp", "unconnected", "8.8.4.4:123"}},
		{"icmp", "destination unreachable 13", []string{"ping", "8.8.4.4"}},
		{"other", "EHOSTUNREACH", []string{"ip", "47", "8.8.4.4"}},  // GRE
		{"other", "EHOSTUNREACH", []string{"ip", "132", "8.8.4.4"}}, // SCTP
	} {
		if got := g.probe(c.args...); got != c.want {
			t.Errorf("%v: %s, want %s", c.args, got, c.want)
		}
	}
	g.logged("deny udp 8.8.4.4:443 protocol", "deny udp 8.8.4.4:123 protocol", "deny icmp 8.8.4.4:0 protocol", "deny other 8.8.4.4:0 protocol")
	nothingSent(t, s.world, netip.MustParseAddr("8.8.4.4"))
	// To an admitted name too: QUIC is not TCP.
	if got := g.probe("udp", "connected", "quic.e8.test:443"); got != "ECONNREFUSED" {
		t.Errorf("QUIC: %s", got)
	}
	g.logged("deny udp quic.e8.test:443 protocol")
	nothingSent(t, s.world, quic)

	// IPv6: off in the guest, and a way that its root makes itself leads nowhere.
	global := s.public6()
	if got := g.probe("dial", "tcp", "["+global+"]:443"); got != "ENETUNREACH" {
		t.Errorf("IPv6 without a route: %s", got)
	}
	g.root("sysctl -qw net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.eth0.disable_ipv6=0 && ip -6 addr add fd00::2/64 dev eth0 nodad && ip -6 route add default dev eth0")
	if got := g.probe("dial", "tcp", "["+global+"]:443"); got != "EACCES" {
		t.Errorf("IPv6 with a route: %s", got)
	}
	if got := g.probe("udp", "connected", "["+global+"]:443"); got != "EACCES" {
		t.Errorf("UDP over IPv6: %s", got)
	}
	g.logged("deny ipv6 " + global + ":443 protocol")
	nothingSent(t, s.world, netip.MustParseAddr(global))

	// Applications fall back: a host with both kinds of addresses is reached, by
	// one that has only A records, and by one that has an IPv6 address from elsewhere.
	s.name("dual.e8.test", global, s.name("four.e8.test").String())
	g.allow("dual.e8.test")
	g.reaches("dual.e8.test here", "http://dual.e8.test/")
	synthetic := strings.Fields(g.probe("lookup", "udp", "A", "dual.e8.test"))[1]
	g.reaches("dual.e8.test here", "--resolve", "dual.e8.test:80:["+global+"],"+synthetic, "http://dual.e8.test/")
	g.root("sysctl -qw net.ipv6.conf.all.disable_ipv6=1")
}

func resolvedAtConnectTime(t *testing.T, s *server, g, _ *guest) {
	first := s.name("moves.e9.test")
	g.allow("moves.e9.test")
	g.reaches("at "+first.String()+":80", "http://moves.e9.test")
	second := s.name("moves.e9.test")
	g.reaches("at "+second.String()+":80", "http://moves.e9.test")
	six := s.name("moves.e9.test", s.public6())
	g.reaches("at ["+six.String()+"]:80", "http://moves.e9.test")
	if got := s.lookups("corp.test"); len(got) > 0 {
		t.Errorf("search domains were tried: %q", got)
	}
}

func forbiddenRanges(t *testing.T, s *server, g, _ *guest) {
	// never: not even when it is admitted as private.
	for i, c := range []struct {
		addr  string
		never bool
	}{
		{"127.0.0.1", false}, {"10.1.2.3", false}, {"172.16.0.9", false}, {"192.168.7.7", false}, {"100.64.0.1", false}, {"169.254.169.254", false},
		{"198.18.0.1", false}, {"203.0.113.5", false}, {"168.63.129.16", false}, {"::1", false}, {"fd00:ec2::254", false}, {hostAddress, false},
		{"0.0.0.0", true}, {"240.0.0.1", true}, {"::", true},
		{"::ffff:10.0.0.1", false}, {"64:ff9b::a00:1", false},
	} {
		// The name may be asked for. Until it is private nothing may be sent.
		host := fmt.Sprintf("r%d.e10.test", i)
		a := s.name(host, c.addr)
		g.allow(host)
		if got := g.probe("dial", "tcp", host+":80"); got != "ECONNREFUSED" {
			t.Errorf("%s: %s", c.addr, got)
		}
		g.logged("deny tcp " + host + ":80 forbiddenRange")
		nothingSent(t, s.world, a, a.Unmap())
		g.deny(host)
		g.allow(host + " private")
		switch {
		case c.never:
			g.refused("http://" + host)
			nothingSent(t, s.world, a)
		case a.Is4(), a.IsLoopback(), a.Is4In6(), a.IsPrivate():
			g.reaches(host+" here", "http://"+host)
		}
		g.deny(host + " private")
	}
	// One bad answer among good ones is not tried, and does not keep the others from it.
	good := s.name("mixed.e10.test").String()
	bad := "10.99.99.99"
	s.name("mixed.e10.test", bad, good)
	g.allow("mixed.e10.test")
	g.reaches("at "+good+":80", "http://mixed.e10.test")
	nothingSent(t, s.world, netip.MustParseAddr(bad))
}

func emptyListReachesNothing(t *testing.T, s *server, _, none *guest) {
	// The names that other rigs start with have no way in here: no exceptions.
	var hosts []string
	for _, e := range policy.Baseline() {
		host := strings.TrimSuffix(strings.ReplaceAll(e.Pattern.String(), "*", "www"), " broad")
		host, _, _ = strings.Cut(host, ":")
		hosts = append(hosts, host+":443")
	}
	hosts = append(hosts, "localhost.localdomain:443", "metadata.google.internal:80", "host.docker.internal:80")
	got := strings.Split(none.probeWith(strings.Join(hosts, "\n")+"\n", "dials"), "\n")
	if len(got) != len(hosts) {
		t.Errorf("%d answers for %d hosts", len(got), len(hosts))
	}
	for _, l := range got {
		if !strings.HasSuffix(l, " ECONNREFUSED") {
			t.Errorf("%s", l)
		}
	}
	for _, e := range none.log() {
		if e.Verdict != "deny" {
			t.Errorf("%s", line(e))
		}
	}
}

func listChangesWhileOpen(t *testing.T, s *server, g, _ *guest) {
	s.name("late.e14.test")
	if got := g.probe("dial", "tcp", "late.e14.test:7000"); got != "ECONNREFUSED" {
		t.Fatalf("before: %s", got)
	}
	// A program that keeps trying is let in as soon as somebody says so.
	waiting := g.start("until", "late.e14.test:7000")
	g.logged("deny tcp late.e14.test:7000 notAdmitted")
	g.allow("late.e14.test:7000")
	if got := waiting.line(); got != "connected" {
		t.Errorf("while it waits: %s", got)
	}
	held, other := g.start("hold", "late.e14.test:7000"), g.start("hold", "late.e14.test:7000")
	for _, p := range []*process{held, other} {
		if got := p.line(); got != "connected" {
			t.Fatalf("after: %s", got)
		}
	}
	// Another pattern for the same host keeps them open …
	g.allow("*.e14.test:7000")
	g.deny("late.e14.test:7000")
	if got := g.probe("dial", "tcp", "late.e14.test:7000"); !strings.HasPrefix(got, "connected") {
		t.Errorf("with another pattern: %s", got)
	}
	// … and with the last one they end.
	g.deny("*.e14.test:7000")
	for _, p := range []*process{held, other} {
		if got := p.line(); got != "ECONNRESET" {
			t.Errorf("an open connection: %s", got)
		}
	}
	if got := g.probe("dial", "tcp", "late.e14.test:7000"); got != "ECONNREFUSED" {
		t.Errorf("a new connection: %s", got)
	}
	g.logged("allow tcp late.e14.test:7000 admitted", "deny tcp late.e14.test:7000 removed")
}

func spellingsOfAName(t *testing.T, s *server, g, _ *guest) {
	s.name("shout.e15.test")
	s.name("xn--bcher-kva.e15.test")
	g.allow("SHOUT.e15.Test.", "Bücher.e15.test")
	rules := g.s.rigs(t, "egress", g.ref)
	for _, want := range []string{"shout.e15.test", "xn--bcher-kva.e15.test"} {
		if !slices.Contains(strings.Split(rules, "\n"), want) {
			t.Errorf("%s is not in the list:\n%s", want, rules)
		}
	}
	for _, u := range []string{"http://shout.e15.test", "http://ShOuT.E15.tEsT", "http://shout.e15.test.", "https://SHOUT.e15.test"} {
		g.reaches(" here, at ", u)
	}
	for _, u := range []string{"http://xn--bcher-kva.e15.test", "http://XN--BCHER-KVA.e15.test."} {
		g.reaches(" here, at ", u)
	}
	r := g.run("python3", "-c", `import urllib.request; print(urllib.request.urlopen("http://"+"b\u00fccher.e15.test".encode("idna").decode()).read())`)
	if r.code != 0 || !strings.Contains(r.out, "xn--bcher-kva.e15.test here") {
		t.Errorf("Unicode: %v", r)
	}
	// What only looks alike is another name.
	for _, host := range []string{"xn--bucher-kva.e15.test", "bucher.e15.test", "shout.e15.test.evil.test", "shoute15.test"} {
		g.refused("http://" + host)
	}
	g.logged("deny tcp bucher.e15.test:80 notAdmitted", "deny tcp shout.e15.test.evil.test:80 notAdmitted", "allow tcp shout.e15.test:443 admitted")
}

func oppositeLists(t *testing.T, s *server, g, _ *guest) {
	s.name("left.opposite.test")
	s.name("right.opposite.test")
	left, right := g, s.openRig(t, "opposite", "right.opposite.test")
	left.allow("left.opposite.test")
	for _, r := range []struct {
		g       *guest
		in, out string
	}{{left, "left.opposite.test", "right.opposite.test"}, {right, "right.opposite.test", "left.opposite.test"}} {
		t.Run(r.g.ref, func(t *testing.T) {
			t.Parallel() // both at once
			g := r.g.as(t)
			for range 4 {
				g.reaches(r.in+" here", "http://"+r.in)
				g.refused("http://" + r.out)
			}
			g.logged("allow tcp "+r.in+":80 admitted", "deny tcp "+r.out+":80 notAdmitted")
			for _, e := range g.log() {
				if e.Host == r.out && e.Verdict != "deny" || e.Host == r.in && e.Verdict == "deny" {
					t.Errorf("%s", line(e))
				}
			}
		})
	}
}

func logFollowedWhileAPageLoads(t *testing.T, s *server, g, _ *guest) {
	for _, host := range []string{"site.page.test", "static.page.test"} {
		s.name(host)
	}
	g.allow("site.page.test", "static.page.test")
	log := g.follow(g.s.command(t, "egress", g.ref, "log", "--follow"))
	// A small browser: the page, and then each of its parts.
	r := g.run("python3", "-c", `
import re, urllib.request
page = urllib.request.urlopen("http://site.page.test/site?from=static.page.test&from=tracker.page.test&from=static.page.test").read().decode()
for src in re.findall('src="([^"]*)"', page):
    try:
        print(src, urllib.request.urlopen(src).status)
    except OSError as e:
        print(src, e.reason.strerror)
`)
	want := "http://static.page.test/part 200\nhttp://tracker.page.test/part Connection refused\nhttp://static.page.test/part 200"
	if r.code != 0 || r.out != want {
		t.Errorf("%v; want %q", r, want)
	}
	// All of it comes down the stream that is being followed.
	missing := []string{
		"allow  tcp   site.page.test:80  admitted", "allow  tcp   site.page.test:80  closed", "allow  tcp   static.page.test:80  admitted",
		"deny   tcp   tracker.page.test:80  notAdmitted", "allow  tcp   static.page.test:80  closed",
	}
	for len(missing) > 0 {
		got := log.line() // fails the test when the stream ends
		missing = slices.DeleteFunc(missing, func(want string) bool { return strings.Contains(got, want) })
	}
}
