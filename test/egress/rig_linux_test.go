package egress

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"rigs/internal/paths"
	"rigs/internal/rig"
	"rigs/internal/server/sweep"
	"rigs/internal/testenv"
)

// bound is how long anything may take before a test gives up on it, on a busy
// host that emulates.
const bound = 10 * time.Minute

// bin is the directory with the programs under test, and the probe.
var bin string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		if os.Geteuid() != 0 {
			return m.Run() // every test skips, and says why
		}
		var err error
		if bin, err = os.MkdirTemp("", "rigs-egress-bin"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(bin)
		// Keepers are this program, as another user.
		if err := os.Chmod(bin, 0o755); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", bin+"/", "rigs/cmd/rigs", "rigs/test/egress/probe")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "building: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// server is `rigs serve` in the world.
type server struct {
	*world
	layout paths.Layout
	env    []string // of commands that talk to it
}

// serve starts a server in the world, with more variables.
func (w *world) serve(env ...string) *server {
	w.t.Helper()
	t := w.t
	testenv.NeedMachines(t)
	l := testenv.Layout(t)
	testenv.Boot(t, l) // built with the real network, and once for all suites
	must(t, os.Chmod(l.Data(), 0o711))
	s := &server{world: w, layout: l, env: append(os.Environ(), "RIGS_HOME="+l.Data())}
	t.Cleanup(s.left)

	log, err := os.Create(filepath.Join(t.TempDir(), "server.log"))
	must(t, err)
	defer log.Close()
	ready, theirs, err := os.Pipe()
	must(t, err)
	defer ready.Close()
	cmd := exec.Command(filepath.Join(bin, "rigs"), "serve", "--listen=none", "--ready-fd=3", "--log-level=debug")
	cmd.Env = slices.Concat(s.env, []string{"RIGS_CACHE=" + l.Cache(), "RIGS_GUEST=" + testenv.Guest(t)}, env)
	cmd.ExtraFiles, cmd.Stdout, cmd.Stderr = []*os.File{theirs}, log, log
	must(t, w.host.in(cmd.Start))
	theirs.Close()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		err := cmd.Wait()
		kill.Stop()
		if err != nil {
			t.Errorf("the server ended with: %v", err)
		}
		if t.Failed() {
			b, _ := os.ReadFile(log.Name())
			t.Logf("the server's log:\n%s", b)
		}
	})
	if _, err := bufio.NewReader(ready).ReadString('\n'); err != nil {
		t.Fatalf("the server is not ready: %v", err)
	}
	return s
}

// left fails the test if the server left something.
func (s *server) left() {
	if pids := s.processes(""); len(pids) > 0 {
		s.t.Errorf("processes were left: %v", pids)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if owner, err := os.ReadFile(s.layout.ID()); err == nil {
			_, _ = sweep.Kill(ctx, strings.TrimSpace(string(owner)), "")
		}
	}
	if err := os.RemoveAll(s.layout.Runtime()); err != nil {
		s.t.Error(err)
	}
}

// processes are those of a rig, or of all of the server's.
func (s *server) processes(id string) []int {
	s.t.Helper()
	owner, err := os.ReadFile(s.layout.ID())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	must(s.t, err)
	found, err := sweep.Find(strings.TrimSpace(string(owner)), id)
	must(s.t, err)
	var pids []int
	for pid := range found {
		pids = append(pids, pid)
	}
	return pids
}

// result is how a command ended.
type result struct {
	out, err string
	code     int
}

func (r result) String() string {
	return fmt.Sprintf("status %d, output %q, error output %q", r.code, r.out, r.err)
}

func (s *server) command(t testing.TB, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "rigs"), args...)
	cmd.Env = s.env
	return cmd
}

// try runs the command line.
func (s *server) try(t testing.TB, stdin string, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := s.command(t, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if stdin != "" {
		cmd.Stdin = strings.NewReader(stdin)
	}
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("rigs %v: %v", args, err)
	}
	return result{strings.TrimSuffix(out.String(), "\n"), errs.String(), cmd.ProcessState.ExitCode()}
}

// rigs runs the command line, which must succeed.
func (s *server) rigs(t testing.TB, args ...string) string {
	t.Helper()
	r := s.try(t, "", args...)
	if r.code != 0 {
		t.Fatalf("rigs %s: %v", strings.Join(args, " "), r)
	}
	return r.out
}

// guest is a rig, as somebody sees it who has the command line.
type guest struct {
	s   *server
	t   testing.TB
	ref string
	id  string
}

// open opens a terminal with an empty list in a space of its own, and puts the
// probe and the world's certificate into it.
func (s *server) openRig(t testing.TB, space string, allow ...string) *guest {
	t.Helper()
	args := []string{"open", "terminal", "--space", space, "--no-defaults", "--json"}
	for _, p := range allow {
		args = append(args, "--allow", p)
	}
	var r rig.Rig
	must(t, json.Unmarshal([]byte(s.rigs(t, args...)), &r))
	g := &guest{s: s, t: t, ref: space + "/terminal", id: r.ID}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(ca, s.ca.pem, 0o644))
	s.rigs(t, "cp", filepath.Join(bin, "probe"), g.ref+":probe")
	s.rigs(t, "cp", ca, g.ref+":ca.pem")
	return g
}

