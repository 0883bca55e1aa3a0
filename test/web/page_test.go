// Package web_test runs the page in a real browser against a real server and a
// real machine. What is clicked and looked at stands in web/browser/server.e2e.ts;
// this package starts the server from bin/rigs, makes a link that signs the
// browser in, and ends both.
package web_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"rigs/internal/serverapi"
	"rigs/internal/testenv"
	"rigs/internal/wire"
)

func TestPage(t *testing.T) {
	testenv.NeedMachines(t)
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	rigs := filepath.Join(root, "bin", "rigs")
	if _, err := os.Stat(rigs); err != nil {
		t.Fatalf("%v: run make build", err)
	}
	if _, err := os.Stat(filepath.Join(root, "web", "node_modules")); err != nil {
		t.Fatalf("%v: run make page", err)
	}

	s := startServer(t, rigs)
	s.rigs(t, rigs, "image", "build", "terminal")

	cmd := exec.CommandContext(t.Context(), "npm", "run", "--silent", "test:server")
	cmd.Dir = filepath.Join(root, "web")
	cmd.Env = append(os.Environ(), "RIGS_E2E_LINK="+s.link(t), "NO_COLOR=1")
	// The browser is npm's grandchild: it goes with its group.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatalf("%v: pictures are in web/test-results", err)
	}
}

// server is a running `rigs serve`.
type server struct {
	env    []string
	socket string
}

// startServer starts a server on a port of its own with a fresh data directory
// and the cache of the suites. It ends with the test.
func startServer(t *testing.T, rigs string) server {
	t.Helper()
	cache, err := testenv.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(cache, 0o755); err != nil { //nolint:gosec // an unprivileged keeper reads it
		t.Fatal(err)
	}
	home := testenv.TempDir(t)
	if err := os.Chmod(home, 0o755); err != nil { //nolint:gosec // as above
		t.Fatal(err)
	}
	env := append(os.Environ(), "RIGS_HOME="+home, "RIGS_CACHE="+cache, "RIGS_LISTEN=127.0.0.1:0", "RIGS_SERVER=")

	ready, told, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer ready.Close()
	log, err := os.Create(filepath.Join(t.TempDir(), "server.log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(rigs, "serve", "--ready-fd", "3") //nolint:gosec // built from this tree
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = env, log, log, []*os.File{told}
	err = cmd.Start()
	told.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server ended with %v", err)
		}
		log.Close()
		if b, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("server:\n%s", b)
		}
	})
	// The pipe ends without a line when the server does.
	line, err := bufio.NewReader(ready).ReadString('\n')
	socket, _, ok := strings.Cut(line, " ")
	if err != nil || !ok {
		t.Fatalf("the server is not ready: %q, %v", line, err)
	}
	return server{env: env, socket: socket}
}

// rigs runs the command.
func (s server) rigs(t *testing.T, rigs string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), rigs, args...) //nolint:gosec // as above
	cmd.Env = s.env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("rigs %v: %v\n%s", args, err, out)
	}
}

// link makes an address that signs a browser in, once.
func (s server) link(t *testing.T) string {
	t.Helper()
	c := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", s.socket)
	}}}
	defer c.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/v1/signin-links", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode >= http.StatusBadRequest {
		b, _ := io.ReadAll(res.Body) // for the message only
		t.Fatalf("%s: %s", res.Status, b)
	}
	var l serverapi.SigninLink
	if err := wire.ReadJSON(res.Body, 64<<10, &l); err != nil {
		t.Fatal(err)
	}
	return l.URL
}
