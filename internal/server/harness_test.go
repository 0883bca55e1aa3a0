package server_test

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"rigs/client"
	"rigs/internal/config"
	"rigs/internal/paths"
	"rigs/internal/rig"
	"rigs/internal/server"
	"rigs/internal/server/sweep"
)

// bound is how long anything may take before a test gives up on it. It is no
// statement about speed.
const bound = 60 * time.Second

func ctxOf(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	t.Cleanup(cancel)
	return ctx
}

// home is a data directory that keepers can enter when the tests run as root.
func home(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rigs-home")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

func layout(t *testing.T, dir string) paths.Layout {
	t.Helper()
	l, err := paths.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// wallClock is a clock that tests can move.
type wallClock struct {
	mu sync.Mutex
	by time.Duration
}

func (c *wallClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.by)
}

func (c *wallClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.by += d
}

// running is a server in this process.
type running struct {
	*client.Client
	t     *testing.T
	home  string
	url   string
	clock *wallClock

	auditor string       // a token with which audit logs are read
	stop    func() error // ends it and returns what Run did
}

func load(t *testing.T, dir string, flags map[string]string) config.Config {
	t.Helper()
	all := map[string]string{"dataDir": dir, "listen": "127.0.0.1:0", "logLevel": "debug"}
	for k, v := range flags {
		all[k] = v
	}
	c, err := config.Load(all, func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func start(t *testing.T, dir string, flags map[string]string) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := &running{t: t, home: dir, clock: &wallClock{}}
	ready, done := make(chan server.Ready, 1), make(chan error, 1)
	go func() {
		done <- server.Run(ctx, server.Options{Config: load(t, dir, flags), Version: "test", Parts: fakeParts, Log: testLog{t},
			Ready: func(r server.Ready) { ready <- r }, Now: s.clock.now})
	}()
	var err error
	s.stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Errorf("the server ended with %v", err)
		}
		nothingLeft(t, dir)
	})
	select {
	case r := <-ready:
		s.url = r.URL
		if s.Client, err = client.New(r.Socket, ""); err != nil {
			t.Fatal(err)
		}
	case err := <-done:
		done <- nil
		t.Fatalf("the server did not start: %v", err)
	}
	return s
}

// testLog is the server's log in the test's. The server has ended before the
// test does.
type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	if testing.Verbose() {
		l.t.Log(strings.TrimSuffix(string(p), "\n"))
	}
	return len(p), nil
}

func ownerOf(t *testing.T, dir string) string {
	t.Helper()
	b, err := os.ReadFile(layout(t, dir).ID())
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

func processes(t *testing.T, dir string) map[int]string {
	t.Helper()
	p, err := sweep.Find(ownerOf(t, dir), "")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// nothingLeft checks that no process, socket or disk of any rig is left.
func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	l := layout(t, dir)
	if p := processes(t, dir); len(p) > 0 {
		t.Errorf("processes are left: %v", p)
	}
	for _, d := range []string{l.Runtime(), l.Disks()} {
		if e, err := os.ReadDir(d); err == nil && len(e) > 0 {
			t.Errorf("%s is left in %s", e[0].Name(), d)
		}
	}
	if _, err := os.Lstat(l.ServerSocket()); err == nil {
		t.Error("the server's socket is left")
	}
}

func (s *running) open(spec rig.Spec) rig.Rig {
	s.t.Helper()
	if spec.Surface == "" {
		spec.Surface = rig.Terminal
	}
	r, _, err := s.Open(ctxOf(s.t), spec)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

func (s *running) ready(spec rig.Spec) rig.Rig {
	s.t.Helper()
	r, err := s.WaitReady(ctxOf(s.t), s.open(spec).ID, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// until waits for a rig to be as wanted, by the events.
func (s *running) until(id string, what string, ok func(rig.Rig) bool) rig.Rig {
	s.t.Helper()
	var last rig.Rig
	err := s.Events(ctxOf(s.t), client.EventOptions{Rig: id}, func(e client.Event) bool {
		if e.Rig != nil {
			last = *e.Rig
		}
		return e.Rig == nil || !ok(*e.Rig)
	})
	if err != nil {
		s.t.Fatalf("rig %s did not become %s: %v; last: %+v", id, what, err, last)
	}
	return last
}

func (s *running) phase(id string, p rig.Phase) rig.Rig {
	s.t.Helper()
	return s.until(id, string(p), func(r rig.Rig) bool { return r.Phase == p })
}

// request is a bare HTTP request over TCP.
func (s *running) request(method, path string, change func(*http.Request), body string) *http.Response {
	s.t.Helper()
	req, err := http.NewRequestWithContext(ctxOf(s.t), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if body == "" {
		req.Body = http.NoBody
	}
	if change != nil {
		change(req)
	}
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := c.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { res.Body.Close() })
	return res
}

func code(t *testing.T, err error, want rig.Code) {
	t.Helper()
	if rig.CodeOf(err) != want {
		t.Errorf("error %v has code %q, want %q", err, rig.CodeOf(err), want)
	}
}

// victim is a server in a process of its own, to be killed.
type victim struct {
	*client.Client
	cmd    *exec.Cmd
	stderr *strings.Builder
}

func spawn(t *testing.T, dir string) *victim {
	t.Helper()
	v := &victim{cmd: exec.Command("/proc/self/exe", "serve", dir), stderr: new(strings.Builder)}
	v.cmd.Stderr = v.stderr
	out, err := v.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := v.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		v.kill()
		ctx, cancel := context.WithTimeout(context.Background(), bound)
		defer cancel()
		if b, err := os.ReadFile(layout(t, dir).ID()); err == nil {
			sweep.Kill(ctx, strings.TrimSpace(string(b)), "")
			sweep.Release(strings.TrimSpace(string(b)), "")
		}
		os.RemoveAll(layout(t, dir).Runtime())
	})
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		v.kill()
		t.Fatalf("the server did not start: %v: %s", err, v.stderr)
	}
	if v.Client, err = client.New(filepath.Join(dir, "rigs.sock"), ""); err != nil {
		t.Fatal(err)
	}
	return v
}

func (v *victim) kill() {
	if v.cmd.ProcessState == nil {
		v.cmd.Process.Kill()
		v.cmd.Wait()
	}
}

func itoa(n int) string { return strconv.Itoa(n) }

func isReset(err error) bool { return errors.Is(err, syscall.ECONNRESET) }
