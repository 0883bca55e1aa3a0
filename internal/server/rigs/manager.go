package rigs

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"rigs/internal/rig"
	"rigs/internal/server/authority"
	"rigs/internal/server/feed"
)

// Config is what a Manager works with. Every field is needed.
type Config struct {
	Store     Store
	Placement Placement
	Preparer  Preparer
	Policy    Policy
	Metrics   Metrics
	Egress    EgressLog
	Feed      *feed.Feed
	Authority *authority.Authority
	Log       *slog.Logger
	// Ended is called when a rig's machine is at its end, or is asked to end.
	Ended func(rigID string)
	// Defaults are the resources of a surface.
	Defaults func(rig.Surface) rig.Resources
	// BudgetBytes bounds the memory of all rigs together.
	BudgetBytes int64
	// Starting is how many machines may start at once; the others wait. A machine
	// that starts keeps a processor busy: more of them at once are all slower, out of
	// proportion when they are emulated.
	Starting int
	// Now is the wall clock.
	Now func() time.Time
}

// Manager owns every rig of the server.
type Manager struct {
	store     Store
	place     Placement
	prepare   Preparer
	policy    Policy
	metrics   Metrics
	egress    EgressLog
	ended     func(rigID string)
	feed      *feed.Feed
	authority *authority.Authority
	log       *slog.Logger
	defaults  func(rig.Surface) rig.Resources
	budget    int64
	clock     func() time.Time

	starting  chan struct{} // holds one value for each machine that starts
	admission sync.Mutex    // one opening looks at the memory budget at a time

	memory  measured
	viewing sync.Mutex
	viewers map[viewerKey]*viewer

	mu      sync.Mutex
	entries map[string]*entry
	stopped bool
	wg      sync.WaitGroup // rigs' goroutines, and a Tick's actions
}

// New returns a Manager without rigs.
func New(c Config) *Manager {
	return &Manager{store: c.Store, place: c.Placement, prepare: c.Preparer, policy: c.Policy, metrics: c.Metrics, egress: c.Egress, ended: c.Ended, feed: c.Feed,
		authority: c.Authority, viewers: map[viewerKey]*viewer{}, log: c.Log, defaults: c.Defaults, budget: c.BudgetBytes, clock: c.Now,
		starting: make(chan struct{}, max(1, c.Starting)), entries: map[string]*entry{}}
}

// now is the wall clock without the monotonic part, which stands still while
// the host is suspended.
func (m *Manager) now() time.Time { return m.clock().Round(0).UTC() }

// Open begins a rig for s, or returns the one that the space has. It does not
// wait for the machine.
func (m *Manager) Open(ctx context.Context, g *authority.Grant, s rig.Spec) (rig.Rig, bool, error) {
	by := g.Who.Principal
	s, res, err := resolve(s, m.defaults, m.policy)
	if err != nil {
		return rig.Rig{}, false, err
	}
	list, err := m.startingEgress(ctx, by, s)
	if err != nil {
		return rig.Rig{}, false, err
	}
	if err := m.prepare.Supports(s.Surface); err != nil { // before there is a row: it would only fail
		return rig.Rig{}, false, err
	}
	m.admission.Lock()
	defer m.admission.Unlock()
	if r, ok := m.existing(s); ok {
		return r, false, nil
	}
	if err := m.admit(ctx, res); err != nil {
		return rig.Rig{}, false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped {
		return rig.Rig{}, false, rig.Errorf(rig.CodeUnavailable, "the server is shutting down: try again when it is back")
	}
	if err := m.ensureSpace(ctx, s.Workspace, s.Space); err != nil {
		return rig.Rig{}, false, err
	}
	now := m.now()
	e := &entry{m: m, spec: s, done: make(chan struct{}), changed: make(chan struct{}), streams: map[Kind]int{}, lastUse: now}
	e.r = rig.Rig{
		ID: rig.NewID(), Workspace: s.Workspace, Space: s.Space, Surface: s.Surface, Engine: s.Engine, Image: s.Image,
		Resources: res, OpenedBy: by.Name, Phase: rig.Provisioning, OpenedAt: now,
		ExpiresAt: now.Add(time.Duration(res.TTLSeconds) * time.Second), Egress: list,
	}
	// Written down before anything exists: whatever kills the server from here
	// on, the next one knows of it.
	if err := m.store.PutRig(ctx, e.r); err != nil {
		return rig.Rig{}, false, rig.Errorf(rig.CodeOf(err), "the rig was not opened: %w", err)
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx)) // a rig outlives the request
	e.cancel = cancel
	m.entries[e.r.ID] = e
	m.metrics.Opened(s.Surface)
	m.log.Info("open", "rig", e.r.ID, "space", s.Space, "surface", s.Surface, "by", by.Name)
	r := e.snapshot()
	e.mu.Lock()
	e.publish(rig.Event{Type: "rig"})
	e.mu.Unlock()
	m.wg.Go(func() { e.run(life) })
	return r, true, nil
}

