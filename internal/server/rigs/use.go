package rigs

import (
	"context"
	"errors"
	"net/http"
	"time"

	"rigs/internal/rig"
	"rigs/internal/server/authority"
	"rigs/internal/server/placement"
	"rigs/internal/wire"
)

// maxAnswer bounds a keeper's JSON answer, in bytes: an exec's two outputs in
// base64, or an egress log.
const maxAnswer = 8 << 20

// Use is one use of a rig that is under way. It ends with Done.
type Use struct {
	Rig    rig.Rig
	Keeper *placement.Keeper
	e      *entry
	kind   Kind
	grant  *authority.Grant
}

// Use begins a use of a rig, which was granted: the one way to its keeper. A
// parked rig is woken first. Until Done the rig counts as in use.
func (m *Manager) Use(ctx context.Context, g *authority.Grant, kind Kind) (*Use, error) {
	e, r, err := m.granted(ctx, g)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	err = unusable(&e.r)
	if err == nil { // and nobody takes control in between
		err = g.Held(&e.r)
	}
	if err != nil {
		e.mu.Unlock()
		return nil, err
	}
	u := &Use{Keeper: e.keeper, e: e, kind: kind, grant: g}
	e.streams[kind]++
	e.publish(rig.Event{Type: "rig"})
	parked := e.r.Phase == rig.Parked
	e.mu.Unlock()
	if parked || !e.power.TryLock() {
		err = e.wake(ctx) // also when it is being parked just now
	} else {
		e.power.Unlock()
	}
	if err == nil && u.Keeper == nil {
		err = rig.Errorf(rig.CodeBackendFailure, "rig %s has no machine any more", r.ID)
	}
	if err != nil {
		u.Done()
		return nil, err
	}
	u.Rig = e.snapshot()
	return u, nil
}

// Done ends the use.
func (u *Use) Done() {
	e := u.e
	now := e.m.now()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.streams[u.kind]--; e.streams[u.kind] <= 0 {
		delete(e.streams, u.kind)
	}
	e.lastUse = now
	if e.r.Phase.Live() {
		e.publish(rig.Event{Type: "rig"})
	}
}

// Input writes down one input event of the use's stream. An error means that it
// must not reach the rig: somebody else holds control, or it cannot be recorded.
func (u *Use) Input(ctx context.Context, kind string, content []byte) error {
	u.e.mu.Lock()
	c := u.e.r.Control
	u.e.lastUse = u.e.m.now()
	u.e.mu.Unlock()
	return u.grant.Input(ctx, c, kind, content)
}

// Notices are what an agent has to be told with its answer: control was taken, or
// given back, since it was told last.
func (u *Use) Notices() []string {
	u.e.mu.Lock()
	defer u.e.mu.Unlock()
	return u.e.notice(u.grant.Who.Principal)
}

// Failed turns an error on the way to a keeper into one about the rig.
func (u *Use) Failed(err error) error { return keeperError(u.Rig.ID, err) }

func keeperError(id string, err error) error {
	var p *rig.Problem
	switch {
	case err == nil, errors.As(err, &p):
		return err
	case errors.Is(err, context.Canceled):
		return rig.Errorf(rig.CodeCanceled, "rig %s: the request was given up: %w", id, err)
	case errors.Is(err, context.DeadlineExceeded):
		return rig.Errorf(rig.CodeTimeout, "rig %s: its machine did not answer in time: %w", id, err)
	}
	return rig.Errorf(rig.CodeBackendFailure, "rig %s: its machine does not answer: %w: see its state with 'rigs ls'", id, err)
}

// Look asks the keeper of a rig for something that changes nothing. It works on a
// parked rig and is not a use of it.
func (m *Manager) Look(ctx context.Context, name, workspace, path string, out any) error {
	e, r, err := m.find(ctx, name, workspace)
	if err != nil {
		return err
	}
	return e.ask(ctx, &r, http.MethodGet, path, nil, out)
}

