package rigs

import (
	"context"
	"strings"
	"time"

	"rigs/internal/rig"
	"rigs/internal/server/authority"
)

// absence is how long a viewer may be gone before the control that it holds is
// given back.
const absence = time.Minute

// viewerKey is a viewer, such as a tab of the page: nobody else can speak for it.
type viewerKey struct {
	by rig.Principal
	id string
}

// viewer is what is known of a viewer's streams of events.
type viewer struct {
	streams int
	left    time.Time // when the last one ended
}

// Watch notes that a viewer's stream of events has begun; what it returns is
// called when it ends. An empty id is of nobody that is waited for.
func (m *Manager) Watch(by rig.Principal, id string) (leave func()) {
	if id == "" {
		return func() {}
	}
	k := viewerKey{by, id}
	m.viewing.Lock()
	defer m.viewing.Unlock()
	v := m.viewers[k]
	if v == nil {
		v = &viewer{}
		m.viewers[k] = v
	}
	v.streams++
	return func() {
		m.viewing.Lock()
		defer m.viewing.Unlock()
		v.streams--
		v.left = m.now()
	}
}

// gone reports whether a viewer has been away for too long. One that never came
// is waited for from since on.
func (m *Manager) gone(k viewerKey, since, now time.Time) bool {
	m.viewing.Lock()
	defer m.viewing.Unlock()
	if v := m.viewers[k]; v != nil {
		if v.streams > 0 {
			return false
		}
		if v.left.After(since) {
			since = v.left
		}
	}
	return now.Sub(since) >= absence
}

// forgetViewers drops those who left long ago.
func (m *Manager) forgetViewers(now time.Time) {
	m.viewing.Lock()
	defer m.viewing.Unlock()
	for k, v := range m.viewers {
		if v.streams == 0 && now.Sub(v.left) >= 2*absence {
			delete(m.viewers, k)
		}
	}
}

// Take gives control of a rig to the grant's principal, exclusively. Somebody
// else's is taken away only with force. id names the viewer that holds it; empty:
// it is held until it is given back.
func (m *Manager) Take(ctx context.Context, g *authority.Grant, id string, force bool) (rig.Rig, error) {
	e, r, err := m.granted(ctx, g)
	if err != nil {
		return r, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := unusable(&e.r); err != nil && e.r.Phase != rig.Provisioning {
		return e.view(), err
	}
	if c := e.r.Control; c != nil && c.Holder == g.Who.Principal {
		e.viewer = id // from another tab
		return e.view(), nil
	}
	if !force {
		if err := authority.Held(authority.On(&e.r), g.Who.Principal); err != nil {
			return e.view(), err
		}
	}
	e.control(&rig.Control{Holder: g.Who.Principal, Since: m.now()}, id)
	return e.view(), nil
}

// Give gives control back. It is no error when nobody holds it.
func (m *Manager) Give(ctx context.Context, g *authority.Grant) (rig.Rig, error) {
	e, r, err := m.granted(ctx, g)
	if err != nil {
		return r, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := authority.Held(authority.On(&e.r), g.Who.Principal); err != nil {
		return e.view(), err
	}
	if e.r.Control != nil {
		e.control(nil, "")
	}
	return e.view(), nil
}

// control changes who holds control, and tells everybody. The caller holds e.mu.
func (e *entry) control(c *rig.Control, id string) {
	old := e.r.Control
	e.r.Control, e.viewer = c, id // replaced, never changed: others read it
	e.lastUse = e.m.now()
	switch {
	case c != nil:
		e.changes = append(e.changes, controlChange{c.Holder.Name, true, c.Since})
	case old != nil:
		e.changes = append(e.changes, controlChange{old.Holder.Name, false, e.lastUse})
	}
	if n := len(e.changes) - maxChanges; n > 0 {
		e.changes, e.forgotten = e.changes[n:], e.forgotten+n
	}
	e.publish(rig.Event{Type: "rig"})
}

// maxChanges is how many changes of control are remembered for those who have
// not been told of them.
const maxChanges = 16

// controlChange is a take-over or a hand-back.
type controlChange struct {
	by    string
	taken bool
	at    time.Time
}

// notice says what an agent has to be told of since it last acted. The caller
// holds e.mu.
func (e *entry) notice(p rig.Principal) []string {
	if p.Kind != rig.Agent {
		return nil
	}
	all := e.forgotten + len(e.changes)
	seen, met := e.told[p.Name]
	if e.told == nil {
		e.told = map[string]int{}
	}
	e.told[p.Name] = all
	if !met {
		return nil // it was not here before
	}
	var out []string
	for _, c := range e.changes[max(0, seen-e.forgotten):] {
		what := " gave control back at "
		if c.taken {
			what = " took control at "
		}
		out = append(out, c.by+what+c.at.Format(time.RFC3339))
	}
	return out
}

// lost gives back the control whose viewer has vanished.
func (e *entry) lost(ctx context.Context, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.r.Control
	if c == nil || e.viewer == "" || !e.m.gone(viewerKey{c.Holder, e.viewer}, c.Since, now) {
		return
	}
	e.control(nil, "")
	e.m.authority.Note(ctx, authority.On(&e.r), "give", "from", c.Holder.Name, "why", "viewerGone")
}

// Audited tells those who follow a rig that its audit log has a new row.
func (m *Manager) Audited(r rig.AuditRow) {
	if m == nil || r.RigID == "" { // the server's own log has no followers
		return
	}
	m.mu.Lock()
	e := m.entries[r.RigID]
	m.mu.Unlock()
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if strings.HasSuffix(r.Action, ".input") && r.Outcome == "allowed" {
		if r.Time.Sub(e.lastInput) < inputInterval {
			return
		}
		e.lastInput = r.Time
	}
	e.publish(rig.Event{Type: "audit", Audit: &r})
}

// inputInterval is how often a rig's followers are told of input that is typed: a
// thousand events a second would only make them fall behind. The log has them all.
const inputInterval = 250 * time.Millisecond
