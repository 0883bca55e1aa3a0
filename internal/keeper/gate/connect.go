package gate

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"

	"rigs/internal/upstream"
)

const (
	// maxUpstreams bounds the addresses of one name that are tried.
	maxUpstreams = 8

	// maxAnswers bounds the addresses of one name that are looked at: an answer can
	// hold thousands, and each is compared with the host's own.
	maxAnswers = 64

	// headStart is how long an address is tried before the next one is tried
	// beside it: the Connection Attempt Delay that RFC 8305 §5 recommends.
	headStart = 250 * time.Millisecond
)

// connection is one admitted flow, from its SYN to its end.
type connection struct {
	flow   flow            // guarded by Gate.mu
	trying []candidate     // what it is being dialled at; guarded by Gate.mu
	proxy  *upstream.Proxy // that it goes through; nil: none
	cancel context.CancelCauseFunc
	began  time.Time

	out, in    atomic.Int64 // bytes from and to the guest
	moved      atomic.Int64 // when bytes moved last, as nanoseconds after began
	halfClosed atomic.Bool

	mu     sync.Mutex
	closed bool
	ends   []func() // what to shut at close
}

// close ends the connection from this side, with a reset to the guest. It waits
// for nobody and may be called more than once; the first cause counts.
func (c *connection) close(cause error) {
	c.cancel(cause)
	c.mu.Lock()
	c.closed = true
	ends := c.ends
	c.ends = nil
	c.mu.Unlock()
	for _, end := range ends {
		end()
	}
}

// onClose has end called when the connection is closed, at once when it was.
func (c *connection) onClose(end func()) {
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.ends = append(c.ends, end)
	}
	c.mu.Unlock()
	if closed {
		end()
	}
}

func (c *connection) age() time.Duration { return time.Since(c.began) }
func (c *connection) touch()             { c.moved.Store(int64(c.age())) }
func (c *connection) idleFor() time.Duration {
	return c.age() - time.Duration(c.moved.Load())
}

func (c *connection) patience(l Limits) time.Duration {
	if c.halfClosed.Load() {
		return l.HalfClosed
	}
	return l.Idle
}

// connect carries out one SYN that looked admissible: it judges it once more as it
// takes it in, resolves, dials, and only then accepts. It runs in a goroutine that
// the stack started, with the request to answer.
func (s *session) connect(ctx context.Context, r *tcp.ForwarderRequest) {
	if !s.enter() {
		r.Complete(true)
		return
	}
	defer s.wg.Done()
	f := s.flowOf(r.ID())
	if f.host = s.gate.names.hold(f.address); f.host != "" {
		defer s.gate.names.release(f.address)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c := &connection{flow: f, proxy: s.gate.proxies.For(f.host, f.port), cancel: cancel, began: time.Now()}
	if v := s.gate.begin(c); !v.allow {
		r.Complete(true)
		s.refuse(f, v)
		return
	}
	defer s.gate.end(c)

	guest, up, v := s.open(ctx, c, r)
	s.gate.opened()
	s.report(c, v)
	if guest == nil {
		return
	}
	defer guest.give()
	s.report(c, s.relay(ctx, c, guest, up))
}

// report logs a step of a connection that was admitted, with what it has moved.
func (s *session) report(c *connection, v verdict) {
	e := event(c.flow, v) // only this goroutine changes the flow
	if v.reason != ReasonAdmitted {
		e.BytesOut, e.BytesIn, e.Seconds = c.out.Load(), c.in.Load(), c.age().Seconds()
	}
	if e.BytesOut == 0 && e.BytesIn == 0 && v.reason != ReasonAdmitted && v.reason != ReasonClosed {
		s.journal.add(e, true) // a failure that a guest may repeat as fast as it likes
		return
	}
	s.journal.happened(e)
}

// open connects both ends, the other one first. When it cannot, the guest was
// told, and the verdict says why.
func (s *session) open(ctx context.Context, c *connection, r *tcp.ForwarderRequest) (*guestConn, net.Conn, verdict) {
	dialing, cancel := context.WithTimeout(ctx, s.gate.cfg.Limits.Dial)
	defer cancel()
	up, v := s.dial(dialing, c)
	if up == nil {
		r.Complete(true)
		return nil, nil, v
	}
	c.onClose(func() { up.Close() })
	guest := s.accept(dialing, c, r)
	if guest == nil {
		up.Close()
		return nil, nil, closedVerdict(ctx, verdict{allow: true, reason: ReasonAbandoned})
	}
	boundKernel(up, guest.share)
	return guest, up, verdict{allow: true, reason: ReasonAdmitted}
}

// boundKernel keeps what the host's kernel holds for a connection to what the stack
// does. By itself it grows its buffers to megabytes, each way, for hundreds of
// connections that a guest does not read. The few with the largest share are left to
// it: they are the ones that have to be fast.
func boundKernel(upstream net.Conn, share int64) {
	if share == largestShare {
		return
	}
	for {
		switch c := upstream.(type) {
		case *tlsConn:
			upstream = c.raw
		case *earlyConn:
			upstream = c.Conn
		case interface {
			SetReadBuffer(bytes int) error
			SetWriteBuffer(bytes int) error
		}:
			_ = c.SetReadBuffer(int(share)) // a connection that is over needs no bound
			_ = c.SetWriteBuffer(int(share))
			return
		default:
			return
		}
	}
}

// closedVerdict says why a connection ended: the cause of ctx if the gate closed
// it, else otherwise.
func closedVerdict(ctx context.Context, otherwise verdict) verdict {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errRemoved):
		return deny(ReasonRemoved)
	case errors.Is(cause, errExpired):
		return deny(ReasonExpired)
	case errors.Is(cause, errIdle):
		return verdict{allow: true, reason: ReasonIdle}
	}
	return otherwise
}

