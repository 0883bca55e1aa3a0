package gate

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rigs/internal/keeperapi"
	"rigs/internal/rig"
)

// E14: an admission that ends is a denial: the open connection is closed, the next
// one refused, and the keeper told.
func TestAdmissionsEnd(t *testing.T) {
	p := newPeer(t, "keep.test:7")
	for host, addr := range map[string]string{"keep.test": "1.2.3.4", "brief.test": "1.2.3.5"} {
		p.world.name(host, addr)
		p.world.serve(t, addr+":7", echo)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); p.gate.Expire(ctx) }()
	defer func() { cancel(); <-done }()

	kept := p.mustConnect("keep.test", 7)
	// Long enough to connect on a busy machine: the end is brought nearer once it is.
	if err := p.gate.Allow("brief.test:7", time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	c := p.mustConnect("brief.test", 7)
	roundTrip(t, c, "admitted")
	if err := p.gate.Allow("brief.test:7", time.Now().Add(50*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	mustEnd(t, c)
	if e := p.log.reason(t, ReasonExpired, "brief.test"); e.Verdict != "deny" || e.BytesOut != 8 || e.BytesIn != 8 {
		t.Errorf("the connection of an admission that ended: %+v", e)
	}
	p.mustRefuseName("brief.test", 7)
	roundTrip(t, kept, "still here")
	if got := p.gate.Patterns(); !slices.Equal(got, []string{"keep.test:7"}) {
		t.Errorf("patterns: %q", got)
	}
}

func TestExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told atomic.Int32
		g, err := New(Config{Patterns: []string{"ever.test"}, Ended: func() { told.Add(1) }})
		if err != nil {
			t.Fatal(err)
		}
		allow := func(pattern string, d time.Duration) {
			t.Helper()
			var until time.Time
			if d != 0 {
				until = time.Now().Add(d)
			}
			if err := g.Allow(pattern, until); err != nil {
				t.Fatal(err)
			}
		}
		start := time.Now().UTC()
		allow("a.test", time.Minute)
		allow("b.test", time.Hour)
		allow("c.test", 0)
		want := []keeperapi.EgressEntry{
			{Pattern: "ever.test"}, {Pattern: "a.test", ExpiresAt: start.Add(time.Minute)},
			{Pattern: "b.test", ExpiresAt: start.Add(time.Hour)}, {Pattern: "c.test"},
		}
		if got := g.Entries(); !slices.Equal(got, want) {
			t.Errorf("entries %+v, want %+v", got, want)
		}
		// What has ended admits nothing, whether or not anybody has noticed.
		time.Sleep(time.Minute)
		if got := g.Patterns(); !slices.Equal(got, []string{"ever.test", "b.test", "c.test"}) || told.Load() != 0 {
			t.Errorf("a minute later: %q, told %d times", got, told.Load())
		}
		go g.Expire(t.Context())
		synctest.Wait()
		if told.Load() != 1 {
			t.Errorf("told %d times of one end", told.Load())
		}

		// Admitting again replaces the end: with none, and with another.
		allow("b.test", 0)
		allow("c.test", 2*time.Minute)
		time.Sleep(90 * time.Second)
		allow("c.test", 2*time.Minute)
		time.Sleep(time.Minute)
		if got := g.Patterns(); !slices.Contains(got, "c.test") || told.Load() != 1 {
			t.Errorf("a longer end is forgotten: %q", got)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := g.Patterns(); !slices.Equal(got, []string{"ever.test", "b.test"}) || told.Load() != 2 {
			t.Errorf("%q, told %d times", got, told.Load())
		}

		// Removed is removed: its end does not come back with it.
		allow("d.test", time.Minute)
		if err := g.Deny("d.test"); err != nil {
			t.Fatal(err)
		}
		if err := g.Allow("d.test", time.Time{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if got := g.Patterns(); !slices.Contains(got, "d.test") {
			t.Errorf("%q", got)
		}
		if err := g.Allow("e.test", time.Now()); rig.CodeOf(err) != rig.CodeInvalidRequest {
			t.Errorf("an end that has passed: %v", err)
		}
	})
}

// The wall clock counts where the other one stood still, as in a suspended host,
// and the other one where somebody sets the clock back.
func TestOver(t *testing.T) {
	now := time.Now()
	wall := now.Round(0)
	for _, tc := range []struct {
		name string
		end  time.Time
		want bool
	}{
		{"later", now.Add(time.Second), false},
		{"now", now, true},
		{"before", now.Add(-time.Second), true},
		{"later, by the wall clock", wall.Add(time.Second), false},
		{"before, by the wall clock", wall.Add(-time.Second), true},
	} {
		if got := over(tc.end, now); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}
