package gate

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/buffer"
)

// kernelGuest is a guest with a real kernel's network stack: a network namespace
// whose one interface is a TAP device that stands for the virtual network card.
type kernelGuest struct {
	t     testing.TB
	gate  *Gate
	world *world
	log   *logbook
	do    chan func() // run on the thread that is in the namespace
}

func newKernelGuest(t testing.TB, patterns ...string) *kernelGuest {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a network namespace takes root")
	}
	k := &kernelGuest{t: t, world: newWorld(), log: &logbook{change: make(chan struct{})}, do: make(chan func())}
	g, err := New(Config{Patterns: patterns, Resolver: k.world, Dial: k.world.dial, Events: k.log.add})
	if err != nil {
		t.Fatal(err)
	}
	k.gate = g
	tap := make(chan *os.File)
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends, and its namespace with it
		f, err := enterNamespace()
		if err != nil {
			failed <- err
			return
		}
		tap <- f
		for f := range k.do {
			f()
		}
	}()
	var dev *os.File
	select {
	case dev = <-tap:
	case err := <-failed:
		t.Skipf("no network namespace with a TAP device here: %v", err)
	}
	host, guest := socketpair(t)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := g.Serve(ctx, host); err != nil && ctx.Err() == nil {
			t.Errorf("Serve: %v", err)
		}
	})
	wg.Go(func() {
		b := make([]byte, 4+maxFrame)
		for {
			n, err := dev.Read(b[4:])
			if err != nil {
				return
			}
			binary.BigEndian.PutUint32(b, uint32(n))
			if _, err := guest.Write(b[:4+n]); err != nil {
				return
			}
		}
	})
	wg.Go(func() {
		_ = readFrames(guest, MaxMTU, func() {}, func(v *buffer.View) {
			_, _ = dev.Write(v.AsSlice())
			v.Release()
		})
	})
	t.Cleanup(func() {
		cancel()
		guest.Close()
		dev.Close()
		wg.Wait()
		close(k.do)
	})
	return k
}

// enterNamespace moves this thread into a namespace of its own and sets its network
// up as a guest's.
func enterNamespace() (*os.File, error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return nil, err
	}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	req, err := unix.NewIfreq("eth0")
	if err != nil {
		return nil, err
	}
	req.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, req); err != nil {
		unix.Close(fd)
		return nil, err
	}
	for _, args := range [][]string{
		{"link", "set", "lo", "up"},
		{"link", "set", "eth0", "mtu", "65520", "up"},
		{"addr", "add", "10.0.0.2/24", "dev", "eth0"},
		{"route", "add", "default", "via", "10.0.0.1"},
		// A guest that made itself a way to IPv6.
		{"-6", "addr", "add", "fd00::2/64", "dev", "eth0", "nodad"},
		{"-6", "route", "add", "default", "dev", "eth0"},
	} {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			unix.Close(fd)
			return nil, errors.New(string(out) + err.Error())
		}
	}
	return os.NewFile(uintptr(fd), "tap"), nil
}

// dial connects from inside the namespace: a socket belongs to the namespace of the
// thread that makes it.
func (k *kernelGuest) dial(network, address string) (c net.Conn, err error) {
	done := make(chan struct{})
	k.do <- func() {
		defer close(done)
		c, err = net.DialTimeout(network, address, deadline)
	}
	<-done
	if err == nil {
		c.SetDeadline(time.Now().Add(deadline))
	}
	return c, err
}

func (k *kernelGuest) lookup(host string) netip.Addr {
	k.t.Helper()
	c, err := k.dial("udp", "10.0.0.1:53")
	if err != nil {
		k.t.Fatal(err)
	}
	defer c.Close()
	r, _, err := new(dns.Client).ExchangeWithConn(new(dns.Msg).SetQuestion(host+".", dns.TypeA), &dns.Conn{Conn: c})
	if err != nil || len(r.Answer) != 1 {
		k.t.Fatalf("lookup of %s: %v, %v", host, r, err)
	}
	return mustAddr(k.t, r.Answer[0].(*dns.A).A.String())
}

// What a real kernel sees of the gate.
func TestRealKernel(t *testing.T) {
	k := newKernelGuest(t, "good.test:7", "closed.test:7")
	k.world.name("good.test", "1.2.3.4")
	k.world.serve(t, "1.2.3.4:7", echo)
	k.world.name("closed.test", "1.2.3.5")
	k.world.closedPort(t, "1.2.3.5:7")

	at := k.lookup("good.test").String() + ":7"
	c, err := k.dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	large := make([]byte, 8<<20)
	for i := range large {
		large[i] = byte(i * 7 >> 3)
	}
	go c.Write(large)
	got := make([]byte, len(large))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != string(large) {
		t.Fatalf("8 MB there and back: %v", err)
	}
	c.(*net.TCPConn).CloseWrite()
	mustEnd(t, c)

	for _, refused := range []string{
		k.lookup("evil.test").String() + ":443", k.lookup("good.test").String() + ":443", k.lookup("closed.test").String() + ":7",
		"8.8.8.8:443", "10.0.0.1:80", "10.0.0.77:80", "169.254.169.254:80",
	} {
		if c, err := k.dial("tcp", refused); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s: %v, %v", refused, c, err)
		}
	}
	u, err := k.dial("udp", "8.8.8.8:443")
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	u.Write([]byte("QUIC"))
	if _, err := u.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("UDP: %v", err)
	}
	if c, err := k.dial("tcp", "[2606:4700::1]:443"); !errors.Is(err, syscall.EACCES) {
		t.Errorf("IPv6: %v, %v", c, err)
	}
	k.log.wait(t, "the IPv6 attempt", func(e rigEvent) bool { return e.Protocol == protoIPv6 && e.Address == "2606:4700::1" && e.Port == 443 })

	if err := k.gate.Deny("good.test:7"); err != nil {
		t.Fatal(err)
	}
	if c, err := k.dial("tcp", at); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("after its removal: %v, %v", c, err)
	}
}

func benchKernel(b *testing.B, handle func(*net.TCPConn)) net.Conn {
	k := newKernelGuest(b, "good.test:7")
	k.world.name("good.test", "1.2.3.4")
	k.world.serve(b, "1.2.3.4:7", handle)
	c, err := k.dial("tcp", k.lookup("good.test").String()+":7")
	if err != nil {
		b.Fatal(err)
	}
	c.SetDeadline(time.Time{})
	b.Cleanup(func() { c.Close() })
	return c
}

func BenchmarkKernelUp(b *testing.B) {
	received := make(chan struct{})
	c := benchKernel(b, func(c *net.TCPConn) { io.Copy(io.Discard, c); received <- struct{}{} })
	data := make([]byte, 1<<20)
	b.SetBytes(1 << 20)
	b.ResetTimer()
	for range b.N {
		c.Write(data)
	}
	c.(*net.TCPConn).CloseWrite()
	<-received
}

func BenchmarkKernelDown(b *testing.B) {
	total := int64(b.N) << 20
	c := benchKernel(b, func(c *net.TCPConn) {
		data := make([]byte, 1<<20)
		for range total >> 20 {
			c.Write(data)
		}
	})
	b.SetBytes(1 << 20)
	b.ResetTimer()
	if n, err := io.Copy(io.Discard, c); n != total {
		b.Fatalf("%d of %d bytes, %v", n, total, err)
	}
}
