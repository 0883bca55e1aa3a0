package gate

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/header"
)

// rawTCP is a guest's connection that is made of frames, one at a time, so that
// it can do what no stack does.
type rawTCP struct {
	*peer
	to       netip.Addr
	port     uint16
	from     uint16
	seq, ack uint32
}

// rawTCP looks host up and makes ready to speak to it. From then on nothing that the
// gate sends reaches the peer's own stack, which would answer as well.
func (p *peer) rawTCP(host string, port uint16) *rawTCP {
	p.t.Helper()
	r := &rawTCP{peer: p, to: p.lookup(host), port: port, from: uint16(30000 + time.Now().UnixNano()%20000), seq: 1000}
	p.drop.Store(true)
	return r
}

// segment is a frame with one segment. Its sequence number is at bytes after what
// was acknowledged.
func (r *rawTCP) segment(at uint32, flags header.TCPFlags, options, payload []byte) []byte {
	size := header.TCPMinimumSize + len(options)
	h := make(header.TCP, size+len(payload))
	h.Encode(&header.TCPFields{
		SrcPort: r.from, DstPort: r.port, SeqNum: r.seq + at, AckNum: r.ack, DataOffset: uint8(size), Flags: flags, WindowSize: 65535,
	})
	copy(h[header.TCPMinimumSize:], options)
	copy(h[size:], payload)
	return ipv4Frame(r.to.String(), header.TCPProtocolNumber, h)
}

func (r *rawTCP) send(at uint32, flags header.TCPFlags, payload string) {
	r.t.Helper()
	r.inject(r.segment(at, flags, nil, []byte(payload)))
}

// answer returns the next segment to this connection.
func (r *rawTCP) answer() header.TCP {
	r.t.Helper()
	for late := time.After(deadline); ; {
		select {
		case frame := <-r.raw:
			if len(frame) < header.EthernetMinimumSize+header.IPv4MinimumSize+header.TCPMinimumSize ||
				header.Ethernet(frame).Type() != header.IPv4ProtocolNumber {
				continue
			}
			ip := header.IPv4(frame[header.EthernetMinimumSize:])
			if h := header.TCP(ip.Payload()); ip.TransportProtocol() == header.TCPProtocolNumber && h.DestinationPort() == r.from {
				return slices.Clone(h)
			}
		case <-late:
			r.t.Fatal("the gate does not answer")
		}
	}
}

// open makes the handshake, with data in the SYN if there is some.
func (r *rawTCP) open(options []byte, data string) {
	r.t.Helper()
	r.inject(r.segment(0, header.TCPFlagSyn, options, []byte(data)))
	a := r.answer()
	if a.Flags() != header.TCPFlagSyn|header.TCPFlagAck {
		r.t.Fatalf("a SYN is answered with %s", a.Flags())
	}
	r.seq, r.ack = a.AckNumber(), a.SequenceNumber()+1
	r.send(0, header.TCPFlagAck, "")
}

// A burst of SYNs passes the limit of connections being opened no more than SYNs one by one.
func TestBurstOfConnections(t *testing.T) {
	p := newPeerWith(t, Limits{Connections: 64, Opening: 4}, "slow.test:7")
	p.world.name("slow.test", "1.2.3.4")
	p.world.stall["1.2.3.4:7"] = true
	c := p.rawTCP("slow.test", 7)
	const burst = 60
	var frames []byte
	for range burst {
		c.from++
		f := c.segment(0, header.TCPFlagSyn, nil, nil)
		frames = append(append(frames, 0, 0, 0, byte(len(f))), f...)
	}
	p.pause()
	if _, err := p.conn.Write(frames); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "all to be decided", func() bool {
		return p.gate.Counters().Refused[ReasonTooMany]+uint64(len(p.world.dialled())) >= burst
	})
	if n := len(p.world.dialled()); n != 4 {
		t.Errorf("%d are being dialled at once", n)
	}
	p.resume()
}

// Padding is kept with the data that it follows, and no count of a connection's
// memory knows of it.
func TestPaddingIsNotKept(t *testing.T) {
	p := newPeer(t, "good.test:7")
	p.world.name("good.test", "1.2.3.4")
	p.world.serve(t, "1.2.3.4:7", echo)
	c := p.rawTCP("good.test", 7)
	c.open(nil, "")
	p.log.reason(t, ReasonAdmitted, "good.test")
	before := heap()
	const each = 2000
	p.pause()                     // raw writes must not be mixed with its frames
	for i := range uint32(each) { // each leaves a gap before it, so it has to wait
		p.write(append(c.segment(1+2*i, header.TCPFlagAck, nil, []byte("x")), make([]byte, 65000)...))
	}
	p.resume()
	waitFor(t, "all to be taken", func() bool { return p.gate.Dropped()[dropMalformed] == each })
	if after := heap(); after > before+8<<20 {
		t.Errorf("the heap grew from %d to %d KB", before>>10, after>>10)
	}
}

