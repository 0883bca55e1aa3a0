package gate

import (
	"io"
	"net"
	"testing"
)

// The benchmarks run a second stack as the guest in the same process, so they show
// what changes between two versions, not what a real guest gets.

func benchPeer(b *testing.B, handle func(*net.TCPConn)) *peer {
	p := newPeer(b, "good.test:7")
	p.world.name("good.test", "1.2.3.4")
	p.world.serve(b, "1.2.3.4:7", handle)
	return p
}

func BenchmarkGateUp(b *testing.B) {
	const piece = 1 << 20
	received := make(chan struct{})
	p := benchPeer(b, func(c *net.TCPConn) {
		io.Copy(io.Discard, c)
		received <- struct{}{}
	})
	c := p.mustConnect("good.test", 7)
	data := make([]byte, piece)
	b.SetBytes(piece)
	b.ResetTimer()
	for range b.N {
		if _, err := c.Write(data); err != nil {
			b.Fatal(err)
		}
	}
	c.CloseWrite()
	<-received
}

func BenchmarkGateDown(b *testing.B) {
	const piece = 1 << 20
	total := int64(b.N) * piece
	p := benchPeer(b, func(c *net.TCPConn) {
		data := make([]byte, piece)
		for range total / piece {
			if _, err := c.Write(data); err != nil {
				return
			}
		}
	})
	c := p.mustConnect("good.test", 7)
	b.SetBytes(piece)
	b.ResetTimer()
	if n, err := io.Copy(io.Discard, c); n != total {
		b.Fatalf("%d of %d bytes, %v", n, total, err)
	}
}

func BenchmarkGateRoundTrip(b *testing.B) {
	p := benchPeer(b, echo)
	c := p.mustConnect("good.test", 7)
	one := make([]byte, 1)
	for b.Loop() {
		c.Write(one)
		io.ReadFull(c, one)
	}
}

func BenchmarkConnectAdmitted(b *testing.B) {
	p := benchPeer(b, echo)
	at := p.lookup("good.test").String() + ":7"
	for b.Loop() {
		c, err := p.dial(at)
		if err != nil {
			b.Fatal(err)
		}
		c.Close()
	}
}

func BenchmarkConnectDenied(b *testing.B) {
	p := benchPeer(b, echo)
	at := p.lookup("bad.test").String() + ":443"
	for b.Loop() {
		p.mustRefuse(at)
	}
}

func BenchmarkSift(b *testing.B) {
	frame := tcpSYN("8.8.8.8", 443)
	b.ReportAllocs()
	for b.Loop() {
		if !sift(frame).pass {
			b.Fatal("dropped")
		}
	}
}
