package gate

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// TestTheKernelHoldsNoMoreThanTheStack: whatever is wrapped around the socket, its
// buffers are bounded, but for the connections that have the largest share.
func TestTheKernelHoldsNoMoreThanTheStack(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	sizes := func(c *net.TCPConn) (in, out int) {
		t.Helper()
		raw, err := c.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		err = raw.Control(func(fd uintptr) {
			in, _ = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF)
			out, _ = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF)
		})
		if err != nil || in == 0 || out == 0 {
			t.Fatal(in, out, err)
		}
		return in, out
	}
	for _, x := range []struct {
		name string
		wrap func(net.Conn) net.Conn
	}{
		{"bare", func(c net.Conn) net.Conn { return c }},
		{"behind a proxy", func(c net.Conn) net.Conn { return &earlyConn{Conn: c} }},
		{"behind a proxy with TLS", func(c net.Conn) net.Conn { return &earlyConn{Conn: &tlsConn{raw: c}} }},
	} {
		for _, s := range shares {
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			tcp := c.(*net.TCPConn)
			in, out := sizes(tcp)
			boundKernel(x.wrap(c), s.size)
			in2, out2 := sizes(tcp)
			// The kernel doubles what it is asked for, for its own records.
			if s.size == largestShare && (in2 != in || out2 != out) || s.size != largestShare && (in2 > 2*int(s.size) || out2 > 2*int(s.size)) {
				t.Errorf("%s, a share of %d: %d and %d bytes, before %d and %d", x.name, s.size, in2, out2, in, out)
			}
		}
	}
}
