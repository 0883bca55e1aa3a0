//go:build linux

package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"rigs/internal/guestapi"
	"rigs/internal/rig"
	"rigs/internal/wire"
)

// viewer is one client of a terminal session.
type viewer struct {
	t      *testing.T
	in     *io.PipeWriter
	resize chan guestapi.Size
	leave  context.CancelFunc
	done   chan struct{} // closed when the stream has ended, with:
	status guestapi.ExitStatus
	err    error

	mu     sync.Mutex
	change *sync.Cond
	out    bytes.Buffer
	closed bool
}

func (v *viewer) Write(b []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.change.Broadcast()
	return v.out.Write(b)
}

func (h *host) attach(t *testing.T, req guestapi.TerminalRequest) *viewer {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	v := &viewer{t: t, in: w, resize: make(chan guestapi.Size), leave: cancel, done: make(chan struct{})}
	v.change = sync.NewCond(&v.mu)
	conn := h.dial(t, "/v1/terminal")
	go func() {
		v.status, v.err = guestapi.RunStream(ctx, conn, req, guestapi.StreamIO{Stdin: r, Stdout: v, Resize: v.resize})
		r.Close()
		v.mu.Lock()
		v.closed = true
		v.change.Broadcast()
		v.mu.Unlock()
		close(v.done)
	}()
	t.Cleanup(func() {
		cancel()
		<-v.done
	})
	return v
}

func (v *viewer) typeIn(s string) {
	v.t.Helper()
	if _, err := io.WriteString(v.in, s); err != nil {
		v.end()
		v.t.Fatalf("cannot type %q: %v, %+v, %v", s, err, v.status, v.err)
	}
}

// see waits until text has been shown.
func (v *viewer) see(text string) {
	v.t.Helper()
	stop := time.AfterFunc(limit, func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.closed = true
		v.change.Broadcast()
	})
	defer stop.Stop()
	v.mu.Lock()
	defer v.mu.Unlock()
	for !strings.Contains(v.out.String(), text) {
		if v.closed {
			v.t.Fatalf("%q was not shown, but %.2000q (%v)", text, v.out.String(), v.err)
		}
		v.change.Wait()
	}
}

func (v *viewer) end() {
	v.t.Helper()
	select {
	case <-v.done:
	case <-time.After(limit):
		v.t.Fatal("the stream does not end")
	}
}

func TestTerminalIsALoginShellOfTheUser(t *testing.T) {
	h := start(t)
	v := h.attach(t, guestapi.TerminalRequest{Session: "main", Size: guestapi.Size{Cols: 91, Rows: 17}})
	v.typeIn("echo [$0] [$USER] [$PWD] [$(stty size)] [$(id -u)] [$TERM]\n")
	v.see(fmt.Sprintf("[-sh] [rig] [%s] [17 91] [%d] [xterm-256color]", h.user.Home, h.user.UID))
	v.typeIn("tty; test -O $(tty) && echo it is $((1+1)) mine\n")
	v.see("it is 2 mine")
	v.typeIn("exit 7\n")
	v.end()
	if v.err != nil || v.status.Code != 7 {
		t.Errorf("%+v, %v", v.status, v.err)
	}
	eventually(t, "the session to be gone", func() bool { return get[guestapi.Status](t, h, "/v1/status").Terminals == 0 })
	// The name begins a new shell.
	v = h.attach(t, guestapi.TerminalRequest{Session: "main"})
	v.typeIn("echo again $((20+3)), $(stty size)\n")
	v.see("again 23, 24 80")
	v.typeIn("exit\n")
	v.end()
}

func TestTerminalSessionSurvivesItsClients(t *testing.T) {
	h := start(t)
	first := h.attach(t, guestapi.TerminalRequest{Session: "main"})
	first.typeIn("X=kept; echo before $((40+2))\n")
	first.see("before 42")
	if st := get[guestapi.Status](t, h, "/v1/status"); st.Terminals != 1 {
		t.Errorf("%+v", st)
	}
	first.leave()
	first.end()
	eventually(t, "nobody to be attached", func() bool { return get[guestapi.Status](t, h, "/v1/status").Terminals == 0 })

	second := h.attach(t, guestapi.TerminalRequest{Session: "main"})
	second.see("before 42") // the last output, again
	second.typeIn("echo still $X\n")
	second.see("still kept")

	// Two at once see and type the same.
	third := h.attach(t, guestapi.TerminalRequest{Session: "main"})
	third.see("still kept")
	third.typeIn("echo both $((50+1))\n")
	second.see("both 51")
	third.see("both 51")

	// The size is that of whoever asked last.
	second.resize <- guestapi.Size{Cols: 100, Rows: 30}
	second.typeIn("until [ \"$(stty size)\" = '30 100' ]; do sleep 0.01; done; echo second $((60+1))\n")
	second.see("second 61")
	third.resize <- guestapi.Size{Cols: 70, Rows: 20}
	third.typeIn("until [ \"$(stty size)\" = '20 70' ]; do sleep 0.01; done; echo third $((60+2))\n")
	second.see("third 62")

	second.typeIn("exit 3\n")
	for _, v := range []*viewer{second, third} {
		v.end()
		if v.err != nil || v.status.Code != 3 {
			t.Errorf("%+v, %v", v.status, v.err)
		}
	}
}

