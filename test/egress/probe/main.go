//go:build linux

// Command probe is the suite's tool inside a guest: it tries one way out and
// prints, in a word, what the guest's own kernel says about it. It never judges
// by time: a test knows from the kind of the error whether the guest was told.
package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
)

// patience ends a wait that should have been ended by the gate: its error,
// "timeout", is never what a test expects.
const patience = 60 * time.Second

var commands = map[string]struct {
	args int
	run  func(args []string) error
}{
	"dial":   {2, dial},   // NETWORK ADDRESS: connect
	"dials":  {0, dials},  // connect to each address on standard input
	"lookup": {3, lookup}, // NETWORK TYPE NAME: ask the name server that this machine is told to use
	"ask":    {4, ask},    // NETWORK TYPE NAME SERVER: ask another
	"udp":    {2, udp},    // connected|unconnected ADDRESS: send a datagram, wait for an answer
	"ip":     {2, raw},    // PROTOCOL ADDRESS: send a packet of an IP protocol, wait for what comes
	"ping":   {1, ping},   // ADDRESS
	"tls":    {3, hello},  // ADDRESS SHAPE NAME: a ClientHello of a shape, then a request
	"talk":   {1, talk},   // ADDRESS: send standard input, print what comes until the end
	"hold":   {1, hold},   // ADDRESS: connect, say so, and wait for the end
	"until":  {1, until},  // ADDRESS: connect again and again until it works
	"flood":  {2, flood},  // KIND ADDRESS: until standard input ends; print how much was sent
}

func main() {
	signal.Ignore(syscall.SIGPIPE)
	if len(os.Args) < 2 {
		fatal("usage: probe COMMAND ARGUMENT...")
	}
	c, ok := commands[os.Args[1]]
	if !ok || len(os.Args) != 2+c.args {
		fatal("unknown command, or not its arguments: " + strings.Join(os.Args[1:], " "))
	}
	// What a test asks for and does not get is a result, not a failure of ours.
	if err := c.run(os.Args[2:]); err != nil {
		say(kind(err))
	}
}

func fatal(text string) {
	fmt.Fprintln(os.Stderr, "probe: "+text)
	os.Exit(2)
}

func say(format string, args ...any) { fmt.Fprintf(os.Stdout, format+"\n", args...) }

// kind is an error in a word.
func kind(err error) string {
	var (
		errno   syscall.Errno
		network net.Error
		name    *net.DNSError
		alert   tls.AlertError
	)
	switch {
	case errors.As(err, &name) && name.IsNotFound:
		return "NXDOMAIN"
	case errors.As(err, &errno):
		return unix.ErrnoName(errno)
	case errors.As(err, &alert):
		return "alert: " + alert.Error()
	case errors.As(err, &network) && network.Timeout():
		return "timeout"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "EOF"
	}
	return "error: " + err.Error()
}

func connect(network, address string) (net.Conn, error) {
	c, err := (&net.Dialer{Timeout: patience}).DialContext(context.Background(), network, address)
	if err != nil {
		return nil, err
	}
	return c, c.SetDeadline(time.Now().Add(patience))
}

func dial(args []string) error {
	c, err := connect(args[0], args[1])
	if err != nil {
		return err
	}
	defer c.Close()
	say("connected %s", c.RemoteAddr())
	return nil
}

func dials([]string) error {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		c, err := connect("tcp", in.Text())
		if err != nil {
			say("%s %s", in.Text(), kind(err))
			continue
		}
		c.Close()
		say("%s connected", in.Text())
	}
	return in.Err()
}

func lookup(args []string) error {
	conf, err := dns.ClientConfigFromFile("/etc/resolv.conf")
	if err != nil {
		return err
	}
	return ask(append(slices.Clone(args), net.JoinHostPort(conf.Servers[0], conf.Port)))
}

