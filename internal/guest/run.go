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
		Rekey:    rekeyMachine,
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

// serve serves one session with a keeper.
func (a *Agent) serve(l net.Listener) {
	s := &http.Server{Handler: a.Handler(), ReadHeaderTimeout: headerTimeout, MaxHeaderBytes: 16 << 10}
	_ = s.Serve(l) // ends with the session
	_ = s.Close()
}

func rekeyMachine(r guestapi.Rekey) (guestapi.Rekeyed, error) {
	if err := rekey.Check(r); err != nil {
		return guestapi.Rekeyed{}, err
	}
	return rekey.Apply(r)
}
