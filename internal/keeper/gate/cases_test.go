package gate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"

	"rigs/internal/rig"
)

// E8: what is neither TCP nor a lookup is answered at once, logged and counted.
func TestOtherProtocolsAreRefusedAtOnce(t *testing.T) {
	p := newPeer(t, "good.test")
	synthetic := p.lookup("good.test").String()

	// QUIC and an unconnected lookup elsewhere: the socket reports it at once.
	for _, at := range []string{synthetic + ":443", "8.8.8.8:53", "10.0.0.1:123"} {
		c, err := p.dialUDP(at)
		if err != nil {
			t.Fatal(err)
		}
		// The guest's stack reports the error to the next call, not to one that waits.
		for late := time.Now().Add(deadline); err == nil && time.Now().Before(late); time.Sleep(time.Millisecond) {
			_, err = c.Write([]byte("hello"))
		}
		if err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("UDP to %s: %v, want it refused", at, err)
		}
		c.Close()
		host, _, _ := net.SplitHostPort(at)
		p.log.wait(t, "UDP to "+at, func(e rig.EgressEvent) bool {
			named := e.Address == host || host == synthetic && e.Host == "good.test"
			return e.Protocol == protoUDP && named && e.Reason == ReasonProtocol && e.Verdict == "deny"
		})
	}
	for _, tc := range []struct {
		name, protocol, address string
		frame                   []byte
		answer                  func(frame []byte) bool
	}{
		{"ping", protoICMP, "8.8.8.8", pingFrame("8.8.8.8"), isUnreachable4(header.ICMPv4AdminProhibited)},
		{"SCTP", protoOther, "8.8.4.4", ipv4Frame("8.8.4.4", 132, make([]byte, 20)), isUnreachable4(header.ICMPv4AdminProhibited)},
		{"IPv6", protoIPv6, "2606:4700::1", ipv6Frame("fd00::2", "2606:4700::1", header.TCPProtocolNumber, make([]byte, 20)), isICMPv6(header.ICMPv6DstUnreachable)},
		{"IPv6 neighbour", "", "", solicitFrame("fd00::2", "2606:4700::1"), isICMPv6(header.ICMPv6NeighborAdvert)},
	} {
		p.inject(tc.frame)
		late := time.After(deadline)
		for answered := false; !answered; {
			select {
			case f := <-p.raw:
				answered = tc.answer(f)
			case <-late:
				t.Fatalf("%s: no answer", tc.name)
			}
		}
		if tc.protocol != "" {
			p.log.wait(t, tc.name, func(e rig.EgressEvent) bool { return e.Protocol == tc.protocol && e.Address == tc.address })
		}
	}
	d := p.gate.Dropped()
	if d[dropUDP] < 3 || d[dropICMP] != 1 || d[dropProtocol] != 1 || d[dropIPv6] != 1 || d[dropMulticast] != 1 {
		t.Errorf("dropped %v", d)
	}
	// And an application falls back: there is no IPv6 address to try.
	if r := p.exchange(new(dns.Msg).SetQuestion("good.test.", dns.TypeAAAA)); r.Rcode != dns.RcodeSuccess || len(r.Answer) != 0 {
		t.Errorf("AAAA: %v", r)
	}
}

func isUnreachable4(code header.ICMPv4Code) func([]byte) bool {
	return func(f []byte) bool {
		if header.Ethernet(f).Type() != header.IPv4ProtocolNumber {
			return false
		}
		ip := header.IPv4(f[header.EthernetMinimumSize:])
		return ip.TransportProtocol() == header.ICMPv4ProtocolNumber && header.ICMPv4(ip.Payload()).Code() == code
	}
}

func isICMPv6(kind header.ICMPv6Type) func([]byte) bool {
	return func(f []byte) bool {
		return header.Ethernet(f).Type() == header.IPv6ProtocolNumber &&
			header.ICMPv6(header.IPv6(f[header.EthernetMinimumSize:]).Payload()).Type() == kind
	}
}