// dial resolves the connection's host and connects to it. A nil connection comes
// with the verdict that says why.
func (s *session) dial(ctx context.Context, c *connection) (net.Conn, verdict) {
	if c.proxy != nil {
		return s.dialProxy(ctx, c)
	}
	failed := func(reason string) (net.Conn, verdict) {
		return nil, closedVerdict(ctx, verdict{allow: true, reason: reason})
	}
	// The dot keeps the host's resolver from trying its search domains: the name
	// that was admitted is the name that is asked for.
	found, err := s.gate.cfg.Resolver.LookupNetIP(ctx, "ip", c.flow.host+".")
	if err != nil || len(found) == 0 {
		return failed(ReasonLookupFailed)
	}
	usable, v := s.usable(c, found[:min(len(found), maxAnswers)])
	if len(usable) == 0 {
		return nil, v
	}
	s.gate.try(c, usable)
	up, to, err := dialFirst(ctx, s.gate.cfg.Dial, usable, c.flow.port, func(to candidate) bool { return s.gate.may(c, to) })
	s.gate.try(c, nil)
	if err != nil {
		v := s.gate.learn(c, func(f *flow) { *f = f.to(usable[0]) })
		switch {
		case errors.Is(err, errNotAnyMore):
			return nil, closedVerdict(ctx, v)
		case errors.Is(err, syscall.ECONNREFUSED):
			return failed(ReasonUpstreamRefused)
		}
		return failed(ReasonUpstreamUnreachable)
	}
	// The policy may have changed meanwhile, and so may this machine's addresses.
	to.own = thisMachine().has(to.addr)
	if v := s.gate.learn(c, func(f *flow) { *f = f.to(to) }); !v.allow {
		up.Close()
		return nil, v
	}
	return up, verdict{allow: true, reason: ReasonAdmitted}
}

// usable returns the addresses of found that the policy admits, in the order in
// which they are to be tried. Without any, the verdict is that about the last one,
// which the log then shows.
func (s *session) usable(c *connection, found []netip.Addr) ([]candidate, verdict) {
	var (
		out  []candidate
		v    verdict
		here = thisMachine()
	)
	for _, a := range found {
		to := candidate{addr: a.Unmap()}
		to.own = here.has(to.addr)
		if v = s.gate.learn(c, func(f *flow) { *f = f.to(to) }); v.allow {
			out = append(out, to)
		}
	}
	return interleave(out), v
}

// interleave orders addresses as RFC 8305 §4 says: families in turn, beginning
// with that of the first, and no more than maxUpstreams.
func interleave(addrs []candidate) []candidate {
	var same, other []candidate
	for _, a := range addrs {
		if a.addr.Is4() == addrs[0].addr.Is4() {
			same = append(same, a)
		} else {
			other = append(other, a)
		}
	}
	var out []candidate
	for i := 0; len(out) < min(len(addrs), maxUpstreams); i++ {
		if i < len(same) {
			out = append(out, same[i])
		}
		if i < len(other) && len(out) < maxUpstreams {
			out = append(out, other[i])
		}
	}
	return out
}

