package egress

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// The world's addresses. Everything is there: in the world's namespace every
// address there is leads to it, so whatever leaks is answered, and seen.
const (
	resolverAddress = "10.53.0.53"       // what /etc/resolv.conf names
	hostAddress     = "93.184.215.1"     // an address of the host itself, which looks public
	firstPublic     = "93.184.216.1"     // names get addresses from here on
	firstPublic6    = "2606:2800:220::1" // and from here on
)

// world is everything outside: a network namespace in which every address there is
// belongs to this process, and next to it another one, the host, whose way out leads
// there. It has the host's resolver, web servers behind every address, and a record of
// every packet with which the host began something.
//
// The server under test runs on that host, so its keepers do; a guest is behind their
// gate. Nothing in either has a way to the real network.
type world struct {
	t             testing.TB
	outside, host place
	wg            sync.WaitGroup
	ca            *authority

	mu       sync.Mutex
	next     netip.Addr
	next6    netip.Addr
	names    map[string][]netip.Addr
	open     map[netip.Addr]bool // where something may be sent
	asked    []string            // lookups, as "TYPE name"
	packets  map[string]int      // what began, as "tcp 1.2.3.4:80"
	requests []string            // HTTP requests, as "address host path"
	received map[netip.AddrPort]*atomic.Int64

	endless chan struct{} // closed when endless answers end
}

func newWorld(t testing.TB) *world {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a network namespace takes root: run these tests as root")
	}
	w := &world{
		t: t, ca: newAuthority(t), next: netip.MustParseAddr(firstPublic), next6: netip.MustParseAddr(firstPublic6),
		names: map[string][]netip.Addr{}, open: map[netip.Addr]bool{}, packets: map[string]int{}, received: map[netip.AddrPort]*atomic.Int64{},
		endless: make(chan struct{}),
	}
	resolv := filepath.Join(t.TempDir(), "resolv.conf")
	// A search domain, so that trying it would be seen.
	must(t, os.WriteFile(resolv, []byte("nameserver "+resolverAddress+"\nsearch corp.test\n"), 0o644))
	var tid int
	w.outside = newPlace(t, func() error {
		tid = unix.Gettid()
		return errors.Join(unix.Unshare(unix.CLONE_NEWNET), ip("link set lo up"))
	})
	w.host = newPlace(t, func() error { return makeHost(resolv, tid) })
	must(t, w.in(joinHost))
	w.capture()
	w.listen()
	return w
}

// place is a thread in namespaces of its own. A socket belongs to the namespace of the
// thread that makes it, and a process starts in that of the thread that forks.
type place struct{ do chan func() }

// newPlace starts a thread and has enter called on it.
func newPlace(t testing.TB, enter func() error) place {
	t.Helper()
	p := place{make(chan func())}
	entered := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends, and its namespaces with it
		entered <- enter()
		for f := range p.do {
			f()
		}
	}()
	t.Cleanup(func() { close(p.do) })
	if err := <-entered; err != nil {
		t.Fatalf("no namespaces for the test: %v", err)
	}
	return p
}

func (p place) in(f func() error) error {
	done := make(chan error)
	p.do <- func() { done <- f() }
	return <-done
}

// in runs f outside.
func (w *world) in(f func() error) error { return w.outside.in(f) }

func ip(line string) error {
	if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", line, err, out)
	}
	return nil
}

// wire is the address of both ends of the way from the host to the outside. Neither asks
// for the other's (arp off), and what goes to one's own address is then the other's.
const wire = "02:00:00:00:00:01"

// makeHost moves this thread into the host's namespaces: a network with a way to that of
// the thread tid, and a mount namespace with a resolver's address of its own.
func makeHost(resolv string, tid int) error {
	if err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	if err := unix.Mount(resolv, "/etc/resolv.conf", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mounting /etc/resolv.conf: %w", err)
	}
	for _, line := range []string{
		"link set lo up",
		"addr add " + hostAddress + "/32 dev lo",
		"link add way address " + wire + " type veth peer name host",
		"link set host address " + wire,
		fmt.Sprintf("link set host netns %d", tid),
		"link set way arp off addrgenmode none up",
		"addr add 192.0.2.2/32 dev way",
		"-6 addr add 2606:2800:221::2/128 dev way nodad",
		"route add default dev way src 192.0.2.2",
		"-6 route add default dev way",
	} {
		if err := ip(line); err != nil {
			return err
		}
	}
	return nil
}

