package keeper

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rigs/internal/guestapi"
	"rigs/internal/keeperapi"
	"rigs/internal/rig"
	"rigs/internal/wire"
)

// Real time counts, by whichever clock says so first.
func TestExpired(t *testing.T) {
	start := time.Now()
	deadline := start.Add(time.Hour)
	// shift moves a time's wall clock and leaves its monotonic reading behind, as a
	// host that slept does: only the wall clock has gone on.
	slept := start.Add(time.Minute).Round(0).Add(8 * time.Hour)
	for name, c := range map[string]struct {
		now  time.Time
		want bool
	}{
		"just begun":              {start, false},
		"a moment before":         {deadline.Add(-time.Millisecond), false},
		"at the end":              {deadline, true},
		"the host slept 8 hours":  {slept, true},
		"the wall clock set back": {start.Round(0).Add(-time.Hour), false},
	} {
		if got := expired(start, deadline, c.now); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	// Set back by hours, and the time is over by the other clock.
	early := start.Round(0).Add(-5 * time.Hour)
	if !expired(early, early.Add(time.Hour), early.Add(2*time.Hour)) {
		t.Error("the time that passed does not count")
	}
}

func TestWaitDeadline(t *testing.T) {
	if err := waitDeadline(t.Context(), time.Now().Add(-time.Second)); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := waitDeadline(ctx, time.Now().Add(time.Hour)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestEgressLogIsBoundedAndNumbered(t *testing.T) {
	var l egressLog
	published := int64(0)
	const n = maxEgress + 500
	for i := range n {
		l.add(rig.EgressEvent{Port: i, Host: strings.Repeat("x", 1000)}, func(e rig.EgressEvent) {
			published++
			if e.Seq != published || len(e.Host) > 256 {
				t.Fatalf("event %d has number %d and a name of %d bytes", published, e.Seq, len(e.Host))
			}
		})
	}
	if len(l.events) != maxEgress {
		t.Errorf("%d events are kept", len(l.events))
	}
	first := l.after(0)
	if first.Lost != 500 || len(first.Events) != maxEgressPage || first.Events[0].Seq != 501 || first.Events[0].Port != 500 {
		t.Errorf("lost %d, %d events from %d", first.Lost, len(first.Events), first.Events[0].Seq)
	}
	seen, after := 0, int64(500)
	for {
		page := l.after(after)
		if page.Lost != 0 {
			t.Fatalf("lost %d after %d", page.Lost, after)
		}
		if len(page.Events) == 0 {
			break
		}
		for _, e := range page.Events {
			after++
			if e.Seq != after {
				t.Fatalf("number %d, want %d", e.Seq, after)
			}
			seen++
		}
	}
	if seen != maxEgress {
		t.Errorf("%d seen", seen)
	}
	for _, after := range []int64{n, n + 1, 1 << 62} {
		if p := l.after(after); len(p.Events) != 0 || p.Lost != 0 {
			t.Errorf("after %d: %+v", after, p)
		}
	}
}

// A watcher that does not read misses steps but never a phase.
func TestSlowWatcher(t *testing.T) {
	var h hub
	events, stop := h.watch([]keeperapi.Event{{Type: "phase", Phase: rig.Provisioning}})
	defer stop()
	for range 10 * queueLen {
		h.publish(keeperapi.Event{Type: "egress"})
	}
	h.publish(keeperapi.Event{Type: "phase", Phase: rig.Failed})
	var last keeperapi.Event
	for len(events) > 0 {
		last = <-events
	}
	if last.Phase != rig.Failed {
		t.Errorf("the last event is %+v", last)
	}
	for range queueLen + 1 {
		h.publish(keeperapi.Event{Type: "phase", Phase: rig.Parked})
	}
	n := 0
	for range events { // ends, because it was cut off
		n++
	}
	if n != queueLen {
		t.Errorf("%d events before the cut", n)
	}
}

func TestConfirm(t *testing.T) {
	ask := guestapi.Rekey{HostName: "h", MachineID: strings.Repeat("a", 32), Secret: "s", Time: time.Now()}
	sum := sha256.Sum256([]byte("s"))
	good := guestapi.Rekeyed{HostName: "h", MachineID: ask.MachineID, Time: ask.Time, Reseeded: true, SecretSHA: hex.EncodeToString(sum[:])}
	received := ask.Time.Add(time.Second)
	if err := confirm(ask, good, received); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*guestapi.Rekeyed){
		"not reseeded": func(r *guestapi.Rekeyed) { r.Reseeded = false },
		"host name":    func(r *guestapi.Rekeyed) { r.HostName = "template" },
		"machine id":   func(r *guestapi.Rekeyed) { r.MachineID = strings.Repeat("b", 32) },
		"secret":       func(r *guestapi.Rekeyed) { r.SecretSHA = "" },
		"clock behind": func(r *guestapi.Rekeyed) { r.Time = ask.Time.Add(-time.Second) },
		"clock ahead":  func(r *guestapi.Rekeyed) { r.Time = received.Add(time.Second) },
		"no clock":     func(r *guestapi.Rekeyed) { r.Time = time.Time{} },
	} {
		r := good
		change(&r)
		if err := confirm(ask, r, received); rig.CodeOf(err) != rig.CodeBackendFailure {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestIdentitiesDiffer(t *testing.T) {
	a, b := newIdentity("h"), newIdentity("h")
	if a.machineID == b.machineID || a.secret == b.secret || len(a.machineID) != 32 {
		t.Errorf("%+v and %+v", a, b)
	}
}

// A guest's errors: a code that it may use, a short clean text, nothing else.
func TestGuestProblems(t *testing.T) {
	for in, want := range map[string]string{
		`{"code":"notFound","detail":"no such file"}`:                                      "notFound no such file",
		`{"code":"notFound","detail":"a\u001b[31mb\u202e","status":200,"type":"http://x"}`: "notFound ab",
		`{"code":"unauthenticated","detail":"log in"}`:                                     "backendFailure log in",
		`{"code":"gone","detail":"x"}`:                                                     "backendFailure x",
		`{"code":"notFound"}`:                                                              "backendFailure the machine's agent failed and did not say why",
		`{"code":"notFound","detail":"x","more":1}`:                                        "backendFailure the machine's agent failed and did not say why",
		`<html>`: "backendFailure the machine's agent failed and did not say why",
	} {
		p := cleanProblem([]byte(in))
		if got := string(p.Code) + " " + p.Detail; got != want || p.GetStatus() != p.Code.HTTPStatus() || p.Type != "" {
			t.Errorf("%s: %s, %+v", in, got, p)
		}
	}
	if p := cleanProblem([]byte(`{"code":"notFound","detail":"` + strings.Repeat("x", 10000) + `"}`)); len(p.Detail) > 1000 {
		t.Errorf("%d bytes", len(p.Detail))
	}
}

func frames(t *testing.T, add func(*wire.Writer)) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	add(wire.NewWriter(&b))
	return &b
}

func TestGuestFramesPass(t *testing.T) {
	in := frames(t, func(w *wire.Writer) {
		w.WriteData(wire.KindStdout, bytes.Repeat([]byte("x"), 100_000))
		w.Write(wire.KindStderr, []byte("e"))
		w.WriteAck(7)
		w.WriteJSON(wire.KindExit, guestapi.ExitStatus{Code: 7})
	})
	want := in.String()
	var out bytes.Buffer
	if err := guestFrames(io.MultiReader(in, strings.NewReader("after the end")), wire.NewWriter(&out)); err != nil || out.String() != want {
		t.Errorf("%v, %d bytes of %d", err, out.Len(), len(want))
	}
}

func TestGuestFramesThatAreNone(t *testing.T) {
	for name, in := range map[string]io.Reader{
		"end without a status": frames(t, func(w *wire.Writer) { w.Write(wire.KindStdout, []byte("x")) }),
		"a client's kind":      frames(t, func(w *wire.Writer) { w.Write(wire.KindStdin, []byte("x")) }),
		"a start":              frames(t, func(w *wire.Writer) { w.WriteJSON(wire.KindStart, struct{}{}) }),
		"exit that is no JSON": frames(t, func(w *wire.Writer) { w.Write(wire.KindExit, []byte("7")) }),
		"exit with more":       frames(t, func(w *wire.Writer) { w.Write(wire.KindExit, []byte(`{"code":0,"x":1}`)) }),
		"ack beyond measure":   frames(t, func(w *wire.Writer) { w.WriteAck(1 << 30) }),
		"ack of 3 bytes":       frames(t, func(w *wire.Writer) { w.Write(wire.KindAck, []byte("abc")) }),
		"huge frame":           strings.NewReader("\x04\xff\xff\xff\xff"),
		"garbage":              strings.NewReader("HTTP/1.1 200 OK"),
	} {
		if err := guestFrames(in, wire.NewWriter(io.Discard)); err == nil || errors.Is(err, errClient) {
			t.Errorf("%s: %v", name, err)
		}
	}
	in := frames(t, func(w *wire.Writer) { w.WriteJSON(wire.KindError, rig.Errorf(rig.CodeUnauthenticated, "\x1b[1mx")) })
	var out bytes.Buffer
	if err := guestFrames(in, wire.NewWriter(&out)); err != nil {
		t.Fatal(err)
	}
	f, err := wire.NewReader(&out).Next()
	var p rig.Problem
	if err != nil || f.Kind != wire.KindError || f.Decode(&p) != nil || p.Code != rig.CodeBackendFailure || p.Detail != "x" {
		t.Errorf("%v, %+v, %+v", err, f, p)
	}
}

func TestConfigIsStrict(t *testing.T) {
	good := keeperapi.Config{
		Mode: keeperapi.ModeRig, Socket: "/r/keeper", RuntimeDir: "/r", DiskDir: "/d", HostName: "h", Deadline: time.Now(),
		Machine: keeperapi.Machine{QEMU: "/q"}, Boot: keeperapi.BootFiles{Kernel: "/k", Initrd: "/i", RootFS: "/f", Blank: "/b"},
	}
	text := func(c keeperapi.Config) string {
		b, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if _, err := readConfig(strings.NewReader(text(good) + "\n what follows is the lifeline")); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*keeperapi.Config){
		"mode":            func(c *keeperapi.Config) { c.Mode = "other" },
		"no socket":       func(c *keeperapi.Config) { c.Socket = "" },
		"long socket":     func(c *keeperapi.Config) { c.Socket = "/" + strings.Repeat("x", 200) },
		"relative kernel": func(c *keeperapi.Config) { c.Boot.Kernel = "k" },
		"no deadline":     func(c *keeperapi.Config) { c.Deadline = time.Time{} },
		"no host name":    func(c *keeperapi.Config) { c.HostName = "" },
		"no template dir": func(c *keeperapi.Config) { c.Mode = keeperapi.ModeTemplate },
	} {
		c := good
		change(&c)
		if _, err := readConfig(strings.NewReader(text(c))); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for _, s := range []string{"", "{", `{"mode":"rig","unknown":1}`, `{"mode":"rig"` + strings.Repeat(" ", maxConfig)} {
		if _, err := readConfig(strings.NewReader(s)); err == nil {
			t.Errorf("%.40q: accepted", s)
		}
	}
	var out bytes.Buffer
	if code := Main(t.Context(), strings.NewReader("{}"), &out); code != 1 || !strings.Contains(out.String(), `"failed"`) {
		t.Errorf("%d, %s", code, out.String())
	}
}

func TestHeadKeepsTheBeginning(t *testing.T) {
	h := head{limit: 5}
	for _, s := range []string{"abc", "def", "ghi"} {
		if n, err := h.Write([]byte(s)); n != 3 || err != nil {
			t.Fatal(n, err)
		}
	}
	if string(h.b) != "abcde" || !h.more {
		t.Errorf("%q, %v", h.b, h.more)
	}
}

// A guest that stops sending is given up; a client that does not ask is not its
// fault.
func TestWatchdog(t *testing.T) {
	ctx, w := newWatchdog(t.Context(), 20*time.Millisecond)
	defer w.stop()
	r, feed := io.Pipe()
	defer feed.Close()
	guardedReader := w.reader(r)
	go fmt.Fprint(feed, "x")
	if _, err := guardedReader.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ctx.Done():
		t.Error("given up while nobody asked")
	case <-time.After(60 * time.Millisecond): // thrice the limit
	}
	go func() { _, _ = guardedReader.Read(make([]byte, 1)) }()
	<-ctx.Done()
	if rig.CodeOf(context.Cause(ctx)) != rig.CodeTimeout {
		t.Error(context.Cause(ctx))
	}
}

// Before there is a machine, actions say so.
func TestActionsWithoutAMachine(t *testing.T) {
	for phase, want := range map[rig.Phase]rig.Code{rig.Provisioning: rig.CodeNotReady, rig.Failed: rig.CodeBackendFailure, rig.Closing: rig.CodeGone, rig.Closed: rig.CodeGone} {
		k := &keeper{phase: phase, problem: rig.Errorf(rig.CodeBackendFailure, "it died"), streams: map[string]int{}}
		srv := httptest.NewServer(k.handler())
		for _, path := range []string{"GET /v1/files?path=x", "GET /v1/stat?path=x", "PUT /v1/files?path=x", "POST /v1/wake", "POST /v1/park"} {
			method, url, _ := strings.Cut(path, " ")
			req, err := http.NewRequest(method, srv.URL+url, nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			if got := rig.CodeOf(wire.ReadProblem(res)); got != want {
				t.Errorf("%s while %s: %s, want %s", path, phase, got, want)
			}
			res.Body.Close()
		}
		srv.Close()
	}
}

// The socket answers its server's user only, whatever its mode lets through.
func TestSocketIsTheServers(t *testing.T) {
	mine, other := os.Getuid(), os.Getuid()+1
	for name, c := range map[string]struct {
		uid  *int
		want bool
	}{"the server": {&mine, true}, "another user": {&other, false}, "not told": {nil, true}} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s")
			l, err := listen(path, c.uid)
			if err != nil {
				t.Fatal(err)
			}
			s := &http.Server{Handler: http.NotFoundHandler()}
			defer s.Close()
			go func() { _ = s.Serve(l) }()
			conn, err := net.Dial("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n") // it may be closed by now
			b, _ := io.ReadAll(conn)                              // as above
			if got := len(b) > 0; got != c.want {
				t.Errorf("answered: %v, %q", got, b)
			}
		})
	}
}
