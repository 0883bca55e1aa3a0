package wire

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"time"
)

// limit is for what must not hang; nothing that works comes near it.
const limit = 30 * time.Second

// pipe returns the two ends of a serial port.
func pipe(t *testing.T) (host, guest net.Conn) {
	t.Helper()
	l, err := net.Listen("unix", t.TempDir()+"/s")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if host, err = net.Dial("unix", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if guest, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.Close(); guest.Close() })
	return host, guest
}

// begin runs both handshakes and checks that the bytes after them are the
// session's, both ways.
func begin(t *testing.T, host, guest net.Conn, tail []byte) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- GuestHandshake(guest, tail) }()
	if err := HostHandshake(host, limit); err != nil {
		t.Fatalf("host: %v", err)
	}
	if err := <-done; err != nil {
		t.Fatalf("guest: %v", err)
	}
	for _, d := range []struct{ from, to net.Conn }{{host, guest}, {guest, host}} {
		want := []byte("the session's first bytes")
		if _, err := d.from.Write(want); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(want))
		if _, err := io.ReadFull(d.to, got); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("after the handshake came %q, %v", got, err)
		}
	}
}

func TestSessionBegins(t *testing.T) {
	host, guest := pipe(t)
	begin(t, host, guest, nil)
	// And again on the same port, as after a restore.
	begin(t, host, guest, nil)
}

func TestLeftoversAreDiscarded(t *testing.T) {
	old := newPreamble(ackKind, bytes.Repeat([]byte{1}, 16))
	oldReady := newPreamble(readyKind, bytes.Repeat([]byte{1}, 16))
	oldGo := newPreamble(goKind, bytes.Repeat([]byte{3}, 16))
	oldHello := newPreamble(helloKind, bytes.Repeat([]byte{2}, 16))
	noise := make([]byte, 100_000)
	for i := range noise {
		noise[i] = byte(rand.IntN(256))
	}
	cases := map[string]struct{ toHost, toGuest []byte }{
		"noise":                 {noise, noise},
		"messages of before":    {append(old[:], oldReady[:]...), append(oldHello[:], oldGo[:]...)},
		"a go without a hello":  {nil, oldGo[:]},
		"half a message":        {old[:20], oldHello[:20]},
		"the magic, then noise": {nil, append(preambleMagic[:], noise...)},
		"the magic in itself":   {nil, append([]byte("RIRIGSRIGS\xfe\x0d"), oldHello[:7]...)},
		"a long stretch of R":   {bytes.Repeat([]byte{'R'}, 999), bytes.Repeat([]byte{'R'}, 999)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			host, guest := pipe(t)
			if _, err := guest.Write(c.toHost); err != nil {
				t.Fatal(err)
			}
			if _, err := host.Write(c.toGuest); err != nil {
				t.Fatal(err)
			}
			begin(t, host, guest, nil)
		})
	}
}

// A guest that was frozen in a session is spoken to by another host.
func TestGuestInAnOldSessionIsReached(t *testing.T) {
	for name, unfinished := range map[string][]byte{
		"between two frames": nil,
		"in a header":        {0, 0, 0, 1},
		// Version 0, data, no flags, stream 2, 1 MB of which 3 bytes have come.
		"in a frame": {0, 0, 0, 0, 0, 0, 0, 2, 0, 16, 0, 0, 'a', 'b', 'c'},
	} {
		t.Run(name, func(t *testing.T) {
			host, guest := pipe(t)
			tail := &Tail{ReadWriteCloser: halfOpen{guest}}
			m, err := NewMux(tail, false)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := host.Write(unfinished); err != nil {
				t.Fatal(err)
			}
			guestDone := make(chan error, 1)
			go func() {
				<-m.Done()
				m.Close()
				if err := guest.SetDeadline(time.Time{}); err != nil {
					guestDone <- err
					return
				}
				guestDone <- GuestHandshake(guest, tail.Last())
			}()
			if err := HostHandshake(host, limit); err != nil {
				t.Fatal(err)
			}
			if err := <-guestDone; err != nil {
				t.Fatal(err)
			}
		})
	}
}

// halfOpen keeps the port open when a session on it is closed.
type halfOpen struct{ net.Conn }

func (h halfOpen) Close() error { return h.SetDeadline(time.Unix(1, 0)) }

func TestHostIsGivenUpByTheNext(t *testing.T) {
	host, guest := pipe(t)
	done := make(chan error, 1)
	go func() { done <- GuestHandshake(guest, nil) }()
	// A host that dies after its hello.
	hello := newPreamble(helloKind, bytes.Repeat([]byte{9}, 16))
	if _, err := host.Write(hello[:]); err != nil {
		t.Fatal(err)
	}
	if err := HostHandshake(host, limit); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestHostHandshakeGivesUp(t *testing.T) {
	t.Run("on silence", func(t *testing.T) {
		host, _ := pipe(t)
		err := HostHandshake(host, 100*time.Millisecond)
		if !errors.Is(err, ErrHandshake) || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
	})
	t.Run("on noise without end", func(t *testing.T) {
		host, guest := pipe(t)
		go func() {
			for {
				if _, err := guest.Write(make([]byte, 4096)); err != nil {
					return
				}
			}
		}()
		if err := HostHandshake(host, 100*time.Millisecond); !errors.Is(err, ErrHandshake) {
			t.Fatalf("got %v", err)
		}
	})
	t.Run("when closed", func(t *testing.T) {
		host, guest := pipe(t)
		go func() {
			buf := make([]byte, 1)
			_, _ = guest.Read(buf)
			host.Close()
		}()
		if err := HostHandshake(host, limit); !errors.Is(err, ErrHandshake) {
			t.Fatalf("got %v", err)
		}
	})
	t.Run("on the peer's end", func(t *testing.T) {
		host, guest := pipe(t)
		guest.Close()
		if err := HostHandshake(host, limit); !errors.Is(err, ErrHandshake) {
			t.Fatalf("got %v", err)
		}
	})
}

func TestTailRemembersTheEnd(t *testing.T) {
	data := make([]byte, 1000)
	for i := range data {
		data[i] = byte(i)
	}
	for _, size := range []int{1, 7, 31, 32, 33, 500} {
		tail := &Tail{ReadWriteCloser: struct {
			io.ReadCloser
			io.Writer
		}{io.NopCloser(bytes.NewReader(data)), nil}}
		buf := make([]byte, size)
		for {
			if _, err := tail.Read(buf); err != nil {
				break
			}
		}
		if !bytes.Equal(tail.Last(), data[len(data)-preambleSize:]) {
			t.Errorf("reading %d bytes at a time: %v", size, tail.Last())
		}
	}
}
