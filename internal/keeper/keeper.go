package keeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"rigs/internal/keeper/vm"
	"rigs/internal/keeperapi"
	"rigs/internal/rig"
	"rigs/internal/wire"
)

// gateway is the gate as the keeper uses it.
type gateway interface {
	Serve(ctx context.Context, conn net.Conn) error
	Expire(ctx context.Context)
	Allow(pattern string, until time.Time) error
	Deny(pattern string) error
	Patterns() []string
	Entries() []keeperapi.EgressEntry
	Counters() keeperapi.GateCounters
}

// keeper owns one rig.
type keeper struct {
	cfg      keeperapi.Config
	log      *slog.Logger
	gate     gateway
	identity identity
	egress   egressLog
	hub      hub
	rules    sync.Mutex // held from reading the gate's list until it is published

	attached chan struct{}   // closed when the server's event stream has begun
	attach1  sync.Once       //
	gates    sync.WaitGroup  // gate.Serve
	gateCtx  context.Context //nolint:containedctx // the life of the keeper, for what is begun in callbacks
	end      func(rig.CloseReason)
	wake     sync.Mutex // one park or wake at a time

	mu      sync.Mutex
	phase   rig.Phase
	how     string // clone or cold
	reason  rig.CloseReason
	problem *rig.Problem
	last    *rig.Step
	b       booted
	pid     int
	streams map[string]int
	used    time.Time
}

// serveRig is ModeRig, from the first byte to the last.
func serveRig(ctx context.Context, cfg keeperapi.Config, log *slog.Logger) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan rig.CloseReason, 1)
	k := &keeper{
		cfg: cfg, log: log, identity: newIdentity(cfg.HostName), attached: make(chan struct{}), gateCtx: ctx,
		phase: rig.Provisioning, streams: map[string]int{}, used: time.Now(),
		end: func(r rig.CloseReason) {
			select {
			case ended <- r:
			default: // somebody was first
			}
		},
	}
	l, err := listen(cfg.Socket, cfg.ServerUID)
	if err != nil {
		return err
	}
	if k.gate, err = newGate(cfg, k.egressEvent, k.tellRules); err != nil {
		l.Close()
		return err
	}
	srv := &http.Server{
		Handler: k.handler(), ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 32 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	var owned sync.WaitGroup
	owned.Go(func() { _ = srv.Serve(l) }) // ends with Shutdown or Close
	bootCtx, stopBoot := context.WithCancelCause(ctx)
	defer stopBoot(nil)
	ran := make(chan struct{})
	owned.Go(func() {
		defer close(ran)
		k.run(bootCtx)
	})
	owned.Go(func() { k.awaitServer(ctx) })
	owned.Go(func() { k.gate.Expire(ctx) })
	owned.Go(func() {
		if waitDeadline(ctx, cfg.Deadline) == nil {
			k.end(rig.TTLExpired)
		}
	})

	reason := rig.ServerShutdown
	select {
	case reason = <-ended:
	case <-ctx.Done():
	}
	k.close(reason, func() {
		stopBoot(rig.Errorf(rig.CodeGone, "the rig is closed"))
		<-ran
	})
	cancel()
	shutdown(ctx, srv)
	owned.Wait()
	k.gates.Wait()
	if err := os.Remove(cfg.Socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		log.Warn("remove the socket", "err", err)
	}
	return nil
}

// listen makes the socket, for its owner only (the umask is 077). It gets its name when
// it can be connected to, so that whoever sees it can use it.
func listen(path string, uid *int) (net.Listener, error) {
	early := filepath.Join(filepath.Dir(path), ".k")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: early, Net: "unix"})
	if err != nil {
		return nil, rig.Errorf(rig.CodeInternal, "keeper's socket: %w", err)
	}
	l.SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(early, 0o600), os.Rename(early, path)); err != nil {
		_ = l.Close() // err is the one to report
		return nil, rig.Errorf(rig.CodeInternal, "keeper's socket: %w", err)
	}
	if uid != nil {
		return &privateListener{l, *uid}, nil
	}
	return l, nil
}

// privateListener accepts the connections of one user. The socket's mode does not
// keep out the other keepers: they run as the same user, and each is as
// trustworthy as what broke out of its machine.
type privateListener struct {
	*net.UnixListener
	uid int
}

