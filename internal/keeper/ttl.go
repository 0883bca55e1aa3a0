package keeper

import (
	"context"
	"time"
)

// ttlCheck is how often the clocks are looked at: a timer alone stands still
// while the host is suspended.
const ttlCheck = 5 * time.Second

// expired reports whether a rig's time is over. Real time counts: the wall
// clock (which goes on while a host sleeps), or the time that has passed by a clock
// that nobody sets, whichever comes first. Both now and start carry
// a monotonic reading.
func expired(start, deadline, now time.Time) bool {
	wall := !now.Round(0).Before(deadline.Round(0))
	ttl := deadline.Round(0).Sub(start.Round(0))
	return wall || now.Sub(start) >= ttl
}

// waitDeadline returns when the deadline has passed or ctx has ended.
func waitDeadline(ctx context.Context, deadline time.Time) error {
	start := time.Now()
	for !expired(start, deadline, time.Now()) {
		d := min(ttlCheck, max(time.Until(deadline), time.Millisecond))
		t := time.NewTimer(d)
		select {
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		case <-t.C:
		}
	}
	return nil
}
