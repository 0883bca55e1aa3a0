// Package server is the suite of the server with real machines: opened, used,
// killed and swept.
package server

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"rigs/client"
	"rigs/internal/config"
	"rigs/internal/paths"
	"rigs/internal/rig"
	srv "rigs/internal/server"
	"rigs/internal/server/sweep"
	"rigs/internal/testenv"
)

// TestMain is also the server that tests kill; package testenv makes the binary
// a keeper, too.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "serve" {
		os.Exit(serve(os.Args[2]))
	}
	if len(os.Args) > 4 && os.Args[1] == "taken" {
		os.Exit(taken(os.Args[2], os.Args[3], os.Args[4:]))
	}
	testenv.Main(m)
}

func serve(home string) int {
	c, err := config.Load(map[string]string{"dataDir": home, "listen": "none"}, os.LookupEnv)
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		err = srv.Run(ctx, srv.Options{Config: c, Version: "test", Ready: func(srv.Ready) { os.Stdout.WriteString("ready\n") }})
	}
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		return 1
	}
	return 0
}

// bound is how long anything may take before a test gives up on it: making an
// image and a template on a busy host that emulates is within it.
const bound = 15 * time.Minute

type host struct {
	t    *testing.T
	home string
	env  []string
}

func newHost(t *testing.T) *host {
	t.Helper()
	testenv.NeedMachines(t)
	l := testenv.Layout(t)
	testenv.Boot(t, l) // the image is there, and built once for all suites
	if err := os.Chmod(l.Data(), 0o711); err != nil {
		t.Fatal(err)
	}
	h := &host{t: t, home: l.Data(), env: append(os.Environ(), "RIGS_CACHE="+l.Cache(), "RIGS_GUEST="+testenv.Guest(t))}
	t.Cleanup(func() {
		if owner, err := os.ReadFile(l.ID()); err == nil {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if n, err := sweep.Kill(ctx, strings.TrimSpace(string(owner)), ""); n > 0 || err != nil {
				t.Errorf("%d processes were left: %v", n, err)
			}
			if err := sweep.Release(strings.TrimSpace(string(owner)), ""); err != nil {
				t.Error(err)
			}
		}
		if err := os.RemoveAll(l.Runtime()); err != nil {
			t.Error(err)
		}
	})
	return h
}

func (h *host) ctx() context.Context {
	ctx, cancel := context.WithTimeout(h.t.Context(), bound)
	h.t.Cleanup(cancel)
	return ctx
}

type process struct {
	*client.Client
	cmd *exec.Cmd
}

func (h *host) serve() *process {
	h.t.Helper()
	p := &process{cmd: exec.Command("/proc/self/exe", "serve", h.home)}
	p.cmd.Env = h.env
	log := new(bytes.Buffer)
	p.cmd.Stderr = log
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		p.end(syscall.SIGTERM)
		if h.t.Failed() {
			h.t.Logf("the server's log:\n%s", log)
		}
	})
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		p.end(syscall.SIGKILL)
		h.t.Fatalf("the server did not start: %v: %s", err, log)
	}
	if p.Client, err = client.New(filepath.Join(h.home, "rigs.sock"), ""); err != nil {
		h.t.Fatal(err)
	}
	return p
}

// end sends a signal and waits. It returns how the process ended.
func (p *process) end(s syscall.Signal) error {
	if p.cmd.ProcessState != nil {
		return nil
	}
	_ = p.cmd.Process.Signal(s) // it may have ended
	return p.cmd.Wait()
}