func TestEphemeralSessionEndsWithItsLastClient(t *testing.T) {
	h := start(t)
	req := guestapi.TerminalRequest{Session: "passing", Ephemeral: true}
	a := h.attach(t, req)
	a.typeIn("echo p''id=$$ e''nd\n") // quoted, so that its echo is not the answer
	a.see(" end")
	_, rest, _ := strings.Cut(a.out.String(), "pid=")
	var pid int
	if _, err := fmt.Sscanf(rest, "%d end", &pid); err != nil {
		t.Fatalf("%q: %v", a.out.String(), err)
	}
	b := h.attach(t, req)
	b.see("pid=")
	a.leave()
	a.end()
	b.typeIn("echo alive $((60+1))\n")
	b.see("alive 61")
	b.leave()
	b.end()
	eventually(t, "the shell to end", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
}

// A client that takes nothing keeps neither the shell nor the others waiting.
func TestSlowClientIsLeftBehind(t *testing.T) {
	h := start(t)
	quick := h.attach(t, guestapi.TerminalRequest{Session: "main"})
	quick.typeIn("echo up $((70+1))\n")
	quick.see("up 71")
	slow := h.dial(t, "/v1/terminal")
	defer slow.Close()
	if err := wire.NewWriter(slow).WriteJSON(wire.KindStart, guestapi.TerminalRequest{Session: "main"}); err != nil {
		t.Fatal(err)
	}
	// More than every buffer on the way to the slow one holds.
	quick.typeIn("head -c 12000000 /dev/zero | tr '\\0' x; echo done $((80+1))\n")
	quick.see("done 81")
	if n := strings.Count(quick.out.String(), "x"); n < 12_000_000 {
		t.Errorf("the quick one was shown %d of 12000000 bytes", n)
	}
	if err := slow.SetReadDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, slow); err != nil {
		t.Errorf("the slow one was not dropped: %v", err)
	}
	quick.typeIn("exit\n")
	quick.end()
}

// The only client gets everything, however fast the shell is.
func TestOnlyClientLosesNothing(t *testing.T) {
	h := start(t)
	v := h.attach(t, guestapi.TerminalRequest{Session: "main"})
	v.typeIn("head -c 3000000 /dev/zero | tr '\\0' y; echo done $((80+1))\n")
	v.see("done 81")
	if n := strings.Count(v.out.String(), "y"); n < 3_000_000 {
		t.Errorf("%d of 3000000 bytes were shown", n)
	}
	v.typeIn("exit\n")
	v.end()
}

// Typing into a program that does not read keeps nobody from leaving.
func TestTerminalIsLeftWithAFullWindow(t *testing.T) {
	h := start(t)
	v := h.attach(t, guestapi.TerminalRequest{Session: "main"})
	v.typeIn("stty raw -echo; echo up $((70+2)); exec sleep 999\n")
	v.see("up 72")
	go func() { _, _ = io.Copy(v.in, io.LimitReader(zeros{}, 10<<20)) }()
	other := h.attach(t, guestapi.TerminalRequest{Session: "main"})
	other.see("up 72")
	v.leave()
	v.end()
	other.leave()
	other.end()
	eventually(t, "nobody to be attached", func() bool { return get[guestapi.Status](t, h, "/v1/status").Terminals == 0 })
	killAll(h.user.UID, "sleep\x00999\x00")
}

func TestScrollbackIsBounded(t *testing.T) {
	h := start(t)
	v := h.attach(t, guestapi.TerminalRequest{Session: "main"})
	v.typeIn("seq 1 200000; echo done $((90+1))\n")
	v.see("done 91")
	w := h.attach(t, guestapi.TerminalRequest{Session: "main"})
	w.see("done 91")
	w.mu.Lock()
	got := w.out.String()
	w.mu.Unlock()
	if len(got) > guestapi.MaxScrollback || len(got) < guestapi.MaxScrollback/2 || !strings.Contains(got, "\n200000\r\n") {
		t.Errorf("%d bytes were replayed", len(got))
	}
	v.typeIn("exit\n")
	v.end()
}

func TestTerminalRefusesWhatCannotBe(t *testing.T) {
	h := start(t)
	for _, name := range []string{"", "Main", "a b", "a/b", strings.Repeat("a", 33), "ä"} {
		v := h.attach(t, guestapi.TerminalRequest{Session: name})
		v.end()
		code(t, v.err, rig.CodeInvalidRequest, "session")
	}
	v := h.attach(t, guestapi.TerminalRequest{Session: "main", Size: guestapi.Size{Cols: 5000, Rows: 1}})
	v.end()
	code(t, v.err, rig.CodeInvalidRequest, "size")
}

func TestTerminalsAreLimited(t *testing.T) {
	h := start(t)
	var all []*viewer
	for i := range guestapi.MaxTerminals {
		v := h.attach(t, guestapi.TerminalRequest{Session: fmt.Sprintf("s%d", i)})
		v.typeIn("echo up $((100+1))\n")
		all = append(all, v)
	}
	for _, v := range all {
		v.see("up 101")
	}
	v := h.attach(t, guestapi.TerminalRequest{Session: "one-more"})
	v.end()
	code(t, v.err, rig.CodeCapacity, "")
	all[0].typeIn("exit\n")
	all[0].end()
	eventually(t, "a session to be free", func() bool {
		return get[guestapi.Status](t, h, "/v1/status").Terminals == guestapi.MaxTerminals-1
	})
	v = h.attach(t, guestapi.TerminalRequest{Session: "one-more"})
	v.typeIn("exit\n")
	v.end()
	for _, v := range all[1:] {
		v.typeIn("exit\n")
		v.end()
	}
}
