package rigs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"rigs/internal/keeperapi"
	"rigs/internal/rig"
	"rigs/internal/server/placement"
	"rigs/internal/wire"
)

const (
	// bootTimeout bounds a machine's way to ready. Measured: 2 s cold under
	// software emulation; the rest is for a host with much else to do.
	bootTimeout = 3 * time.Minute
	// queueTimeout is the longest that a machine waits for others to have started:
	// several times what a start takes.
	queueTimeout = 20 * time.Second
	// attachPoll is how often a keeper that is starting is tried.
	attachPoll = 2 * time.Millisecond

	// A teardown ends within teardownTimeout whatever a keeper does; a server
	// has 10 s to shut down. These are its parts.
	teardownTimeout = closeTimeout + exitTimeout + killTimeout + endTimeout
	closeTimeout    = 2500 * time.Millisecond // the keeper closes its machine
	exitTimeout     = 500 * time.Millisecond  // and ends
	killTimeout     = time.Second             // or is killed
	endTimeout      = 3 * time.Second         // what is left of the rig is killed and removed
)

// run is the life of a rig. ctx ends when closing was asked for.
func (e *entry) run(ctx context.Context) {
	k, err := e.start(ctx)
	if err != nil {
		e.settle(ctx, "", err)
	} else {
		e.attend(ctx, k)
	}
	e.mu.Lock()
	e.started() // closed while it was in the queue
	e.mu.Unlock()
	e.teardown(ctx)
	e.m.egress.Close(e.r.ID)
	close(e.done)
	e.finish(ctx) // does nothing to a failed one
	e.cancel()
}

// settle moves the rig to where the end of its machine leads, at once: what is
// left of the machine goes afterwards.
func (e *entry) settle(ctx context.Context, why rig.CloseReason, err error) {
	defer e.m.ended(e.r.ID) // the id never changes
	switch {
	case ctx.Err() != nil: // somebody has moved it to closing
	case why != "":
		e.become(ctx, rig.Closing, func(r *rig.Rig) { r.CloseReason = why })
	default:
		p := rig.AsProblem(err)
		if e.become(ctx, rig.Failed, func(r *rig.Rig) { r.Error = p }) {
			e.m.metrics.Failed(e.spec.Surface, p.Code)
		}
	}
}

// start prepares the machine and starts its keeper.
func (e *entry) start(ctx context.Context) (*placement.Keeper, error) {
	p, err := e.m.prepare.Prepare(ctx, e.spec, e.r.Resources, e.step)
	if err != nil {
		return nil, err
	}
	list, err := e.m.imageEgress(ctx, e.spec, e.snapshot().Egress, p.Egress)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	e.r.Image, e.r.Accel, e.r.Egress = p.Image, p.Machine.Accel, list
	cfg := keeperapi.Config{
		RigID: e.r.ID, Machine: p.Machine, Boot: p.Boot, Template: p.Template, HostName: hostName(&e.r),
		Deadline: e.r.ExpiresAt, Egress: slices.Clone(e.r.Egress),
	}
	e.mu.Unlock()
	if err := e.queue(ctx); err != nil {
		return nil, err
	}
	e.step(rig.Step{Text: "Starting the machine"})
	return e.m.place.Start(ctx, cfg)
}

// queue waits until this machine may start. Its place is free for another when
// the rig is no longer provisioning. Machines that never come up must not hold
// up all others, so that after queueTimeout it starts without a place.
func (e *entry) queue(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case e.m.starting <- struct{}{}:
	default:
		e.step(rig.Step{Text: "Waiting for other machines to start"})
		patience := time.NewTimer(queueTimeout)
		defer patience.Stop()
		select {
		case <-patience.C:
			return nil
		case e.m.starting <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.starting = true
	return nil
}

// started gives the place among the starting machines to the next. The caller
// holds e.mu.
func (e *entry) started() {
	if e.starting {
		e.starting = false
		<-e.m.starting
	}
}

// attend follows the keeper from its start to its end.
func (e *entry) attend(ctx context.Context, k *placement.Keeper) {
	e.mu.Lock()
	e.keeper = k
	e.mu.Unlock()
	// The stream of events is the keeper's lifeline. It must outlast ctx: the
	// machine is closed in good order first.
	life, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	events := make(chan keeperapi.Event)
	ended := make(chan error, 1)
	go func() {
		ended <- follow(life, k, events)
		close(events)
	}()
	why, err := e.watch(ctx, events, ended)
	e.settle(ctx, why, err)
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		e.closeKeeper(ctx, k)
		cut()
	}()
	for ev := range events { // what it says while it closes: how its connections ended
		if ev.Egress != nil {
			e.egress(*ev.Egress)
		}
	}
	<-closed
}

