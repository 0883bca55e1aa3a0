package gate

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"
	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip/header"
)

// FuzzSession puts frames on the wire of a whole session, stack and all, in the
// middle of a connection. Nothing that a guest sends may end more than that
// connection: the gate answers a lookup afterwards, and ends when its stream does.
//
// What it sends is a list of records: a kind, a length of two bytes, and content.
// An even kind is a frame as it is. An odd one is a segment of the connection, as
// flags, how far its sequence and acknowledgement are from the right ones (two bytes each), window
// (two bytes), length of the options, options and data: chance alone would
// never meet the numbers.
func FuzzSession(f *testing.F) {
	record := func(kind byte, content []byte) []byte {
		return append(binary.BigEndian.AppendUint16([]byte{kind}, uint16(len(content))), content...)
	}
	segment := func(flags header.TCPFlags, seq, ack, window uint16, options []byte, data string) []byte {
		b := []byte{byte(flags)}
		for _, n := range []uint16{seq, ack, window} {
			b = binary.BigEndian.AppendUint16(b, n)
		}
		return record(1, append(append(append(b, byte(len(options))), options...), data...))
	}
	const ack = header.TCPFlagAck
	for _, seed := range [][][]byte{
		{segment(ack|header.TCPFlagPsh, 0, 0, 65535, nil, "hello"), segment(ack|header.TCPFlagFin, 5, 0, 65535, nil, "")},
		{segment(ack, 100, 0, 65535, nil, "later"), segment(ack, 50, 0, 0, nil, "earlier"), segment(ack, 0, 0, 1, nil, string(make([]byte, 120)))},
		{segment(ack|header.TCPFlagUrg, 0, 0, 65535, nil, "urgent"), segment(header.TCPFlagRst, 0, 0, 0, nil, "")},
		{segment(header.TCPFlagSyn, 0, 0, 65535, []byte{2, 4, 5, 0xb4, 4, 2, 3, 3, 14, 0, 0, 0}, "data in it"), segment(header.TCPFlagSyn|ack, 0, 0, 65535, nil, "")},
		{segment(ack, 0, 0, 65535, []byte{1, 1, 5, 18, 0, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0, 2, 0, 0, 0, 1}, "x"), segment(ack, 0xff00, 0x7fff, 65535, nil, "x")},
		{segment(0, 0, 0, 0, nil, "no flags"), segment(0xff, 0, 0, 0, nil, "all of them")},
		{record(0, arpFrame(header.ARPReply, "10.0.0.2", "10.0.0.1")), record(0, tcpSYN("10.0.0.1", 53)), record(0, tcpSYN("8.8.8.8", 443))},
		{record(0, udpFrame("10.0.0.1", 53, "\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x00\x00\x01\x00\x01")), record(0, pingFrame("10.0.0.1"))},
		{record(0, solicitFrame("fd00::2", "2606:4700::1")), record(0, make([]byte, 60)), record(0, nil)},
		{segment(ack, 0, 0, 65535, nil, "GET / HTTP/1.1\r\nHost: good.test\r\n\r\n")},
	} {
		var all []byte
		for _, r := range seed {
			all = append(all, r...)
		}
		for _, port := range []uint16{7, portHTTP, portTLS} {
			f.Add(port, all)
		}
	}
	f.Fuzz(func(t *testing.T, port uint16, data []byte) {
		if len(data) > 1<<16 {
			return
		}
		g := newFuzzGuest(t)
		addr := g.lookup("good.test")
		c := g.connect(addr, [...]uint16{7, portHTTP, portTLS}[port%3])
		for len(data) >= 3 {
			kind, n := data[0], int(binary.BigEndian.Uint16(data[1:]))
			content := data[3:]
			content = content[:min(n, len(content))]
			data = data[3+len(content):]
			if kind%2 == 1 {
				content = c.segment(content)
			}
			g.send(content)
		}
		if again := g.lookup("good.test"); again != addr {
			t.Errorf("%s has become %s", addr, again)
		}
		g.end()
	})
}

// fuzzGuest is a guest that is nothing but frames.
type fuzzGuest struct {
	t      *testing.T
	conn   net.Conn
	frames chan []byte // of IPv4, from the gate
	done   chan error
}

