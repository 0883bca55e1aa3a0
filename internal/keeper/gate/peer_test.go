package gate

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/channel"
	"gvisor.dev/gvisor/pkg/tcpip/link/ethernet"
	"gvisor.dev/gvisor/pkg/tcpip/network/arp"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"

	"rigs/internal/rig"
)

// deadline is when a test that waits has failed. Nothing takes that long.
const deadline = 20 * time.Second

// world is everything outside: names, addresses, and real servers on this
// machine's loopback that stand behind the addresses.
type world struct {
	mu      sync.Mutex
	names   map[string][]netip.Addr
	servers map[string]string // "address:port" → where it really is
	lookups []string
	dials   []string
	stall   map[string]bool // addresses that never answer
}

func newWorld() *world {
	return &world{names: map[string][]netip.Addr{}, servers: map[string]string{}, stall: map[string]bool{}}
}

// LookupNetIP counts and answers.
func (w *world) LookupNetIP(_ context.Context, network, host string) ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lookups = append(w.lookups, host)
	if a, ok := w.names[strings.TrimSuffix(host, ".")]; ok && network == "ip" && strings.HasSuffix(host, ".") {
		return a, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

func (w *world) dial(ctx context.Context, network, address string) (net.Conn, error) {
	w.mu.Lock()
	w.dials = append(w.dials, address)
	to, ok := w.servers[address]
	stall := w.stall[address]
	w.mu.Unlock()
	if stall {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if !ok {
		return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}
	}
	return (&net.Dialer{}).DialContext(ctx, network, to)
}

func (w *world) name(host string, addrs ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []netip.Addr
	for _, a := range addrs {
		list = append(list, netip.MustParseAddr(a))
	}
	w.names[host] = list
}

func (w *world) asked() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.lookups)
}

func (w *world) dialled() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.dials)
}

// serve puts a real server at address:port and returns its real address.
func (w *world) serve(t testing.TB, address string, handle func(*net.TCPConn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		conns []net.Conn
	)
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			wg.Go(func() { defer c.Close(); handle(c.(*net.TCPConn)) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	w.mu.Lock()
	w.servers[address] = l.Addr().String()
	w.mu.Unlock()
	return l.Addr().String()
}

// closedPort puts an address there that refuses.
func (w *world) closedPort(t testing.TB, address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	w.servers[address] = l.Addr().String()
	w.mu.Unlock()
	l.Close()
}

func echo(c *net.TCPConn) { _, _ = io.Copy(c, c) }

// logbook collects the egress log.
type logbook struct {
	mu     sync.Mutex
	lines  []rig.EgressEvent
	change chan struct{}
}

func (l *logbook) add(e rig.EgressEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, e)
	close(l.change)
	l.change = make(chan struct{})
}

// wait returns the first line that matches, when it is there.
func (l *logbook) wait(t testing.TB, what string, match func(rig.EgressEvent) bool) rig.EgressEvent {
	t.Helper()
	late := time.After(deadline)
	for {
		l.mu.Lock()
		for _, e := range l.lines {
			if match(e) {
				l.mu.Unlock()
				return e
			}
		}
		change, lines := l.change, slices.Clone(l.lines)
		l.mu.Unlock()
		select {
		case <-change:
		case <-late:
			t.Fatalf("the log never says %s; it says %+v", what, lines)
		}
	}
}

func (l *logbook) reason(t testing.TB, reason, host string) rig.EgressEvent {
	t.Helper()
	return l.wait(t, reason+" of "+host, func(e rig.EgressEvent) bool { return e.Reason == reason && e.Host == host })
}

// peer is a guest: a second network stack at the other end of the stream.
type peer struct {
	t     testing.TB
	gate  *Gate
	world *world
	log   *logbook
	conn  *net.UnixConn // the guest's end of the stream
	stack *stack.Stack
	link  *channel.Endpoint

	raw  chan []byte // frames from the gate, when somebody listens
	drop atomic.Bool // lose all frames from the gate
	done chan error  // what Serve returned

	stop context.CancelFunc

	pause, resume func() // of the guest's own frames
}

// peers is how many there are: only the last can tell that nothing is left.
var peers atomic.Int32

// newPeer makes a gate, a world and a guest, and takes them down at the test's end,
// checking that nothing is left.
func newPeer(t testing.TB, patterns ...string) *peer { return newPeerWith(t, Limits{}, patterns...) }

func newPeerWith(t testing.TB, limits Limits, patterns ...string) *peer {
	t.Helper()
	return newPeerFrom(t, Config{Limits: limits, Patterns: patterns}, newWorld())
}

// newPeerFrom fills in what is the peer's own.
func newPeerFrom(t testing.TB, cfg Config, w *world) *peer {
	t.Helper()
	p := &peer{t: t, world: w, log: &logbook{change: make(chan struct{})}, done: make(chan error, 1), raw: make(chan []byte, 64)}
	cfg.Resolver, cfg.Dial, cfg.Events = w, w.dial, p.log.add
	g, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p.gate = g
	peers.Add(1)
	host, guest := socketpair(t)
	p.conn = guest
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	go func() { p.done <- g.Serve(ctx, host) }()

	p.stack = stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol, arp.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol},
	})
	sack := tcpip.TCPSACKEnabled(true)
	p.stack.SetTransportProtocolOption(tcp.ProtocolNumber, &sack)
	p.link = channel.New(1024, MaxMTU+header.EthernetMinimumSize, "\x52\x54\x00\x12\x34\x56")
	if err := p.stack.CreateNIC(nicID, ethernet.New(p.link)); err != nil {
		t.Fatal(err)
	}
	p.stack.AddProtocolAddress(nicID, tcpip.ProtocolAddress{Protocol: ipv4.ProtocolNumber, AddressWithPrefix: tcpip.AddressWithPrefix{
		Address: tcpip.AddrFrom4(guestAddr.As4()), PrefixLen: 24,
	}}, stack.AddressProperties{})
	p.stack.SetRouteTable([]tcpip.Route{
		{Destination: header.IPv4EmptySubnet, Gateway: tcpip.AddrFrom4(gatewayAddr.As4()), NIC: nicID},
	})
	var wg sync.WaitGroup
	linkCtx, endLink := context.WithCancel(context.Background())
	p.resume = func() {
		ctx, cancel := context.WithCancel(linkCtx)
		var writer sync.WaitGroup
		writer.Go(func() { _ = writeFrames(ctx, guest, p.link) })
		p.pause = func() { cancel(); writer.Wait() }
	}
	p.resume()
	wg.Go(func() {
		_ = readFrames(guest, MaxMTU, func() {}, func(v *buffer.View) {
			select {
			case p.raw <- slices.Clone(v.AsSlice()):
			default:
			}
			if p.drop.Load() {
				v.Release()
				return
			}
			pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithView(v)})
			p.link.InjectInbound(0, pkt)
			pkt.DecRef()
		})
	})
	t.Cleanup(func() {
		endLink()
		guest.Close()
		p.pause()
		wg.Wait()
		p.stack.Destroy()
		p.served()
		cancel()
		if peers.Add(-1) == 0 {
			noGoroutines(t)
		}
	})
	return p
}

