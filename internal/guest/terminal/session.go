//go:build linux

package terminal

import (
	"os"
	"sync"
	"time"

	"rigs/internal/guest/proc"
	"rigs/internal/guest/stream"
	"rigs/internal/guestapi"
)

const (
	// highWater is how much may wait for every client before the shell is made
	// to wait.
	highWater = 256 << 10
	// maxQueue is how much may wait for one client while others go on.
	maxQueue = 1 << 20
	// stall is how long a client may take for one frame.
	stall = 30 * time.Second
)

// session is one shell with its terminal.
type session struct {
	name      string
	ephemeral bool
	tty       *os.File // open until ended
	proc      *proc.Process

	mu      sync.Mutex
	change  sync.Cond
	past    scrollback
	clients map[*client]struct{}
	ended   bool                // the shell has, and its output is in the queues
	status  guestapi.ExitStatus // valid when ended
}

// client is one attached client's share of a session.
type client struct {
	peer  *stream.Peer
	queue []byte
	gone  bool
}

// run passes the shell's output on until it has ended.
func (s *session) run() {
	began := time.Now()
	out := stream.NewOutput(s.tty, true)
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_ = out.Copy(s.publish) // its only failures are those of a terminal that is gone
	}()
	status := stream.ExitStatus(s.proc.Wait())
	status.Seconds = time.Since(began).Seconds()
	out.Stop()
	<-copied

	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended, s.status = true, status
	s.tty.Close()
	s.change.Broadcast()
}

// publish queues output for every client.
func (s *session) publish(b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.allFull() {
		s.change.Wait()
	}
	s.past.write(b)
	for c := range s.clients {
		if len(c.queue)+len(b) > maxQueue {
			s.drop(c)
			// Ends a write that is under way; fails when the client is gone anyway.
			_ = c.peer.SetWriteDeadline(time.Unix(1, 0))
			continue
		}
		c.queue = append(c.queue, b...)
	}
	s.change.Broadcast()
	return nil
}

// allFull says whether there are clients and none wants more yet.
func (s *session) allFull() bool {
	for c := range s.clients {
		if len(c.queue) < highWater {
			return false
		}
	}
	return len(s.clients) > 0
}

func (s *session) drop(c *client) {
	c.gone = true
	delete(s.clients, c)
	s.change.Broadcast()
}

// maxClients bounds the clients of one session.
const maxClients = 32

// attach adds a client, unless the session has ended or has too many.
func (s *session) attach(peer *stream.Peer) (c *client, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil, true
	}
	if len(s.clients) >= maxClients {
		return nil, false
	}
	c = &client{peer: peer, queue: s.past.replay()}
	s.clients[c] = struct{}{}
	return c, false
}

// leave removes a client and says whether it was the last one.
func (s *session) leave(c *client) (last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(c)
	return len(s.clients) == 0
}

func (s *session) attached() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.clients) > 0
}

// next waits for output for c and takes it. more is false when c gets nothing
// further; exit is then the session's end, or nil when c was dropped.
func (s *session) next(c *client, spare []byte) (b []byte, exit *guestapi.ExitStatus, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(c.queue) == 0 && !c.gone && !s.ended {
		s.change.Wait()
	}
	switch {
	case c.gone:
		return nil, nil, false
	case len(c.queue) > 0:
		b, c.queue = c.queue, spare[:0]
		s.change.Broadcast()
		return b, nil, true
	default:
		st := s.status
		return nil, &st, false
	}
}