// joinHost is the other end. Every other address leads to this process, without being
// one of anybody's own.
func joinHost() error {
	for _, line := range []string{
		"link set host arp off addrgenmode none up",
		"route add 192.0.2.2/32 dev host",
		"-6 route add 2606:2800:221::2/128 dev host",
		"route add local default dev lo table main", // after what is more specific
		"-6 route add local default dev lo table main",
	} {
		if err := ip(line); err != nil {
			return err
		}
	}
	return nil
}

// name gives a host addresses: those that are given, or a public one of its own.
// The host's resolver may be asked for it, and it may be connected to.
func (w *world) name(host string, addrs ...string) netip.Addr {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := make([]netip.Addr, len(addrs))
	for i, a := range addrs {
		list[i] = netip.MustParseAddr(a)
	}
	if len(list) == 0 {
		list, w.next = []netip.Addr{w.next}, w.next.Next()
	}
	w.names[host] = list
	for _, a := range list {
		w.open[a.Unmap()] = true
	}
	return list[0]
}

// public6 is a fresh address.
func (w *world) public6() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.next6
	w.next6 = a.Next()
	return a.String()
}

// lookups are the questions that the host's resolver got for names that contain
// part.
func (w *world) lookups(part string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.asked), func(s string) bool { return !strings.Contains(s, part) })
}

// sent are the kinds of packets that began something with an address.
func (w *world) sent(a netip.Addr) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []string
	for _, p := range slices.Sorted(maps.Keys(w.packets)) {
		if strings.Contains(p, " "+a.String()+" ") {
			list = append(list, p)
		}
	}
	return list
}

// bytesAt is how much web servers behind an address got.
func (w *world) bytesAt(a netip.Addr, port uint16) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := w.received[netip.AddrPortFrom(a, port)]; n != nil {
		return n.Load()
	}
	return 0
}

// requested are the requests for hosts that contain part.
func (w *world) requested(part string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.requests), func(s string) bool { return !strings.Contains(s, part) })
}

// check fails the test if anything was asked for or sent to that no rig was
// allowed to reach, in all the time that the world was there.
func (w *world) check() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, q := range w.asked {
		_, name, _ := strings.Cut(q, " ")
		if _, ok := w.names[name]; !ok {
			w.t.Errorf("the host's resolver was asked: %s", q)
		}
	}
	for p := range w.packets {
		f := strings.Fields(p) // protocol address port
		if a := netip.MustParseAddr(f[1]); !w.open[a] && f[1] != resolverAddress {
			w.t.Errorf("sent outside: %s", p)
		}
	}
}

// capture records every packet that the host sends, to itself too, and that begins
// something: the first of a TCP connection, and all that is not TCP.
func (w *world) capture() {
	w.t.Helper()
	fd := -1
	must(w.t, w.host.in(func() (err error) {
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, int(htons(unix.ETH_P_ALL)))
		return err
	}))
	// With SOCK_DGRAM a packet begins with its IP header.
	program, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadExtension{Num: bpf.ExtType},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.PACKET_OUTGOING, SkipTrue: 14},
		bpf.LoadAbsolute{Off: 0, Size: 1},
		bpf.ALUOpConstant{Op: bpf.ALUOpShiftRight, Val: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 6, SkipTrue: 5},
		bpf.LoadAbsolute{Off: 9, Size: 1}, // IPv4
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.IPPROTO_TCP, SkipTrue: 8},
		bpf.LoadMemShift{Off: 0},
		bpf.LoadIndirect{Off: 13, Size: 1},
		bpf.Jump{Skip: 3},
		bpf.LoadAbsolute{Off: 6, Size: 1}, // IPv6
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.IPPROTO_TCP, SkipTrue: 3},
		bpf.LoadAbsolute{Off: 40 + 13, Size: 1},
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 0x12},          // SYN and ACK
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 2, SkipTrue: 1}, // anything but a first SYN
		bpf.RetConstant{Val: 128},
		bpf.RetConstant{Val: 0},
	})
	must(w.t, err)
	filter := make([]unix.SockFilter, len(program))
	for i, p := range program {
		filter[i] = unix.SockFilter{Code: p.Op, Jt: p.Jt, Jf: p.Jf, K: p.K}
	}
	must(w.t, unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}))
	must(w.t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20))
	f := os.NewFile(uintptr(fd), "packets")
	w.wg.Go(func() {
		b := make([]byte, 128)
		for {
			n, err := f.Read(b)
			if err != nil {
				return
			}
			if p := describe(b[:n]); p != "" {
				w.mu.Lock()
				w.packets[p]++
				w.mu.Unlock()
			}
		}
	})
	w.t.Cleanup(func() {
		if c, err := f.SyscallConn(); err == nil {
			_ = c.Control(func(fd uintptr) {
				if st, err := unix.GetsockoptTpacketStats(int(fd), unix.SOL_PACKET, unix.PACKET_STATISTICS); err != nil || st.Drops > 0 {
					w.t.Errorf("the record of packets is not whole: %v %v", st, err)
				}
			})
		}
		f.Close()
		w.wg.Wait()
		w.check()
	})
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }

