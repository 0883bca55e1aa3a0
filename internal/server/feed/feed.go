// Package feed passes events from whoever has them to whoever listens, without
// ever making the first wait for the second: a subscriber that does not keep up
// is dropped, and learns it because its channel is closed.
package feed

import (
	"sync"

	"rigs/internal/rig"
)

// backlog is how many events a subscriber may be behind.
const backlog = 256

// Filter selects events; empty fields match all.
type Filter struct {
	Workspace, Space, RigID string
	// Sees, if set, says which workspaces are seen at all.
	Sees func(workspace string) bool
}

// Admits reports whether an event about r passes.
func (f Filter) Admits(workspace, space, id string) bool {
	return (f.Workspace == "" || f.Workspace == workspace) && (f.Space == "" || f.Space == space) && (f.RigID == "" || f.RigID == id) &&
		(f.Sees == nil || f.Sees(workspace))
}

// Feed is the hub. The zero value is ready.
type Feed struct {
	mu     sync.Mutex
	subs   map[*Subscription]struct{}
	closed bool
}

// Subscription receives events until it is closed.
type Subscription struct {
	// C is closed when the subscriber fell behind, or the feed was closed.
	C      <-chan rig.Event
	c      chan rig.Event
	filter Filter
	feed   *Feed
}

// Subscribe begins a subscription, which the caller closes.
func (f *Feed) Subscribe(filter Filter) *Subscription {
	c := make(chan rig.Event, backlog)
	s := &Subscription{C: c, c: c, filter: filter, feed: f}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		close(c)
		return s
	}
	if f.subs == nil {
		f.subs = map[*Subscription]struct{}{}
	}
	f.subs[s] = struct{}{}
	return s
}

// Close ends the subscription.
func (s *Subscription) Close() {
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	s.feed.drop(s)
}

// drop is called with the lock held.
func (f *Feed) drop(s *Subscription) {
	if _, ok := f.subs[s]; ok {
		delete(f.subs, s)
		close(s.c)
	}
}

// Publish passes e, which is about a rig of that workspace and space, on.
func (f *Feed) Publish(workspace, space string, e rig.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for s := range f.subs {
		if !s.filter.Admits(workspace, space, e.RigID) {
			continue
		}
		select {
		case s.c <- e:
		default:
			f.drop(s)
		}
	}
}

// Close ends every subscription, and those to come.
func (f *Feed) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for s := range f.subs {
		f.drop(s)
	}
}