// existing is the rig that a space has of that surface, unless another one is
// wanted: the oldest live one.
func (m *Manager) existing(s rig.Spec) (rig.Rig, bool) {
	if s.New {
		return rig.Rig{}, false
	}
	for _, e := range m.all() {
		r := e.snapshot()
		if r.Workspace == s.Workspace && r.Space == s.Space && r.Surface == s.Surface && r.Engine == s.Engine && r.Phase.Live() {
			return r, true
		}
	}
	return rig.Rig{}, false
}

func (m *Manager) ensureSpace(ctx context.Context, workspace, space string) error {
	ok, err := m.store.HasWorkspace(ctx, workspace)
	if err != nil {
		return err
	}
	if !ok {
		return rig.Errorf(rig.CodeNotFound, "no workspace %q: make it on the page, or with POST /v1/workspaces", workspace)
	}
	ok, err = m.store.HasSpace(ctx, workspace, space)
	if err != nil || ok {
		return err
	}
	return m.store.AddSpace(ctx, workspace, space, m.now())
}

// overhead is what a machine takes beside its memory, in bytes: measured, the
// keeper and the hypervisor with its translation buffer.
const overhead = 128 << 20

// admit makes room for a machine in the memory budget, or says that there is
// none. The caller holds m.admission.
func (m *Manager) admit(ctx context.Context, res rig.Resources) error {
	nominal := func(r rig.Resources) int64 { return int64(r.MemoryMB)<<20 + overhead }
	need, worst := nominal(res), nominal(res)
	all := m.all()
	for _, e := range all {
		worst += nominal(e.snapshot().Resources)
	}
	if worst <= m.budget {
		return nil // whatever measuring would say
	}
	measured, err := m.place.Resident()
	if err != nil {
		m.log.Warn("memory cannot be measured: counting what machines may take at most", "error", err)
		measured = nil
	}
	var tenants []tenant
	for _, e := range all {
		e.mu.Lock()
		t := tenant{id: e.r.ID, bytes: nominal(e.r.Resources), spared: len(e.using()) > 0 || e.r.Phase != rig.Ready && e.r.Phase != rig.Parked, lastUse: e.lastUse}
		if n, ok := measured[t.id]; ok && e.r.Phase != rig.Provisioning {
			t.bytes = n
		}
		if e.r.Phase == rig.Failed {
			t.bytes = 0
		}
		e.mu.Unlock()
		tenants = append(tenants, t)
	}
	out, ok := evict(tenants, need, m.budget)
	if !ok {
		return rig.Errorf(rig.CodeCapacity, "no room for a machine of %d MB: the budget for all rigs is %d MB and those in use leave too little: close some, open a smaller one (memoryMB), or raise the setting memoryBudgetMB", res.MemoryMB, m.budget>>20)
	}
	for _, id := range out {
		if _, err := m.closeRig(ctx, id, rig.MemoryEvicted); err != nil {
			return err
		}
	}
	return nil
}

// all returns the entries, oldest first.
func (m *Manager) all() []*entry {
	m.mu.Lock()
	out := make([]*entry, 0, len(m.entries))
	for _, e := range m.entries {
		out = append(out, e)
	}
	m.mu.Unlock()
	// OpenedAt and ID never change.
	slices.SortFunc(out, func(a, b *entry) int {
		return cmp.Or(a.r.OpenedAt.Compare(b.r.OpenedAt), cmp.Compare(a.r.ID, b.r.ID))
	})
	return out
}

