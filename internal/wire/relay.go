package wire

import (
	"io"
	"net"
	"sync"
)

// Relay copies bytes both ways between a and b until both directions have
// ended or one has failed, closes both and returns the bytes copied. An end in
// one direction is passed on as a half-close where the transport can.
func Relay(a, b net.Conn) (aToB, bToA int64) {
	var wg sync.WaitGroup
	half := func(n *int64, dst, src net.Conn) {
		var err error
		*n, err = io.CopyBuffer(struct{ io.Writer }{dst}, struct{ io.Reader }{src}, make([]byte, MaxFrame+5))
		if h, ok := dst.(interface{ CloseWrite() error }); ok && err == nil {
			_ = h.CloseWrite()
			return
		}
		a.Close()
		b.Close()
	}
	wg.Go(func() { half(&aToB, b, a) })
	wg.Go(func() { half(&bToA, a, b) })
	wg.Wait()
	a.Close()
	b.Close()
	return aToB, bToA
}
