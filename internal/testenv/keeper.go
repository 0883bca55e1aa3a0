package testenv

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"rigs/internal/guestapi"
	"rigs/internal/keeper/confine"
	"rigs/internal/keeperapi"
	"rigs/internal/paths"
	"rigs/internal/rig"
	"rigs/internal/wire"
)

// patience bounds every wait for something that is on its way, for a host that is
// very busy and emulates.
const patience = 3 * time.Minute

// Task runs a keeper in template or probe mode to its end and returns its failure.
func Task(ctx context.Context, t testing.TB, cfg keeperapi.Config) error {
	cmd := command(cfg)
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := confine.Start(cmd); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { in.Close() }) // the lifeline
	defer stop()
	err = json.NewEncoder(in).Encode(cfg)
	werr := cmd.Wait()
	if log.Len() > 0 {
		t.Logf("keeper: %s", log.Bytes())
	}
	var problem *rig.Problem
	for d := json.NewDecoder(&out); ; {
		var e keeperapi.Event
		if derr := d.Decode(&e); derr != nil {
			break
		}
		if e.Error != nil {
			problem = e.Error
		}
	}
	if problem != nil {
		return problem
	}
	return errors.Join(err, werr)
}

func command(cfg keeperapi.Config) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", keeperArg) //nolint:noctx // it ends with its lifeline
	cmd.Env = append(os.Environ(), keeperapi.OwnerEnv+"="+cfg.Owner)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// Keeper is a rig's keeper in a process of its own, and what its server sees.
type Keeper struct {
	t      testing.TB
	Config keeperapi.Config
	cmd    *exec.Cmd
	http   *http.Client
	log    *lockedBuffer
	exited chan struct{}
	hangUp context.CancelFunc

	mu      sync.Mutex
	changed *sync.Cond
	events  []keeperapi.Event
	ended   bool // the event stream
}

// Rig is the configuration of a terminal rig: a clone if template is a
// directory, else a cold boot.
func Rig(t testing.TB, l paths.Layout, template string) keeperapi.Config {
	t.Helper()
	b, _ := Boot(t, l)
	run, disk := TempDir(t), TempDir(t)
	id := rig.NewID()
	return keeperapi.Config{
		Mode: keeperapi.ModeRig, RigID: id, Owner: "test/" + id, Socket: filepath.Join(run, "keeper"), RuntimeDir: run, DiskDir: disk,
		Machine: Machine(t, l), Boot: b.Files, Template: template, HostName: "terminal-" + id, Deadline: time.Now().Add(time.Hour),
	}
}

// Start starts a keeper and attaches to it. At the test's end it is ended, and
// the test fails if it or its machine does not go.
func Start(t testing.TB, cfg keeperapi.Config) *Keeper { return StartAs(t, cfg, nil) }

// StartAs is Start as another user.
func StartAs(t testing.TB, cfg keeperapi.Config, as *syscall.Credential) *Keeper {
	t.Helper()
	k := &Keeper{t: t, Config: cfg, cmd: command(cfg), log: &lockedBuffer{}, exited: make(chan struct{})}
	k.changed = sync.NewCond(&k.mu)
	k.cmd.SysProcAttr.Credential = as
	b, err := json.Marshal(cfg)
	must(t, err)
	k.cmd.Stdin, k.cmd.Stderr, k.cmd.Stdout = bytes.NewReader(b), k.log, k.log
	must(t, confine.Start(k.cmd))
	go func() {
		_ = k.cmd.Wait() // its status is in ProcessState
		close(k.exited)
	}()
	t.Cleanup(k.end)
	k.http = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return k.Dial(ctx) }}}
	k.await("its socket", func() bool {
		_, err := os.Stat(cfg.Socket)
		return err == nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	k.hangUp = cancel
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://keeper/v1/events", nil)
	must(t, err)
	res, err := k.http.Do(req) //nolint:bodyclose // read closes it
	must(t, err)
	go k.read(res.Body)
	return k
}

func (k *Keeper) read(body io.ReadCloser) {
	defer body.Close()
	d := json.NewDecoder(body)
	for {
		var e keeperapi.Event
		err := d.Decode(&e)
		k.mu.Lock()
		if err == nil {
			k.events = append(k.events, e)
		}
		k.ended = err != nil
		k.changed.Broadcast()
		k.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// end makes sure that nothing is left.
func (k *Keeper) end() {
	pid := 0
	if st, err := k.status(); err == nil {
		pid = st.QEMUPID
	}
	k.HangUp()
	select {
	case <-k.exited:
	case <-time.After(30 * time.Second):
		k.t.Errorf("the keeper did not end with its server's connection")
		_ = k.cmd.Process.Kill()
		<-k.exited
	}
	if pid != 0 {
		k.AwaitGone(pid)
	}
	if k.t.Failed() {
		k.t.Logf("keeper %s: %s", k.Config.RigID, k.log.String())
	}
}

// HangUp ends the event stream as a server that dies does.
func (k *Keeper) HangUp() {
	if k.hangUp != nil {
		k.hangUp()
	}
}

// Kill kills the keeper as kill -9 does.
func (k *Keeper) Kill() {
	_ = k.cmd.Process.Kill()
	<-k.exited
}

// PID is the keeper's.
func (k *Keeper) PID() int { return k.cmd.Process.Pid }

// Exited waits until the keeper has ended and returns its exit status.
func (k *Keeper) Exited() int {
	k.t.Helper()
	select {
	case <-k.exited:
	case <-time.After(patience):
		k.t.Fatal("the keeper did not end")
	}
	return k.cmd.ProcessState.ExitCode()
}

// await polls a condition that has no event.
func (k *Keeper) await(what string, ok func() bool) {
	k.t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			k.t.Fatalf("keeper %s: waited in vain for %s\n%s", k.Config.RigID, what, k.log.String())
		}
		select {
		case <-k.exited:
			if !ok() {
				k.t.Fatalf("keeper %s ended before %s\n%s", k.Config.RigID, what, k.log.String())
			}
			return
		default:
		}
	}
}

// Logged waits until the keeper's log has a text.
func (k *Keeper) Logged(text string) {
	k.t.Helper()
	k.await(text+" in its log", func() bool { return strings.Contains(k.log.String(), text) })
}

// AwaitGone waits until no process has that pid and fails if it stays.
func (k *Keeper) AwaitGone(pid int) {
	k.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if gone(pid) {
			return
		}
		if time.Now().After(end) {
			k.t.Errorf("process %d is still there", pid)
			return
		}
	}
}