// Whatever a guest does to TCP, nothing goes up before the verdict on its first bytes,
// and what goes up is what was judged.
func TestNothingPassesBeforeTheVerdict(t *testing.T) {
	const (
		ack  = header.TCPFlagAck
		good = "GET / HTTP/1.1\r\nHost: good.test\r\n\r\n"
		evil = "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"
	)
	for name, tc := range map[string]struct {
		port uint16
		do   func(*rawTCP)
		up   int // bytes that go up
	}{
		"data in the SYN":                     {80, func(c *rawTCP) { c.open(nil, evil); c.send(0, ack, evil) }, 0},
		"other data in the SYN than after it": {80, func(c *rawTCP) { c.open(nil, good); c.send(0, ack, evil) }, 0},
		"data before the handshake is over": {80, func(c *rawTCP) {
			c.send(1, ack, good)
			c.answer() // a reset
			c.open(nil, "")
			c.send(0, ack, evil)
		}, 0},
		"the end first": {80, func(c *rawTCP) {
			c.open(nil, "")
			c.send(5, ack, evil[5:])
			c.send(0, ack, evil[:5])
		}, 0},
		"an overlap that says another thing": {80, func(c *rawTCP) {
			c.open(nil, "")
			c.send(16, ack, evil[16:])
			c.send(16, ack, good[16:])
			c.send(0, ack, good[:16])
		}, 0},
		"urgent": {443, func(c *rawTCP) { c.open(nil, ""); c.send(0, ack|header.TCPFlagUrg|header.TCPFlagPsh, "urgent data") }, 0},
		"a hello, and the end in the same segment": {443, func(c *rawTCP) {
			c.open(nil, "")
			c.send(0, ack|header.TCPFlagFin, string(clientHello(c.t, "evil.test")))
		}, 0},
		"a hello that is broken off": {443, func(c *rawTCP) {
			c.open(nil, "")
			c.send(0, ack, string(clientHello(c.t, "good.test")[:100]))
			c.send(100, ack|header.TCPFlagFin, "")
		}, 0},
		"a byte at a time, backwards": {80, func(c *rawTCP) {
			c.open(nil, "")
			for i := range len(good) {
				at := len(good) - 1 - i
				c.send(uint32(at), ack, good[at:at+1])
			}
			c.send(uint32(len(good)), ack, evil)
		}, len(good)},
	} {
		t.Run(name, func(t *testing.T) {
			p, up := tlsWorld(t, Limits{})
			c := p.rawTCP("good.test", tc.port)
			tc.do(c)
			reason := ReasonHTTPHost
			if tc.port == portTLS {
				reason = ReasonServerName
			}
			if e := p.log.reason(t, reason, "good.test"); e.BytesOut != int64(tc.up) {
				t.Errorf("%+v", e)
			}
			if n := int(up.Load()); n > tc.up {
				t.Errorf("%d bytes went up, want %d", n, tc.up)
			}
		})
	}
}

// Segments that open nothing are answered with a reset or not at all, and lead
// nowhere.
func TestOnlyASYNOpens(t *testing.T) {
	p := newPeer(t, "good.test:7")
	p.world.name("good.test", "1.2.3.4")
	p.world.serve(t, "1.2.3.4:7", echo)
	c := p.rawTCP("good.test", 7)
	for flags := range header.TCPFlags(64) {
		if flags.Contains(header.TCPFlagSyn) && !flags.Intersects(header.TCPFlagAck|header.TCPFlagRst|header.TCPFlagFin) {
			continue
		}
		c.from++
		c.send(0, flags, "data")
		if flags.Contains(header.TCPFlagRst) {
			continue // a reset is never answered (RFC 9293 §3.10.7.1)
		}
		if a := c.answer(); !a.Flags().Contains(header.TCPFlagRst) {
			t.Errorf("%s is answered with %s", flags, a.Flags())
		}
	}
	if d := p.world.dialled(); len(d) != 0 {
		t.Errorf("dialled %q", d)
	}
}