func (l *privateListener) Accept() (net.Conn, error) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if uid, err := wire.PeerUID(c); err == nil && uid == l.uid {
			return c, nil
		}
		_ = c.Close() // nothing was said on it
	}
}

// shutdown lets answers under way go out, briefly, and ends everything else.
func shutdown(ctx context.Context, srv *http.Server) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if srv.Shutdown(ctx) != nil {
		_ = srv.Close() // connections that would not end
	}
}

// awaitServer ends the rig when no server comes for it.
func (k *keeper) awaitServer(ctx context.Context) {
	t := time.NewTimer(keeperapi.AttachTimeout)
	defer t.Stop()
	select {
	case <-k.attached:
	case <-ctx.Done():
	case <-t.C:
		k.log.Warn("no server came")
		k.end(rig.ServerShutdown)
	}
}

// run boots the machine and watches it until it ends or ctx does.
func (k *keeper) run(ctx context.Context) {
	b, how, err := k.boot(ctx)
	if err != nil {
		if ctx.Err() == nil {
			k.fail(err)
		}
		return
	}
	k.mu.Lock()
	k.b, k.how, k.used = b, how, time.Now()
	ok := k.become(rig.Ready, func(e *keeperapi.Event) { e.Boot = how })
	k.mu.Unlock()
	if !ok { // closed meanwhile
		b.kill()
		return
	}
	limitMemory()
	debug.FreeOSMemory()
	select {
	case <-b.machine.Exited():
		k.fail(b.machine.Failure("the machine ended"))
	case <-b.agent.mux.Done():
		// The session breaks a moment before QEMU is seen to have ended.
		k.fail(b.machine.Diagnose(errAgent))
	case <-ctx.Done():
	}
}

// attach connects a machine to the gate.
func (k *keeper) attach(m *vm.Machine) {
	k.mu.Lock()
	k.pid = m.PID()
	k.mu.Unlock()
	k.gates.Go(func() {
		err := k.gate.Serve(k.gateCtx, m.Net)
		k.log.Debug("the gate has ended", "err", err)
	})
}

// become moves to the next phase if the table allows it, and says so. k.mu is
// held.
func (k *keeper) become(next rig.Phase, more func(*keeperapi.Event)) bool {
	if !k.phase.CanBecome(next) {
		return false
	}
	k.phase = next
	k.last = nil
	e := k.phaseEvent()
	if more != nil {
		more(&e)
	}
	k.log.Info("phase", "phase", next, "reason", e.Reason)
	k.hub.publish(e)
	return true
}

func (k *keeper) phaseEvent() keeperapi.Event {
	e := keeperapi.Event{Type: "phase", Phase: k.phase, Reason: k.reason, Error: k.problem}
	if k.phase == rig.Ready || k.phase == rig.Parked {
		e.Boot = k.how
	}
	return e
}

// fail ends the machine and keeps the reason for whoever asks.
func (k *keeper) fail(err error) {
	p := rig.AsProblem(err)
	k.mu.Lock()
	k.problem = p
	ok := k.become(rig.Failed, nil)
	if !ok {
		k.problem = nil
	}
	b := k.b
	k.mu.Unlock()
	if !ok {
		return
	}
	k.log.Error("the rig failed", "err", p)
	if b.machine != nil {
		b.kill()
	}
	if err := removeDisk(filepath.Join(k.cfg.DiskDir, diskName)); err != nil {
		k.log.Warn("after a failure", "err", err)
	}
}

