package vm

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"rigs/internal/keeper/confine"
	"rigs/internal/rig"
)

const (
	consoleTail = 64 << 10
	stderrTail  = 8 << 10
	// killGrace is how long QEMU has to obey "quit".
	killGrace = 2 * time.Second
)

// Options are what a machine's process is given beside its command line.
type Options struct {
	QEMU string   // path of the program
	Dir  string   // its working directory
	Env  []string // all of its environment
	// Log gets the first lines of what QEMU says on standard error, at level debug.
	Log *slog.Logger
	// Confine takes from the thread that starts QEMU, and so from QEMU, what QEMU does not
	// need (see package confine).
	Confine func() error
}

// Machine is a running QEMU. Its owner must call Close.
type Machine struct {
	Monitor *QMP
	// Agent is the host's end of the port guestapi.Port, Net that of the NIC's wire.
	Agent, Net net.Conn

	console, stderr *Tail
	process         *os.Process
	exited          chan struct{}
	exitErr         error // valid when exited is closed
	readers         sync.WaitGroup
	consoleConn     net.Conn
	migration       chan string // statuses of a migration, the last of which matters
	agentOpen       chan struct{}
	opened          sync.Once
	quitting        bool
	mu              sync.Mutex
}

// Start checks the plan and starts its QEMU. The machine runs at once, except
// one with Private memory, which waits for Restore.
func Start(p Plan, o Options) (*Machine, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	var ours [4]*net.UnixConn
	var theirs [4]*os.File
	defer func() {
		for _, f := range theirs {
			if f != nil {
				f.Close()
			}
		}
	}()
	fail := func(err error) (*Machine, error) {
		for _, c := range ours {
			if c != nil {
				_ = c.Close() // the first error is the one to report
			}
		}
		return nil, err
	}
	for i := range ours {
		var err error
		if ours[i], theirs[i], err = socketPair(); err != nil {
			return fail(rig.Errorf(rig.CodeCapacity, "start QEMU: sockets: %w", err))
		}
	}
	m := &Machine{
		Agent: ours[agentFD-monitorFD], Net: ours[netFD-monitorFD], consoleConn: ours[consoleFD-monitorFD],
		console: NewTail(consoleTail), stderr: NewTail(stderrTail),
		exited: make(chan struct{}), migration: make(chan string, 16),
		agentOpen: make(chan struct{}),
	}
	cmd := exec.Command(o.QEMU, Argv(p)...) //nolint:noctx // it is ended by Close, in order; and by the kernel
	cmd.Dir, cmd.Env, cmd.ExtraFiles = o.Dir, o.Env, theirs[:]
	cmd.Stdout, cmd.Stderr = m.stderr, m.stderr
	if o.Log != nil {
		said := &lineLog{log: o.Log, left: maxLogged}
		both := io.MultiWriter(m.stderr, said)
		cmd.Stdout, cmd.Stderr = both, both
	}
	cmd.WaitDelay = time.Second
	if err := m.run(cmd, o.Confine); err != nil {
		return fail(startError(err, o.QEMU))
	}
	m.readers.Go(func() { _, _ = io.Copy(struct{ io.Writer }{m.console}, m.consoleConn) })
	m.Monitor = NewQMP(ours[0], m.event)
	return m, nil
}

func startError(err error, qemu string) error {
	if _, serr := os.Stat(qemu); errors.Is(serr, os.ErrNotExist) {
		return rig.Errorf(rig.CodeUnavailable, "start QEMU: %s is not there: install QEMU (Debian, Ubuntu: apt install qemu-system-x86)", qemu)
	}
	return rig.Errorf(rig.CodeUnavailable, "start QEMU: %w: 'rigs doctor' shows what this host has", err)
}

// run starts the process on a thread that nothing else uses and that lives as
// long as the process: the parent-death signal comes when the thread ends, and
// what restrict does is done to the thread.
func (m *Machine) run(cmd *exec.Cmd, restrict func() error) error {
	started := make(chan error)
	confine.OnOwnThread(func() {
		if restrict != nil {
			if err := restrict(); err != nil {
				started <- err
				return
			}
		}
		dieWithThread(cmd)
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		m.process = cmd.Process
		started <- nil
		m.exitErr = cmd.Wait()
		close(m.exited)
	})
	return <-started
}