// watch follows the events of a keeper until its machine is at its end, and
// returns why the keeper closed it, or how it failed.
func (e *entry) watch(ctx context.Context, events <-chan keeperapi.Event, ended <-chan error) (rig.CloseReason, error) {
	boot := time.NewTimer(bootTimeout)
	defer boot.Stop()
	for {
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-boot.C:
			if e.snapshot().Phase == rig.Provisioning {
				return "", rig.Errorf(rig.CodeTimeout, "the machine was not ready within %v: %s", bootTimeout, e.tail())
			}
		case ev, ok := <-events:
			if !ok {
				return "", rig.Errorf(rig.CodeBackendFailure, "the machine's keeper ended unexpectedly: %w: %s", <-ended, e.tail())
			}
			if why, err := e.handle(ctx, ev); why != "" || err != nil {
				return why, err
			}
		}
	}
}

func (e *entry) tail() string {
	e.mu.Lock()
	k := e.keeper
	e.mu.Unlock()
	if k == nil || k.Tail() == "" {
		return "it logged nothing"
	}
	return k.Tail()
}

// handle notes one event. An error or a reason is the end of the machine.
func (e *entry) handle(ctx context.Context, ev keeperapi.Event) (rig.CloseReason, error) {
	switch {
	case ev.Step != nil:
		e.step(*ev.Step)
	case ev.Egress != nil:
		e.egress(*ev.Egress)
	case ev.Type == "rules":
		e.rules(ctx, ev.Rules)
	case ev.Phase == rig.Ready:
		first := false
		now := e.m.now()
		ok := e.become(ctx, rig.Ready, func(r *rig.Rig) {
			if first = r.ReadyAt.IsZero(); first {
				r.ReadyAt, r.Boot = now, ev.Boot
			}
		})
		if ok && first {
			e.touch(now)
			r := e.snapshot()
			e.m.metrics.Ready(r.Surface, r.Boot, r.ReadyAt.Sub(r.OpenedAt))
		}
	case ev.Phase == rig.Parked:
		e.become(ctx, rig.Parked, nil)
	case ev.Phase == rig.Failed:
		if ev.Error != nil {
			return "", ev.Error
		}
		return "", rig.Errorf(rig.CodeBackendFailure, "the machine failed: %s", e.tail())
	case ev.Phase == rig.Closing, ev.Phase == rig.Closed:
		if ev.Reason != "" {
			return ev.Reason, nil
		}
		return rig.BackendFailure, nil
	}
	return "", nil
}

func (e *entry) touch(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lastUse = now
}

// follow connects to the keeper's events, as soon as it listens, and passes
// them on until the stream ends. It returns how it ended, never nil.
func follow(ctx context.Context, k *placement.Keeper, events chan<- keeperapi.Event) error {
	res, err := attach(ctx, k)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	err = placement.ReadEvents(res.Body, func(ev keeperapi.Event) {
		select {
		case events <- ev:
		case <-ctx.Done():
		}
	})
	if err == nil {
		err = errors.New("its stream of events ended")
	}
	return err
}

func attach(ctx context.Context, k *placement.Keeper) (*http.Response, error) {
	wait, cancel := context.WithTimeout(ctx, keeperapi.AttachTimeout)
	defer cancel()
	poll := time.NewTicker(attachPoll)
	defer poll.Stop()
	for {
		c, err := k.Dial(wait)
		if err == nil {
			c.Close()
			break
		}
		select {
		case <-poll.C:
		case <-k.Done():
			return nil, fmt.Errorf("it ended before it listened: %w", errors.Join(k.Err(), err))
		case <-wait.Done():
			return nil, fmt.Errorf("it does not listen: %w", err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://keeper/v1/events", nil)
	if err != nil {
		return nil, err
	}
	res, err := k.HTTP.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		defer res.Body.Close()
		return nil, wire.ReadProblem(res)
	}
	return res, nil
}

// closeKeeper ends the keeper: asked first, then killed.
func (e *entry) closeKeeper(ctx context.Context, k *placement.Keeper) {
	select {
	case <-k.Done():
		return
	default:
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if err := call(ctx, k, http.MethodPost, "/v1/close", nil, nil); err != nil {
		e.m.log.Warn("a keeper did not close its machine when asked: it is killed", "rig", k.ID, "error", err)
		k.Kill()
	}
	exit := time.NewTimer(exitTimeout)
	defer exit.Stop()
	select {
	case <-k.Done():
		return
	case <-exit.C:
		k.Kill()
	}
	kill := time.NewTimer(killTimeout)
	defer kill.Stop()
	select {
	case <-k.Done():
	case <-kill.C:
		e.m.log.Error("a killed keeper has not ended", "rig", k.ID)
	}
}

// teardown removes whatever is left of the machine.
func (e *entry) teardown(ctx context.Context) {
	e.mu.Lock()
	e.keeper = nil
	id := e.r.ID
	e.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	if err := e.m.place.End(ctx, id); err != nil {
		e.m.log.Error("something of a rig's machine is left: it is swept at the next start", "rig", id, "error", err)
	}
}

// hostName is what a machine calls itself: its surface and its id.
func hostName(r *rig.Rig) string { return string(r.Surface) + "-" + r.ID }
