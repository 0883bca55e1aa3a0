package gate

import (
	"maps"
	"sync"
	"sync/atomic"

	"rigs/internal/keeperapi"
	"rigs/internal/rig"
)

// counters count what the gate did since it was made. Unlike the log they leave
// nothing out. Their keys are reasons, of which there are few.
type counters struct {
	lookups   atomic.Uint64
	admitted  atomic.Uint64
	out, in   atomic.Uint64 // of connections that are over
	mu        sync.Mutex
	refused   map[string]uint64
	unreached map[string]uint64
}

// note counts one line of the log before it is counted together with others.
func (c *counters) note(e rig.EgressEvent) {
	switch {
	case e.Verdict == verdictDeny:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.refused[e.Reason]++
	case e.Reason == ReasonAdmitted:
		c.admitted.Add(1)
	case e.Reason != ReasonClosed && e.Reason != ReasonIdle:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.unreached[e.Reason]++
	}
}

// Counters returns what the gate did since it was made. Bytes are those of open
// connections, too.
func (g *Gate) Counters() keeperapi.GateCounters {
	g.mu.Lock()
	out := keeperapi.GateCounters{Open: len(g.conns), BytesOut: g.counters.out.Load(), BytesIn: g.counters.in.Load()}
	for c := range g.conns {
		out.BytesOut += uint64(c.out.Load())
		out.BytesIn += uint64(c.in.Load())
	}
	g.mu.Unlock()
	out.Lookups, out.Admitted, out.Dropped = g.counters.lookups.Load(), g.counters.admitted.Load(), g.Dropped()
	g.counters.mu.Lock()
	defer g.counters.mu.Unlock()
	out.Refused, out.Unreached = maps.Clone(g.counters.refused), maps.Clone(g.counters.unreached)
	return out
}
