// Package server is the authority: who may do what, which rigs there are, and
// when they end. It is the trusted level; what a guest says it relays and never
// parses.
//
// Its parts each have a folder: lock and store keep the data directory, auth
// decides who asks, rigs is the one place that every use of a machine passes,
// placement starts keepers, sweep finds what a killed server left, feed and
// metrics tell what happens, api is the HTTP interface. This package puts them
// together, starts them in order, and ends them in the reverse one.
//
// # Promises
//
// One server for a data directory. Nothing is written outside the data, cache
// and runtime directories. When Run returns, every machine is gone; after a
// kill, the next Run sees to that before it answers anything. A start that fails
// leaves nothing behind.
package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"rigs/internal/config"
	"rigs/internal/paths"
	"rigs/internal/rig"
	"rigs/internal/server/api"
	"rigs/internal/server/approvals"
	"rigs/internal/server/audit"
	"rigs/internal/server/auth"
	"rigs/internal/server/authority"
	"rigs/internal/server/egress"
	"rigs/internal/server/feed"
	"rigs/internal/server/lock"
	"rigs/internal/server/metrics"
	"rigs/internal/server/placement"
	"rigs/internal/server/rigs"
	"rigs/internal/server/store"
	"rigs/web"
)

const (
	// tick is how exact TTLs and idle windows are.
	tick = time.Second
	// tidyEvery is how often expired rows are removed.
	tidyEvery = time.Hour
	// shutdownTimeout bounds the closing of all rigs, drainTimeout what
	// requests have left after it.
	shutdownTimeout = 8 * time.Second
	drainTimeout    = time.Second
	// sweepTimeout bounds the ending of what an earlier server left.
	sweepTimeout = 30 * time.Second
)

// Options are what Run needs beside the settings.
type Options struct {
	Config  config.Config
	Version string
	// Log receives the server's log; nil: standard error, as the settings say.
	Log io.Writer
	// Keeper is the program that is a keeper, with its arguments; empty: this
	// program with the argument "keeper".
	Keeper []string
	// Ready is called once, when the server can be asked; may be nil.
	Ready func(Ready)
	// Parts makes what machines are started from; nil: the real things.
	Parts func(Host) (Parts, error)
	// Now is the wall clock; nil: time.Now.
	Now func() time.Time
}

// Ready says where a server answers.
type Ready struct {
	Socket string
	URL    string // empty without HTTP
}

// Host is what parts are made with.
type Host struct {
	Config    config.Config
	Layout    paths.Layout
	Placement *placement.Local
	Log       *slog.Logger
}

// Parts are what machines are started from.
type Parts struct {
	Preparer  rigs.Preparer
	Policy    rigs.Policy
	Images    api.Images
	Templates api.Templates
	Doctor    api.Doctor
}

// checkPrograms refuses settings that name a program which cannot be run. What is not
// named is looked for when it is needed, and rigs doctor says what is missing.
func checkPrograms(c config.Config) error {
	for _, p := range []struct{ setting, path string }{{"qemu", c.QEMU}, {"guest", c.Guest}} {
		if p.path == "" {
			continue
		}
		fi, err := os.Stat(p.path)
		if err == nil && (!fi.Mode().IsRegular() || fi.Mode().Perm()&0o111 == 0) {
			err = errors.New("it is not a program that can be run")
		}
		if err != nil {
			return rig.Errorf(rig.CodeUnavailable, "setting %s: %s: %w: name another, or leave the setting out", p.setting, p.path, err)
		}
	}
	return nil
}