// served waits for Serve and returns what it returned.
func (p *peer) served() error {
	p.t.Helper()
	select {
	case err := <-p.done:
		p.done <- err
		return err
	case <-time.After(deadline):
		buf := make([]byte, 1<<20)
		p.t.Errorf("Serve does not return:\n%s", buf[:runtime.Stack(buf, true)])
		return errors.New("still serving")
	}
}

// noGoroutines fails when something of this package still runs.
func noGoroutines(t testing.TB) {
	t.Helper()
	var left string
	for late := time.Now().Add(deadline); time.Now().Before(late); time.Sleep(5 * time.Millisecond) {
		buf := make([]byte, 4<<20)
		left = ""
		for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			// A test's own functions are not left behind by the gate.
			if strings.Contains(g, "gate.(*") && !strings.Contains(g, "_test.go") || strings.Contains(g, "gvisor.dev/") && !strings.Contains(g, "_test.go") {
				left = g
			}
		}
		if left == "" {
			return
		}
	}
	t.Errorf("left running:\n%s", left)
}

func socketpair(t testing.TB) (a, b *net.UnixConn) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	var conns [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		c, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		conns[i] = c.(*net.UnixConn)
		conns[i].SetWriteBuffer(1 << 20)
	}
	return conns[0], conns[1]
}

// exchange asks the gate's DNS over UDP.
func (p *peer) exchange(q *dns.Msg) *dns.Msg {
	p.t.Helper()
	c, err := p.dialUDP("10.0.0.1:53")
	if err != nil {
		p.t.Fatal(err)
	}
	defer c.Close()
	return p.ask(&dns.Conn{Conn: c, UDPSize: 4096}, q)
}

func (p *peer) exchangeTCP(q *dns.Msg) *dns.Msg {
	p.t.Helper()
	c, err := p.dial("10.0.0.1:53")
	if err != nil {
		p.t.Fatal(err)
	}
	defer c.Close()
	return p.ask(&dns.Conn{Conn: c}, q)
}

