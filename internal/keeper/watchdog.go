package keeper

import (
	"context"
	"io"
	"time"

	"rigs/internal/rig"
)

// watchdog ends a context when a guest keeps its reader waiting. A reader that
// does not ask, because its own peer is slow, is not the guest's fault.
type watchdog struct {
	limit time.Duration
	timer *time.Timer
	stop  func()
}

func newWatchdog(ctx context.Context, limit time.Duration) (context.Context, *watchdog) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watchdog{limit: limit}
	w.timer = time.AfterFunc(limit, func() {
		cancel(rig.Errorf(rig.CodeTimeout, "the machine sent nothing for %s", limit))
	})
	w.stop = func() {
		w.timer.Stop()
		cancel(nil)
	}
	return ctx, w
}

// reader guards r, and ends the guard of the time before.
func (w *watchdog) reader(r io.Reader) io.Reader {
	w.timer.Stop()
	return guarded{w, r}
}

type guarded struct {
	w *watchdog
	r io.Reader
}

func (g guarded) Read(p []byte) (int, error) {
	g.w.timer.Reset(g.w.limit)
	defer g.w.timer.Stop()
	return g.r.Read(p)
}