// E9: the next connection goes where the name points then.
func TestNamesAreResolvedAtConnectTime(t *testing.T) {
	p := newPeer(t, "moves.test:7")
	p.world.serve(t, "1.2.3.4:7", func(c *net.TCPConn) { io.WriteString(c, "old") })
	p.world.serve(t, "1.2.3.5:7", func(c *net.TCPConn) { io.WriteString(c, "new") })
	at := p.lookup("moves.test").String() + ":7" // the guest asks once and never again
	for addr, want := range map[string]string{"1.2.3.4": "old", "1.2.3.5": "new"} {
		p.world.name("moves.test", addr)
		c, err := p.dial(at)
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(deadline))
		if got, _ := io.ReadAll(c); string(got) != want {
			t.Errorf("at %s: %q", addr, got)
		}
		c.Close()
	}
}

// E10: an admitted name does not admit what it points to.
func TestForbiddenRangesAreNotDialled(t *testing.T) {
	p := newPeer(t, "*.rebind.test:7", "in.corp.test:7 private", "mixed.test:7")
	for i, addr := range []string{"127.0.0.1", "10.0.0.1", "100.64.0.1", "169.254.169.254", "::ffff:10.0.0.1", "0.0.0.0", "::1", "fd00::1", "fe80::1", "64:ff9b::a00:1", "192.168.1.1", "224.0.0.1"} {
		host := string(rune('a'+i)) + ".rebind.test"
		p.world.name(host, addr)
		p.world.serve(t, net.JoinHostPort(addr, "7"), echo)
		p.mustRefuseName(host, 7)
		if e := p.log.reason(t, ReasonForbiddenRange, host); e.Verdict != "deny" || e.Address == "" {
			t.Errorf("%s: %+v", addr, e)
		}
	}
	if d := p.world.dialled(); len(d) != 0 {
		t.Errorf("dialled %q", d)
	}
	// Where the pattern says private it goes there.
	p.world.name("in.corp.test", "10.0.0.1")
	roundTrip(t, p.mustConnect("in.corp.test", 7), "inside")
	// Among several addresses only the usable ones are tried.
	p.world.name("mixed.test", "127.0.0.1", "1.2.3.4", "::1")
	p.world.serve(t, "1.2.3.4:7", echo)
	roundTrip(t, p.mustConnect("mixed.test", 7), "outside")
	if d := p.world.dialled(); len(d) != 2 || d[1] != "1.2.3.4:7" {
		t.Errorf("dialled %q", d)
	}
}

// A name may have thousands of addresses: no more than some are looked at, and fewer tried.
func TestManyAddresses(t *testing.T) {
	addrs := func(n int, of string) []string {
		var out []string
		for i := range n {
			out = append(out, fmt.Sprintf("%s.%d.%d", of, i/250, 1+i%250))
		}
		return out
	}
	p := newPeer(t, "*.many.test:7")
	good := "1.9.9.9"
	p.world.serve(t, good+":7", echo)
	// The last that is looked at is found; one more is not there.
	p.world.name("in.many.test", append(addrs(maxAnswers-1, "10.0"), good)...)
	p.world.name("out.many.test", append(addrs(maxAnswers, "10.0"), good)...)
	roundTrip(t, p.mustConnect("in.many.test", 7), "in")
	p.mustRefuseName("out.many.test", 7)
	p.log.reason(t, ReasonForbiddenRange, "out.many.test")
	if d := p.world.dialled(); !slices.Equal(d, []string{good + ":7"}) {
		t.Errorf("dialled %q", d)
	}
	p.world.name("dead.many.test", addrs(5000, "1.2")...)
	p.mustRefuseName("dead.many.test", 7)
	p.log.reason(t, ReasonUpstreamUnreachable, "dead.many.test")
	if n := len(p.world.dialled()) - 1; n != maxUpstreams {
		t.Errorf("%d addresses were tried", n)
	}
}

