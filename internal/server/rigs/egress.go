package rigs

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"rigs/internal/keeperapi"
	"rigs/internal/rig"
	"rigs/internal/server/egress"
	"rigs/internal/server/store"
)

// EgressLog keeps what gates decided; egress.Log does.
type EgressLog interface {
	// Append notes an event and returns it as it is to be believed, or false.
	Append(rigID string, e rig.EgressEvent) (rig.EgressEvent, bool)
	After(ctx context.Context, rigID string, seq int64) (keeperapi.EgressLog, error)
	Close(rigID string)
}

// statusTimeout bounds how long keepers are waited for that are only counted.
const statusTimeout = time.Second

// effective is a default list with what a workspace adds and removes.
func effective(defaults []string, c store.EgressChange) []string {
	out := []string{}
	for _, p := range slices.Concat(defaults, c.Add) {
		if !slices.Contains(c.Remove, p) && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// Pattern is the one spelling of an egress pattern, or says what is wrong with it.
func (m *Manager) Pattern(p string) (string, error) {
	s, err := m.policy.Canonical(p)
	if err != nil {
		return "", rig.FieldErrorf("pattern", "%w", err)
	}
	return s, nil
}

// DefaultEgress is the list that rigs of a surface start with in a workspace.
func (m *Manager) DefaultEgress(ctx context.Context, workspace string, s rig.Surface) ([]string, error) {
	changes, err := m.store.WorkspaceEgress(ctx, workspace)
	return effective(m.policy.Defaults(s), changes[s]), err
}

// EffectiveEgress is the list that results from changes of a surface's defaults.
func (m *Manager) EffectiveEgress(s rig.Surface, c store.EgressChange) []string {
	return effective(m.policy.Defaults(s), c)
}

// startingEgress is the list that the rig of a specification starts with. An agent
// names nothing that a person has not admitted before.
func (m *Manager) startingEgress(ctx context.Context, by rig.Principal, s rig.Spec) ([]string, error) {
	defaults, err := m.DefaultEgress(ctx, s.Workspace, s.Surface)
	if err != nil {
		return nil, err
	}
	if by.Kind == rig.Agent {
		for _, a := range s.Allow {
			if !m.policy.Covers(defaults, a) {
				p := rig.Errorf(rig.CodeDenied, "%s is an agent and may not admit %s: a person decides that: open the rig without it, then ask with POST /v1/rigs/{rig}/egress/ask ('rigs egress RIG ask HOST')", by.Name, a)
				p.Field = "allow"
				return nil, p
			}
		}
	}
	return patterns(s, defaults), nil
}

// imageEgress adds what an image needs to the list of a rig that starts, unless
// its workspace removes it.
func (m *Manager) imageEgress(ctx context.Context, s rig.Spec, list, image []string) ([]string, error) {
	if s.NoDefaults {
		return list, nil
	}
	changes, err := m.store.WorkspaceEgress(ctx, s.Workspace)
	for _, p := range effective(image, store.EgressChange{Remove: changes[s.Surface].Remove}) {
		if !slices.Contains(list, p) {
			list = append(list, p)
		}
	}
	return list, err
}

// egress notes one decision of the gate.
func (e *entry) egress(ev rig.EgressEvent) {
	ev, ok := e.m.egress.Append(e.r.ID, ev) // the id never changes
	if !ok {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.publish(rig.Event{Type: "egress", Egress: &ev})
}

// EgressLog is what the gate of a rig decided after the event with number after,
// also of a closed one. What is missing on disk a live rig's keeper may still have.
func (m *Manager) EgressLog(ctx context.Context, name, workspace string, after int64) (keeperapi.EgressLog, error) {
	e, r, err := m.find(ctx, name, workspace)
	if err != nil {
		return keeperapi.EgressLog{}, err
	}
	kept, err := m.egress.After(ctx, r.ID, after)
	if err != nil || e == nil || len(kept.Events) > 0 && kept.Lost == 0 {
		return kept, err
	}
	e.mu.Lock()
	k := e.keeper
	e.mu.Unlock()
	if k == nil {
		return kept, nil
	}
	var said keeperapi.EgressLog
	if err := call(ctx, k, http.MethodGet, "/v1/egress/log?after="+strconv.FormatInt(after, 10), nil, &said); err != nil {
		m.log.Debug("a keeper was not asked for its egress log", "rig", r.ID, "error", err)
		return kept, nil // it may be closing just now
	}
	said = believed(said, after, m.now())
	if len(kept.Events) > 0 && (len(said.Events) == 0 || said.Events[0].Seq >= kept.Events[0].Seq) {
		return kept, nil
	}
	return said, nil
}

// believed is the part of a keeper's answer that can be one.
func believed(l keeperapi.EgressLog, after int64, now time.Time) keeperapi.EgressLog {
	out := keeperapi.EgressLog{Events: []rig.EgressEvent{}}
	last := after
	for _, e := range l.Events {
		if !egress.Check(&e, now) || e.Seq <= last {
			continue
		}
		if len(out.Events) == 0 {
			out.Lost = e.Seq - last - 1
		}
		out.Events = append(out.Events, e)
		last = e.Seq
	}
	return out
}

// Statuses asks the keepers of all rigs that are not closed how they are. Those
// that do not answer soon are left out of the answers.
func (m *Manager) Statuses(ctx context.Context) (answers map[string]keeperapi.Status, live []string) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	out := map[string]keeperapi.Status{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, e := range m.all() {
		e.mu.Lock()
		id, k := e.r.ID, e.keeper
		e.mu.Unlock()
		live = append(live, id)
		if k == nil {
			continue
		}
		wg.Go(func() {
			var s keeperapi.Status
			if call(ctx, k, http.MethodGet, "/v1/status", nil, &s) == nil {
				mu.Lock()
				defer mu.Unlock()
				out[id] = s
			}
		})
	}
	wg.Wait()
	return out, live
}
