package keeper

import (
	"sync"

	"rigs/internal/keeperapi"
)

// queueLen is how many events wait for a watcher that does not read.
const queueLen = 512

// hub passes events to the watchers.
type hub struct {
	mu       sync.Mutex
	watchers map[chan keeperapi.Event]struct{}
}

// publish never blocks. A watcher that is far behind misses egress events and
// steps, which it can ask for; one that would miss a phase is cut off instead,
// so that nobody believes in a machine that is gone.
func (h *hub) publish(e keeperapi.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watchers {
		if e.Type != "phase" && len(w) > queueLen*3/4 {
			continue
		}
		select {
		case w <- e:
		default:
			delete(h.watchers, w)
			close(w)
		}
	}
}

// watch returns the events from now on, after those of first, and how to stop.
func (h *hub) watch(first []keeperapi.Event) (events <-chan keeperapi.Event, stop func()) {
	w := make(chan keeperapi.Event, queueLen)
	for _, e := range first {
		w <- e
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watchers == nil {
		h.watchers = map[chan keeperapi.Event]struct{}{}
	}
	h.watchers[w] = struct{}{}
	return w, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.watchers, w)
	}
}