// describe is a packet as "protocol address port". Answers of the world's own
// servers are nothing that began.
func describe(p []byte) string {
	var (
		to, from netip.Addr
		protocol byte
		rest     []byte
	)
	switch {
	case len(p) >= 20 && p[0]>>4 == 4:
		from, to = netip.AddrFrom4([4]byte(p[12:16])), netip.AddrFrom4([4]byte(p[16:20]))
		protocol, rest = p[9], p[min(int(p[0]&15)*4, len(p)):]
	case len(p) >= 40 && p[0]>>4 == 6:
		from, to = netip.AddrFrom16([16]byte(p[8:24])), netip.AddrFrom16([16]byte(p[24:40]))
		protocol, rest = p[6], p[40:]
	default:
		return ""
	}
	var source, port uint16
	if len(rest) >= 4 {
		source, port = binary.BigEndian.Uint16(rest), binary.BigEndian.Uint16(rest[2:])
	}
	name := fmt.Sprintf("protocol-%d", protocol)
	switch protocol {
	case unix.IPPROTO_TCP:
		name = "tcp"
	case unix.IPPROTO_UDP:
		name = "udp"
		if from.String() == resolverAddress && source == 53 {
			return "" // the host's resolver answers
		}
	}
	if to.Is6() && to.IsMulticast() {
		return "" // the kernel says which groups it is in
	}
	return fmt.Sprintf("%s %s %d", name, to, port)
}

// listen starts the servers: on every address there is.
func (w *world) listen() {
	w.t.Helper()
	mux := http.HandlerFunc(w.page)
	both := new(http.Protocols)
	both.SetHTTP1(true)
	both.SetHTTP2(true)
	both.SetUnencryptedHTTP2(true)
	config := &tls.Config{GetCertificate: w.ca.certificate, MinVersion: tls.VersionTLS12}
	quiet := log.New(io.Discard, "", 0) // a handshake that fails is what a test expects
	for _, at := range []struct {
		where place
		port  string
	}{{w.outside, "80"}, {w.outside, "443"}, {w.host, "80"}, {w.host, "443"}} {
		var l net.Listener
		port := at.port
		must(w.t, at.where.in(func() (err error) { l, err = net.Listen("tcp", ":"+port); return err }))
		l = &counted{l, w}
		s := &http.Server{Handler: mux, Protocols: both, ErrorLog: quiet, TLSConfig: config, ReadHeaderTimeout: time.Minute}
		w.wg.Go(func() {
			if port == "443" {
				_ = s.ServeTLS(l, "", "") // until it is closed
			} else {
				_ = s.Serve(l)
			}
		})
		w.t.Cleanup(func() { s.Close() })
	}
	w.t.Cleanup(func() { close(w.endless) })
	w.echo()
	w.datagrams()
	w.resolve()
}

// page answers every request: with who was asked, and where.
func (w *world) page(rw http.ResponseWriter, r *http.Request) {
	at, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	w.mu.Lock()
	w.requests = append(w.requests, fmt.Sprintf("%s %s %s", at, r.Host, r.URL.Path))
	w.mu.Unlock()
	switch r.URL.Path {
	case "/endless":
		chunk := bytes.Repeat([]byte("endless "), 4096)
		for {
			select {
			case <-w.endless:
				return
			case <-r.Context().Done():
				return
			default:
			}
			if _, err := rw.Write(chunk); err != nil {
				return
			}
		}
	case "/site":
		for _, u := range r.URL.Query()["from"] {
			fmt.Fprintf(rw, "<img src=%q>\n", "http://"+u+"/part")
		}
	default:
		fmt.Fprintf(rw, "%s here, at %s over %s", r.Host, at, r.Proto)
	}
}