// Run runs a server until ctx ends, and returns when all its rigs are gone.
func Run(ctx context.Context, o Options) (err error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	log := newLog(o)
	if err := checkPrograms(o.Config); err != nil {
		return err
	}
	dir, err := openDataDir(&o.Config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.lock.Release()) }()
	// The addresses first: a busy port must not cost anything.
	sock, tcp, err := listen(dir.layout, o.Config.Listen)
	if err != nil {
		return err
	}
	defer sock.Close() // also removes the socket
	if tcp != nil {
		defer tcp.Close()
	}
	st, err := store.Open(ctx, dir.layout.Database())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	place, err := placement.NewLocal(dir.layout, dir.id, o.Keeper, log)
	if err != nil {
		return err
	}
	if err := place.Prepare(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removeEmpty(dir.layout.Runtime())) }()

	var manager *rigs.Manager
	meters := metrics.New(func() map[rig.Phase]int { return manager.Phases() })
	if err := recoverState(ctx, st, place, meters, log, o.Now); err != nil {
		return err
	}
	makeParts := o.Parts
	if makeParts == nil {
		makeParts = realParts
	}
	parts, err := makeParts(Host{o.Config, dir.layout, place, log})
	if err != nil {
		return err
	}
	var events feed.Feed
	written, err := audit.Open(ctx, audit.Config{Database: st, KeyFile: dir.layout.AuditKey(), Now: o.Now, Log: log, Keep: time.Duration(o.Config.AuditKeepDays) * 24 * time.Hour, MaxRows: int64(o.Config.AuditMaxRows),
		Publish: func(r rig.AuditRow) { manager.Audited(r) }})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, written.Close()) }()
	desk := approvals.New(&events, o.Now, log)
	rules, err := authority.New(ctx, authority.Config{Store: st, Audit: written, Desk: desk, Log: log, Now: o.Now})
	if err != nil {
		return err
	}
	desk.Handle(rig.ApprovalAction, rules.Remember)
	egressLogs, err := egress.Open(egress.Options{Dir: dir.layout.EgressLogs(), Metrics: meters, Log: log, Now: o.Now})
	if err != nil {
		return err
	}
	defer egressLogs.Stop()
	manager = rigs.New(rigs.Config{
		Egress: egressLogs, Ended: desk.CancelRig,
		Authority: rules,
		Starting:  runtime.NumCPU(),
		Store:     st, Placement: place, Preparer: parts.Preparer, Policy: parts.Policy, Metrics: meters, Feed: &events,
		Log: log, Defaults: o.Config.Resources, BudgetBytes: int64(o.Config.MemoryBudgetMB) << 20, Now: o.Now,
	})
	ready := Ready{Socket: dir.layout.ServerSocket()}
	if tcp != nil {
		ready.URL = browserURL(tcp.Addr())
	}
	handler := api.New(api.Config{
		Authority: rules, Audit: written, Desk: desk,
		Rigs: manager, Auth: auth.New(st, hosts(o.Config), log, o.Now), Store: st, Feed: &events, Metrics: meters,
		Images: parts.Images, Templates: parts.Templates, Doctor: parts.Doctor, Page: web.Dist, Log: log, Now: o.Now,
		Version: o.Version, DataDir: dir.layout.Data(), StartedAt: o.Now().UTC(), URL: ready.URL,
	}).Handler()

	s := serve(ctx, handler, log, sock, tcp)
	clock, stopClock := context.WithCancel(ctx)
	var clockDone sync.WaitGroup
	clockDone.Go(func() { keepTime(clock, manager, desk, st, log, o.Now) })
	clockDone.Go(func() { keepAudit(clock, written, log) })
	log.Info("ready", "socket", ready.Socket, "url", ready.URL, "version", o.Version, "user", place.User())
	if o.Ready != nil {
		o.Ready(ready)
	}

	select {
	case <-ctx.Done():
	case err = <-s.failed:
		err = fmt.Errorf("the server stopped answering: %w", err)
	}
	log.Info("shutting down")
	stopClock()
	clockDone.Wait()
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	desk.Close()
	err = errors.Join(err, manager.Shutdown(end))
	events.Close()
	s.stop(ctx)
	log.Info("stopped")
	return err
}

func newLog(o Options) *slog.Logger {
	w := o.Log
	if w == nil {
		w = os.Stderr
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.Config.LogLevel)); err != nil {
		level = slog.LevelInfo // the settings were checked; none is the default
	}
	opt := &slog.HandlerOptions{Level: level}
	if o.Config.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, opt))
	}
	return slog.New(slog.NewTextHandler(w, opt))
}

// dataDir is an open data directory: this server's alone.
type dataDir struct {
	layout paths.Layout
	id     string
	lock   *lock.Lock
}

