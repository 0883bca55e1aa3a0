//go:build linux

package terminal

import (
	"net"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"rigs/internal/guest/account"
	"rigs/internal/guest/proc"
	"rigs/internal/guest/stream"
	"rigs/internal/guestapi"
	"rigs/internal/rig"
)

// grace is how long the shell of an ephemeral session has to end.
const grace = 2 * time.Second

// Terminals are the sessions of a guest.
type Terminals struct {
	Reaper *proc.Reaper
	Lookup func(name string) (account.Account, error)

	mu       sync.Mutex
	sessions map[string]*session
}

// Attached is the number of sessions with a client.
func (t *Terminals) Attached() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, s := range t.sessions {
		if s.attached() {
			n++
		}
	}
	return n
}

// Serve attaches the client at the other end of conn to the session that it
// asks for. It returns when the client or the session is gone.
func (t *Terminals) Serve(conn net.Conn) {
	peer := stream.NewPeer(conn)
	defer peer.Close()
	var req guestapi.TerminalRequest
	err := peer.Start(&req)
	if err == nil {
		err = check(req)
	}
	var s *session
	var c *client
	if err == nil {
		s, c, err = t.join(peer, req)
	}
	if err != nil {
		peer.Fail(err)
		return
	}
	s.serve(peer, c, req.Size)
	if s.leave(c) && s.ephemeral {
		s.proc.End(syscall.SIGHUP, grace)
	}
}

func check(r guestapi.TerminalRequest) error {
	if len(r.Session) < 1 || len(r.Session) > 32 {
		return rig.FieldErrorf("session", "cannot open a terminal: a session's name has 1 to 32 characters")
	}
	for _, b := range []byte(r.Session) {
		if (b < 'a' || b > 'z') && (b < '0' || b > '9') && b != '-' {
			return rig.FieldErrorf("session", "cannot open a terminal: %q is no session's name: a-z, 0-9 and - are allowed", r.Session)
		}
	}
	return stream.CheckSize(r.Size)
}

// join attaches to the session of that name, made when there is none.
func (t *Terminals) join(peer *stream.Peer, req guestapi.TerminalRequest) (*session, *client, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.sessions[req.Session]; s != nil {
		c, ended := s.attach(peer)
		if c != nil {
			return s, c, nil
		}
		if !ended {
			return nil, nil, rig.Errorf(rig.CodeCapacity, "cannot attach to terminal %s: it has %d clients already", req.Session, maxClients)
		}
	} else if len(t.sessions) >= guestapi.MaxTerminals {
		return nil, nil, rig.Errorf(rig.CodeCapacity, "cannot open terminal %s: there are %d already: end one", req.Session, len(t.sessions))
	}
	s, err := t.start(req)
	if err != nil {
		return nil, nil, err
	}
	c, _ := s.attach(peer)
	if t.sessions == nil {
		t.sessions = map[string]*session{}
	}
	t.sessions[req.Session] = s
	go func() {
		s.run()
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.sessions[req.Session] == s { // else it has a successor already
			delete(t.sessions, req.Session)
		}
	}()
	return s, c, nil
}

// start starts a login shell on a terminal.
func (t *Terminals) start(req guestapi.TerminalRequest) (*session, error) {
	a, err := t.Lookup(guestapi.User)
	if err != nil {
		return nil, rig.Errorf(rig.CodeInternal, "cannot open a terminal: %w", err)
	}
	ours, theirs, err := stream.OpenTTY(a.UID, req.Size)
	if err != nil {
		return nil, rig.Errorf(rig.CodeCapacity, "cannot open a terminal: %w", err)
	}
	defer theirs.Close()
	dir := a.Home
	if a.Do(func() error { return syscall.Chdir(dir) }) != nil {
		dir = "/" // where a login without a home directory starts
	}
	fd := theirs.Fd()
	p, err := t.Reaper.Start(proc.Spec{
		Path: a.Shell,
		// A dash before the name is how login(1) says "login shell" to any shell.
		Argv:  []string{"-" + filepath.Base(a.Shell)},
		Env:   a.Env("xterm-256color"),
		Dir:   dir,
		Files: []uintptr{fd, fd, fd},
		Sys:   &syscall.SysProcAttr{Credential: a.Credential(), Setsid: true, Setctty: true},
	})
	if err != nil {
		ours.Close()
		return nil, rig.Errorf(rig.CodeInternal, "cannot open a terminal: shell %s: %w", a.Shell, err)
	}
	s := &session{
		name: req.Session, ephemeral: req.Ephemeral, tty: ours, proc: p,
		past: scrollback{limit: guestapi.MaxScrollback}, clients: map[*client]struct{}{},
	}
	s.change.L = &s.mu
	return s, nil
}
