package gate

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"rigs/internal/rig"
)

func TestNames(t *testing.T) {
	n := newNames(4)
	first := n.assign("a.test", false)
	if !pool.Contains(first) || n.assign("a.test", false) != first || n.name(first) != "a.test" {
		t.Fatalf("a.test: %s", first)
	}
	if other := n.assign("b.test", false); other == first {
		t.Error("two names, one address")
	}
	// Strangers do not displace what is admitted, nor what is open.
	good := n.assign("good.test", true)
	held := n.assign("held.test", false)
	if n.hold(held) != "held.test" || n.hold(netip.MustParseAddr("198.18.200.1")) != "" {
		t.Error("hold")
	}
	seen := map[netip.Addr]bool{}
	for i := range 1000 {
		a := n.assign(fmt.Sprintf("n%d.evil.test", i), false)
		if seen[a] || a == good || a == held {
			t.Fatalf("%s is handed out again", a)
		}
		seen[a] = true
	}
	if n.name(first) != "" || n.name(good) != "good.test" || n.name(held) != "held.test" {
		t.Errorf("first %q, good %q, held %q", n.name(first), n.name(good), n.name(held))
	}
	if n.lists[0].Len() > 4+1 || len(n.byName) != n.lists[0].Len()+n.lists[1].Len() || len(n.byAddr) != len(n.byName) {
		t.Errorf("%d strangers, %d names, %d addresses", n.lists[0].Len(), len(n.byName), len(n.byAddr))
	}
	n.release(held)
	for i := range 10 {
		n.assign(fmt.Sprintf("m%d.evil.test", i), false)
	}
	if n.name(held) != "" {
		t.Error("what is no longer open is kept")
	}
	// The pool wraps around without handing out what is taken.
	n.next = poolSize - 1
	for i := range 5 {
		if a := n.assign(fmt.Sprintf("w%d.evil.test", i), false); !pool.Contains(a) || a == good {
			t.Errorf("at the end of the pool: %s", a)
		}
	}
	// A name that becomes admitted keeps its address.
	now := n.assign("turns.test", false)
	if n.assign("turns.test", true) != now || n.lists[1].Len() != 2 {
		t.Error("an address changed with the policy")
	}
}

func newAnswerer(t testing.TB, patterns ...string) (*answerer, *[]rig.EgressEvent) {
	g, err := New(Config{Patterns: patterns})
	if err != nil {
		t.Fatal(err)
	}
	var notes []rig.EgressEvent
	return &answerer{gate: g, note: func(e rig.EgressEvent) { notes = append(notes, e) }, may: func() bool { return true }}, &notes
}

