package gate

import (
	"encoding/base64"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"rigs/internal/rig"
)

// E1: lookups of denied names reach nobody, whatever their type and transport.
func TestDeniedLookupsCostNoQuery(t *testing.T) {
	p := newPeer(t, "good.test:7")
	p.world.name("good.test", "1.2.3.4")
	secret := base64.StdEncoding.EncodeToString([]byte("the secret > all ?? of it"))
	host := strings.ToLower(secret) + ".evil.test"
	for _, kind := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeTXT, dns.TypeHTTPS, dns.TypeANY, dns.TypeMX} {
		q := new(dns.Msg).SetQuestion(secret+".evil.test.", kind)
		for _, r := range []*dns.Msg{p.exchange(q), p.exchangeTCP(q)} {
			want := 0
			if kind == dns.TypeA {
				want = 1
			}
			if r.Rcode != dns.RcodeSuccess || len(r.Answer) != want {
				t.Errorf("type %s: %v", dns.TypeToString[kind], r)
			}
		}
	}
	p.mustRefuseName("tried.evil.test", 443)
	p.log.wait(t, "the refused lookup", func(e rig.EgressEvent) bool {
		return e.Protocol == protoDNS && e.Host == host && e.Reason == ReasonNotAdmitted && e.Verdict == "deny"
	})
	p.log.wait(t, "the refused connection", func(e rig.EgressEvent) bool {
		return e.Protocol == protoTCP && e.Host == "tried.evil.test" && e.Port == 443 && e.Reason == ReasonNotAdmitted
	})
	if got := p.world.asked(); len(got) != 0 {
		t.Errorf("the host was asked for %q", got)
	}
	p.log.mu.Lock()
	defer p.log.mu.Unlock()
	for _, e := range p.log.lines {
		if e.Protocol == protoDNS && e.Host != host {
			t.Errorf("the lookup of %s is told beside its connection", e.Host)
		}
	}
}

// E2 and E13: without a list nothing is reachable, and nothing is asked.
func TestEmptyListReachesNothing(t *testing.T) {
	p := newPeer(t)
	for _, host := range []string{"payload.evil.test", "good.test", "github.com", "localhost", "metadata.google.internal"} {
		for _, port := range []int{80, 443, 22} {
			p.mustRefuseName(host, port)
		}
		p.log.reason(t, ReasonNotAdmitted, host)
	}
	if a, d := p.world.asked(), p.world.dialled(); len(a)+len(d) != 0 {
		t.Errorf("asked for %q, dialled %q", a, d)
	}
}

// E3: addresses are not names.
func TestRawAddressesAreRefused(t *testing.T) {
	p := newPeer(t, "good.test")
	for _, at := range []string{"8.8.8.8:443", "9.9.9.9:443", "169.254.169.254:80", "10.0.0.1:80", "10.0.0.77:22", "198.18.55.55:443", "192.168.1.1:80"} {
		p.mustRefuse(at)
		host, _, _ := net.SplitHostPort(at)
		p.log.wait(t, "rawAddress of "+at, func(e rig.EgressEvent) bool {
			return e.Reason == ReasonRawAddress && e.Address == host && e.Host == ""
		})
	}
	if d := p.world.dialled(); len(d) != 0 {
		t.Errorf("dialled %q", d)
	}
}

func TestAdmittedHostIsReached(t *testing.T) {
	p := newPeer(t, "good.test:7")
	p.world.name("good.test", "1.2.3.4")
	p.world.serve(t, "1.2.3.4:7", echo)
	c := p.mustConnect("good.test", 7)
	roundTrip(t, c, "hello")
	c.CloseWrite()
	mustEnd(t, c)
	open := p.log.reason(t, ReasonAdmitted, "good.test")
	if open.Verdict != "allow" || open.Address != "1.2.3.4" || open.Port != 7 || open.Protocol != "tcp" {
		t.Errorf("opened: %+v", open)
	}
	c.Close()
	end := p.log.reason(t, ReasonClosed, "good.test")
	if end.Verdict != "allow" || end.BytesOut != 5 || end.BytesIn != 5 || end.Seconds <= 0 || end.Seq <= open.Seq {
		t.Errorf("closed: %+v", end)
	}
	if got := p.world.asked(); !slices.Equal(got, []string{"good.test."}) {
		t.Errorf("asked for %q, want the absolute name once", got)
	}
	p.mustRefuseName("good.test", 443)
	p.log.reason(t, ReasonPortNotAdmitted, "good.test")
}

// A half-closed connection stays half open.
func TestHalfClose(t *testing.T) {
	p := newPeer(t, "good.test:7")
	p.world.name("good.test", "1.2.3.4")
	p.world.serve(t, "1.2.3.4:7", func(c *net.TCPConn) {
		all, _ := io.ReadAll(c) // until the guest's end
		io.WriteString(c, "got "+string(all))
	})
	c := p.mustConnect("good.test", 7)
	io.WriteString(c, "question")
	c.CloseWrite()
	if all, err := io.ReadAll(c); err != nil || string(all) != "got question" {
		t.Errorf("answer %q, %v", all, err)
	}
}

// What the other end refuses, the guest sees refused; what it resets, reset.
func TestUpstreamFailuresAreTheGuests(t *testing.T) {
	p := newPeer(t, "closed.test:7", "nowhere.test:7", "unknown.test:7", "resets.test:7")
	p.world.name("closed.test", "1.2.3.4")
	p.world.closedPort(t, "1.2.3.4:7")
	p.world.name("nowhere.test", "1.2.3.5")
	p.world.name("resets.test", "1.2.3.6")
	p.world.serve(t, "1.2.3.6:7", func(c *net.TCPConn) {
		io.ReadFull(c, make([]byte, 1))
		c.SetLinger(0)
	})
	p.mustRefuseName("closed.test", 7)
	p.mustRefuseName("nowhere.test", 7)
	p.mustRefuseName("unknown.test", 7)
	p.log.reason(t, ReasonUpstreamRefused, "closed.test")
	p.log.reason(t, ReasonUpstreamUnreachable, "nowhere.test")
	p.log.reason(t, ReasonLookupFailed, "unknown.test")
	c := p.mustConnect("resets.test", 7)
	io.WriteString(c, "x")
	if _, err := c.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "reset") {
		t.Errorf("after a reset: %v", err)
	}
}