// A name may point at the host itself by its public address.
func TestOwnAddressIsForbidden(t *testing.T) {
	addrs, err := net.InterfaceAddrs()
	if err != nil || len(addrs) == 0 {
		t.Skip("this machine has no addresses to look at")
	}
	for _, a := range addrs {
		if ip, _, err := net.ParseCIDR(a.String()); err == nil {
			var own = mustAddr(t, ip.String())
			if !thisMachine().has(own) {
				t.Errorf("%s is not taken for this machine's own", own)
			}
		}
	}
	if thisMachine().has(mustAddr(t, "1.2.3.4")) {
		t.Error("1.2.3.4 is taken for this machine's own")
	}
}

// E14: a change of the list holds at once, for waiting and for open connections.
func TestListChangesWhileRunning(t *testing.T) {
	p := newPeer(t, "keep.test:7")
	for host, addr := range map[string]string{"keep.test": "1.2.3.4", "late.test": "1.2.3.5", "a.wide.test": "1.2.3.6"} {
		p.world.name(host, addr)
		p.world.serve(t, addr+":7", echo)
	}
	kept := p.mustConnect("keep.test", 7)
	at := p.lookup("late.test").String() + ":7"
	p.mustRefuse(at)
	if err := p.gate.Allow("late.test:7", time.Time{}); err != nil {
		t.Fatal(err)
	}
	late, err := p.dial(at) // without another lookup
	if err != nil {
		t.Fatal(err)
	}
	late.SetDeadline(time.Now().Add(deadline))
	roundTrip(t, late, "admitted")

	if err := p.gate.Deny("late.test:7"); err != nil {
		t.Fatal(err)
	}
	mustEnd(t, late)
	p.mustRefuse(at)
	if e := p.log.reason(t, ReasonRemoved, "late.test"); e.Verdict != "deny" || e.BytesOut != 8 || e.BytesIn != 8 {
		t.Errorf("the removed connection: %+v", e)
	}
	roundTrip(t, kept, "still here")

	// What another pattern still admits stays.
	for _, pattern := range []string{"a.wide.test:7", "*.wide.test:7"} {
		if err := p.gate.Allow(pattern, time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	wide := p.mustConnect("a.wide.test", 7)
	if err := p.gate.Deny("*.wide.test:7"); err != nil {
		t.Fatal(err)
	}
	roundTrip(t, wide, "still admitted")
	if err := p.gate.Deny("a.wide.test:7"); err != nil {
		t.Fatal(err)
	}
	mustEnd(t, wide)

	if err := p.gate.Deny("a.wide.test:7"); rig.CodeOf(err) != rig.CodeNotFound {
		t.Errorf("removing twice: %v", err)
	}
	if err := p.gate.Allow("*", time.Time{}); rig.CodeOf(err) != rig.CodeInvalidRequest {
		t.Errorf("admitting everything: %v", err)
	}
	if got := p.gate.Patterns(); len(got) != 1 || got[0] != "keep.test:7" {
		t.Errorf("patterns: %q", got)
	}
}

// While a host's addresses are tried, each is judged for itself.
func TestListChangesWhileAddressesAreTried(t *testing.T) {
	start := func(p *peer, addrs ...string) {
		p.world.name("db.test", addrs...)
		for _, a := range addrs {
			p.world.stall[a+":7"] = true
		}
		at := p.lookup("db.test").String() + ":7"
		go func() { _, _ = p.dial(at) }()
		waitFor(t, "it to be dialled", func() bool { return len(p.world.dialled()) > 0 })
	}
	ended := func(p *peer) bool { return len(p.gate.open()) == 0 }
	t.Run("another's denial", func(t *testing.T) {
		p := newPeer(t, "db.test:7", "other.test")
		start(p, "1.2.3.4", "127.0.0.1") // the last one is not admitted, which ends nothing
		if err := p.gate.Deny("other.test"); err != nil {
			t.Fatal(err)
		}
		for _, c := range p.gate.open() {
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.closed {
				t.Error("it is closed")
			}
		}
		if ended(p) {
			t.Error("it has ended")
		}
	})
	t.Run("all that was left", func(t *testing.T) {
		p := newPeer(t, "db.test:7", "db.test:7 private")
		start(p, "10.0.0.1", "10.0.0.2")
		if err := p.gate.Deny("db.test:7 private"); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "the end", func() bool { return ended(p) })
		p.log.reason(t, ReasonRemoved, "db.test")
	})
	t.Run("some", func(t *testing.T) {
		p := newPeer(t, "db.test:7", "db.test:7 private")
		start(p, "10.0.0.1", "10.0.0.2", "1.2.3.4")
		if err := p.gate.Deny("db.test:7 private"); err != nil {
			t.Fatal(err)
		}
		before := p.world.dialled()
		waitFor(t, "the public one to be tried", func() bool { return slices.Contains(p.world.dialled(), "1.2.3.4:7") })
		if d := p.world.dialled(); slices.Contains(d, "10.0.0.2:7") && !slices.Contains(before, "10.0.0.2:7") {
			t.Errorf("dialled after the denial: %q", d)
		}
	})
}

// A denial reaches a connection that is still being opened.
func TestDenyReachesAConnectionBeingDialled(t *testing.T) {
	p := newPeer(t, "slow.test:7")
	p.world.name("slow.test", "1.2.3.4")
	p.world.stall["1.2.3.4:7"] = true
	refused := make(chan error, 1)
	at := p.lookup("slow.test").String() + ":7"
	go func() {
		_, err := p.dial(at)
		refused <- err
	}()
	for late := time.Now().Add(deadline); len(p.world.dialled()) == 0 && time.Now().Before(late); {
		time.Sleep(time.Millisecond) // until it is dialled
	}
	if err := p.gate.Deny("slow.test:7"); err != nil {
		t.Fatal(err)
	}
	if err := <-refused; err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("the guest sees %v", err)
	}
	p.log.reason(t, ReasonRemoved, "slow.test")
}