func (h *host) open(p *process, s rig.Spec) rig.Rig {
	h.t.Helper()
	s.Surface = rig.Terminal
	r, _, err := p.Open(h.ctx(), s)
	if err != nil {
		h.t.Fatal(err)
	}
	r, err = p.WaitReady(h.ctx(), r.ID, func(s rig.Step) { h.t.Log(s.Text) })
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

// processes are those of this server's rigs: keepers and hypervisors.
func (h *host) processes() map[int]string {
	h.t.Helper()
	l, err := paths.New(h.home)
	if err != nil {
		h.t.Fatal(err)
	}
	owner, err := os.ReadFile(l.ID())
	if err != nil {
		h.t.Fatal(err)
	}
	found, err := sweep.Find(strings.TrimSpace(string(owner)), "")
	if err != nil {
		h.t.Fatal(err)
	}
	return found
}

func (h *host) hypervisor() int {
	h.t.Helper()
	for pid := range h.processes() {
		if exe, err := os.Readlink("/proc/" + itoa(pid) + "/exe"); err == nil && strings.Contains(exe, "qemu") {
			return pid
		}
	}
	h.t.Fatal("no hypervisor carries the mark")
	return 0
}

func run(t *testing.T, h *host, p *process, ref, line string) (string, client.ExitStatus) {
	t.Helper()
	var out bytes.Buffer
	st, err := p.Exec(h.ctx(), ref, client.ExecRequest{Shell: line}, client.StreamIO{Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), st
}

func TestARealMachineIsOpenedUsedParkedAndClosed(t *testing.T) {
	h := newHost(t)
	p := h.serve()
	r := h.open(p, rig.Spec{Space: "one"})
	if r.Boot != "clone" || r.Accel == "" || !strings.HasPrefix(r.Image, "terminal@sha256:") || len(r.Egress) == 0 {
		t.Errorf("%+v", r)
	}
	if out, st := run(t, h, p, "one/terminal", "id -un; uname -n; exit 7"); st.Code != 7 || out != "rig\nterminal-"+r.ID+"\n" {
		t.Errorf("%q %+v", out, st)
	}
	res, err := p.Run(h.ctx(), r.ID, client.ExecCollect{ExecRequest: client.ExecRequest{Argv: []string{"cat"}, Stdin: true}, Input: []byte("in")})
	if err != nil || string(res.Stdout) != "in" {
		t.Errorf("%+v %v", res, err)
	}
	for pid := range h.processes() {
		if fi, err := os.Stat("/proc/" + itoa(pid)); os.Getuid() == 0 && err == nil && fi.Sys().(*syscall.Stat_t).Uid == 0 {
			t.Errorf("process %d of a rig is root's", pid)
		}
	}

	if _, st := run(t, h, p, r.ID, "mkdir -p d/e && echo hi > d/e/f"); st.Code != 0 {
		t.Fatal(st)
	}
	tar, err := p.ReadFiles(h.ctx(), r.ID, "d")
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(tar)
	tar.Close()
	if err != nil || !bytes.Contains(b, []byte("d/e/f")) {
		t.Fatalf("%d bytes: %v", len(b), err)
	}
	if err := p.WriteFiles(h.ctx(), r.ID, "copy", bytes.NewReader(b)); err != nil {
		t.Fatal(err)
	}
	if st, err := p.Stat(h.ctx(), r.ID, "copy/d/e/f"); err != nil || st.Size != 3 {
		t.Errorf("%+v %v", st, err)
	}

	if out, st := run(t, h, p, r.ID, "curl -sS -m 20 https://denied.example"); st.Code != 7 {
		t.Errorf("%q %+v", out, st)
	}
	log, err := p.EgressLog(h.ctx(), r.ID, 0)
	if err != nil || !deniedIn(log, "denied.example") {
		t.Errorf("%+v %v", log, err)
	}
	if _, err := p.Allow(h.ctx(), r.ID, "allowed.example"); err != nil {
		t.Fatal(err)
	}
	if e, err := p.Egress(h.ctx(), r.ID); err != nil || !strings.Contains(strings.Join(e.Patterns, " "), "allowed.example") {
		t.Errorf("%+v %v", e, err)
	}

	if r, err := p.Park(h.ctx(), r.ID); err != nil || r.Phase != rig.Parked {
		t.Fatalf("%+v %v", r, err)
	}
	if out, st := run(t, h, p, r.ID, "cat copy/d/e/f"); out != "hi\n" || st.Code != 0 {
		t.Errorf("not woken by its use: %q %+v", out, st)
	}
	closed, err := p.Close(h.ctx(), r.ID)
	if err != nil || closed.Phase != rig.Closed {
		t.Fatalf("%+v %v", closed, err)
	}
	if left := h.processes(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if err := p.end(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}

func deniedIn(l client.EgressLog, name string) bool {
	for _, e := range l.Events {
		if e.Host == name && e.Verdict == "deny" {
			return true
		}
	}
	return false
}

func TestAfterAKilledServerNoMachineIsAliveAndTheListIsEmpty(t *testing.T) {
	h := newHost(t)
	p := h.serve()
	h.open(p, rig.Spec{Space: "one", Cold: true})
	h.hypervisor() // it is there, and marked
	p.end(syscall.SIGKILL)
	p = h.serve()
	if left := h.processes(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if l, err := p.Rigs(h.ctx(), client.ListOptions{}); err != nil || len(l) > 0 {
		t.Errorf("%v %v", l, err)
	}
}

// Case L5: the hypervisor dies; the rig has failed, at once and for good.
func TestAKilledHypervisorFailsTheRig(t *testing.T) {
	h := newHost(t)
	p := h.serve()
	r := h.open(p, rig.Spec{Space: "one"})
	if err := syscall.Kill(h.hypervisor(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	err := p.Events(h.ctx(), client.EventOptions{Rig: r.ID}, func(e client.Event) bool { return e.Rig == nil || e.Rig.Phase != rig.Failed })
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Run(h.ctx(), "one/terminal", client.ExecCollect{ExecRequest: client.ExecRequest{Shell: "true"}})
	if rig.CodeOf(err) != rig.CodeBackendFailure {
		t.Errorf("%v", err)
	}
	if c, err := p.Close(h.ctx(), r.ID); err != nil || c.Phase != rig.Closed {
		t.Errorf("%+v %v", c, err)
	}
	if left := h.processes(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// All of them are killed at once but the hypervisor's death signal is not
// waited for: the next start sweeps.
func TestAKilledServerAndKeeperTogether(t *testing.T) {
	h := newHost(t)
	p := h.serve()
	h.open(p, rig.Spec{Space: "one"})
	vm := h.hypervisor()
	for pid := range h.processes() {
		if pid != vm {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		}
	}
	p.end(syscall.SIGKILL)
	p = h.serve()
	if left := h.processes(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if l, err := p.Rigs(h.ctx(), client.ListOptions{}); err != nil || len(l) > 0 {
		t.Errorf("%v %v", l, err)
	}
}

func itoa(n int) string { return strconv.Itoa(n) }
