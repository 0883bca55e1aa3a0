//go:build linux

package proc

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrEnded is returned by Signal when there is nothing left to signal.
var ErrEnded = errors.New("the process has ended")

// Reaper owns every child of this program. The zero value is not usable.
type Reaper struct {
	// mu is held from the fork to the entry in the table, so that a child that
	// ends at once is not taken for an orphan.
	mu       sync.Mutex
	children map[int]*Process
	started  chan struct{} // a token says: look again, there may be a child now
	orphans  uint64
}

// NewReaper returns a Reaper and starts its work, which lasts as long as the
// program. There must be only one.
func NewReaper() *Reaper {
	r := &Reaper{children: map[int]*Process{}, started: make(chan struct{}, 1)}
	go r.run()
	return r
}

// Orphans is how many children were reaped that nobody had started.
func (r *Reaper) Orphans() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.orphans
}

// Spec is what to start.
type Spec struct {
	Path  string // of the executable, no search
	Argv  []string
	Env   []string
	Dir   string
	Files []uintptr // descriptors 0, 1, 2 …
	Sys   *syscall.SysProcAttr
}

// Start starts a process. Errors are those of fork, chdir and execve, as
// syscall.Errno.
func (r *Reaper) Start(s Spec) (*Process, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := syscall.ForkExec(s.Path, s.Argv, &syscall.ProcAttr{Dir: s.Dir, Env: s.Env, Files: s.Files, Sys: s.Sys})
	if err != nil {
		return nil, err
	}
	p := &Process{pid: pid, done: make(chan struct{})}
	r.children[pid] = p
	select {
	case r.started <- struct{}{}:
	default:
	}
	return p, nil
}

func (r *Reaper) run() {
	for {
		pid, err := peek()
		switch {
		case err == nil:
			r.reap(pid)
		case errors.Is(err, unix.ECHILD):
			// Orphans are descendants of our children: there are none until the
			// next start.
			<-r.started
		default:
			// waitid has no other failure for these arguments.
			panic(fmt.Sprintf("waitid: %v", err))
		}
	}
}

// peek waits until a child has ended and returns its pid, without reaping it.
func peek() (int, error) {
	var info waitInfo
	for {
		err := unix.Waitid(unix.P_ALL, 0, info.siginfo(), unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return info.pid(), err
		}
	}
}

func (r *Reaper) reap(pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.children[pid]
	if p != nil {
		delete(r.children, pid)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ended = true
		if p.killGroup {
			// The leader's pid is still taken, and with it the group's number.
			_ = syscall.Kill(-pid, syscall.SIGKILL) // ESRCH: nobody else is in it
		}
	} else {
		r.orphans++
	}
	var ws syscall.WaitStatus
	for {
		_, err := syscall.Wait4(pid, &ws, 0, nil)
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.EINTR) {
			return // a child of fork that failed to exec, reaped by ForkExec
		}
	}
	if p != nil {
		p.status = ws
		close(p.done)
	}
}

// Process is a started child.
type Process struct {
	pid    int
	done   chan struct{}
	status syscall.WaitStatus // valid when done is closed

	mu        sync.Mutex // held while signalling, and from the mark to the reaping
	ended     bool
	killGroup bool
}

// PID is the child's.
func (p *Process) PID() int { return p.pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for the end and returns the status.
func (p *Process) Wait() syscall.WaitStatus {
	<-p.done
	return p.status
}

// SignalGroup signals the process group that the process leads. Once the leader
// has ended it returns ErrEnded: the number of the group may be in use again.
func (p *Process) SignalGroup(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return ErrEnded
	}
	return os.NewSyscallError("kill", syscall.Kill(-p.pid, sig))
}

// End ends the process and the group that it leads: it sends sig, and SIGKILL
// after grace. Whoever is left in the group when the leader ends is killed at
// that moment, the last at which the group's number is surely its own. End
// returns when the process has ended.
func (p *Process) End(sig syscall.Signal, grace time.Duration) {
	p.mu.Lock()
	p.killGroup = true
	p.mu.Unlock()
	// Failures mean that the process has ended. A stopped one takes its signal
	// when it goes on.
	_ = p.SignalGroup(sig)
	_ = p.SignalGroup(syscall.SIGCONT)
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-p.done:
	case <-t.C:
		_ = p.SignalGroup(syscall.SIGKILL)
		<-p.done
	}
}
