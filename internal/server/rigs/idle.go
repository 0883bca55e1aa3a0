package rigs

import (
	"cmp"
	"slices"
	"time"

	"rigs/internal/rig"
)

// action is what time asks for.
type action int

const (
	nothing action = iota
	park
	closeIdle
	closeTTL
)

// standing is what the rules of SPEC §12 look at.
type standing struct {
	phase     rig.Phase
	inUse     bool
	lastUse   time.Time
	expiresAt time.Time
	idle      time.Duration
}

// due is the whole of the rules about time: the TTL always, and unless it is in
// use, parked after the idle window and closed after twice that.
func due(s standing, now time.Time) action {
	if !s.phase.Live() {
		return nothing
	}
	if !now.Before(s.expiresAt) {
		return closeTTL
	}
	if s.inUse || s.phase == rig.Provisioning {
		return nothing
	}
	switch idle := now.Sub(s.lastUse); {
	case idle >= 2*s.idle:
		return closeIdle
	case idle >= s.idle && s.phase == rig.Ready:
		return park
	}
	return nothing
}

// tenant is what the memory budget looks at.
type tenant struct {
	id      string
	bytes   int64
	spared  bool // in use, or not yet ready
	lastUse time.Time
}

// evict chooses who has to go so that need more bytes fit into budget: the
// least recently used first, nobody who is spared. It returns false when that
// is not enough.
func evict(all []tenant, need, budget int64) ([]string, bool) {
	for _, t := range all {
		need += t.bytes
	}
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b tenant) int { return cmp.Compare(a.lastUse.UnixNano(), b.lastUse.UnixNano()) })
	var out []string
	for _, t := range all {
		if need <= budget {
			break
		}
		if !t.spared {
			out = append(out, t.id)
			need -= t.bytes
		}
	}
	return out, need <= budget
}