func (m *Machine) event(name string, data json.RawMessage) {
	var d struct {
		Status string `json:"status"`
		ID     string `json:"id"`
		Open   bool   `json:"open"`
	}
	if json.Unmarshal(data, &d) != nil {
		return
	}
	switch {
	case name == "MIGRATION":
		select {
		case m.migration <- d.Status:
		default: // a QEMU that floods us is not migrating; the waiter has its deadline
		}
	case name == "VSERPORT_CHANGE" && d.ID == agentID && d.Open:
		m.opened.Do(func() { close(m.agentOpen) })
	}
}

// WaitAgent waits until the guest has opened the agent's port. A restored
// machine has it open from the first moment, and no event says so.
func (m *Machine) WaitAgent(ctx context.Context) error {
	select {
	case <-m.agentOpen:
		return nil
	case <-m.exited:
		return m.Failure("the machine ended before its agent answered")
	case <-ctx.Done():
		return m.Failure("the machine's agent did not answer in time")
	}
}

// PID is QEMU's process id.
func (m *Machine) PID() int { return m.process.Pid }

// Exited is closed when QEMU has ended.
func (m *Machine) Exited() <-chan struct{} { return m.exited }

// ConsoleEnd is the end of what the guest's console said, fit to show.
func (m *Machine) ConsoleEnd() string { return m.console.Lines(20, 2000) }

// Failure explains, with what QEMU and the console said last, a machine that
// ended or cannot be used: why is in the caller's words.
func (m *Machine) Failure(why string) *rig.Problem {
	var b strings.Builder
	b.WriteString(why)
	select {
	case <-m.exited:
		if m.exitErr == nil {
			b.WriteString(": the machine powered off or rebooted")
		} else {
			b.WriteString(": QEMU ended: " + m.exitErr.Error())
		}
	default:
	}
	if s := complaints(m.stderr.Lines(200, stderrTail)); s != "" {
		b.WriteString(": QEMU said:\n" + s)
	}
	if s := m.ConsoleEnd(); s != "" {
		b.WriteString("\nThe end of its console:\n" + s)
	}
	return rig.Errorf(rig.CodeBackendFailure, "%s", b.String())
}

// complaints are QEMU's last words without those about the
// fallocate that a clone is refused: QEMU repeats them while the machine is well.
func complaints(stderr string) string {
	lines := slices.DeleteFunc(strings.Split(stderr, "\n"), func(l string) bool {
		return strings.Contains(l, "ram_block_discard_range: Failed to fallocate")
	})
	s := strings.Join(lines[max(0, len(lines)-8):], "\n")
	return strings.ToValidUTF8(s[max(0, len(s)-1500):], "")
}

// Pause stops the guest's processors; its memory stays.
func (m *Machine) Pause(ctx context.Context) error { return m.Monitor.Execute(ctx, "stop", nil, nil) }

// Resume lets a stopped guest go on.
func (m *Machine) Resume(ctx context.Context) error { return m.Monitor.Execute(ctx, "cont", nil, nil) }

// Close ends QEMU, politely at first so that it writes its disk's tables, waits for it and
// releases everything. It may be called more than once.
func (m *Machine) Close() error {
	m.mu.Lock()
	first := !m.quitting
	m.quitting = true
	m.mu.Unlock()
	if !first {
		<-m.exited
		return nil
	}
	m.Monitor.send("quit", nil, nil)
	t := time.NewTimer(killGrace)
	defer t.Stop()
	select {
	case <-m.exited:
	case <-t.C:
		_ = m.process.Kill() // it may just have ended
		<-m.exited
	}
	return m.release()
}

// Kill ends QEMU at once: for a machine whose disk nobody needs any more.
func (m *Machine) Kill() error {
	m.mu.Lock()
	first := !m.quitting
	m.quitting = true
	m.mu.Unlock()
	_ = m.process.Kill() // it may just have ended
	<-m.exited
	if !first {
		return nil
	}
	return m.release()
}

func (m *Machine) release() error {
	err := errors.Join(m.Monitor.Close(), ignoreClosed(m.Agent.Close()), ignoreClosed(m.Net.Close()), m.consoleConn.Close())
	m.readers.Wait()
	return err
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// ExitError says how a machine that has been closed ended, nil if in order.
func (m *Machine) ExitError() error {
	<-m.exited
	if m.exitErr != nil {
		return m.Failure("QEMU did not end in order")
	}
	return nil
}

// Diagnose explains an error that a machine which is ending may have caused: it
// gives QEMU a moment to have ended.
func (m *Machine) Diagnose(err error) *rig.Problem {
	t := time.NewTimer(killGrace)
	defer t.Stop()
	select {
	case <-m.exited:
		return m.Failure("the machine ended")
	case <-t.C:
		return m.Failure(err.Error())
	}
}
