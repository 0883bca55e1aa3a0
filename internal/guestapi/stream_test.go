package guestapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"rigs/internal/rig"
	"rigs/internal/wire"
)

const limit = 30 * time.Second

// guest is the other end of a stream under test.
type guest struct {
	t    *testing.T
	conn net.Conn
	r    *wire.Reader
	w    *wire.Writer
}

type outcome struct {
	status ExitStatus
	err    error
}

// stream runs RunStream against a guest.
func stream(ctx context.Context, t *testing.T, start any, sio StreamIO) (*guest, chan outcome) {
	t.Helper()
	l, err := net.Listen("unix", t.TempDir()+"/s")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ours, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := theirs.SetDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	done := make(chan outcome, 1)
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		st, err := RunStream(ctx, ours, start, sio)
		done <- outcome{st, err}
	}()
	t.Cleanup(func() {
		theirs.Close()
		<-finished
	})
	return &guest{t, theirs, wire.NewReader(theirs), wire.NewWriter(theirs)}, done
}

// expect reads the next frame, which must have kind k.
func (g *guest) expect(k wire.Kind) []byte {
	g.t.Helper()
	f, err := g.r.Next()
	if err != nil || f.Kind != k {
		g.t.Fatalf("got kind %d %q, %v; want kind %d", f.Kind, f.Payload, err, k)
	}
	return f.Payload
}

