package gate

import (
	"context"
	"crypto/x509"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"rigs/internal/keeperapi"
	"rigs/internal/policy"
	"rigs/internal/rig"
	"rigs/internal/upstream"
)

// MaxMTU is the largest MTU: with its Ethernet header a frame still fits the
// stack's largest buffer, 64 KB.
const MaxMTU = 65520

// Resolver looks up names on the host. *net.Resolver is one.
type Resolver interface {
	// LookupNetIP returns the addresses of host, which ends in a dot so that no
	// search domain is tried. network is "ip".
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// DialFunc connects to a numeric address, or to a proxy by its name. It must
// return soon after ctx ends.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// Config is what a gate is made from.
type Config struct {
	Patterns []string // the egress list to start with
	Resolver Resolver // nil: the host's
	Dial     DialFunc // nil: a net.Dialer's

	Proxy      *keeperapi.Proxy // nil: none
	proxyRoots *x509.CertPool   // who may vouch for a proxy in TLS; nil: whom the host trusts

	// Events gets the egress log, one line at a time, in order, from one
	// goroutine while Serve runs. It should return soon; a slow one makes lines
	// be counted together, nothing else. nil: no log.
	Events func(rig.EgressEvent)

	// Ended is called after admissions have ended by themselves, from Expire's
	// goroutine. nil: nobody wants to know.
	Ended func()

	MTU    int // 0: MaxMTU
	Limits Limits
}

// Limits bound what one guest can use. Zero fields mean the default in brackets.
type Limits struct {
	Connections int           // open at once [512]
	Opening     int           // of those, not yet connected on both ends [128]
	Names       int           // synthetic addresses, admitted and others each [4096]
	Lookups     int           // a second, in the long run; eight times as many at once [250]
	Dial        time.Duration // to look up a name and connect to it [15 s]
	FirstBytes  time.Duration // from the first byte of a ClientHello or a request's head to its last [15 s]
	Idle        time.Duration // nothing moves either way [2 h]
	HalfClosed  time.Duration // nothing moves and one side is done [10 min]
}

func (l Limits) withDefaults() Limits {
	for _, f := range []struct {
		n    *int
		size int
	}{{&l.Connections, 512}, {&l.Opening, 128}, {&l.Names, 4096}, {&l.Lookups, 250}} {
		if *f.n == 0 {
			*f.n = f.size
		}
	}
	for _, f := range []struct {
		d *time.Duration
		t time.Duration
	}{{&l.Dial, 15 * time.Second}, {&l.FirstBytes, 15 * time.Second}, {&l.Idle, 2 * time.Hour}, {&l.HalfClosed, 10 * time.Minute}} {
		if *f.d == 0 {
			*f.d = f.t
		}
	}
	return l
}

// Gate is one rig's gate. Its methods may be called at any time, from any
// goroutine.
type Gate struct {
	cfg      Config
	proxies  *upstream.Rules
	names    *names
	dropped  map[string]*atomic.Uint64 // by kind; the map itself never changes
	serving  atomic.Bool
	counters counters

	mu    sync.Mutex // orders changes of the policy against new connections
	list  policy.List
	ends  map[string]time.Time // of the patterns that have one, by spelling
	conns map[*connection]struct{}

	opening int // of conns: those that are not yet connected on both ends; guarded by mu

	look chan struct{} // wakes Expire; holds one token
}

// New makes a gate. The error is a *rig.Problem about a pattern, the proxy or the MTU.
func New(cfg Config) (*Gate, error) {
	list, err := policy.ParseList(cfg.Patterns)
	if err != nil {
		return nil, err
	}
	proxies, err := upstream.New(cfg.Proxy)
	if err != nil {
		return nil, err
	}
	if proxies.TLS() && cfg.proxyRoots == nil {
		// Now, because the keeper gives up reading files before it serves a guest.
		if cfg.proxyRoots, err = x509.SystemCertPool(); err != nil {
			return nil, rig.Errorf(rig.CodeUnavailable, "gate not made: whom this machine trusts cannot be read, and the proxy is an https:// one: %w", err)
		}
	}
	if cfg.MTU == 0 {
		cfg.MTU = MaxMTU
	}
	if cfg.MTU < 576 || cfg.MTU > MaxMTU {
		return nil, rig.Errorf(rig.CodeInvalidRequest, "gate not made: an MTU of %d: it must be from 576 to %d", cfg.MTU, MaxMTU)
	}
	if cfg.Resolver == nil {
		cfg.Resolver = hostResolver{}
	}
	if cfg.Dial == nil {
		cfg.Dial = (&net.Dialer{}).DialContext
	}
	if cfg.Events == nil {
		cfg.Events = func(rig.EgressEvent) {}
	}
	if cfg.Ended == nil {
		cfg.Ended = func() {}
	}
	cfg.Limits = cfg.Limits.withDefaults()
	g := &Gate{
		cfg: cfg, proxies: proxies, names: newNames(cfg.Limits.Names), dropped: map[string]*atomic.Uint64{}, list: list,
		ends: map[string]time.Time{}, conns: map[*connection]struct{}{}, look: make(chan struct{}, 1),
	}
	g.counters.refused, g.counters.unreached = map[string]uint64{}, map[string]uint64{}
	for _, kind := range dropKinds {
		g.dropped[kind] = new(atomic.Uint64)
	}
	return g, nil
}

// Allow adds a pattern. It holds for the next connection; names that were looked
// up before need not be looked up again. Adding one that is there is no error.
//
// An admission with an end (until is not zero) is denied by itself then, see
// Expire. Admitting a pattern again replaces the end that it had.
func (g *Gate) Allow(pattern string, until time.Time) error {
	p, err := policy.Parse(pattern)
	if err != nil {
		return err
	}
	if !until.IsZero() && over(until, time.Now()) {
		return rig.Errorf(rig.CodeInvalidRequest, "egress pattern %q not added: its end has passed: name a later one", p)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	list, err := g.list.With(p)
	if err != nil {
		return err
	}
	g.list = list
	delete(g.ends, p.String())
	if !until.IsZero() {
		g.ends[p.String()] = until
		g.wakeExpire()
	}
	return nil
}

// Deny removes a pattern and closes the connections that no other pattern admits.
// They are closed when it returns as far as the gate is concerned: not one more
// byte is read from either side. A pattern that is not on the list is an error
// with code notFound.
func (g *Gate) Deny(pattern string) error {
	p, err := policy.Parse(pattern)
	if err != nil {
		return err
	}
	g.mu.Lock()
	list, had := g.list.Without(p)
	if !had {
		g.mu.Unlock()
		return rig.Errorf(rig.CodeNotFound, "egress pattern %q not removed: it is not on the list: the list shows the exact spelling", p)
	}
	g.list = list
	delete(g.ends, p.String())
	removed := g.unadmitted()
	g.mu.Unlock()
	for _, c := range removed {
		c.close(errRemoved)
	}
	return nil
}

// unadmitted returns the open connections that the list no longer admits. g.mu is
// held.
func (g *Gate) unadmitted() []*connection {
	var out []*connection
	for c := range g.conns {
		if !c.admitted(g.list) {
			out = append(out, c)
		}
	}
	return out
}

// admitted reports whether a connection may stay. One that is being dialled may as
// long as it has an address to go to. Gate.mu is held.
func (c *connection) admitted(list policy.List) bool {
	if len(c.trying) == 0 {
		return judge(c.flow, list).allow
	}
	return slices.ContainsFunc(c.trying, func(to candidate) bool { return judge(c.flow.to(to), list).allow })
}

// try says that a connection is about to be dialled at these addresses.
func (g *Gate) try(c *connection, to []candidate) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c.trying = to
}

// may judges one of the addresses that a connection is dialled at.
func (g *Gate) may(c *connection, to candidate) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return judge(c.flow.to(to), g.current()).allow
}