// echo is a plain service on a port that nobody looks into.
func (w *world) echo() {
	var l net.Listener
	must(w.t, w.in(func() (err error) { l, err = net.Listen("tcp", ":7000"); return err }))
	ctx, cancel := context.WithCancel(context.Background())
	w.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			stop := context.AfterFunc(ctx, func() { c.Close() })
			w.wg.Go(func() {
				defer stop()
				defer c.Close()
				_, _ = io.Copy(c, c)
			})
		}
	})
	w.t.Cleanup(func() { cancel(); l.Close() })
}

// datagrams answers what comes over UDP to the ports of QUIC and NTP.
func (w *world) datagrams() {
	for _, port := range []string{"443", "123"} {
		var c net.PacketConn
		must(w.t, w.in(func() (err error) { c, err = net.ListenPacket("udp", ":"+port); return err }))
		w.wg.Go(func() {
			b := make([]byte, 2048)
			for {
				n, from, err := c.ReadFrom(b)
				if err != nil {
					return
				}
				_, _ = c.WriteTo(b[:n], from)
			}
		})
		w.t.Cleanup(func() { c.Close() })
	}
}

// resolve is the DNS server behind every address, the host's own resolver's too.
func (w *world) resolve() {
	handler := dns.HandlerFunc(func(rw dns.ResponseWriter, q *dns.Msg) {
		r := new(dns.Msg).SetReply(q)
		w.mu.Lock()
		for _, question := range q.Question {
			// Case says nothing, and some resolvers vary it.
			name := strings.ToLower(strings.TrimSuffix(question.Name, "."))
			w.asked = append(w.asked, dns.TypeToString[question.Qtype]+" "+name)
			addrs, ok := w.names[name]
			if !ok {
				r.Rcode = dns.RcodeNameError
			}
			for _, a := range addrs {
				header := dns.RR_Header{Name: question.Name, Class: dns.ClassINET, Rrtype: question.Qtype, Ttl: 300}
				switch {
				case question.Qtype == dns.TypeA && a.Is4():
					r.Answer = append(r.Answer, &dns.A{Hdr: header, A: a.AsSlice()})
				case question.Qtype == dns.TypeAAAA && a.Is6():
					r.Answer = append(r.Answer, &dns.AAAA{Hdr: header, AAAA: a.AsSlice()})
				}
			}
		}
		w.mu.Unlock()
		_ = rw.WriteMsg(r)
	})
	// A datagram must be answered from the address that it was sent to.
	var c net.PacketConn
	var l net.Listener
	must(w.t, w.in(func() (err error) {
		if c, err = net.ListenPacket("udp", ":53"); err != nil {
			return err
		}
		l, err = net.Listen("tcp", ":53")
		return err
	}))
	for _, s := range []*dns.Server{{PacketConn: c, Handler: handler}, {Listener: l, Handler: handler}} {
		started := make(chan struct{})
		s.NotifyStartedFunc = func() { close(started) }
		w.wg.Go(func() { _ = s.ActivateAndServe() })
		<-started
		w.t.Cleanup(func() { _ = s.Shutdown() })
	}
}

// counted counts what each address's connections receive.
type counted struct {
	net.Listener
	w *world
}

func (l *counted) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	at := c.LocalAddr().(*net.TCPAddr).AddrPort()
	at = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	n := l.w.received[at]
	if n == nil {
		n = new(atomic.Int64)
		l.w.received[at] = n
	}
	return &countedConn{c, n}, nil
}

type countedConn struct {
	net.Conn
	received *atomic.Int64
}

func (c *countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.received.Add(int64(n))
	return n, err
}

// authority signs a certificate for every name that is asked for.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pem  []byte
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "The world"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	return &authority{key, cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

func (a *authority) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if hello.ServerName == "" {
		return nil, errors.New("no server name")
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: []string{hello.ServerName},
		NotBefore: a.cert.NotBefore, NotAfter: a.cert.NotAfter,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &a.key.PublicKey, a.key)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.key}, err
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