func ask(args []string) error {
	c := dns.Client{Net: args[0], Timeout: patience}
	r, _, err := c.Exchange(new(dns.Msg).SetQuestion(dns.Fqdn(args[2]), dns.StringToType[args[1]]), args[3])
	if err != nil {
		return err
	}
	answers := []string{dns.RcodeToString[r.Rcode]}
	for _, rr := range r.Answer {
		answers = append(answers, strings.TrimPrefix(rr.String(), rr.Header().String()))
	}
	say("%s", strings.Join(answers, " "))
	return nil
}

func udp(args []string) error {
	to, err := net.ResolveUDPAddr("udp", args[1])
	if err != nil {
		return err
	}
	payload := append([]byte{0xc3, 0, 0, 0, 1}, make([]byte, 1195)...) // the size and the first byte of QUIC's first datagram
	if args[0] == "connected" {
		c, err := connect("udp", args[1])
		if err != nil {
			return err
		}
		defer c.Close()
		return exchange(c, func() error { _, err := c.Write(payload); return err })
	}
	c, err := net.ListenUDP("udp", nil)
	if err != nil {
		return err
	}
	defer net.Conn(c).Close()
	// An unconnected socket is told only if it wants to be (ip(7)).
	rc, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	if err := rc.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_RECVERR, 1) }); err != nil || set != nil {
		return errors.Join(err, set)
	}
	return exchange(c, func() error { _, err := c.WriteToUDP(payload, to); return err })
}

// exchange sends, and waits for an answer or an error.
func exchange(c net.Conn, send func() error) error {
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if err := send(); err != nil {
		return err
	}
	n, err := c.Read(make([]byte, 2048))
	if err != nil {
		return err
	}
	say("answered with %d bytes", n)
	return nil
}

// raw sends one packet of an IP protocol. A raw socket is told of an ICMP error
// when it is connected.
func raw(args []string) error {
	c, err := connect("ip4:"+args[0], args[1])
	if err != nil {
		return err
	}
	defer c.Close()
	return exchange(c, func() error { _, err := c.Write(make([]byte, 64)); return err })
}

// ping sends an echo request and prints what kind of message comes back, and
// from whom.
func ping(args []string) error {
	c, err := icmp.ListenPacket("ip4:icmp", "0.0.0.0") // closed by the program's end
	if err != nil {
		return err
	}
	request := icmp.Message{Type: ipv4.ICMPTypeEcho, Body: &icmp.Echo{ID: os.Getpid() & 0xffff, Seq: 1, Data: []byte("probe")}}
	b, err := request.Marshal(nil)
	if err != nil {
		return err
	}
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := c.WriteTo(b, &net.IPAddr{IP: net.ParseIP(args[0])}); err != nil {
		return err
	}
	answer := make([]byte, 1500)
	n, _, err := c.ReadFrom(answer)
	if err != nil {
		return err
	}
	m, err := icmp.ParseMessage(1, answer[:n])
	if err != nil {
		return err
	}
	say("%v %d", m.Type, m.Code)
	return nil
}

// oneByOne sends every byte in a segment of its own.
type oneByOne struct{ net.Conn }