func newFuzzGuest(t *testing.T) *fuzzGuest {
	w := newWorld()
	w.name("good.test", "1.2.3.4")
	gate, err := New(Config{
		Patterns: []string{"good.test:7,80,443"}, Resolver: w,
		Dial: func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			go func() { _, _ = io.Copy(far, far); far.Close() }()
			return halfPipe{near}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	host, guest := socketpair(t)
	g := &fuzzGuest{t: t, conn: guest, frames: make(chan []byte, 1024), done: make(chan error, 1)}
	go func() { g.done <- gate.Serve(context.Background(), host) }()
	go func() {
		_ = readFrames(guest, MaxMTU, func() {}, func(v *buffer.View) {
			frame := v.ToSlice()
			v.Release()
			if header.Ethernet(frame).Type() == header.IPv4ProtocolNumber {
				select {
				case g.frames <- frame[header.EthernetMinimumSize:]:
				default: // nobody waits for it
				}
			}
		})
	}()
	g.send(arpFrame(header.ARPRequest, "10.0.0.2", "10.0.0.1"))
	return g
}

// halfPipe is a pipe whose one direction ends with the other.
type halfPipe struct{ net.Conn }

func (halfPipe) CloseWrite() error { return nil }

func (g *fuzzGuest) send(frame []byte) {
	g.t.Helper()
	if _, err := g.conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)); err != nil {
		g.t.Fatal(err)
	}
}

// wait returns the payload of the next packet that is from port from.
func (g *fuzzGuest) wait(protocol uint8, from, to uint16) []byte {
	g.t.Helper()
	for late := time.After(deadline); ; {
		select {
		case packet := <-g.frames:
			h := header.IPv4(packet)
			if p := h.Payload(); h.Protocol() == protocol && len(p) >= 4 && binary.BigEndian.Uint16(p) == from && binary.BigEndian.Uint16(p[2:]) == to {
				return p
			}
		case err := <-g.done:
			g.t.Fatalf("the gate has ended: %v", err)
		case <-late:
			g.t.Fatal("the gate does not answer")
		}
	}
}

func (g *fuzzGuest) lookup(host string) netip.Addr {
	g.t.Helper()
	q, err := new(dns.Msg).SetQuestion(host+".", dns.TypeA).Pack()
	if err != nil {
		g.t.Fatal(err)
	}
	for len(g.frames) > 0 {
		<-g.frames
	}
	g.send(udpFrame("10.0.0.1", dnsPort, string(q)))
	for {
		var r dns.Msg
		p := g.wait(uint8(header.UDPProtocolNumber), dnsPort, 40000)
		if r.Unpack(p[header.UDPMinimumSize:]) != nil || len(r.Question) != 1 || r.Question[0].Name != host+"." {
			continue // the answer to something else
		}
		if len(r.Answer) != 1 {
			g.t.Fatalf("%v", &r)
		}
		a, _ := netip.AddrFromSlice(r.Answer[0].(*dns.A).A.To4())
		return a
	}
}

type fuzzConn struct {
	to       netip.Addr
	port     uint16
	seq, ack uint32
}

const fuzzPort = 50000

func (g *fuzzGuest) connect(to netip.Addr, port uint16) *fuzzConn {
	g.t.Helper()
	c := &fuzzConn{to: to, port: port, seq: 1000}
	g.send(c.make(header.TCPFields{SeqNum: c.seq, Flags: header.TCPFlagSyn, WindowSize: 65535}, []byte{4, 2, 3, 3, 7, 1, 1, 0}, nil))
	h := header.TCP(g.wait(uint8(header.TCPProtocolNumber), port, fuzzPort))
	if h.Flags() != header.TCPFlagSyn|header.TCPFlagAck {
		g.t.Fatalf("a SYN is answered with %s", h.Flags())
	}
	c.seq, c.ack = h.AckNumber(), h.SequenceNumber()+1
	g.send(c.make(header.TCPFields{SeqNum: c.seq, AckNum: c.ack, Flags: header.TCPFlagAck, WindowSize: 65535}, nil, nil))
	return c
}

func (c *fuzzConn) make(f header.TCPFields, options, data []byte) []byte {
	size := header.TCPMinimumSize + len(options)
	f.SrcPort, f.DstPort, f.DataOffset = fuzzPort, c.port, uint8(size)
	h := make(header.TCP, size+len(data))
	h.Encode(&f)
	copy(h[header.TCPMinimumSize:], options)
	copy(h[size:], data)
	return ipv4Frame(c.to.String(), header.TCPProtocolNumber, h)
}

// segment makes a frame of a record.
func (c *fuzzConn) segment(content []byte) []byte {
	var head [8]byte
	n := copy(head[:], content)
	content = content[n:]
	options := content[:min(int(head[7])&^3, 40, len(content)&^3)]
	signed := func(b []byte) uint32 { return uint32(int16(binary.BigEndian.Uint16(b))) }
	return c.make(header.TCPFields{
		SeqNum: c.seq + signed(head[1:]), AckNum: c.ack + signed(head[3:]), WindowSize: binary.BigEndian.Uint16(head[5:]), Flags: header.TCPFlags(head[0]),
	}, options, content[len(options):])
}

func (g *fuzzGuest) end() {
	g.t.Helper()
	g.conn.Close()
	select {
	case err := <-g.done:
		if err != nil {
			g.t.Errorf("Serve: %v", err)
		}
	case <-time.After(deadline):
		g.t.Fatal("Serve does not return")
	}
}