// close ends the machine and removes what it wrote. stop ends what may still be starting a
// machine, and waits for it.
func (k *keeper) close(reason rig.CloseReason, stop func()) {
	k.mu.Lock()
	k.reason = reason
	k.become(rig.Closing, nil)
	k.mu.Unlock()
	stop()
	k.mu.Lock()
	b := k.b
	k.mu.Unlock()
	if b.machine != nil {
		b.kill()
	}
	if err := removeDisk(filepath.Join(k.cfg.DiskDir, diskName)); err != nil {
		k.log.Warn("close", "err", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.become(rig.Closed, nil)
}

func (k *keeper) step(s rig.Step) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last = &s
	k.hub.publish(keeperapi.Event{Type: "step", Step: &s})
}

func (k *keeper) egressEvent(e rig.EgressEvent) {
	k.egress.add(e, func(e rig.EgressEvent) { k.hub.publish(keeperapi.Event{Type: "egress", Egress: &e}) })
}

// watch subscribes to events; the first ones say how things stand.
func (k *keeper) watch() (<-chan keeperapi.Event, func()) {
	k.rules.Lock() // no change may fall between the list and the subscription
	defer k.rules.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	first := []keeperapi.Event{k.phaseEvent(), {Type: "rules", Rules: k.gate.Patterns()}}
	if k.last != nil {
		first = append(first, keeperapi.Event{Type: "step", Step: k.last})
	}
	return k.hub.watch(first)
}

// use returns the agent for an action, waking a parked machine, and counts the
// action as a stream of a kind until done is called.
func (k *keeper) use(ctx context.Context, kind string) (a *agent, done func(), err error) {
	if a, err = k.live(ctx); err != nil {
		return nil, nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.streams[kind]++
	k.used = time.Now()
	return a, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.streams[kind]--
		k.used = time.Now()
	}, nil
}

// live returns the agent of a machine that runs.
func (k *keeper) live(ctx context.Context) (*agent, error) {
	k.mu.Lock()
	phase, b, p := k.phase, k.b, k.problem
	k.mu.Unlock()
	switch phase {
	case rig.Ready:
		return b.agent, nil
	case rig.Parked:
		return b.agent, k.unpark(ctx)
	case rig.Provisioning:
		return nil, rig.Errorf(rig.CodeNotReady, "the machine is still being started: wait until the rig is ready")
	case rig.Failed:
		return nil, rig.Errorf(rig.CodeBackendFailure, "the machine is gone: %s", p.Detail)
	}
	return nil, rig.Errorf(rig.CodeGone, "the rig is closed")
}

// park stops the machine's processors.
func (k *keeper) park(ctx context.Context) error {
	k.wake.Lock()
	defer k.wake.Unlock()
	if k.is(rig.Parked) {
		return nil
	}
	if _, err := k.live(ctx); err != nil {
		return err
	}
	if err := k.b.machine.Pause(ctx); err != nil {
		return k.broken(fmt.Errorf("park the machine: %w", err))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.become(rig.Parked, nil)
	return nil
}

// unpark lets a parked machine go on and gives it the time, which has stood
// still for it, and fresh entropy.
func (k *keeper) unpark(ctx context.Context) error {
	k.wake.Lock()
	defer k.wake.Unlock()
	if !k.is(rig.Parked) {
		return nil // somebody was faster
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if err := k.b.machine.Resume(ctx); err != nil {
		return k.broken(fmt.Errorf("wake the machine: %w", err))
	}
	if err := k.b.agent.rekey(ctx, k.identity); err != nil {
		return k.broken(fmt.Errorf("wake the machine: %w", err))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.used = time.Now()
	k.become(rig.Ready, nil)
	return nil
}

func (k *keeper) is(p rig.Phase) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.phase == p
}

// touch notes use by a stream that is open already; its bytes wake a parked
// machine.
func (k *keeper) touch(ctx context.Context) {
	k.mu.Lock()
	k.used = time.Now()
	parked := k.phase == rig.Parked
	k.mu.Unlock()
	if !parked {
		return
	}
	if err := k.unpark(ctx); err != nil {
		k.log.Warn("wake", "err", err)
	}
}

// broken explains an error of a machine's: when it has ended, that is the
// reason, and everybody is told the same.
func (k *keeper) broken(err error) error {
	k.mu.Lock()
	m := k.b.machine
	k.mu.Unlock()
	select {
	case <-m.Exited():
		return m.Failure("the machine ended")
	default:
	}
	if rig.CodeOf(err) != rig.CodeInternal {
		return err
	}
	return rig.Errorf(rig.CodeBackendFailure, "%w", err)
}

func (k *keeper) status() keeperapi.Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	counters := k.gate.Counters()
	s := keeperapi.Status{
		Phase: k.phase, Boot: k.how, Streams: map[string]int{}, QEMUPID: k.pid, LastUse: k.used, Dropped: counters.Dropped, Gate: counters,
	}
	for kind, n := range k.streams {
		if n > 0 {
			s.Streams[kind] = n
		}
	}
	return s
}
