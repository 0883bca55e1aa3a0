//go:build linux

package guest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"rigs/internal/guest/account"
	"rigs/internal/guest/boot"
	"rigs/internal/guest/port"
	"rigs/internal/guest/proc"
	"rigs/internal/guest/rekey"
	"rigs/internal/guestapi"
)

// portTimeout is how long the serial port may take to appear.
const portTimeout = 15 * time.Second

// Init is PID 1: it boots the machine and serves the keeper until the machine
// is turned off. It returns only when that is impossible.
func Init(version string) error {
	err := run(version)
	// The host shows the console's end when a machine does not come up.
	fmt.Fprintf(os.Stderr, "rigs-guest: %v\n", err)
	return boot.PowerOff()
}

func run(version string) error {
	if err := boot.Run(); err != nil {
		return err
	}
	if err := boot.CatchCtrlAltDel(); err != nil {
		return fmt.Errorf("cannot catch ctrl-alt-del: %w", err)
	}
	ctx, stop := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGPWR)
	go func() {
		s := <-signals
		stop(fmt.Errorf("powering off: %v", s))
	}()
	reaper := proc.NewReaper()
	a := New(Config{
		Version:  version,
		Reaper:   reaper,
		Lookup:   func(name string) (account.Account, error) { return account.Lookup("", name) },
		Rekey:    func(r guestapi.Rekey) (guestapi.Rekeyed, error) { return rekeyMachine(reaper, r) },
		Quiesce:  boot.Trim,
		PowerOff: func() { stop(errors.New("powering off: asked to")) },
	})

	octx, cancel := context.WithTimeout(ctx, portTimeout)
	defer cancel()
	p, err := port.Open(octx, guestapi.Port)
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "rigs-guest: ready")
	err = p.Serve(ctx, a.serve)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// headerTimeout bounds how long a request may take to say what it is.
const headerTimeout = 30 * time.Second

// serve serves one session with a keeper. Whoever begins one may be a clone's:
// nothing is done for it before the machine has an identity of its own.
func (a *Agent) serve(l net.Listener) {
	a.rekeyed.Store(false)
	s := &http.Server{Handler: a.Handler(), ReadHeaderTimeout: headerTimeout, MaxHeaderBytes: 16 << 10}
	_ = s.Serve(l) // ends with the session
	_ = s.Close()
}

// rekeyMachine makes the machine its own. Where there is an SSH server, new host
// keys are made after the confirmation: it does not run yet, and they take long.
func rekeyMachine(reaper *proc.Reaper, r guestapi.Rekey) (guestapi.Rekeyed, error) {
	if err := rekey.Check(r); err != nil {
		return guestapi.Rekeyed{}, err
	}
	done, err := rekey.Apply(r)
	if err == nil && (rekey.Etc{Root: "/"}).HasSSHServer() {
		go func() {
			if err := makeHostKeys(reaper); err != nil {
				fmt.Fprintf(os.Stderr, "rigs-guest: cannot make SSH host keys: %v\n", err)
			}
		}()
	}
	return done, err
}

func makeHostKeys(reaper *proc.Reaper) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	fd := null.Fd()
	p, err := reaper.Start(proc.Spec{
		Path: "/usr/bin/ssh-keygen", Argv: []string{"ssh-keygen", "-A"}, Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"},
		Dir: "/", Files: []uintptr{fd, fd, fd}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return err
	}
	if ws := p.Wait(); ws != 0 {
		return fmt.Errorf("ssh-keygen ended with status %d", ws)
	}
	return nil
}