// List returns the rigs that are not closed, oldest first; empty names match all.
func (m *Manager) List(workspace, space string) []rig.Rig {
	out := []rig.Rig{}
	f := feed.Filter{Workspace: workspace, Space: space}
	for _, e := range m.all() {
		if r := e.snapshot(); f.Admits(r.Workspace, r.Space, r.ID) {
			out = append(out, r)
		}
	}
	return out
}

// Phases counts the rigs that are not closed.
func (m *Manager) Phases() map[rig.Phase]int {
	n := map[rig.Phase]int{}
	for _, e := range m.all() {
		n[e.snapshot().Phase]++
	}
	return n
}

// find resolves a reference to an entry, or to a closed rig.
func (m *Manager) find(ctx context.Context, name, workspace string) (*entry, rig.Rig, error) {
	rf, err := parseRef(name)
	if err != nil {
		return nil, rig.Rig{}, err
	}
	all := m.all()
	views := make([]rig.Rig, len(all))
	for i, e := range all {
		views[i] = e.snapshot()
	}
	id, err := match(views, rf, workspace)
	if err == nil {
		i := slices.IndexFunc(all, func(e *entry) bool { return e.r.ID == id })
		return all[i], views[i], nil
	}
	if rf.prefix == "" || rig.CodeOf(err) != rig.CodeNotFound {
		return nil, rig.Rig{}, err
	}
	closed, serr := m.store.ClosedByPrefix(ctx, rf.prefix)
	switch {
	case serr != nil:
		return nil, rig.Rig{}, serr
	case len(closed) == 1:
		return nil, closed[0], nil
	case len(closed) > 1:
		return nil, rig.Rig{}, rig.Errorf(rig.CodeAmbiguous, "%s is the beginning of several closed rigs' ids: give more of the id", rf.prefix)
	}
	return nil, rig.Rig{}, err
}

// Get returns a rig, closed or not.
func (m *Manager) Get(ctx context.Context, name, workspace string) (rig.Rig, error) {
	_, r, err := m.find(ctx, name, workspace)
	return r, err
}

// Usable returns a rig that can be used, in time if it is parked.
func (m *Manager) Usable(ctx context.Context, name, workspace string) (rig.Rig, error) {
	_, r, err := m.find(ctx, name, workspace)
	if err == nil {
		err = unusable(&r)
	}
	return r, err
}

// WaitReady returns a rig when it is not provisioning any more, or as it is
// when ctx ends.
func (m *Manager) WaitReady(ctx context.Context, name, workspace string) (rig.Rig, error) {
	e, r, err := m.find(ctx, name, workspace)
	if err != nil || e == nil {
		return r, err
	}
	for {
		e.mu.Lock()
		r, changed := e.view(), e.changed
		e.mu.Unlock()
		if r.Phase != rig.Provisioning {
			return r, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return r, nil
		}
	}
}

// granted is the rig that a grant is for: nil, with the rig, when it is closed.
func (m *Manager) granted(ctx context.Context, g *authority.Grant) (*entry, rig.Rig, error) {
	e, r, err := m.find(ctx, g.Target.RigID, "")
	if err == nil && e == nil {
		err = unusable(&r)
	}
	if err == nil { // again: somebody may have taken control since
		err = g.Held(&r)
	}
	return e, r, err
}

// Close closes a rig and returns it when its machine is gone, or when ctx ends.
// Closing a closed one is no error.
func (m *Manager) Close(ctx context.Context, g *authority.Grant) (rig.Rig, error) {
	if e, r, err := m.granted(ctx, g); e != nil && err != nil {
		return r, err
	}
	return m.closeRig(ctx, g.Target.RigID, rig.Requested)
}

// closeRig closes a rig for the reason given.
func (m *Manager) closeRig(ctx context.Context, id string, why rig.CloseReason) (rig.Rig, error) {
	e, r, err := m.find(ctx, id, "")
	if err != nil || e == nil {
		return r, err
	}
	if why != rig.Requested {
		m.authority.Note(ctx, authority.On(&r), "close", "why", string(why))
	}
	e.closing(ctx, why)
	select {
	case <-e.done:
	case <-ctx.Done():
		return e.snapshot(), rig.Errorf(rig.CodeTimeout, "rig %s is still closing: %w", r.ID, ctx.Err())
	}
	e.finish(ctx)
	return e.snapshot(), nil
}

