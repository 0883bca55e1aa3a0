package vm_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"rigs/internal/guestapi"
	"rigs/internal/keeperapi"
	"rigs/internal/rig"
	"rigs/internal/testenv"
)

// clone starts a rig from the shared template.
func clone(t *testing.T, change func(*keeperapi.Config)) *testenv.Keeper {
	t.Helper()
	l := testenv.Layout(t)
	dir, _ := testenv.Template(t, l)
	cfg := testenv.Rig(t, l, dir)
	if change != nil {
		change(&cfg)
	}
	k := testenv.Start(t, cfg)
	k.Phase(rig.Ready)
	return k
}

func TestKilledHypervisorIsABackendFailure(t *testing.T) {
	k := clone(t, nil)
	running, out := make(chan error, 1), &startedWriter{started: make(chan struct{})}
	go func() {
		_, err := k.Run(t.Context(), "exec", guestapi.ExecRequest{Shell: "echo started; sleep 1000"}, guestapi.StreamIO{Stdout: out})
		running <- err
	}()
	<-out.started
	pid := k.Status().QEMUPID
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if e := k.Phase(rig.Failed); e.Error == nil || e.Error.Code != rig.CodeBackendFailure || !strings.Contains(e.Error.Detail, "killed") {
		t.Errorf("it failed with %v", e.Error)
	}
	if err := <-running; rig.CodeOf(err) != rig.CodeBackendFailure {
		t.Errorf("the command that ran: %v", err)
	}
	if _, err := k.Collect(keeperapi.ExecCollect{ExecRequest: guestapi.ExecRequest{Shell: "true"}}); rig.CodeOf(err) != rig.CodeBackendFailure {
		t.Errorf("the next action: %v", err)
	}
	if st := k.Status(); st.Phase != rig.Failed || st.QEMUPID != pid {
		t.Errorf("status %+v; want failed, and no new machine", st)
	}
	if err := k.Call("POST", "/v1/close", nil, nil); err != nil {
		t.Error(err)
	}
	if code := k.Exited(); code != 0 {
		t.Errorf("exit status %d", code)
	}
}

// startedWriter tells when something has been written.
type startedWriter struct {
	started chan struct{}
	done    bool
}

func (w *startedWriter) Write(p []byte) (int, error) {
	if !w.done {
		w.done = true
		close(w.started)
	}
	return len(p), nil
}

func TestKilledKeeperTakesItsMachineAlong(t *testing.T) {
	k := clone(t, nil)
	pid := k.Status().QEMUPID
	k.Kill()
	k.AwaitGone(pid)
}

func TestKeeperEndsWithItsServer(t *testing.T) {
	k := clone(t, nil)
	pid := k.Status().QEMUPID
	k.HangUp()
	if code := k.Exited(); code != 0 {
		t.Errorf("exit status %d", code)
	}
	k.AwaitGone(pid)
}

func TestKeeperEndsWhileBooting(t *testing.T) {
	k := testenv.Start(t, testenv.Rig(t, testenv.Layout(t), ""))
	pid := 0
	for end := time.Now().Add(time.Minute); pid == 0 && time.Now().Before(end); {
		pid = k.Status().QEMUPID
	}
	if err := k.Call("POST", "/v1/close", nil, nil); err != nil {
		t.Error(err)
	}
	if err := syscall.Kill(pid, 0); pid == 0 || !errors.Is(err, syscall.ESRCH) {
		t.Errorf("after close, the hypervisor %d: %v", pid, err)
	}
	e := k.Phase(rig.Closed)
	if e.Reason != rig.Requested {
		t.Errorf("reason %q", e.Reason)
	}
	if code := k.Exited(); code != 0 {
		t.Errorf("exit status %d", code)
	}
}

// Whatever the machine is doing then.
func TestTTLEnds(t *testing.T) {
	cfg := testenv.Rig(t, testenv.Layout(t), "")
	cfg.Deadline = time.Now().Add(2 * time.Second)
	k := testenv.Start(t, cfg)
	k.Event("boot under way", func(e keeperapi.Event) bool { return e.Type == "step" })
	if e := k.Phase(rig.Closed); e.Reason != rig.TTLExpired {
		t.Errorf("reason %q", e.Reason)
	}
	if code := k.Exited(); code != 0 {
		t.Errorf("exit status %d", code)
	}
}

func TestGuestThatPowersOff(t *testing.T) {
	k := clone(t, nil)
	// The answer may or may not come before the end.
	_, _ = k.Collect(keeperapi.ExecCollect{ExecRequest: guestapi.ExecRequest{Shell: "sudo sh -c 'echo o > /proc/sysrq-trigger'; sleep 100"}})
	if e := k.Phase(rig.Failed); e.Error == nil || e.Error.Code != rig.CodeBackendFailure || !strings.Contains(e.Error.Detail, "powered off") {
		t.Errorf("it failed with %v", e.Error)
	}
}

// A parked machine stands still; the next action wakes it, with the right time.
func TestParkAndWake(t *testing.T) {
	k := clone(t, nil)
	pid := k.Status().QEMUPID
	if err := k.Call("POST", "/v1/park", nil, nil); err != nil {
		t.Fatal(err)
	}
	k.Phase(rig.Parked)
	if st := k.Status(); st.Phase != rig.Parked || st.QEMUPID != pid {
		t.Errorf("parked: %+v", st)
	}
	parked := time.Now()
	for time.Since(parked) < time.Second { // long enough that a clock which stood still is wrong
		k.Status()
	}
	checkClock(t, k)
	if st := k.Status(); st.Phase != rig.Ready {
		t.Errorf("after an action: %s", st.Phase)
	}
	for range 2 { // both are idempotent
		if err := k.Call("POST", "/v1/park", nil, nil); err != nil {
			t.Error(err)
		}
	}
	for range 2 {
		if err := k.Call("POST", "/v1/wake", nil, nil); err != nil {
			t.Error(err)
		}
	}
}

func TestStreamsAreCounted(t *testing.T) {
	k := clone(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &startedWriter{started: make(chan struct{})}
	in, feed := io.Pipe()
	defer feed.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = k.Run(ctx, "exec", guestapi.ExecRequest{Shell: "echo started; cat", Stdin: true}, guestapi.StreamIO{Stdin: in, Stdout: out})
	}()
	<-out.started
	if n := k.Status().Streams["exec"]; n != 1 {
		t.Errorf("%d exec streams, want 1", n)
	}
	cancel()
	<-done
	for end := time.Now().Add(time.Minute); k.Status().Streams["exec"] != 0; {
		if time.Now().After(end) {
			t.Fatal("the stream is still counted")
		}
	}
}