func TestAnswer(t *testing.T) {
	long := strings.Repeat("a123456789.", 22) + "test."
	for _, tc := range []struct {
		name    string
		q       *dns.Msg
		rcode   int
		answers int
		reason  string // of the line in the log
	}{
		{"A, admitted", new(dns.Msg).SetQuestion("good.test.", dns.TypeA), dns.RcodeSuccess, 1, ""},
		{"A, upper case", new(dns.Msg).SetQuestion("GOOD.test.", dns.TypeA), dns.RcodeSuccess, 1, ""},
		{"AAAA, admitted", new(dns.Msg).SetQuestion("good.test.", dns.TypeAAAA), dns.RcodeSuccess, 0, ""},
		{"HTTPS, admitted", new(dns.Msg).SetQuestion("good.test.", dns.TypeHTTPS), dns.RcodeSuccess, 0, ""},
		{"A, denied", new(dns.Msg).SetQuestion("evil.test.", dns.TypeA), dns.RcodeSuccess, 1, ReasonNotAdmitted},
		{"TXT, denied", new(dns.Msg).SetQuestion("evil.test.", dns.TypeTXT), dns.RcodeSuccess, 0, ReasonNotAdmitted},
		{"data", new(dns.Msg).SetQuestion("aGk+/w==.evil.test.", dns.TypeA), dns.RcodeSuccess, 1, ReasonNotAdmitted},
		{"long", new(dns.Msg).SetQuestion(long, dns.TypeA), dns.RcodeSuccess, 1, ReasonNotAdmitted},
		{"spaces", new(dns.Msg).SetQuestion("a\\ b.test.", dns.TypeA), dns.RcodeNameError, 0, ReasonBadName},
		{"control characters", new(dns.Msg).SetQuestion("a\\010b.test.", dns.TypeA), dns.RcodeNameError, 0, ReasonBadName},
		{"a dot in a label", new(dns.Msg).SetQuestion("good\\.test.", dns.TypeA), dns.RcodeNameError, 0, ReasonBadName},
		{"the root", new(dns.Msg).SetQuestion(".", dns.TypeNS), dns.RcodeNameError, 0, ReasonBadName},
		{"another class", &dns.Msg{Question: []dns.Question{{Name: "version.bind.", Qtype: dns.TypeTXT, Qclass: dns.ClassCHAOS}}}, dns.RcodeRefused, 0, ""},
		{"no question", &dns.Msg{}, dns.RcodeRefused, 0, ""},
		{"two questions", &dns.Msg{Question: []dns.Question{{Name: "a.", Qtype: 1, Qclass: 1}, {Name: "b.", Qtype: 1, Qclass: 1}}}, dns.RcodeRefused, 0, ""},
		{"an update", &dns.Msg{MsgHdr: dns.MsgHdr{Opcode: dns.OpcodeUpdate}, Question: []dns.Question{{Name: "a.", Qtype: 1, Qclass: 1}}}, dns.RcodeNotImplemented, 0, ""},
		{"with EDNS", new(dns.Msg).SetQuestion("good.test.", dns.TypeA).SetEdns0(4096, true), dns.RcodeSuccess, 1, ""},
	} {
		a, notes := newAnswerer(t, "good.test")
		tc.q.Id = 4711
		wire, err := tc.q.Pack()
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		r := new(dns.Msg)
		if err := r.Unpack(a.answer(wire)); err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		if r.Rcode != tc.rcode || len(r.Answer) != tc.answers || !r.Response || r.Id != 4711 || (r.IsEdns0() != nil) != (tc.q.IsEdns0() != nil) {
			t.Errorf("%s: %v", tc.name, r)
		}
		reason := ""
		if len(*notes) > 0 {
			reason = (*notes)[0].Reason
		}
		if reason != tc.reason {
			t.Errorf("%s: logged %q, want %q", tc.name, reason, tc.reason)
		}
	}
}

func TestAnswerGarbage(t *testing.T) {
	a, notes := newAnswerer(t)
	for _, m := range []string{"", "short", strings.Repeat("\xff", 512), "\x00\x00\x80\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x00\x00\x01\x00\x01"} {
		if r := a.answer([]byte(m)); r != nil {
			t.Errorf("%q is answered with %q", m, r)
		}
	}
	if r := a.answer([]byte("\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x3fcut")); len(r) != 12 || r[3]&0xf != dns.RcodeFormatError {
		t.Errorf("a cut question is answered with %q", r)
	}
	a.may = func() bool { return false }
	q, _ := new(dns.Msg).SetQuestion("good.test.", dns.TypeA).Pack()
	if r := a.answer(q); r[3]&0xf != dns.RcodeRefused || (*notes)[0].Reason != ReasonRateLimit {
		t.Errorf("over the rate: %q, %+v", r, *notes)
	}
}

func FuzzAnswer(f *testing.F) {
	for _, q := range []*dns.Msg{
		new(dns.Msg).SetQuestion("good.test.", dns.TypeA), new(dns.Msg).SetQuestion("evil.test.", dns.TypeTXT).SetEdns0(4096, true),
		new(dns.Msg).SetQuestion("a\\000b.test.", dns.TypeA), {},
	} {
		wire, err := q.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(wire)
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		a, notes := newAnswerer(t, "good.test")
		r := a.answer(wire)
		if len(r) > maxUDPAnswer {
			t.Fatalf("an answer of %d bytes", len(r))
		}
		if m := new(dns.Msg); r != nil {
			if err := m.Unpack(r); err != nil || !m.Response {
				t.Fatalf("answer % x: %v", r, err)
			}
			for _, rr := range m.Answer {
				if a, ok := rr.(*dns.A); !ok || !pool.Contains(netip.AddrFrom4([4]byte(a.A.To4()))) {
					t.Fatalf("answer %v", rr)
				}
			}
		}
		for _, e := range *notes {
			if len(e.Host) > 253 || strings.ContainsFunc(e.Host, func(r rune) bool { return r < 0x21 || r > 0x7e }) {
				t.Fatalf("logged %q", e.Host)
			}
		}
	})
}

