package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"rigs/internal/rig"
)

func dialer(s *httptest.Server) DialFunc {
	return func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", s.Listener.Addr().String())
	}
}

func TestAStreamIsRaw(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := Accept(w, r)
		if err != nil {
			return
		}
		defer c.Close()
		io.Copy(c, c)
	}))
	defer s.Close()
	c, err := Dial(t.Context(), dialer(s), "x", "/s?q=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	msg := strings.Repeat("hello ", 1000)
	go func() {
		io.WriteString(c, msg)
		c.(interface{ CloseWrite() error }).CloseWrite()
	}()
	if got, err := io.ReadAll(c); err != nil || string(got) != msg {
		t.Errorf("echo of %d bytes returned %d, %v", len(msg), len(got), err)
	}
}

func TestARefusedStreamIsItsProblem(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/problem":
			WriteProblem(w, rig.Errorf(rig.CodeGone, "rig x is closed"))
		case "/html":
			http.Error(w, "<h1>teapot</h1>", http.StatusTeapot)
		default:
			Accept(w, r)
		}
	}))
	defer s.Close()
	for path, want := range map[string]rig.Code{"/problem": rig.CodeGone, "/html": rig.CodeInternal} {
		_, err := Dial(t.Context(), dialer(s), "x", path, nil)
		if rig.CodeOf(err) != want {
			t.Errorf("%s: %v (code %s), want %s", path, err, rig.CodeOf(err), want)
		}
	}
	res, err := http.Get(s.URL + "/plain")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if err := ReadProblem(res); rig.CodeOf(err) != rig.CodeInvalidRequest {
		t.Errorf("without Upgrade: %v", err)
	}
}

func TestDialGivesUpWithItsContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan error, 1)
	go func() {
		_, err := Dial(ctx, func(ctx context.Context) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", l.Addr().String())
		}, "x", "/", nil)
		got <- err
	}()
	c, err := l.Accept() // a peer that accepts and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cancel()
	if err := <-got; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

func TestMuxServesAndDialsBothWays(t *testing.T) {
	a, b := net.Pipe()
	host, err := NewMux(a, true)
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	guest, err := NewMux(b, false)
	if err != nil {
		t.Fatal(err)
	}
	defer guest.Close()
	serve := func(m *Mux, name string) *http.Server {
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, name) })}
		go s.Serve(m.Listener())
		return s
	}
	defer serve(host, "host").Close()
	defer serve(guest, "guest").Close()
	for m, want := range map[*Mux]string{host: "guest", guest: "host"} {
		tr := m.Transport()
		res, err := (&http.Client{Transport: tr}).Get("http://peer/")
		if err != nil {
			t.Fatal(err)
		}
		got, _ := io.ReadAll(res.Body)
		res.Body.Close()
		tr.CloseIdleConnections()
		if string(got) != want {
			t.Errorf("answered by %q, want %q", got, want)
		}
	}
	guest.Close()
	<-host.Done()
	if _, err := host.Dial(t.Context()); err == nil {
		t.Error("dialled on an ended session")
	}
}

// A peer that is not trusted may answer with a head that does not end.
func TestDialBoundsTheAnswer(t *testing.T) {
	for name, unit := range map[string]string{"one header": "x", "many headers": "X-A: b\r\n", "many interim answers": "\r\nHTTP/1.1 100 Continue\r\n"} {
		t.Run(name, func(t *testing.T) {
			a, b := net.Pipe()
			sent := make(chan int, 1)
			go func() {
				defer b.Close()
				go io.Copy(io.Discard, b)
				n, _ := io.WriteString(b, "HTTP/1.1 101 Switching Protocols\r\nX-Long: ")
				chunk := strings.Repeat(unit, 1000)
				for n < 64<<20 {
					m, err := io.WriteString(b, chunk)
					n += m
					if err != nil {
						break
					}
				}
				sent <- n
			}()
			_, err := Dial(t.Context(), func(context.Context) (net.Conn, error) { return a, nil }, "x", "/", nil)
			if err == nil {
				t.Fatal("it was accepted")
			}
			if len(err.Error()) > 1000 {
				t.Errorf("the error quotes %d bytes", len(err.Error()))
			}
			if n := <-sent; n > 2*maxAnswer {
				t.Errorf("%d bytes of a head were read, then %v", n, err)
			}
		})
	}
}
