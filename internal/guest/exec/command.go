//go:build linux

package exec

import (
	"errors"
	"os"
	"syscall"
	"time"

	"rigs/internal/guest/proc"
	"rigs/internal/guest/stream"
	"rigs/internal/guestapi"
	"rigs/internal/rig"
	"rigs/internal/wire"
)

// command is what to start, and our ends of its descriptors.
type command struct {
	spec    proc.Spec
	timeout time.Duration
	outputs map[wire.Kind]*stream.Output
	stdin   *os.File // nil: /dev/null
	tty     *os.File // nil: pipes
	ours    []*os.File
	theirs  []*os.File
}

func (r *Runner) prepare(req guestapi.ExecRequest) (_ *command, err error) {
	user := guestapi.User
	if req.Root {
		if os.Geteuid() != 0 {
			return nil, rig.FieldErrorf("root", "cannot run as root: the agent itself is not root")
		}
		user = "root"
	}
	a, err := r.Lookup(user)
	if err != nil {
		return nil, rig.Errorf(rig.CodeInternal, "cannot run: %w", err)
	}
	dir := a.Abs(req.Cwd)
	if err := checkDir(a, dir); err != nil {
		if req.Cwd != "" {
			return nil, err
		}
		dir = "/" // where a login without a home directory starts
	}
	limit, err := timeout(req)
	if err != nil {
		return nil, err
	}
	argv := req.Argv
	if req.Shell != "" {
		argv = []string{"/bin/sh", "-c", req.Shell}
	}
	term := ""
	if req.TTY {
		term = "xterm-256color"
	}
	sys := &syscall.SysProcAttr{Credential: a.Credential(), Setsid: true}
	c := &command{
		spec:    proc.Spec{Argv: argv, Env: environ(a.Env(term), req.Env), Dir: dir, Sys: sys},
		timeout: limit,
		outputs: map[wire.Kind]*stream.Output{},
	}
	if req.TTY {
		sys.Setctty = true // descriptor 0
		err = c.openTTY(a.UID, req.Size)
	} else {
		err = c.openPipes(req.Stdin)
	}
	if err != nil {
		c.closeTheirs()
		c.close()
		return nil, rig.Errorf(rig.CodeCapacity, "cannot run: %w", err)
	}
	return c, nil
}

func (c *command) openTTY(uid int, s guestapi.Size) error {
	ours, theirs, err := stream.OpenTTY(uid, s)
	if err != nil {
		return err
	}
	c.ours = append(c.ours, ours)
	for range 3 {
		c.give(theirs)
	}
	c.tty, c.stdin = ours, ours
	c.outputs[wire.KindStdout] = stream.NewOutput(ours, true)
	return nil
}

func (c *command) openPipes(stdin bool) error {
	if stdin {
		ours, theirs, err := stream.OpenPipe(false)
		if err != nil {
			return err
		}
		c.ours = append(c.ours, ours)
		c.give(theirs)
		c.stdin = ours
	} else {
		null, err := os.Open(os.DevNull)
		if err != nil {
			return err
		}
		c.give(null)
	}
	for _, kind := range []wire.Kind{wire.KindStdout, wire.KindStderr} {
		ours, theirs, err := stream.OpenPipe(true)
		if err != nil {
			return err
		}
		c.ours = append(c.ours, ours)
		c.give(theirs)
		c.outputs[kind] = stream.NewOutput(ours, false)
	}
	return nil
}

// give makes f the command's next descriptor.
func (c *command) give(f *os.File) {
	c.theirs = append(c.theirs, f)
	c.spec.Files = append(c.spec.Files, f.Fd())
}

// endInput passes the end of the client's input on: a pipe is closed, a
// terminal is sent its end-of-file character.
func (c *command) endInput() {
	if c.tty != nil {
		_, _ = c.tty.Write([]byte{4}) // fails when the command has ended
		return
	}
	c.stdin.Close()
}

// stop ends the copying once the command has ended.
func (c *command) stop() {
	if c.stdin != nil {
		_ = c.stdin.SetWriteDeadline(time.Unix(1, 0)) // fails when it is closed already
	}
	for _, o := range c.outputs {
		o.Stop()
	}
}

func (c *command) closeTheirs() {
	for _, f := range c.theirs {
		f.Close() // a terminal is there three times; closing it again does nothing
	}
}

func (c *command) close() {
	for _, f := range c.ours {
		f.Close()
	}
}

// handler does what the client's other frames ask for.
func (c *command) handler(p *proc.Process) stream.Handler {
	h := stream.Handler{Signal: func(s guestapi.Signal) error {
		sig, err := stream.ParseSignal(s)
		if err != nil {
			return err
		}
		err = p.SignalGroup(sig)
		if errors.Is(err, proc.ErrEnded) || errors.Is(err, syscall.ESRCH) {
			return nil // it came too late, which the client will see
		}
		return err
	}}
	if c.tty != nil {
		h.Resize = func(s guestapi.Size) error {
			if err := stream.CheckSize(s); err != nil {
				return err
			}
			return stream.SetSize(c.tty, s)
		}
	}
	return h
}