// E15: however a name is spelled, one form decides.
func TestSpellingsOfANameAreOneName(t *testing.T) {
	p := newPeer(t, "BÜCHER.Example.:7")
	p.world.name("xn--bcher-kva.example", "1.2.3.4")
	p.world.serve(t, "1.2.3.4:7", echo)
	first := p.lookup("xn--bcher-kva.example")
	for _, host := range []string{"XN--BCHER-KVA.EXAMPLE", "xn--bcher-kva.example.", "Xn--Bcher-Kva.Example."} {
		if a := p.lookup(host); a != first {
			t.Errorf("%s has address %s, %s expected", host, a, first)
		}
		roundTrip(t, p.mustConnect(host, 7), host)
	}
	if got := p.gate.Patterns(); got[0] != "xn--bcher-kva.example:7" {
		t.Errorf("patterns: %q", got)
	}
	p.mustRefuseName("bucher.example", 7)
}

func TestHappyEyeballs(t *testing.T) {
	p := newPeer(t, "both.test:7", "broken.test:7")
	p.world.name("both.test", "2606:4700::1", "2606:4700::2", "1.2.3.4")
	p.world.stall["[2606:4700::1]:7"] = true
	p.world.serve(t, "1.2.3.4:7", echo)
	roundTrip(t, p.mustConnect("both.test", 7), "hello")
	if d := p.world.dialled(); len(d) != 2 || d[1] != "1.2.3.4:7" {
		t.Errorf("dialled %q, want the other family second", d)
	}
}