// Change asks the keeper of a rig to change something about it that is not in the
// machine, which was granted. It works on a parked rig and is not a use of it.
func (m *Manager) Change(ctx context.Context, g *authority.Grant, path string, in, out any) error {
	e, r, err := m.granted(ctx, g)
	if err != nil {
		return err
	}
	return e.ask(ctx, &r, http.MethodPost, path, in, out)
}

func (e *entry) ask(ctx context.Context, r *rig.Rig, method, path string, in, out any) error {
	if e == nil {
		return unusable(r)
	}
	e.mu.Lock()
	err := unusable(&e.r)
	k := e.keeper
	e.mu.Unlock()
	if err == nil && k == nil {
		err = rig.Errorf(rig.CodeBackendFailure, "rig %s has no machine any more", r.ID)
	}
	if err != nil {
		return err
	}
	return keeperError(r.ID, call(ctx, k, method, path, in, out))
}

// Call is one JSON request of a use that is under way.
func (u *Use) Call(ctx context.Context, method, path string, in, out any) error {
	return u.Failed(call(ctx, u.Keeper, method, path, in, out))
}

// call is one JSON request to a keeper.
func call(ctx context.Context, k *placement.Keeper, method, path string, in, out any) error {
	err := wire.Call(ctx, k.HTTP, method, "http://keeper"+path, in, out, maxAnswer, wire.ReadProblem)
	if errors.Is(err, wire.ErrAnswer) {
		return rig.Errorf(rig.CodeBackendFailure, "rig %s: its keeper answered what the server does not understand: %w", k.ID, err)
	}
	return err
}

// powerTimeout bounds stopping and starting a machine's processors.
const powerTimeout = 10 * time.Second

// Park stops a rig's processors. It is refused while the rig is in use.
func (m *Manager) Park(ctx context.Context, g *authority.Grant) (rig.Rig, error) {
	e, r, err := m.granted(ctx, g)
	if err != nil {
		return r, err
	}
	err = e.park(ctx, nil)
	return e.snapshot(), err
}

// Wake lets a parked rig go on.
func (m *Manager) Wake(ctx context.Context, g *authority.Grant) (rig.Rig, error) {
	e, r, err := m.granted(ctx, g)
	if err != nil {
		return r, err
	}
	e.touch(m.now())
	err = e.wake(ctx)
	return e.snapshot(), err
}

// park stops the machine. With seen, only if it was not used since.
func (e *entry) park(ctx context.Context, seen *time.Time) error {
	e.power.Lock()
	defer e.power.Unlock()
	e.mu.Lock()
	err := unusable(&e.r)
	k, phase, busy, used := e.keeper, e.r.Phase, e.using(), seen != nil && !e.lastUse.Equal(*seen)
	e.mu.Unlock()
	switch {
	case err != nil:
		return err
	case phase == rig.Parked || seen != nil && (used || len(busy) > 0):
		return nil
	case len(busy) > 0:
		return rig.Errorf(rig.CodeConflict, "rig %s is in use (%s): it is not parked", k.ID, busy[0])
	}
	ctx, cancel := context.WithTimeout(ctx, powerTimeout)
	defer cancel()
	if err := call(ctx, k, http.MethodPost, "/v1/park", nil, nil); err != nil {
		return keeperError(k.ID, err)
	}
	e.become(ctx, rig.Parked, nil)
	return nil
}

// wake starts the machine, if it is parked.
func (e *entry) wake(ctx context.Context) error {
	e.power.Lock()
	defer e.power.Unlock()
	e.mu.Lock()
	err := unusable(&e.r)
	k, phase := e.keeper, e.r.Phase
	e.mu.Unlock()
	if err != nil || phase == rig.Ready {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, powerTimeout)
	defer cancel()
	if err := call(ctx, k, http.MethodPost, "/v1/wake", nil, nil); err != nil {
		return keeperError(k.ID, err)
	}
	e.become(ctx, rig.Ready, nil)
	return nil
}
