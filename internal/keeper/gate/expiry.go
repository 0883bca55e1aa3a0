package gate

import (
	"context"
	"time"

	"rigs/internal/keeperapi"
	"rigs/internal/policy"
)

// expiryCheck is how often the clocks are looked at while an admission has an
// end: a timer alone stands still while the host is suspended.
const expiryCheck = 5 * time.Second

// over reports whether an end has come. The wall clock counts, which goes on
// while a host sleeps; and where end was made from a reading of this process's
// clock, so does that one, which nobody can set back.
func over(end, now time.Time) bool {
	return !now.Before(end) || !now.Round(0).Before(end.Round(0))
}

// Expire ends admissions when their time has come, exactly as Deny would, until
// ctx ends. Whoever made the gate runs it, once. No connection waits for it: an
// admission that has ended admits nothing more, even before Expire has noticed.
func (g *Gate) Expire(ctx context.Context) {
	for ctx.Err() == nil {
		var due <-chan time.Time
		if next, some := g.endAdmissions(time.Now()); some {
			due = time.After(min(next, expiryCheck))
		}
		select {
		case <-ctx.Done():
		case <-g.look:
		case <-due:
		}
	}
}

// endAdmissions takes off the list what has ended at now, closes what only that
// admitted, and says in what time the next one ends, if there is one.
func (g *Gate) endAdmissions(now time.Time) (next time.Duration, some bool) {
	g.mu.Lock()
	list := g.admittedAt(now)
	var removed []*connection
	ended := len(list) < len(g.list)
	if ended {
		for _, p := range g.list {
			if end, ok := g.ends[p.String()]; ok && over(end, now) {
				delete(g.ends, p.String())
			}
		}
		g.list = list
		removed = g.unadmitted()
	}
	for _, end := range g.ends {
		if d := end.Sub(now); !some || d < next {
			next, some = d, true
		}
	}
	g.mu.Unlock()
	for _, c := range removed {
		c.close(errExpired)
	}
	if ended {
		g.cfg.Ended()
	}
	return next, some
}

// current returns what the list admits at this moment. g.mu is held.
func (g *Gate) current() policy.List { return g.admittedAt(time.Now()) }

// admittedAt returns the list without what has ended at now. g.mu is held.
func (g *Gate) admittedAt(now time.Time) policy.List {
	ended := false
	for _, end := range g.ends {
		ended = ended || over(end, now)
	}
	if !ended {
		return g.list
	}
	var list policy.List
	for _, p := range g.list {
		if end, ok := g.ends[p.String()]; !ok || !over(end, now) {
			list = append(list, p)
		}
	}
	g.wakeExpire()
	return list
}

func (g *Gate) wakeExpire() {
	select {
	case g.look <- struct{}{}:
	default:
	}
}

// Entries returns the list in its canonical spelling, in the order in which it
// was made, with the ends that there are.
func (g *Gate) Entries() []keeperapi.EgressEntry {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := []keeperapi.EgressEntry{}
	for _, p := range g.current() {
		e := keeperapi.EgressEntry{Pattern: p.String()}
		if end, ok := g.ends[e.Pattern]; ok {
			e.ExpiresAt = end.Round(0).UTC()
		}
		out = append(out, e)
	}
	return out
}
