package rigs

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"rigs/internal/rig"
	"rigs/internal/server/placement"
)

// stepInterval is how often the progress within one step is published.
const stepInterval = 100 * time.Millisecond

// storeTimeout bounds one write to the database.
const storeTimeout = 10 * time.Second

// entry is a rig that is not closed yet.
type entry struct {
	m      *Manager
	spec   rig.Spec
	cancel context.CancelFunc // asks the rig's goroutine to close it
	done   chan struct{}      // closed when that goroutine has ended: no machine is left
	power  sync.Mutex         // one park or wake at a time
	acting atomic.Bool        // a Tick's action is under way

	mu       sync.Mutex
	r        rig.Rig
	changed  chan struct{} // closed at the next change of phase
	keeper   *placement.Keeper
	streams  map[Kind]int
	lastUse  time.Time
	lastStep time.Time // when one was published last
	starting bool      // it has a place among the machines that start

	viewer    string          // whose holder's viewer holds control; "": none that is waited for
	changes   []controlChange // of control, the last ones
	forgotten int             // how many were before
	told      map[string]int  // of an agent: how many it knows of
	lastInput time.Time       // of the last input event that followers were told of
}

// view is the rig as everybody sees it. The caller holds e.mu.
func (e *entry) view() rig.Rig {
	r := e.r
	r.Egress = slices.Clone(r.Egress)
	if r.Step != nil {
		s := *r.Step
		r.Step = &s
	}
	r.InUse = e.using()
	return r
}

// using says in words what counts as use now: an open stream, a person who holds
// control. The caller holds e.mu.
func (e *entry) using() []string {
	out := inUse(e.streams)
	if c := e.r.Control; c != nil {
		out = append(out, "control held by "+c.Holder.Name)
	}
	return out
}

func (e *entry) snapshot() rig.Rig {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.view()
}

// become moves the rig to a phase if the table allows it, with whatever else f
// changes, writes it down and tells everybody.
func (e *entry) become(ctx context.Context, next rig.Phase, f func(*rig.Rig)) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.r.Phase.CanBecome(next) {
		return false
	}
	from := e.r.Phase
	e.r.Phase = next
	e.r.Step = nil // no phase leads to provisioning
	e.started()
	if !next.Live() {
		e.r.Control, e.viewer = nil, ""
	}
	if f != nil {
		f(&e.r)
	}
	close(e.changed)
	e.changed = make(chan struct{})
	log := e.m.log.With("rig", e.r.ID, "from", from, "to", next)
	switch next {
	case rig.Failed:
		log.Error("phase", "code", e.r.Error.Code, "error", e.r.Error.Detail)
	case rig.Closing:
		log.Info("phase", "reason", e.r.CloseReason)
	default:
		log.Info("phase")
	}
	e.save(ctx)
	e.publish(rig.Event{Type: "rig"})
	return true
}

// save writes the rig down. The caller holds e.mu. A database that cannot be
// written must not keep a machine from being closed; the next start puts right
// what a missing write left. Who caused it may have gone: that is no reason.
func (e *entry) save(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if err := e.m.store.PutRig(ctx, e.r); err != nil {
		e.m.log.Error("a rig's state was not written", "rig", e.r.ID, "phase", e.r.Phase, "error", err)
	}
}

// publish sends ev about this rig. The caller holds e.mu, so events are in the
// order of the changes.
func (e *entry) publish(ev rig.Event) {
	ev.RigID = e.r.ID
	if ev.Type == "rig" {
		r := e.view()
		ev.Rig = &r
	}
	e.m.feed.Publish(e.r.Workspace, e.r.Space, ev)
}

// step notes what is being done. A new text is published at once, progress
// within one only now and then.
func (e *entry) step(s rig.Step) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.r.Phase != rig.Provisioning {
		return
	}
	isNew := e.r.Step == nil || e.r.Step.Text != s.Text
	e.r.Step = &s
	now := e.m.now()
	if isNew || now.Sub(e.lastStep) >= stepInterval || s.Total > 0 && s.Done == s.Total {
		e.lastStep = now
		e.publish(rig.Event{Type: "rig"})
	}
}

// rules notes the egress patterns that the gate admits now.
func (e *entry) rules(ctx context.Context, p []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.r.Egress = slices.Clone(p)
	e.save(ctx)
	e.publish(rig.Event{Type: "rules", Rules: slices.Clone(p)})
}

// Kind is what a use of a rig is. An open one keeps the rig from being parked.
type Kind string

// The kinds.
const (
	Exec     Kind = "exec"
	Terminal Kind = "terminal"
	Files    Kind = "files"
)

// inUse says in words what counts as use now.
func inUse(streams map[Kind]int) []string {
	var out []string
	for _, k := range []struct {
		kind      Kind
		one, many string
	}{
		{Exec, "command running", "commands running"},
		{Terminal, "terminal open", "terminals open"},
		{Files, "copy of files", "copies of files"},
	} {
		switch n := streams[k.kind]; {
		case n == 1:
			out = append(out, "1 "+k.one)
		case n > 1:
			out = append(out, fmt.Sprintf("%d %s", n, k.many))
		}
	}
	return out
}

// unusable says why a rig in this phase cannot be used, or nil.
func unusable(r *rig.Rig) error {
	switch r.Phase {
	case rig.Provisioning:
		return rig.Errorf(rig.CodeNotReady, "rig %s is still being made ready: wait for it with 'rigs watch %s' or GET /v1/rigs/%s?wait=ready", r.ID, r.ID, r.ID)
	case rig.Failed:
		why := "its machine died"
		if r.Error != nil {
			why = r.Error.Detail
		}
		return rig.Errorf(rig.CodeBackendFailure, "rig %s has failed: %s: close it and open another", r.ID, why)
	case rig.Closing, rig.Closed:
		return rig.Errorf(rig.CodeGone, "rig %s is %s (%s): open another", r.ID, r.Phase, r.CloseReason)
	case rig.Ready, rig.Parked:
	}
	return nil
}
