//go:build linux

package exec

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

	"rigs/internal/guest/account"
	"rigs/internal/guest/proc"
	"rigs/internal/guest/stream"
	"rigs/internal/guestapi"
	"rigs/internal/wire"
)

// Grace is how long a command that was told to end has before it is killed.
const Grace = 2 * time.Second

// Runner runs commands.
type Runner struct {
	Reaper *proc.Reaper
	Lookup func(name string) (account.Account, error)
}

// Warm runs the shells that commands and terminals will use, and does nothing in
// them, so that a machine that is frozen now has them in memory.
func (r *Runner) Warm() error {
	a, err := r.Lookup(guestapi.User)
	if err != nil {
		return err
	}
	for _, argv := range [][]string{{"/bin/sh", "-c", ":"}, {a.Shell, "-l", "-c", ":"}} {
		c, err := r.prepare(guestapi.ExecRequest{Argv: argv, TimeoutSeconds: warmLimit})
		if err != nil {
			return err
		}
		p, err := start(r.Reaper, c.spec)
		c.closeTheirs()
		c.close()
		if err != nil {
			return err
		}
		t := time.AfterFunc(warmLimit*time.Second, func() { p.End(syscall.SIGKILL, 0) })
		p.Wait()
		t.Stop()
	}
	return nil
}

// warmLimit bounds a shell that does nothing, in seconds.
const warmLimit = 10

// Serve runs the command that the client at the other end of conn asks for. It
// returns when the command and the stream have ended. When ctx is done the
// command is ended as if the client had gone.
func (r *Runner) Serve(ctx context.Context, conn net.Conn) {
	peer := stream.NewPeer(conn)
	defer peer.Close()
	var req guestapi.ExecRequest
	if err := peer.Start(&req); err != nil {
		peer.Fail(err)
		return
	}
	status, err := r.run(ctx, peer, req)
	if err != nil {
		if !errors.Is(err, errGone) {
			peer.Fail(err)
		}
		return
	}
	_ = peer.WriteJSON(wire.KindExit, status) // the client may be gone
}

// errGone says that the client left before the command had ended.
var errGone = errors.New("the client has gone")

func (r *Runner) run(ctx context.Context, peer *stream.Peer, req guestapi.ExecRequest) (guestapi.ExitStatus, error) {
	var none guestapi.ExitStatus
	if err := check(req); err != nil {
		return none, err
	}
	c, err := r.prepare(req)
	if err != nil {
		return none, err
	}
	defer c.close()
	p, err := start(r.Reaper, c.spec)
	c.closeTheirs()
	var ns *notStarted
	if errors.As(err, &ns) {
		kind := wire.KindStderr
		if req.TTY {
			kind = wire.KindStdout
		}
		_ = peer.WriteData(kind, []byte("rigs: "+ns.why+"\n")) // the client may be gone
		return guestapi.ExitStatus{Code: ns.status}, nil
	}
	if err != nil {
		return none, err
	}
	return attend(ctx, peer, p, c)
}

// attend looks after a started command until it and its streams have ended.
func attend(ctx context.Context, peer *stream.Peer, p *proc.Process, c *command) (guestapi.ExitStatus, error) {
	began := time.Now()
	var copies sync.WaitGroup
	for kind, out := range c.outputs {
		copies.Go(func() {
			_ = out.Copy(func(b []byte) error { return peer.Write(kind, b) }) // fails when the client is gone, which Serve sees
		})
	}
	if c.stdin != nil {
		copies.Go(func() {
			if peer.Stdin.Feed(c.stdin) {
				c.endInput()
			}
		})
	}
	served := make(chan error, 1)
	go func() {
		err := peer.Serve(c.handler(p))
		if err == nil {
			err = errGone
			peer.Close() // whoever is writing to it gives up
		}
		served <- err
	}()
	var expired <-chan time.Time
	if c.timeout > 0 {
		t := time.NewTimer(c.timeout)
		defer t.Stop()
		expired = t.C
	}

	var timedOut bool
	var failed error
	select {
	case <-p.Done():
	case <-expired:
		timedOut = true
		p.End(syscall.SIGTERM, Grace)
	case failed = <-served:
		p.End(syscall.SIGHUP, Grace)
	case <-ctx.Done():
		p.End(syscall.SIGHUP, Grace)
	}
	status := stream.ExitStatus(p.Wait())
	status.TimedOut = timedOut
	status.Seconds = time.Since(began).Seconds()

	// Nothing may follow the exit status, so what is under way is settled first.
	peer.Stdin.Close()
	c.stop()
	settled := make(chan struct{})
	go func() { copies.Wait(); close(settled) }()
	if failed == nil {
		select {
		case <-settled:
			return status, nil
		case failed = <-served:
		case <-ctx.Done():
			failed = errGone
		}
	}
	_ = peer.SetWriteDeadline(time.Now().Add(Grace)) // fails when the client is gone
	<-settled
	return status, failed
}
