package gate

import (
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/miekg/dns"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"

	"rigs/internal/rig"
)

func TestConnectionLimits(t *testing.T) {
	p := newPeerWith(t, Limits{Connections: 4, Opening: 2}, "good.test:7", "slow.test:7")
	p.world.name("good.test", "1.2.3.4")
	p.world.serve(t, "1.2.3.4:7", echo)
	p.world.name("slow.test", "1.2.3.5")
	p.world.stall["1.2.3.5:7"] = true
	for range 4 {
		roundTrip(t, p.mustConnect("good.test", 7), "in")
	}
	p.mustRefuseName("good.test", 7)
	if e := p.log.reason(t, ReasonTooMany, "good.test"); e.Verdict != "deny" {
		t.Errorf("%+v", e)
	}
	if err := p.gate.Deny("good.test:7"); err != nil { // makes room
		t.Fatal(err)
	}
	waitFor(t, "room", func() bool { return len(p.gate.open()) == 0 })
	at := p.lookup("slow.test").String() + ":7"
	ended := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := p.dial(at)
			ended <- err
		}()
	}
	waitFor(t, "two being dialled", func() bool { return len(p.world.dialled()) == 6 })
	p.mustRefuse(at) // a third
	p.gate.Deny("slow.test:7")
	<-ended
	<-ended
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	p := newPeerWith(t, Limits{Idle: 50 * time.Millisecond}, "good.test:7")
	p.world.name("good.test", "1.2.3.4")
	p.world.serve(t, "1.2.3.4:7", echo)
	c := p.mustConnect("good.test", 7)
	mustEnd(t, c)
	p.log.reason(t, ReasonIdle, "good.test")

	p = newPeerWith(t, Limits{HalfClosed: 50 * time.Millisecond}, "good.test:7")
	p.world.name("good.test", "1.2.3.4")
	never := make(chan struct{})
	p.world.serve(t, "1.2.3.4:7", func(*net.TCPConn) { <-never })
	t.Cleanup(func() { close(never) })
	c = p.mustConnect("good.test", 7)
	c.CloseWrite()
	mustEnd(t, c)
	p.log.reason(t, ReasonIdle, "good.test")
}

func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for late := time.Now().Add(deadline); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// heap is what is in use after everything unreachable is gone.
func heap() uint64 {
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

// A guest that floods its gate with everything it can make neither stops it nor
// grows it.
func TestFloodsAreBounded(t *testing.T) {
	p := newPeer(t, "good.test:7")
	p.world.name("good.test", "1.2.3.4")
	p.world.serve(t, "1.2.3.4:7", echo)
	c := p.mustConnect("good.test", 7)
	a := p.lookup("good.test").String()
	before := heap()
	random := rand.New(rand.NewPCG(1, 2))
	garbage := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		return b
	}
	const each = 1500
	send := p.write
	p.pause() // raw writes must not be mixed with its frames
	for i := range each {
		to := fmt.Sprintf("%d.%d.%d.%d", 1+random.IntN(220), random.IntN(256), random.IntN(256), random.IntN(256))
		send(tcpSYN(to, uint16(random.Uint32())))
		send(tcpSYN(a, uint16(random.Uint32())))
		send(udpFrame(to, uint16(random.Uint32()), "x"))
		send(udpFrame("10.0.0.1", 53, string(garbage(random.IntN(300)))))
		q, _ := new(dns.Msg).SetQuestion(fmt.Sprintf("n%d.evil.test.", i), dns.TypeA).Pack()
		send(udpFrame("10.0.0.1", 53, string(q)))
		send(pingFrame(to))
		send(garbage(random.IntN(200)))
		send(arpFrame(header.ARPReply, "10.0.0.2", fmt.Sprintf("10.0.0.%d", random.IntN(256))))
		if i%50 == 0 {
			send(garbage(maxFrame)) // larger than the MTU
			send(append(tcpSYN(a, 7), garbage(65000)...))
		}
	}
	p.resume()
	c.SetDeadline(time.Now().Add(deadline))
	roundTrip(t, c, "still here")
	if err := p.gate.Allow("x.test", time.Time{}); err != nil {
		t.Fatal(err)
	}
	if after := heap(); after > before+24<<20 {
		t.Errorf("the heap grew from %d to %d KB", before>>10, after>>10)
	}
	p.log.mu.Lock()
	lines := len(p.log.lines)
	p.log.mu.Unlock()
	if lines > 20*journalBurst {
		t.Errorf("%d lines in the log", lines)
	}
}

// A guest that opens everything it may, asks for much and reads nothing, costs no
// more than its shares; and what the policy says still holds at once.
func TestGuestThatNeverReads(t *testing.T) {
	p := newPeerWith(t, Limits{Connections: 64}, "good.test:7")
	p.world.name("good.test", "1.2.3.4")
	b := make([]byte, 1<<20)
	p.world.serve(t, "1.2.3.4:7", func(c *net.TCPConn) {
		for {
			if _, err := c.Write(b); err != nil {
				return
			}
		}
	})
	// What the guest's own stack holds, in this process too, is not the gate's.
	small := tcpip.TCPReceiveBufferSizeRangeOption{Min: 4096, Default: 8192, Max: 8192}
	p.stack.SetTransportProtocolOption(tcp.ProtocolNumber, &small)
	before := heap()
	at := p.lookup("good.test").String() + ":7"
	for range 64 {
		if _, err := p.dial(at); err != nil {
			t.Fatal(err)
		}
	}
	p.drop.Store(true) // now it neither reads nor acknowledges
	var total int64
	waitFor(t, "everything to be full", func() bool {
		var now int64
		for _, c := range p.gate.open() {
			now += c.in.Load()
		}
		time.Sleep(20 * time.Millisecond)
		full := now == total
		total = now
		return full
	})
	// 15 MB of shares, what the stack adds to each packet, and what the guest's
	// own stack, in this process too, holds.
	after := heap()
	t.Logf("the heap grew by %d KB, with the guest's own stack", (after-before)>>10)
	if after > before+40<<20 {
		t.Errorf("the heap grew from %d to %d KB", before>>10, after>>10)
	}
	if err := p.gate.Deny("good.test:7"); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "all to be closed", func() bool { return len(p.gate.open()) == 0 })
	p.log.wait(t, "the removal", func(e rig.EgressEvent) bool { return e.Reason == ReasonRemoved })
}

// The hypervisor stops reading: nothing of the gate waits for it but the writer.
func TestStreamThatIsNotRead(t *testing.T) {
	g, err := New(Config{Patterns: []string{"good.test"}})
	if err != nil {
		t.Fatal(err)
	}
	host, guest := socketpair(t)
	done := make(chan error, 1)
	go func() { done <- g.Serve(t.Context(), host) }()
	frame := udpFrame("8.8.8.8", 443, "x")
	message := append([]byte{0, 0, 0, byte(len(frame))}, frame...)
	guest.Write(append([]byte{0, 0, 0, byte(14 + 28)}, arpFrame(header.ARPRequest, "10.0.0.2", "10.0.0.1")...))
	for range 50000 { // each would be answered
		if _, err := guest.Write(message); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Allow("other.test", time.Time{}); err != nil {
		t.Fatal(err)
	}
	if err := g.Deny("good.test"); err != nil {
		t.Fatal(err)
	}
	guest.Close()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("Serve: %v", err)
		}
	case <-time.After(deadline):
		t.Error("Serve does not return")
	}
	noGoroutines(t)
	if d := g.Dropped()[dropUDP]; d == 0 {
		t.Error("nothing was dropped")
	}
}