func TestTwoGatesWithOppositeLists(t *testing.T) {
	a, b := newPeer(t, "a.test:7"), newPeer(t, "b.test:7")
	for _, p := range []*peer{a, b} {
		for _, host := range []string{"a.test", "b.test"} {
			p.world.name(host, "1.2.3.4")
		}
		p.world.serve(t, "1.2.3.4:7", echo)
	}
	roundTrip(t, a.mustConnect("a.test", 7), "a")
	roundTrip(t, b.mustConnect("b.test", 7), "b")
	a.mustRefuseName("b.test", 7)
	b.mustRefuseName("a.test", 7)
}

func TestServeEnds(t *testing.T) {
	t.Run("with the stream", func(t *testing.T) {
		p := newPeer(t, "good.test:7")
		p.world.name("good.test", "1.2.3.4")
		p.world.serve(t, "1.2.3.4:7", echo)
		c := p.mustConnect("good.test", 7)
		roundTrip(t, c, "hello")
		p.conn.Close()
		if err := p.served(); err != nil {
			t.Errorf("Serve: %v", err)
		}
		p.log.reason(t, ReasonClosed, "good.test") // the last line was not lost
	})
	t.Run("with its context", func(t *testing.T) {
		p := newPeer(t, "good.test:7")
		p.world.name("good.test", "1.2.3.4")
		p.world.serve(t, "1.2.3.4:7", echo)
		roundTrip(t, p.mustConnect("good.test", 7), "hello")
		p.stop()
		if err := p.served(); !errors.Is(err, context.Canceled) {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Run("in the middle of a frame", func(t *testing.T) {
		p := newPeer(t)
		p.conn.Write([]byte{0, 0, 1, 0, 1, 2, 3})
		p.conn.Close()
		if err := p.served(); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Run("when the stream makes no sense", func(t *testing.T) {
		p := newPeer(t)
		p.conn.Write([]byte{0xff, 0xff, 0xff, 0xff})
		if err := p.served(); rig.CodeOf(err) != rig.CodeBackendFailure {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Run("while the guest shakes hands for ever", func(t *testing.T) {
		p := newPeer(t, "good.test:7")
		p.world.name("good.test", "1.2.3.4")
		p.world.serve(t, "1.2.3.4:7", echo)
		a := p.lookup("good.test")
		// From a stack that knows of no such connection, and is kept from saying so.
		p.drop.Store(true)
		p.inject(tcpSYN(a.String(), 7))
		for late := time.Now().Add(deadline); len(p.world.dialled()) == 0 && time.Now().Before(late); {
			time.Sleep(time.Millisecond)
		}
		p.stop()
		p.served()
	})
}

func TestOneStreamAtATime(t *testing.T) {
	p := newPeer(t)
	p.lookup("x.test") // it serves
	a, b := socketpair(t)
	defer b.Close()
	if err := p.gate.Serve(context.Background(), a); rig.CodeOf(err) != rig.CodeConflict {
		t.Errorf("a second stream: %v", err)
	}
	p.conn.Close()
	p.served()
	a, b = socketpair(t)
	b.Close()
	if err := p.gate.Serve(context.Background(), a); err != nil {
		t.Errorf("after the first: %v", err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, cfg := range []Config{{Patterns: []string{"*"}}, {MTU: 100}, {MTU: 65521}} {
		if _, err := New(cfg); rig.CodeOf(err) != rig.CodeInvalidRequest {
			t.Errorf("New(%+v): %v", cfg, err)
		}
	}
}

// A guest that was cloned knows its gateway from before, and never asks this gate
// for its address.
func TestCloneThatKnowsItsGateway(t *testing.T) {
	p := newPeer(t, "good.test:7")
	if err := p.stack.AddStaticNeighbor(nicID, header.IPv4ProtocolNumber, tcpip.AddrFrom4(gatewayAddr.As4()), gatewayMAC); err != nil {
		t.Fatal(err)
	}
	p.world.name("good.test", "1.2.3.4")
	p.world.serve(t, "1.2.3.4:7", echo)
	roundTrip(t, p.mustConnect("good.test", 7), "hello")
}