// begin takes a new connection in, if the policy and the limits admit it. Taking
// it in and judging it is one step, so that Deny misses none and a burst passes no limit.
func (g *Gate) begin(c *connection) verdict {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.crowded() {
		return deny(ReasonTooMany)
	}
	v := judge(c.flow, g.current())
	if v.allow {
		g.conns[c] = struct{}{}
		g.opening++
	}
	return v
}

// opened says that a connection which began is connected on both ends, or never will be.
func (g *Gate) opened() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.opening--
}

// crowded reports whether no more connections fit. g.mu is held.
func (g *Gate) crowded() bool {
	return len(g.conns) >= g.cfg.Limits.Connections || g.opening >= g.cfg.Limits.Opening
}

// learn adds what became known of an open connection, and judges it again.
func (g *Gate) learn(c *connection, add func(*flow)) verdict {
	g.mu.Lock()
	defer g.mu.Unlock()
	add(&c.flow)
	return judge(c.flow, g.current())
}

// end forgets a connection.
func (g *Gate) end(c *connection) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.conns, c)
	g.counters.out.Add(uint64(c.out.Load()))
	g.counters.in.Add(uint64(c.in.Load()))
}

// full reports whether no more connections fit.
func (g *Gate) full() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.crowded()
}

// open returns the connections of this moment.
func (g *Gate) open() []*connection {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Collect(maps.Keys(g.conns))
}

// Patterns returns the list in its canonical spelling.
func (g *Gate) Patterns() []string { return g.rules().Strings() }

// Dropped returns how many frames were dropped since the gate was made, by kind.
// Kinds that never occurred are left out.
func (g *Gate) Dropped() map[string]uint64 {
	out := map[string]uint64{}
	for kind, n := range g.dropped {
		if v := n.Load(); v > 0 {
			out[kind] = v
		}
	}
	return out
}

// rules returns the policy of this moment. A list is never changed in place.
func (g *Gate) rules() policy.List {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.current()
}