func (p *peer) ask(c *dns.Conn, q *dns.Msg) *dns.Msg {
	p.t.Helper()
	c.SetDeadline(time.Now().Add(deadline))
	if err := c.WriteMsg(q); err != nil {
		p.t.Fatal(err)
	}
	r, err := c.ReadMsg()
	if err != nil {
		p.t.Fatalf("no answer for %v: %v", q.Question, err)
	}
	return r
}

// lookup asks for a name's address.
func (p *peer) lookup(host string) netip.Addr {
	p.t.Helper()
	r := p.exchange(new(dns.Msg).SetQuestion(dns.Fqdn(host), dns.TypeA))
	if len(r.Answer) != 1 {
		p.t.Fatalf("lookup of %s: %v", host, r)
	}
	a, ok := netip.AddrFromSlice(r.Answer[0].(*dns.A).A.To4())
	if !ok || !pool.Contains(a) {
		p.t.Fatalf("lookup of %s: %v is not synthetic", host, r.Answer[0])
	}
	return a
}

// dial connects from inside the guest to a numeric address.
func (p *peer) dial(address string) (*gonet.TCPConn, error) {
	at := netip.MustParseAddrPort(address)
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	c, err := gonet.DialContextTCP(ctx, p.stack, tcpip.FullAddress{NIC: nicID, Addr: tcpip.AddrFrom4(at.Addr().As4()), Port: at.Port()}, ipv4.ProtocolNumber)
	if ctx.Err() != nil {
		p.t.Errorf("connecting to %s hangs", address)
	}
	return c, err
}

func (p *peer) dialUDP(address string) (*gonet.UDPConn, error) {
	at := netip.MustParseAddrPort(address)
	return gonet.DialUDP(p.stack, nil, &tcpip.FullAddress{NIC: nicID, Addr: tcpip.AddrFrom4(at.Addr().As4()), Port: at.Port()}, ipv4.ProtocolNumber)
}

// connect looks a name up and connects to it, as an application does.
func (p *peer) connect(host string, port int) (*gonet.TCPConn, error) {
	p.t.Helper()
	return p.dial(netip.AddrPortFrom(p.lookup(host), uint16(port)).String())
}

func (p *peer) mustConnect(host string, port int) *gonet.TCPConn {
	p.t.Helper()
	c, err := p.connect(host, port)
	if err != nil {
		p.t.Fatalf("connecting to %s:%d: %v", host, port, err)
	}
	p.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(deadline))
	return c
}

// mustRefuse checks that a connection is refused with a reset.
func (p *peer) mustRefuse(address string) {
	p.t.Helper()
	c, err := p.dial(address)
	if err == nil {
		c.Close()
		p.t.Errorf("connecting to %s works", address)
		return
	}
	if !strings.Contains(err.Error(), "refused") {
		p.t.Errorf("connecting to %s: %v, want it refused", address, err)
	}
}

func (p *peer) mustRefuseName(host string, port int) {
	p.t.Helper()
	p.mustRefuse(netip.AddrPortFrom(p.lookup(host), uint16(port)).String())
}

// roundTrip sends s and reads as much back.
func roundTrip(t testing.TB, c net.Conn, s string) {
	t.Helper()
	if _, err := io.WriteString(c, s); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(s))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != s {
		t.Fatalf("round trip of %q: %q, %v", s, got, err)
	}
}

// mustEnd checks that nothing more comes from c, and that it ends.
func mustEnd(t testing.TB, c net.Conn) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(deadline))
	if n, err := io.Copy(io.Discard, c); n > 0 {
		t.Errorf("%d bytes came before the end", n)
	} else if err != nil && strings.Contains(err.Error(), "timeout") {
		t.Error("the connection stays open")
	}
}

// inject puts a raw frame on the guest's wire.
func (p *peer) inject(frame []byte) {
	p.t.Helper()
	pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(frame)})
	var one stack.PacketBufferList
	one.PushBack(pkt)
	if _, err := p.link.WritePackets(one); err != nil {
		p.t.Fatal(err)
	}
	pkt.DecRef()
}

// write puts a frame on the wire past the guest's stack, which must be paused.
func (p *peer) write(frame []byte) {
	p.t.Helper()
	if _, err := p.conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)); err != nil {
		p.t.Fatal(err)
	}
}

func mustAddr(t testing.TB, s string) netip.Addr {
	t.Helper()
	a, err := netip.ParseAddr(s)
	if err != nil {
		t.Fatal(err)
	}
	return a.Unmap()
}

type rigEvent = rig.EgressEvent

// lockedBuffer is a buffer that a server writes and a test reads.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