// gone reports whether a process has ended; a zombie has.
func gone(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	i := bytes.LastIndexByte(b, ')')
	return i >= 0 && i+2 < len(b) && b[i+2] == 'Z'
}

// Event waits for the first event that ok accepts. It fails the test when the
// stream ends without one.
func (k *Keeper) Event(what string, ok func(keeperapi.Event) bool) keeperapi.Event {
	k.t.Helper()
	timer := time.AfterFunc(patience, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.ended = true
		k.changed.Broadcast()
	})
	defer timer.Stop()
	k.mu.Lock()
	defer k.mu.Unlock()
	for {
		if i := slices.IndexFunc(k.events, ok); i >= 0 {
			return k.events[i]
		}
		if k.ended {
			k.t.Fatalf("no %s; the events were %s\n%s", what, jsonText(k.events), k.log.String())
		}
		k.changed.Wait()
	}
}

// Phase waits for a phase.
func (k *Keeper) Phase(p rig.Phase) keeperapi.Event {
	k.t.Helper()
	return k.Event(string(p), func(e keeperapi.Event) bool {
		if p != rig.Failed && e.Phase == rig.Failed {
			k.t.Errorf("it failed: %v", e.Error)
		}
		return e.Type == "phase" && e.Phase == p
	})
}

// Dial connects to the keeper.
func (k *Keeper) Dial(ctx context.Context) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "unix", k.Config.Socket)
}

// Stream opens an exec or terminal stream.
func (k *Keeper) Stream(ctx context.Context, kind string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return wire.Dial(ctx, k.Dial, "keeper", "/v1/"+kind, nil)
}

// Run runs a stream to its end.
func (k *Keeper) Run(ctx context.Context, kind string, start any, sio guestapi.StreamIO) (guestapi.ExitStatus, error) {
	c, err := k.Stream(ctx, kind)
	if err != nil {
		return guestapi.ExitStatus{}, err
	}
	return guestapi.RunStream(ctx, c, start, sio)
}

// Call makes a request with JSON both ways; in and out may be nil.
func (k *Keeper) Call(method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	return k.Do(method, path, body, func(r io.Reader) error {
		if out == nil {
			return nil
		}
		return json.NewDecoder(r).Decode(out)
	})
}

// Do makes a request and hands the answer's body to read.
func (k *Keeper) Do(method, path string, body io.Reader, read func(io.Reader) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://keeper"+path, body)
	if err != nil {
		return err
	}
	res, err := k.http.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode/100 != 2 {
		return wire.ReadProblem(res)
	}
	return read(res.Body)
}

func (k *Keeper) status() (keeperapi.Status, error) {
	var st keeperapi.Status
	err := k.Call(http.MethodGet, "/v1/status", nil, &st)
	return st, err
}

// Status asks the keeper how it is.
func (k *Keeper) Status() keeperapi.Status {
	k.t.Helper()
	st, err := k.status()
	must(k.t, err)
	return st
}

// Collect runs a command to its end.
func (k *Keeper) Collect(c keeperapi.ExecCollect) (keeperapi.ExecResult, error) {
	var res keeperapi.ExecResult
	err := k.Call(http.MethodPost, "/v1/exec", c, &res)
	return res, err
}

// Shell runs a shell line, which must succeed, and returns its output without
// the last line feed.
func (k *Keeper) Shell(line string) string {
	k.t.Helper()
	res, err := k.Collect(keeperapi.ExecCollect{ExecRequest: guestapi.ExecRequest{Shell: line}})
	must(k.t, err)
	if res.Code != 0 {
		k.t.Fatalf("%s: exit status %d: %s", line, res.Code, res.Stderr)
	}
	return strings.TrimSuffix(string(res.Stdout), "\n")
}

func jsonText(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