// as returns the rig for a subtest.
func (g *guest) as(t testing.TB) *guest {
	h := *g
	h.t = t
	return &h
}

// run runs a command in the rig.
func (g *guest) run(argv ...string) result {
	g.t.Helper()
	return g.s.try(g.t, "", append([]string{"exec", g.ref, "--"}, argv...)...)
}

// shell runs a shell line as root, which must succeed.
func (g *guest) root(line string) {
	g.t.Helper()
	if r := g.s.try(g.t, "", "exec", "--root", "--shell", g.ref, "--", line); r.code != 0 {
		g.t.Fatalf("%s: %v", line, r)
	}
}

// probe runs the probe and returns what it found.
func (g *guest) probe(args ...string) string {
	g.t.Helper()
	return g.probeWith("", args...)
}

// probeWith is probe with something to read.
func (g *guest) probeWith(stdin string, args ...string) string {
	g.t.Helper()
	words := []string{"exec", "--root"} // for raw sockets
	if stdin != "" {
		words = append(words, "-i")
	}
	r := g.s.try(g.t, stdin, append(append(words, g.ref, "--", "/home/rig/probe"), args...)...)
	if r.code != 0 {
		g.t.Fatalf("probe %v: %v", args, r)
	}
	return r.out
}

// curl runs curl, quietly. Its exit statuses are documented: 7 could not connect,
// 28 timed out, 35 no TLS, 52 no answer, 56 cut off.
func (g *guest) curl(args ...string) result {
	g.t.Helper()
	return g.run(append([]string{"curl", "-sS", "--max-time", "60", "--cacert", "ca.pem"}, args...)...)
}

// reaches fails the test unless a page of the world comes back from a URL.
func (g *guest) reaches(want string, args ...string) {
	g.t.Helper()
	if r := g.curl(args...); r.code != 0 || !strings.Contains(r.out, want) {
		g.t.Errorf("curl %s: %v; want %q", strings.Join(args, " "), r, want)
	}
}

// refused fails the test unless curl says that it could not connect.
func (g *guest) refused(args ...string) {
	g.t.Helper()
	if r := g.curl(args...); r.code != 7 {
		g.t.Errorf("curl %s: %v; want status 7, could not connect", strings.Join(args, " "), r)
	}
}

func (g *guest) allow(patterns ...string) {
	g.t.Helper()
	g.s.rigs(g.t, append([]string{"egress", g.ref, "allow"}, patterns...)...)
}

func (g *guest) deny(patterns ...string) {
	g.t.Helper()
	g.s.rigs(g.t, append([]string{"egress", g.ref, "deny"}, patterns...)...)
}

// log is the rig's egress log.
func (g *guest) log() []rig.EgressEvent {
	g.t.Helper()
	var events []rig.EgressEvent
	for d := json.NewDecoder(strings.NewReader(g.s.rigs(g.t, "egress", g.ref, "log", "--json"))); ; {
		var e rig.EgressEvent
		err := d.Decode(&e)
		if errors.Is(err, io.EOF) {
			return events
		}
		must(g.t, err)
		events = append(events, e)
	}
}

// line is what a test says of a line of the log: "verdict protocol host-or-address:port reason".
func line(e rig.EgressEvent) string {
	what := e.Host
	if what == "" {
		what = e.Address
	}
	return fmt.Sprintf("%s %s %s:%d %s", e.Verdict, e.Protocol, what, e.Port, e.Reason)
}

// logged waits until every line is in the log.
func (g *guest) logged(want ...string) {
	g.t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		var have []string
		for _, e := range g.log() {
			have = append(have, line(e))
		}
		missing := slices.DeleteFunc(slices.Clone(want), func(l string) bool { return slices.Contains(have, l) })
		if len(missing) == 0 {
			return
		}
		if time.Now().After(end) {
			g.t.Errorf("not in the log: %q\nthe log:\n%s", missing, strings.Join(have, "\n"))
			return
		}
	}
}

// process is a command in the rig that goes on.
type process struct {
	g     *guest
	cmd   *exec.Cmd
	lines *bufio.Scanner
	in    io.WriteCloser
}

// start starts the probe, which goes on until its input ends.
func (g *guest) start(args ...string) *process {
	g.t.Helper()
	cmd := g.s.command(g.t, append([]string{"exec", "--root", "-i", g.ref, "--", "/home/rig/probe"}, args...)...)
	return g.follow(cmd)
}

func (g *guest) follow(cmd *exec.Cmd) *process {
	g.t.Helper()
	in, err := cmd.StdinPipe()
	must(g.t, err)
	out, err := cmd.StdoutPipe()
	must(g.t, err)
	cmd.Stderr = os.Stderr
	must(g.t, cmd.Start())
	p := &process{g, cmd, bufio.NewScanner(out), in}
	g.t.Cleanup(func() {
		in.Close()
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // a test that wants to know asks before
	})
	return p
}

// line is the next line that it prints.
func (p *process) line() string {
	p.g.t.Helper()
	if !p.lines.Scan() {
		p.g.t.Fatalf("%v ended: %v", p.cmd.Args, p.lines.Err())
	}
	return p.lines.Text()
}