// openDataDir makes the directories, takes the lock and reads the identity.
func openDataDir(c *config.Config) (*dataDir, error) {
	help := "choose another directory with RIGS_HOME, or give this one to the user that runs the server"
	mode := os.FileMode(0o700)
	if os.Getuid() == 0 {
		mode = 0o711 // machines run as another user, who must pass through
	}
	for _, d := range []string{c.DataDir, c.CacheDir} {
		if err := os.MkdirAll(d, mode); err != nil {
			return nil, rig.Errorf(rig.CodeUnavailable, "the data directory cannot be made: %w: %s", err, help)
		}
	}
	l, err := c.Layout()
	if err != nil {
		return nil, err
	}
	if err := paths.CheckSocket(l.ServerSocket()); err != nil {
		return nil, rig.Errorf(rig.CodeUnavailable, "%w", err)
	}
	if err := paths.CheckSocket(filepath.Join(l.Rig(rig.NewID()), "keeper-12345678")); err != nil { // the longest in a rig's directory
		return nil, rig.Errorf(rig.CodeUnavailable, "%w", err)
	}
	lk, err := lock.Acquire(l.Lock())
	if err != nil {
		if rig.CodeOf(err) == rig.CodeInternal {
			err = rig.Errorf(rig.CodeUnavailable, "the data directory cannot be used: %w: %s", err, help)
		}
		return nil, err
	}
	id, err := identity(l.ID())
	if err != nil {
		return nil, errors.Join(rig.Errorf(rig.CodeUnavailable, "the data directory cannot be used: %w: %s", err, help), lk.Release())
	}
	return &dataDir{l, id, lk}, nil
}

var idPattern = regexp.MustCompile(`^[0-9a-f]{32}$`)

// identity reads the data directory's id, 128 random bits, or draws it.
func identity(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err == nil {
		id := strings.TrimSpace(string(b))
		if !idPattern.MatchString(id) {
			return "", fmt.Errorf("%s does not hold an id of 32 hex digits: remove it if no server of this directory has left processes", path)
		}
		return id, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	var raw [16]byte
	rand.Read(raw[:]) // never fails since Go 1.24
	id := hex.EncodeToString(raw[:])
	tmp := path + ".new"
	if err := os.WriteFile(tmp, []byte(id+"\n"), 0o600); err != nil {
		return "", err
	}
	return id, os.Rename(tmp, path) // whole or not there
}

// listen opens the socket and, unless it is "none", the address for HTTP.
func listen(l paths.Layout, addr string) (sock, tcp net.Listener, err error) {
	if addr != "none" {
		tcp, err = net.Listen("tcp", addr) //nolint:noctx // it does not block
		switch {
		case errors.Is(err, syscall.EADDRINUSE):
			return nil, nil, rig.Errorf(rig.CodeUnavailable, "cannot listen on %s: another program does: stop it, or choose another port with --listen or RIGS_LISTEN", addr)
		case err != nil:
			return nil, nil, rig.Errorf(rig.CodeUnavailable, "cannot listen on %s: %w: choose another address with --listen or RIGS_LISTEN", addr, err)
		}
	}
	path := l.ServerSocket()
	// We hold the lock, so a socket that is there is a killed server's.
	if fi, serr := os.Lstat(path); serr == nil && fi.Mode()&fs.ModeSocket != 0 {
		err = os.Remove(path)
	}
	if err == nil {
		sock, err = listenPrivate(path)
	}
	if err != nil {
		if tcp != nil {
			tcp.Close()
		}
		return nil, nil, rig.Errorf(rig.CodeUnavailable, "cannot listen on the socket %s: %w", path, err)
	}
	return sock, tcp, nil
}

// listenPrivate makes a socket that only its owner can open, at no moment
// anybody else: it gets its name when its mode is right.
func listenPrivate(path string) (net.Listener, error) {
	dir, err := os.MkdirTemp(filepath.Dir(path), ".s")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // it is empty
	early := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: early, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(early, 0o600), os.Rename(early, path)); err != nil {
		_ = l.Close() // its error says no more
		return nil, err
	}
	return &namedListener{l, path}, nil
}

// namedListener removes its name when it is closed.
type namedListener struct {
	net.Listener
	path string
}

func (l *namedListener) Close() error {
	err := l.Listener.Close()
	if errors.Is(err, net.ErrClosed) {
		return nil // it was closed before, and its name may be another's now
	}
	return errors.Join(err, os.Remove(l.path))
}

// browserURL is the address of the page for a browser on this host.
func browserURL(a net.Addr) string {
	t, ok := a.(*net.TCPAddr)
	if !ok || t.IP.IsUnspecified() {
		_, port, _ := net.SplitHostPort(a.String()) // our own listener's
		return "http://127.0.0.1:" + port
	}
	return "http://" + t.String()
}

