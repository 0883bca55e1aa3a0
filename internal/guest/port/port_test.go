//go:build linux

package port

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rigs/internal/wire"
)

const limit = 30 * time.Second

// open returns a Port that serves "hello" to every GET, and the host's end of
// its line.
func open(t *testing.T) net.Conn {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fds[0]), "host")
	host, err := net.FileConn(f)
	f.Close()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	p := New(os.NewFile(uintptr(fds[1]), "guest"))
	go func() {
		done <- p.Serve(ctx, func(l net.Listener) {
			s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, "hello")
			})}
			_ = s.Serve(l)
			s.Close()
		})
	}()
	t.Cleanup(func() {
		cancel()
		host.Close()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Serve: %v", err)
		}
	})
	return host
}

func ask(t *testing.T, m *wire.Mux) {
	t.Helper()
	tr := m.Transport()
	defer tr.CloseIdleConnections()
	res, err := (&http.Client{Transport: tr, Timeout: limit}).Get("http://guest/")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if b, err := io.ReadAll(res.Body); err != nil || string(b) != "hello" {
		t.Fatalf("%q, %v", b, err)
	}
}

// begin begins a session whose end leaves the line open.
func begin(t *testing.T, host net.Conn) *wire.Mux {
	t.Helper()
	if err := wire.HostHandshake(host, limit); err != nil {
		t.Fatal(err)
	}
	m, err := wire.NewMux(keepOpen{host}, true)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

type keepOpen struct{ net.Conn }

func (k keepOpen) Close() error { return k.SetDeadline(time.Unix(1, 0)) }

func TestHostsComeAndGo(t *testing.T) {
	host := open(t)
	for range 5 {
		m := begin(t, host)
		ask(t, m)
		// The host vanishes; the guest hears nothing of it, as after a restore.
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestHostVanishesInTheMiddleOfAFrame(t *testing.T) {
	host := open(t)
	m := begin(t, host)
	ask(t, m)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if err := host.SetDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	// The header of 200,000 bytes for stream 1, and 5 of them.
	if _, err := host.Write([]byte{0, 0, 0, 0, 0, 0, 0, 1, 0, 3, 13, 64, 'a', 'b', 'c', 'd', 'e'}); err != nil {
		t.Fatal(err)
	}
	m = begin(t, host)
	ask(t, m)
	m.Close()
}

func TestHostVanishesAfterTheHandshake(t *testing.T) {
	host := open(t)
	for range 3 {
		if err := wire.HostHandshake(host, limit); err != nil {
			t.Fatal(err)
		}
	}
	m := begin(t, host)
	ask(t, m)
	m.Close()
}

func TestOpenSaysWhatIsMissing(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Open(ctx, "no.such.port"); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
}