func (c oneByOne) Write(b []byte) (int, error) {
	for i := range b {
		if _, err := c.Conn.Write(b[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(b), nil
}

// hello begins TLS, or something that is not quite TLS, in a shape, and asks for a
// page. Go's sockets do not gather small writes (TCP_NODELAY).
func hello(args []string) error {
	c, err := connect("tcp", args[0])
	if err != nil {
		return fmt.Errorf("connecting: %w", err) // the test sees which of the two it was in the log
	}
	defer c.Close()
	config := &tls.Config{InsecureSkipVerify: true, ServerName: args[2], NextProtos: []string{"http/1.1"}} // whom it reaches is what is tested
	switch args[1] {
	case "plain", "unnamed": // without a name no extension is sent
	case "split":
		c = oneByOne{c}
	case "large": // 16 KB of protocols
		for i := range 64 {
			config.NextProtos = append(config.NextProtos, fmt.Sprintf("%0250d", i))
		}
	case "garbage":
		return afterwards(c, random(517))
	case "garbage record": // a record of the right type, and nothing sensible in it
		return afterwards(c, append([]byte{22, 3, 1, 2, 0}, random(512)...))
	case "endless": // a ClientHello that says it is 4 MB long
		body := append([]byte{1, 0x40, 0, 0, 3, 3}, random(64<<10)...)
		var b []byte
		for part := range slices.Chunk(body, 16<<10) {
			b = append(append(b, 22, 3, 1, byte(len(part)>>8), byte(len(part))), part...)
		}
		return afterwards(c, b)
	case "http":
		return afterwards(c, []byte("GET / HTTP/1.1\r\nHost: "+args[2]+"\r\n\r\n"))
	default:
		fatal("no such shape: " + args[1])
	}
	t := tls.Client(c, config)
	if err := t.HandshakeContext(context.Background()); err != nil {
		return err
	}
	return afterwards(t, []byte("GET / HTTP/1.1\r\nHost: "+args[2]+"\r\nConnection: close\r\n\r\n"))
}

// afterwards sends bytes and prints what comes until the end.
func afterwards(c net.Conn, b []byte) error {
	if _, err := c.Write(b); err != nil {
		return err
	}
	return show(c)
}

// show prints what comes and then, on a line of its own, how it ended.
func show(r io.Reader) error {
	if _, err := io.Copy(os.Stdout, r); err != nil {
		return err
	}
	say("EOF")
	return nil
}

func random(n int) []byte {
	b := make([]byte, n)
	rand.Read(b) // never fails since Go 1.24
	return b
}

func talk(args []string) error {
	c, err := connect("tcp", args[0])
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := io.Copy(c, os.Stdin); err != nil {
		return err
	}
	return show(c)
}

func hold(args []string) error {
	c, err := connect("tcp", args[0])
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Time{}); err != nil { // the test ends it
		return err
	}
	say("connected")
	_, err = io.Copy(io.Discard, c)
	if err == nil {
		err = io.EOF
	}
	return err
}

func until(args []string) error {
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		c, err := connect("tcp", args[0])
		if err == nil {
			c.Close()
			say("connected")
			return nil
		}
		if !errors.Is(err, syscall.ECONNREFUSED) || time.Now().After(end) {
			return err
		}
	}
}

// flood sends as much as it can until standard input ends.
func flood(args []string) error {
	send, ok := floods[args[0]]
	if !ok {
		fatal("no such flood: " + args[0])
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // any end is the end
		stop()
	}()
	say("started")
	n, err := send(ctx, args[1])
	if err != nil {
		return err
	}
	say("%d", n)
	return nil
}

var floods = map[string]func(ctx context.Context, address string) (int, error){
	"frames": floodFrames, "scan": floodScan, "garbage": floodGarbage, "deaf": floodDeaf,
}

// link is a socket for whole Ethernet frames on this machine's network card, until
// the program's end.
func link() (fd int, to *unix.SockaddrLinklayer, mac net.HardwareAddr, err error) {
	card, err := net.InterfaceByName("eth0")
	if err != nil {
		return 0, nil, nil, err
	}
	fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	return fd, &unix.SockaddrLinklayer{Ifindex: card.Index}, card.HardwareAddr, err
}

// put sends one frame. A full queue is waited for.
func put(ctx context.Context, fd int, to unix.Sockaddr, frame []byte) error {
	for {
		err := unix.Sendto(fd, frame, 0, to)
		if !errors.Is(err, unix.ENOBUFS) && !errors.Is(err, unix.EAGAIN) || ctx.Err() != nil {
			return err
		}
	}
}

// floodFrames sends frames that are junk: of every size and type, some with the
// beginning of something real.
func floodFrames(ctx context.Context, _ string) (n int, err error) {
	fd, to, mac, err := link()
	if err != nil {
		return 0, err
	}
	junk := random(64 << 10)
	types := []uint16{0x0800, 0x0806, 0x86dd, 0x88cc, 0x8100, 0}
	for ; ctx.Err() == nil; n++ {
		size := 14 + (n*977)%(65000)
		frame := append([]byte{0x02, 'r', 'i', 'g', 's', 0x01}, mac...)
		frame = binary.BigEndian.AppendUint16(frame, types[n%len(types)])
		frame = append(frame, junk[n%512:][:size-14]...)
		if n%2 == 0 && size > 34 {
			frame[14] = 0x45 // looks like IPv4, from the guest
			copy(frame[26:], []byte{10, 0, 0, 2})
		}
		if err := put(ctx, fd, to, frame); err != nil && ctx.Err() == nil {
			return n, err
		}
	}
	return n, nil
}

// floodScan sends a SYN to every address of a network of 65536, again and again.
func floodScan(ctx context.Context, network string) (n int, err error) {
	first, err := netip.ParseAddr(network)
	if err != nil {
		return 0, err
	}
	fd, to, mac, err := link()
	if err != nil {
		return 0, err
	}
	for ; ctx.Err() == nil; n++ {
		dst := first.As4()
		binary.BigEndian.PutUint16(dst[2:], uint16(n))
		frame := append([]byte{0x02, 'r', 'i', 'g', 's', 0x01}, mac...)
		frame = binary.BigEndian.AppendUint16(frame, 0x0800)
		frame = append(frame, syn(dst, uint16(1024+n%60000), 80)...)
		if err := put(ctx, fd, to, frame); err != nil && ctx.Err() == nil {
			return n, err
		}
	}
	return n, nil
}

// syn is an IPv4 packet that asks dst for a connection.
func syn(dst [4]byte, from, port uint16) []byte {
	p := make([]byte, 40)
	p[0], p[3], p[8], p[9] = 0x45, 40, 64, 6
	copy(p[12:], []byte{10, 0, 0, 2})
	copy(p[16:], dst[:])
	binary.BigEndian.PutUint16(p[10:], checksum(p[:20]))
	t := p[20:]
	binary.BigEndian.PutUint16(t, from)
	binary.BigEndian.PutUint16(t[2:], port)
	binary.BigEndian.PutUint32(t[4:], uint32(from)*7919)
	t[12], t[13] = 5<<4, 2
	binary.BigEndian.PutUint16(t[14:], 65535)
	pseudo := append(slices.Clone(p[12:20]), 0, 6, 0, 20)
	binary.BigEndian.PutUint16(t[16:], checksum(append(pseudo, t...)))
	return p
}

// checksum is RFC 1071's.
func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// floodGarbage connects to an admitted address again and again and sends 64 KB of
// garbage each time.
func floodGarbage(ctx context.Context, address string) (n int, err error) {
	junk := random(64 << 10)
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		first error
	)
	for range 16 {
		wg.Go(func() {
			for ctx.Err() == nil {
				c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
				mu.Lock()
				if err == nil {
					n++
				} else if ctx.Err() == nil && first == nil && !errors.Is(err, syscall.ECONNREFUSED) {
					first = err
				}
				mu.Unlock()
				if err != nil {
					continue
				}
				_, _ = c.Write(junk) // it may be closed meanwhile, which is the point
				c.Close()
			}
		})
	}
	wg.Wait()
	return n, first
}

// floodDeaf opens as many connections as it gets to an address that sends without
// end, asks, and never reads.
func floodDeaf(ctx context.Context, address string) (int, error) {
	var open []net.Conn
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	for ctx.Err() == nil {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			break // as many as there can be
		}
		open = append(open, c)
		if _, err := c.Write([]byte("GET /endless HTTP/1.1\r\nHost: " + strings.TrimSuffix(address, ":80") + "\r\n\r\n")); err != nil {
			return len(open), err
		}
	}
	say("open %s", strconv.Itoa(len(open)))
	<-ctx.Done()
	return len(open), nil
}