// hosts are the names that the server answers to: those of the settings, and
// the address that it was told to listen on.
func hosts(c config.Config) auth.Hosts {
	h := auth.Hosts(c.AllowedHosts)
	if host, _, err := net.SplitHostPort(c.Listen); err == nil && host != "" {
		if ip := net.ParseIP(host); ip == nil || !ip.IsUnspecified() {
			h = append(h, strings.ToLower(host))
		}
	}
	return h
}

// recoverState puts right what a server that was killed left: processes,
// directories, and rows that say otherwise.
func recoverState(ctx context.Context, st *store.Store, place *placement.Local, m *metrics.Metrics, log *slog.Logger, now func() time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	n, err := place.Sweep(ctx)
	if err != nil {
		return rig.Errorf(rig.CodeUnavailable, "what an earlier server of this data directory left cannot be removed: %w", err)
	}
	if n > 0 {
		log.Warn("ended processes that an earlier server left", "processes", n)
		m.Swept(n)
	}
	left, err := st.OpenRigs(ctx)
	if err != nil {
		return err
	}
	for i := range left {
		r := &left[i]
		why := rig.ServerShutdown
		if r.Phase == rig.Failed {
			why = rig.BackendFailure
		}
		if r.CloseReason == "" {
			r.CloseReason = why
		}
		if r.Phase != rig.Closing && r.Phase.CanBecome(rig.Closing) {
			r.Phase = rig.Closing
		}
		if !r.Phase.CanBecome(rig.Closed) {
			return fmt.Errorf("rig %s has phase %q in the database", r.ID, r.Phase)
		}
		r.Phase, r.ClosedAt = rig.Closed, now().UTC()
		log.Warn("closed a rig that an earlier server left", "rig", r.ID, "reason", r.CloseReason)
		if err := st.PutRig(ctx, *r); err != nil {
			return err
		}
	}
	return st.Tidy(ctx, now())
}

// keepTime ticks until ctx ends.
func keepTime(ctx context.Context, m *rigs.Manager, desk *approvals.Desk, st *store.Store, log *slog.Logger, now func() time.Time) {
	t := time.NewTicker(tick)
	defer t.Stop()
	tidied := now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			m.Tick(ctx, now())
			desk.Tick()
			if n := now().Round(0); n.Sub(tidied) >= tidyEvery {
				tidied = n
				if err := st.Tidy(ctx, n); err != nil {
					log.Warn("expired rows were not removed", "error", err)
				}
			}
		}
	}
}

// keepAudit keeps the audit logs in bounds until ctx ends. It may take its time,
// for which no TTL waits.
func keepAudit(ctx context.Context, l *audit.Log, log *slog.Logger) {
	t := time.NewTicker(tidyEvery)
	defer t.Stop()
	for {
		if err := l.Tidy(ctx); err != nil && ctx.Err() == nil {
			log.Warn("old audit rows were not removed", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// removeEmpty removes a directory unless something is in it.
func removeEmpty(dir string) error {
	err := os.Remove(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTEMPTY) {
		return nil
	}
	return err
}

// servers are the HTTP servers on the socket and the address.
type servers struct {
	all    []*http.Server
	cancel context.CancelFunc // ends the requests' contexts
	done   sync.WaitGroup
	failed chan error
}

func serve(ctx context.Context, h http.Handler, log *slog.Logger, ls ...net.Listener) *servers {
	base, cancel := context.WithCancel(context.WithoutCancel(ctx)) // requests end last
	s := &servers{cancel: cancel, failed: make(chan error, len(ls))}
	for _, l := range ls {
		if l == nil {
			continue
		}
		srv := &http.Server{
			Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10,
			BaseContext: func(net.Listener) context.Context { return base }, ConnContext: auth.ConnContext,
			ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		}
		s.all = append(s.all, srv)
		s.done.Go(func() {
			if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				s.failed <- err
			}
		})
	}
	return s
}

// stop ends the streams, lets requests finish for a moment, and cuts the rest.
func (s *servers) stop(ctx context.Context) {
	s.cancel()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	for _, srv := range s.all {
		if srv.Shutdown(ctx) != nil {
			_ = srv.Close() // what is left is cut
		}
	}
	s.done.Wait()
}