// errNotAnyMore is why an address is not dialled that was admitted before.
var errNotAnyMore = errors.New("the policy changed meanwhile")

// dialFirst connects to the first of addrs that answers, trying the next one when
// one fails or has had its head start. may is asked about each just before: the list
// may have changed since the first. It returns when every attempt has ended. The
// error is that of the first address.
func dialFirst(ctx context.Context, dial DialFunc, addrs []candidate, port int, may func(candidate) bool) (net.Conn, candidate, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		conn net.Conn
		i    int
		err  error
	}
	results := make(chan result)
	attempt := func(i int) {
		if !may(addrs[i]) {
			results <- result{i: i, err: errNotAnyMore}
			return
		}
		conn, err := dial(ctx, "tcp", net.JoinHostPort(addrs[i].addr.String(), strconv.Itoa(port)))
		results <- result{conn, i, err}
	}
	timer := time.NewTimer(headStart)
	defer timer.Stop()
	var (
		won     result
		errs    = make([]error, len(addrs))
		started = 1
		running = 1
	)
	go attempt(0)
	next := func() {
		if won.conn == nil && started < len(addrs) && ctx.Err() == nil {
			go attempt(started)
			started++
			running++
			timer.Reset(headStart)
		}
	}
	for running > 0 {
		select {
		case r := <-results:
			running--
			switch {
			case r.err != nil:
				errs[r.i] = r.err
				next()
			case won.conn == nil:
				won = r
				cancel() // the others have lost
			default:
				r.conn.Close()
			}
		case <-timer.C:
			next()
		}
	}
	if won.conn == nil {
		return nil, candidate{}, errs[0]
	}
	return won.conn, addrs[won.i], nil
}

// guestConn is the guest's end of a connection.
type guestConn struct {
	*gonet.TCPConn
	endpoint tcpip.Endpoint
	queue    *waiter.Queue
	share    int64  // of the stack's memory, each way
	give     func() // returns it
}

// settle waits until the guest has acknowledged everything, the end included, or
// ctx ends. Until then the stack holds data for it, so it counts as open.
func (g *guestConn) settle(ctx context.Context) {
	entry, changed := waiter.NewChannelEntry(waiter.EventHUp)
	g.queue.EventRegister(&entry)
	defer g.queue.EventUnregister(&entry)
	for {
		switch tcp.EndpointState(g.endpoint.State()) {
		case tcp.StateTimeWait, tcp.StateClose, tcp.StateError:
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// accept answers the guest's SYN and waits until the guest has acknowledged. It
// returns nil when the guest does not before ctx ends.
func (s *session) accept(ctx context.Context, c *connection, r *tcp.ForwarderRequest) *guestConn {
	if ctx.Err() != nil {
		r.Complete(true)
		return nil
	}
	g := &guestConn{queue: new(waiter.Queue)}
	done := make(chan struct{})
	var waking sync.WaitGroup
	waking.Go(func() { wake(ctx, g.queue, done) })
	endpoint, err := r.CreateEndpoint(g.queue)
	close(done)
	waking.Wait()
	r.Complete(err != nil)
	if err != nil {
		return nil
	}
	var size int64
	size, g.give = s.buffers.take()
	g.share = size
	endpoint.SocketOptions().SetReceiveBufferSize(size, true)
	endpoint.SocketOptions().SetSendBufferSize(size, true)
	endpoint.SocketOptions().SetDelayOption(false)
	g.endpoint, g.TCPConn = endpoint, gonet.NewTCPConn(g.queue, endpoint)
	c.onClose(endpoint.Abort)
	return g
}

// wake ends the wait of CreateEndpoint when ctx ends. The stack waits for the
// handshake without a deadline, on this very queue; it begins to listen there at
// some time after the call, so one notification could come too early.
func wake(ctx context.Context, queue *waiter.Queue, done <-chan struct{}) {
	select {
	case <-done:
		return
	case <-ctx.Done():
	}
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		queue.Notify(waiter.WritableEvents)
		select {
		case <-done:
			return
		case <-ticker.C:
		}
	}
}