// journalled runs do with a journal in a bubble of false time, and returns the log.
func journalled(t *testing.T, do func(*journal)) (lines []rig.EgressEvent) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(func(e rig.EgressEvent) { lines = append(lines, e) }, func(host string) bool { return host == "good.test" })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); j.run(ctx) }()
		do(j)
		cancel()
		<-done
	})
	return lines
}

// A refused name is told once: by the connection, or by the lookup when no
// connection follows.
func TestJournalTellsARefusedNameOnce(t *testing.T) {
	lookup := func(host string) rig.EgressEvent {
		return rig.EgressEvent{Reason: ReasonNotAdmitted, Protocol: protoDNS, Host: host}
	}
	connection := func(host string) rig.EgressEvent {
		return rig.EgressEvent{Reason: ReasonNotAdmitted, Protocol: protoTCP, Host: host, Port: 443}
	}
	told := func(lines []rig.EgressEvent) (out []string) {
		for _, e := range lines {
			out = append(out, fmt.Sprintf("%s %s %s %d", e.Protocol, e.Host, e.Reason, max(e.Count, 1)))
		}
		return out
	}
	for name, tc := range map[string]struct {
		do   func(*journal)
		want []string
	}{
		"a connection follows": {func(j *journal) {
			j.refused(lookup("evil.test"))
			j.refused(lookup("evil.test")) // AAAA
			j.refused(connection("evil.test"))
			j.refused(lookup("evil.test"))
			time.Sleep(time.Minute)
		}, []string{"tcp evil.test notAdmitted 1"}},
		"none follows": {func(j *journal) {
			j.refused(lookup("c2VjcmV0.evil.test"))
			j.refused(lookup("c2VjcmV0.evil.test"))
			j.refused(connection("evil.test"))
			time.Sleep(time.Minute)
		}, []string{"tcp evil.test notAdmitted 1", "dns c2VjcmV0.evil.test notAdmitted 2"}},
		"the session ends first": {func(j *journal) { j.refused(lookup("evil.test")) }, []string{"dns evil.test notAdmitted 1"}},
		"it is admitted meanwhile": {func(j *journal) {
			j.refused(lookup("good.test"))
			j.happened(rig.EgressEvent{Verdict: verdictAllow, Reason: ReasonAdmitted, Protocol: protoTCP, Host: "good.test", Port: 443})
			time.Sleep(time.Minute)
		}, []string{"tcp good.test admitted 1"}},
		"it is told, repeated, and then admitted": {func(j *journal) {
			j.refused(lookup("good.test"))
			time.Sleep(lookupHold)
			synctest.Wait()
			j.refused(lookup("good.test"))
			time.Sleep(time.Minute)
		}, []string{"dns good.test notAdmitted 1"}},
		"it goes on": {func(j *journal) {
			for range 20 {
				j.refused(lookup("evil.test"))
				time.Sleep(time.Second)
				synctest.Wait()
			}
			time.Sleep(time.Minute)
		}, []string{"dns evil.test notAdmitted 1", "dns evil.test notAdmitted 1", "dns evil.test notAdmitted 2", "dns evil.test notAdmitted 4", "dns evil.test notAdmitted 8", "dns evil.test notAdmitted 4"}},
		"too many to hold": {func(j *journal) {
			for i := range 2 * journalKeys {
				j.refused(lookup(fmt.Sprintf("n%d.evil.test", i)))
			}
		}, nil},
	} {
		lines := journalled(t, tc.do)
		if tc.want == nil { // what counts is that none is lost, and that they are few
			var n int64
			for _, e := range lines {
				n += max(e.Count, 1)
			}
			if n != 2*journalKeys || len(lines) > journalBurst+2 {
				t.Errorf("%s: %d in %d lines", name, n, len(lines))
			}
			continue
		}
		if got := told(lines); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestJournalCountsWhatRepeats(t *testing.T) {
	e := rig.EgressEvent{Reason: ReasonNotAdmitted, Protocol: protoTCP, Host: "evil.test", Port: 443}
	lines := journalled(t, func(j *journal) {
		for range 120 { // a minute of two a second
			j.refused(e)
			synctest.Wait()
			time.Sleep(500 * time.Millisecond)
		}
	})
	var total int64
	for i, l := range lines {
		if l.Verdict != "deny" || l.Host != "evil.test" || l.Port != 443 || l.Seq != int64(i+1) {
			t.Errorf("line %d: %+v", i, l)
		}
		total += max(l.Count, 1)
	}
	// At once, then after 1, 3, 7, 15, 31 s, and the rest at the end.
	if total != 120 || len(lines) != 7 || lines[0].Count != 0 {
		t.Errorf("%d refusals in %d lines", total, len(lines))
	}
}

func TestJournalStartsAfreshAfterAPause(t *testing.T) {
	e := rig.EgressEvent{Reason: ReasonNotAdmitted, Protocol: protoTCP, Host: "evil.test", Port: 443}
	lines := journalled(t, func(j *journal) {
		for range 3 {
			j.refused(e)
			synctest.Wait()
			time.Sleep(10 * time.Second)
		}
	})
	if len(lines) != 3 || lines[1].Count != 0 {
		t.Errorf("%+v", lines)
	}
}

// A scan cannot fill a disk, and nothing of it is lost from the count.
func TestJournalBoundsAScan(t *testing.T) {
	const each = 60_000
	lines := journalled(t, func(j *journal) {
		for i := range each {
			j.refused(rig.EgressEvent{Reason: ReasonRawAddress, Protocol: protoTCP, Address: "8.8.8.8", Port: i})
			j.happened(rig.EgressEvent{Verdict: "allow", Reason: ReasonClosed, Protocol: protoTCP, Host: "good.test", Port: 443, BytesOut: 10, BytesIn: 20})
			if i%1000 == 0 {
				synctest.Wait()
				time.Sleep(time.Second)
			}
		}
	})
	counts := map[string]int64{}
	var out, in int64
	for _, l := range lines {
		counts[l.Reason] += max(l.Count, 1)
		out, in = out+l.BytesOut, in+l.BytesIn
	}
	if counts[ReasonRawAddress] != each || counts[ReasonClosed] != each || out != 10*each || in != 20*each {
		t.Errorf("counted %v, %d bytes out, %d in", counts, out, in)
	}
	if most := journalBurst + 62*journalRate + 200; len(lines) > most {
		t.Errorf("%d lines in a minute, at most %d expected", len(lines), most)
	}
}

// A reader that is slow makes lines be counted together, and blocks nobody.
func TestJournalWithASlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var total int64
		j := newJournal(func(e rig.EgressEvent) { <-release; total += max(e.Count, 1) }, func(string) bool { return false })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); j.run(ctx) }()
		for i := range 10_000 {
			j.refused(rig.EgressEvent{Reason: ReasonNotAdmitted, Protocol: protoTCP, Host: fmt.Sprintf("n%d.test", i)})
			if i%100 == 0 {
				time.Sleep(time.Second)
			}
		}
		if len(j.queue) > journalQueue || len(j.tallies) > journalKeys+10 {
			t.Errorf("%d lines wait, %d tallies", len(j.queue), len(j.tallies))
		}
		close(release)
		cancel()
		<-done
		if total != 10_000 {
			t.Errorf("%d of 10000 counted", total)
		}
	})
}

func TestInterleave(t *testing.T) {
	var in []candidate
	for _, s := range []string{"1.1.1.1", "1.1.1.2", "2606::1", "1.1.1.3", "2606::2"} {
		in = append(in, candidate{addr: netip.MustParseAddr(s)})
	}
	var got []string
	for _, a := range interleave(in) {
		got = append(got, a.addr.String())
	}
	if s := strings.Join(got, " "); s != "1.1.1.1 2606::1 1.1.1.2 2606::2 1.1.1.3" {
		t.Error(s)
	}
	if n := len(interleave(append(append(in, in...), in...))); n != maxUpstreams {
		t.Errorf("%d addresses are tried", n)
	}
}