// closing moves the rig to closing, unless it is there, and lets its goroutine know.
func (e *entry) closing(ctx context.Context, why rig.CloseReason) {
	e.become(ctx, rig.Closing, func(r *rig.Rig) { r.CloseReason = why })
	e.cancel()
}

// finish ends the record of a rig whose goroutine has ended.
func (e *entry) finish(ctx context.Context) {
	if !e.become(ctx, rig.Closed, func(r *rig.Rig) { r.ClosedAt = e.m.now() }) {
		return
	}
	e.m.metrics.Closed(e.r.Surface, e.snapshot().CloseReason)
	e.m.mu.Lock()
	delete(e.m.entries, e.r.ID)
	e.m.mu.Unlock()
}

// Drop runs forget, which removes a space's or a workspace's row, and closes
// the rigs that match. No rig is opened in between, so none can be left over. Nothing
// is done when the grant is not one to close each of them.
func (m *Manager) Drop(ctx context.Context, g *authority.Grant, f feed.Filter, why rig.CloseReason, forget func() error) error {
	for _, e := range m.all() {
		if r := e.snapshot(); f.Admits(r.Workspace, r.Space, r.ID) {
			if err := g.Held(&r); err != nil {
				return err
			}
		}
	}
	m.mu.Lock()
	err := forget()
	m.mu.Unlock()
	if err != nil {
		return err
	}
	return m.closeAll(ctx, f, why)
}

func (m *Manager) closeAll(ctx context.Context, f feed.Filter, why rig.CloseReason) error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for _, e := range m.all() {
		r := e.snapshot()
		if !f.Admits(r.Workspace, r.Space, r.ID) {
			continue
		}
		wg.Go(func() {
			_, err := m.closeRig(ctx, r.ID, why)
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Shutdown closes every rig, lets none be opened any more, and waits for all
// that the Manager started, or for ctx.
func (m *Manager) Shutdown(ctx context.Context) error {
	m.mu.Lock()
	m.stopped = true
	m.mu.Unlock()
	err := m.closeAll(ctx, feed.Filter{}, rig.ServerShutdown)
	idle := make(chan struct{})
	go func() { m.wg.Wait(); close(idle) }()
	select {
	case <-idle:
	case <-ctx.Done():
		err = errors.Join(err, ctx.Err())
	}
	return err
}

// Tick does what the time asks for: TTLs and idle windows. It does not wait for
// what it begins.
func (m *Manager) Tick(ctx context.Context, now time.Time) {
	now = now.Round(0)
	m.forgetViewers(now)
	for _, e := range m.all() {
		e.lost(ctx, now)
		e.mu.Lock()
		s := standing{phase: e.r.Phase, inUse: len(e.using()) > 0, lastUse: e.lastUse, expiresAt: e.r.ExpiresAt,
			idle: time.Duration(e.r.Resources.IdleSeconds) * time.Second}
		e.mu.Unlock()
		a := due(s, now)
		if a == nothing || !e.acting.CompareAndSwap(false, true) {
			continue
		}
		m.wg.Go(func() {
			defer e.acting.Store(false)
			if err := e.act(ctx, a, s.lastUse); err != nil {
				m.log.Warn("a rig could not be parked or closed", "rig", e.r.ID, "error", err)
			}
		})
	}
}

func (e *entry) act(ctx context.Context, a action, seen time.Time) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*teardownTimeout)
	defer cancel()
	switch a {
	case park:
		return e.park(ctx, &seen)
	case closeIdle:
		_, err := e.m.closeRig(ctx, e.r.ID, rig.IdleTimeout)
		return err
	case closeTTL:
		_, err := e.m.closeRig(ctx, e.r.ID, rig.TTLExpired)
		return err
	case nothing:
	}
	return nil
}

// Subscribe begins a stream of events and returns, as of its beginning, the
// rigs that match: the live ones, or one named by id in any phase.
func (m *Manager) Subscribe(f feed.Filter) (*feed.Subscription, []rig.Rig) {
	s := m.feed.Subscribe(f)
	var out []rig.Rig
	for _, r := range m.List(f.Workspace, f.Space) {
		if f.Admits(r.Workspace, r.Space, r.ID) && (r.Phase.Live() || f.RigID != "") {
			out = append(out, r)
		}
	}
	return s, out
}