func (g *guest) must(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

func end(t *testing.T, done chan outcome) outcome {
	t.Helper()
	select {
	case o := <-done:
		return o
	case <-time.After(limit):
		t.Fatal("RunStream does not return")
		return outcome{}
	}
}

func TestStreamCarriesEverything(t *testing.T) {
	var out, errs bytes.Buffer
	resize, signals := make(chan Size), make(chan Signal)
	g, done := stream(t.Context(), t, ExecRequest{Shell: "x", Stdin: true}, StreamIO{
		Stdin: strings.NewReader("input"), Stdout: &out, Stderr: &errs, Resize: resize, Signals: signals,
	})
	var req ExecRequest
	g.must(json.Unmarshal(g.expect(wire.KindStart), &req))
	if req.Shell != "x" || !req.Stdin {
		t.Errorf("the request: %+v", req)
	}
	if got := g.expect(wire.KindStdin); string(got) != "input" {
		t.Errorf("the input: %q", got)
	}
	g.expect(wire.KindEOF)
	resize <- Size{Cols: 3, Rows: 4}
	if got := g.expect(wire.KindResize); string(got) != `{"cols":3,"rows":4}` {
		t.Errorf("the size: %s", got)
	}
	signals <- Signal{Name: "INT"}
	if got := g.expect(wire.KindSignal); string(got) != `{"name":"INT"}` {
		t.Errorf("the signal: %s", got)
	}
	close(signals)
	g.must(g.w.Write(wire.KindStdout, []byte("out")))
	g.must(g.w.Write(wire.KindStderr, []byte("err")))
	g.must(g.w.WriteAck(5))
	want := ExitStatus{Code: 137, Signal: "KILL", TimedOut: true, Seconds: 1.5}
	g.must(g.w.WriteJSON(wire.KindExit, want))
	if o := end(t, done); o.err != nil || o.status != want {
		t.Errorf("got %+v", o)
	}
	if out.String() != "out" || errs.String() != "err" {
		t.Errorf("got %q and %q", out.String(), errs.String())
	}
}

func TestStreamNeedsNoIO(t *testing.T) {
	g, done := stream(t.Context(), t, TerminalRequest{Session: "main"}, StreamIO{})
	g.expect(wire.KindStart)
	g.must(g.w.Write(wire.KindStdout, []byte("dropped")))
	g.must(g.w.WriteJSON(wire.KindExit, ExitStatus{}))
	if o := end(t, done); o.err != nil {
		t.Error(o.err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestStreamStaysWithinTheWindow(t *testing.T) {
	g, done := stream(t.Context(), t, ExecRequest{Shell: "x", Stdin: true}, StreamIO{Stdin: endless{}})
	g.expect(wire.KindStart)
	// take reads until n bytes have come, and looks whether there are more.
	take := func(n int) {
		t.Helper()
		for got := 0; got < n; {
			got += len(g.expect(wire.KindStdin))
			if got > n {
				t.Fatalf("%d bytes were sent, the window allowed %d", got, n)
			}
		}
		g.must(g.conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond)))
		if f, err := g.r.Next(); err == nil {
			t.Fatalf("%d bytes more than the window were sent", len(f.Payload))
		}
		g.must(g.conn.SetReadDeadline(time.Now().Add(limit)))
	}
	take(wire.Window)
	for _, n := range []int{1, 70_000, wire.Window} {
		g.must(g.w.WriteAck(n))
		take(n)
	}
	g.must(g.w.WriteJSON(wire.KindExit, ExitStatus{}))
	if o := end(t, done); o.err != nil {
		t.Error(o.err)
	}
}

func TestStreamReturnsTheProblem(t *testing.T) {
	g, done := stream(t.Context(), t, ExecRequest{}, StreamIO{})
	g.expect(wire.KindStart)
	p := rig.FieldErrorf("argv", "cannot run: no command")
	p.Status = 200 // a guest cannot make an error look like a success
	g.must(g.w.WriteJSON(wire.KindError, p))
	o := end(t, done)
	var got *rig.Problem
	if !errors.As(o.err, &got) || got.Code != rig.CodeInvalidRequest || got.Field != "argv" || got.Detail != "cannot run: no command" || got.GetStatus() != 400 {
		t.Errorf("got %#v", o.err)
	}
}

func TestStreamRefusesAHostileGuest(t *testing.T) {
	raw := func(b ...byte) func(*guest) {
		return func(g *guest) { _, err := g.conn.Write(b); g.must(err) }
	}
	frame := func(k wire.Kind, s string) func(*guest) {
		return func(g *guest) { g.must(g.w.Write(k, []byte(s))) }
	}
	for name, say := range map[string]func(*guest){
		"an end without a status":    func(g *guest) { g.conn.Close() },
		"an end in a header":         func(g *guest) { raw(4, 0)(g); g.conn.Close() },
		"an end in a frame":          func(g *guest) { raw(4, 0, 0, 0, 9, 'x')(g); g.conn.Close() },
		"an unknown kind":            raw(99, 0, 0, 0, 0),
		"kind 0":                     raw(0, 0, 0, 0, 0),
		"a frame of 4 GB":            raw(4, 255, 255, 255, 255),
		"a client's kind":            frame(wire.KindStdin, "x"),
		"an ack of what was not":     func(g *guest) { g.must(g.w.WriteAck(1)) },
		"an ack of 4 GB":             frame(wire.KindAck, "\xff\xff\xff\xff"),
		"a short ack":                frame(wire.KindAck, "\x01"),
		"a status that is no JSON":   frame(wire.KindExit, "0"),
		"a status with more":         frame(wire.KindExit, `{"code":0,"seconds":1,"more":1}`),
		"two statuses in one":        frame(wire.KindExit, `{"code":0,"seconds":1}{}`),
		"a status below 0":           frame(wire.KindExit, `{"code":-1,"seconds":1}`),
		"a status above 255":         frame(wire.KindExit, `{"code":256,"seconds":1}`),
		"a negative time":            frame(wire.KindExit, `{"code":0,"seconds":-1}`),
		"a long signal":              frame(wire.KindExit, `{"code":0,"seconds":1,"signal":"`+strings.Repeat("K", 100)+`"}`),
		"a problem without a code":   frame(wire.KindError, `{"detail":"x"}`),
		"a problem that is no JSON":  frame(wire.KindError, `x`),
		"a problem with other words": frame(wire.KindError, `{"detail":"x","code":"internal","other":1}`),
	} {
		t.Run(name, func(t *testing.T) {
			g, done := stream(t.Context(), t, ExecRequest{}, StreamIO{})
			g.expect(wire.KindStart)
			say(g)
			o := end(t, done)
			if rig.CodeOf(o.err) != rig.CodeBackendFailure || o.status != (ExitStatus{}) && o.err == nil {
				t.Errorf("got %+v, %v", o.status, o.err)
			}
			// And the stream is closed.
			if _, err := io.Copy(io.Discard, g.conn); err == nil || errors.Is(err, net.ErrClosed) {
				return
			} else if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() {
				t.Error("the stream is still open")
			}
		})
	}
}

func TestStreamEndsWithItsContext(t *testing.T) {
	for name, sio := range map[string]StreamIO{
		"waiting for output":   {},
		"waiting for the ack":  {Stdin: endless{}},
		"waiting for its user": {Stdin: silent{}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			g, done := stream(ctx, t, ExecRequest{Stdin: true}, sio)
			g.expect(wire.KindStart)
			cancel()
			o := end(t, done)
			if rig.CodeOf(o.err) != rig.CodeCanceled || !errors.Is(o.err, context.Canceled) {
				t.Errorf("got %v", o.err)
			}
			for {
				if _, err := g.r.Next(); err != nil {
					var ne net.Error
					if errors.As(err, &ne) && ne.Timeout() {
						t.Error("the stream is still open")
					}
					return
				}
			}
		})
	}
}

// silent is a terminal at which nobody types.
type silent struct{}

func (silent) Read([]byte) (int, error) { select {} }

func TestStreamEndsWhenItsOutputDoes(t *testing.T) {
	broken := errors.New("the pipe is closed")
	g, done := stream(t.Context(), t, ExecRequest{}, StreamIO{Stdout: failing{broken}})
	g.expect(wire.KindStart)
	g.must(g.w.Write(wire.KindStdout, []byte("x")))
	if o := end(t, done); !errors.Is(o.err, broken) {
		t.Errorf("got %v", o.err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// A command's time is kept on this side as well: a guest may not.
func TestAGuestThatDoesNotKeepTheTime(t *testing.T) {
	defer func(d time.Duration) { overtime = d }(overtime)
	overtime = 10 * time.Millisecond
	a, b := net.Pipe()
	defer b.Close()
	go io.Copy(io.Discard, b)
	_, err := RunStream(t.Context(), a, ExecRequest{Shell: "sleep 9", TimeoutSeconds: 0.01}, StreamIO{})
	if rig.CodeOf(err) != rig.CodeTimeout {
		t.Errorf("got %v (code %s), want a timeout", err, rig.CodeOf(err))
	}
}
