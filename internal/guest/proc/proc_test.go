//go:build linux

package proc

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var reaper *Reaper

func TestMain(m *testing.M) {
	// Orphans of what the tests start come to us, as they do to PID 1.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, "cannot become a subreaper:", err)
		os.Exit(1)
	}
	reaper = NewReaper()
	os.Exit(m.Run())
}

func sh(line string, args ...string) Spec {
	return Spec{
		Path: "/bin/sh", Argv: append([]string{"/bin/sh", "-c", line, "sh"}, args...), Env: os.Environ(),
		Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setsid: true},
	}
}

// Every child's status reaches its waiter, however soon it ends and however many
// orphans end meanwhile.
func TestStatusesAreNotMixedUpWithOrphans(t *testing.T) {
	const children, rounds = 8, 25
	before := reaper.Orphans()
	var wg sync.WaitGroup
	for c := range children {
		wg.Go(func() {
			for i := range rounds {
				want := (c*rounds + i) % 256
				// Half of them leave an orphan that ends at about the same time.
				line := "exit $1"
				if i%2 == 0 {
					line = "(exit 7) & exit $1"
				}
				p, err := reaper.Start(sh(line, strconv.Itoa(want)))
				if err != nil {
					t.Errorf("start: %v", err)
					return
				}
				if ws := p.Wait(); !ws.Exited() || ws.ExitStatus() != want {
					t.Errorf("got status %#x, want exit %d", ws, want)
				}
			}
		})
	}
	wg.Wait()
	// An orphan may be reaped by the shell itself; some are ours all the same.
	waitFor(t, "orphans to be reaped", func() bool { return reaper.Orphans() > before })
	waitFor(t, "no zombie to be left", func() bool { return zombies(t) == 0 })
}

// zombies counts the children of this process that nobody has waited for.
func zombies(t *testing.T) int {
	t.Helper()
	var info waitInfo
	err := unix.Waitid(unix.P_ALL, 0, info.siginfo(), unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil)
	if errors.Is(err, unix.ECHILD) || err == nil && info.pid() == 0 {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	return 1
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func TestFailedStartsLeaveNothing(t *testing.T) {
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 25 {
				if _, err := reaper.Start(Spec{Path: "/no/such/file", Argv: []string{"x"}}); !errors.Is(err, syscall.ENOENT) {
					t.Errorf("got %v", err)
				}
				p, err := reaper.Start(sh("exit 3"))
				if err != nil {
					t.Errorf("start: %v", err)
					return
				}
				if ws := p.Wait(); ws.ExitStatus() != 3 {
					t.Errorf("got %#x", ws)
				}
			}
		})
	}
	wg.Wait()
	waitFor(t, "no zombie to be left", func() bool { return zombies(t) == 0 })
}

func TestSignalsEndWithTheProcess(t *testing.T) {
	p, err := reaper.Start(sh("exec sleep 999"))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.SignalGroup(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if ws := p.Wait(); !ws.Signaled() || ws.Signal() != syscall.SIGUSR1 {
		t.Fatalf("got %#x", ws)
	}
	if err := p.SignalGroup(syscall.SIGKILL); !errors.Is(err, ErrEnded) {
		t.Fatalf("a signal to an ended process: %v", err)
	}
}

func TestEndTakesTheWholeGroup(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	// The leader ends at once when told to; its child ignores everything it can.
	s := sh(`(trap "" TERM HUP; echo up; sleep 999) & wait`)
	s.Files = []uintptr{0, w.Fd(), 2}
	p, err := reaper.Start(s)
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 16)
	if _, err := r.Read(buf); err != nil {
		t.Fatal(err)
	}
	p.End(syscall.SIGTERM, 30*time.Second)
	if err := r.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	// The end of the file says that nobody of the group is left.
	if n, err := r.Read(buf); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("somebody is left: %d, %v", n, err)
	}
}

func TestEndKillsWhoDoesNotListen(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s := sh(`trap "" TERM; echo up; while :; do sleep 999; done`)
	s.Files = []uintptr{0, w.Fd(), 2}
	p, err := reaper.Start(s)
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	p.End(syscall.SIGTERM, time.Millisecond)
	if ws := p.Wait(); !ws.Signaled() || ws.Signal() != syscall.SIGKILL {
		t.Fatalf("got %#x", ws)
	}
}
