package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"rigs/internal/keeperapi"
	"rigs/internal/rig"
	"rigs/internal/server/approvals"
	"rigs/internal/server/audit"
	"rigs/internal/server/authority"
	"rigs/internal/server/feed"
	"rigs/internal/server/store"
	"rigs/internal/wire"
)

// measureAuthority times the chokepoint: an action that passes role, guardrails,
// control and audit on its way to a keeper, against asking the keeper directly. The
// keepers are simulated, a socket that answers at once; the database is real and on
// disk. With many rigs each acts at its own pace, so that what is seen is the cost of
// deciding and not of a queue that the bench itself makes.
func measureAuthority(ctx context.Context, _ *bench, rep *report) (err error) {
	c, err := newChokepoint(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	const perRig = 40
	var one float64
	for _, rigs := range []int{1, 200} {
		n, every := 2000, time.Duration(0)
		if rigs > 1 {
			n, every = rigs*perRig, time.Second // of each rig
		}
		direct, err := c.run(ctx, rigs, n/rigs, every, func(ctx context.Context, _ string) error { return c.keeper(ctx) })
		if err != nil {
			return err
		}
		through, err := c.run(ctx, rigs, n/rigs, every, c.act)
		if err != nil {
			return err
		}
		what := "one rig, one action after the other"
		if rigs > 1 {
			what = fmt.Sprintf("%d rigs, each an action a second", rigs)
		}
		rep.add("simulated keeper asked directly, "+what+": 99th percentile", "ms", "", percentile(direct, 99))
		rep.add("the same through the chokepoint: 99th percentile", "ms", "≤ 2 more", percentile(through, 99))
		over := percentile(through, 50) - percentile(direct, 50)
		rep.add("what the chokepoint adds, "+what+": median", "ms", "", over)
		if rigs == 1 {
			one = over
		} else {
			rep.add("growth of that median with the number of rigs", "×", "1", over/one)
		}
	}
	inputs, err := c.inputs(ctx)
	if err != nil {
		return err
	}
	rep.add("1,000 input events a second of one rig: what an action of another takes more, 99th percentile", "ms", "0", inputs)
	return nil
}

func percentile(v []float64, p int) float64 {
	slices.Sort(v)
	return v[min(len(v)-1, len(v)*p/100)]
}

// chokepoint is an authority with a real database, and a keeper that answers at
// once.
type chokepoint struct {
	dir   string
	store *store.Store
	log   *audit.Log
	a     *authority.Authority
	srv   *http.Server
	http  *http.Client
	who   authority.Who
}

func newChokepoint(ctx context.Context) (*chokepoint, error) {
	dir, err := os.MkdirTemp("", "rigs-bench")
	if err != nil {
		return nil, err
	}
	c := &chokepoint{dir: dir, who: authority.Who{Principal: rig.Principal{Name: "agent", Kind: rig.Agent}}}
	if c.store, err = store.Open(ctx, filepath.Join(dir, "rigs.db")); err != nil {
		return nil, err
	}
	quiet := slog.New(slog.DiscardHandler)
	if c.log, err = audit.Open(ctx, audit.Config{Database: c.store, KeyFile: filepath.Join(dir, "audit.key"), Log: quiet}); err != nil {
		return nil, err
	}
	desk := approvals.New(&feed.Feed{}, time.Now, quiet)
	if c.a, err = authority.New(ctx, authority.Config{Store: c.store, Audit: c.log, Desk: desk, Log: quiet, Now: time.Now}); err != nil {
		return nil, err
	}
	if err := c.a.PutMember(ctx, store.Member{Workspace: authority.Everywhere, Principal: "agent", Role: rig.Member}); err != nil {
		return nil, err
	}
	for i := range 50 { // more rules than anybody has
		if _, err := c.a.AddRule(ctx, "default", rig.Rule{Class: rig.ProcessSpawn, Effect: rig.Deny, Space: fmt.Sprintf("other-%d", i)}, "bench"); err != nil {
			return nil, err
		}
	}
	sock := filepath.Join(dir, "keeper")
	l, err := net.Listen("unix", sock) //nolint:noctx // it does not block
	if err != nil {
		return nil, err
	}
	c.srv = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		wire.WriteJSON(w, keeperapi.ExecResult{Stdout: []byte("done\n")})
	})}
	go c.srv.Serve(l) //nolint:errcheck // ends with close
	dialer := &net.Dialer{}
	c.http = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, "unix", sock)
	}}}
	return c, nil
}

func (c *chokepoint) close() error {
	return errors.Join(c.srv.Close(), c.log.Close(), c.store.Close(), os.RemoveAll(c.dir))
}

func (c *chokepoint) keeper(ctx context.Context) error {
	var out keeperapi.ExecResult
	return wire.Call(ctx, c.http, http.MethodPost, "http://keeper/v1/exec", keeperapi.ExecCollect{}, &out, 1<<20, wire.ReadProblem)
}

func (c *chokepoint) act(ctx context.Context, id string) error {
	g, err := c.a.Begin(ctx, c.who, authority.Target{Workspace: "default", Space: "bench", RigID: id}, authority.Exec.With("run true", "command", "true"))
	if err != nil {
		return err
	}
	err = c.keeper(ctx)
	g.End(ctx, err)
	return err
}

// run has each of some rigs act a number of times, and returns how long each action
// took, in milliseconds. Each rig begins at its own part of every.
func (c *chokepoint) run(ctx context.Context, rigs, each int, every time.Duration, act func(ctx context.Context, id string) error) ([]float64, error) {
	var mu sync.Mutex
	var all []float64
	var errs error
	var wg sync.WaitGroup
	for i := range rigs {
		wg.Go(func() {
			id := fmt.Sprintf("rig%07d", i)
			took := make([]float64, 0, each)
			next := time.Now().Add(every * time.Duration(i) / time.Duration(rigs))
			var err error
			for range each {
				time.Sleep(time.Until(next))
				next = next.Add(every)
				var s float64
				if s, err = seconds(func() error { return act(ctx, id) }); err != nil {
					break
				}
				took = append(took, s*1000)
			}
			mu.Lock()
			defer mu.Unlock()
			all, errs = append(all, took...), errors.Join(errs, err)
		})
	}
	wg.Wait()
	return all, errs
}

// inputs is what 1,000 input events a second of one rig add to the 99th percentile of
// the actions of another.
func (c *chokepoint) inputs(ctx context.Context) (float64, error) {
	const n, every = 1000, 5 * time.Millisecond
	quiet, err := c.run(ctx, 1, n, every, c.act)
	if err != nil {
		return 0, err
	}
	typing, stop := context.WithCancel(ctx)
	typed := make(chan error, 1)
	go func() {
		g, err := c.a.Begin(ctx, c.who, authority.Target{Workspace: "default", Space: "bench", RigID: "typist0000"}, authority.Attach)
		for tick := time.NewTicker(time.Millisecond); err == nil && typing.Err() == nil; {
			<-tick.C
			err = g.Input(ctx, nil, "input", []byte("x"))
		}
		typed <- err
	}()
	busy, err := c.run(ctx, 1, n, every, c.act)
	stop()
	return percentile(busy, 99) - percentile(quiet, 99), errors.Join(err, <-typed)
}
