package gate

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/miekg/dns"
	"gvisor.dev/gvisor/pkg/tcpip/header"
)

// question packs a lookup as it is sent over TCP.
func question(t testing.TB, host string, id uint16) []byte {
	t.Helper()
	q := new(dns.Msg).SetQuestion(dns.Fqdn(host), dns.TypeA)
	q.Id = id
	b, err := q.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...)
}

// Lookups over TCP may follow each other without waiting (RFC 7766 §6.2.1.1), in
// whatever pieces.
func TestLookupsInOneStream(t *testing.T) {
	p := newPeer(t, "good.test")
	c, err := p.dial("10.0.0.1:53")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(deadline))
	var all []byte
	for i := range uint16(50) {
		all = append(all, question(t, fmt.Sprintf("n%d.test", i), i)...)
	}
	for piece := range chunks(all, 333) {
		if _, err := c.Write(piece); err != nil {
			t.Fatal(err)
		}
	}
	stream := &dns.Conn{Conn: c}
	seen := map[string]bool{}
	for i := range uint16(50) {
		r, err := stream.ReadMsg()
		if err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
		if r.Id != i || r.Question[0].Name != fmt.Sprintf("n%d.test.", i) || len(r.Answer) != 1 {
			t.Fatalf("answer %d: %v", i, r)
		}
		seen[r.Answer[0].(*dns.A).A.String()] = true
	}
	if len(seen) != 50 {
		t.Errorf("%d addresses for 50 names", len(seen))
	}
	if asked := p.world.asked(); len(asked) != 0 {
		t.Errorf("resolved: %q", asked)
	}
}

// What is no lookup ends the stream it came in, without an answer.
func TestStreamsThatAreNoLookups(t *testing.T) {
	p := newPeer(t)
	for name, bytes := range map[string]string{
		"nothing in it":       "\x00\x00",
		"longer than can be":  "\xff\xff",
		"HTTP":                "GET / HTTP/1.1\r\n\r\n",
		"an answer":           "\x00\x0c\x00\x00\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00",
		"shorter than it is":  "\x00\x03abc",
		"after a good lookup": "",
	} {
		t.Run(name, func(t *testing.T) {
			c, err := p.dial("10.0.0.1:53")
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(deadline))
			if bytes == "" {
				q := question(t, "a.test", 1)
				if _, err := c.Write(append(q, 0, 0)); err != nil {
					t.Fatal(err)
				}
				answer := make([]byte, 2)
				if _, err := io.ReadFull(c, answer); err != nil {
					t.Fatal(err)
				}
				if _, err := io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint16(answer))); err != nil {
					t.Fatal(err)
				}
			} else if _, err := io.WriteString(c, bytes); err != nil {
				t.Fatal(err)
			}
			mustEnd(t, c)
		})
	}
}

// Handshakes that are never completed, and streams that say nothing, keep no lookup
// from being answered: over UDP at once, over TCP when there is room again.
func TestHalfOpenLookups(t *testing.T) {
	p := newPeer(t, "good.test")
	p.lookup("good.test")
	p.drop.Store(true) // its own stack would refuse the answers
	p.pause()
	for i := range 500 {
		h := make(header.TCP, header.TCPMinimumSize)
		h.Encode(&header.TCPFields{SrcPort: uint16(20000 + i), DstPort: dnsPort, SeqNum: 1, DataOffset: header.TCPMinimumSize, Flags: header.TCPFlagSyn, WindowSize: 65535})
		p.write(ipv4Frame("10.0.0.1", header.TCPProtocolNumber, h))
	}
	p.write(pingFrame("10.0.0.1"))
	waitFor(t, "all to be taken", func() bool { return p.gate.Dropped()[dropICMP] == 1 })
	p.drop.Store(false)
	p.resume()
	p.lookup("good.test")
	var silent []net.Conn
	for range dnsStreams {
		c, err := p.dial("10.0.0.1:53")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		silent = append(silent, c)
	}
	p.lookup("good.test")
	waiting, err := p.dial("10.0.0.1:53")
	if err != nil {
		t.Fatal(err)
	}
	defer waiting.Close()
	silent[0].Close()
	if r := p.ask(&dns.Conn{Conn: waiting}, new(dns.Msg).SetQuestion("good.test.", dns.TypeA)); len(r.Answer) != 1 {
		t.Errorf("%v", r)
	}
}
