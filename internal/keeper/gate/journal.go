package gate

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"rigs/internal/rig"
)

// Bounds of the egress log: what a guest can make its keeper write.
const (
	journalRate  = 50  // lines a second, in the long run
	journalBurst = 200 // lines at once
	journalQueue = 512 // lines that wait for a slow reader
	journalKeys  = 512 // kinds of refusals that are counted apart

	// The first of a kind is logged at once. What repeats is counted and logged
	// once a window; the window doubles while it goes on.
	firstWindow = time.Second
	lastWindow  = time.Minute
)

// journal turns what happens into lines of the egress log, in order, one at a
// time, and no more of them than the bounds allow: what does not fit is counted
// into a line that stands for many. It never blocks the one who reports.
type journal struct {
	out func(rig.EgressEvent)

	mu      sync.Mutex
	limit   *rate.Limiter
	queue   []rig.EgressEvent
	tallies map[journalKey]*tally
	wake    chan struct{} // holds one token when there is something to do

	seq int64 // of the last line; only run touches it
}

// journalKey is what makes two lines alike.
type journalKey struct {
	verdict, reason, protocol, host, address string
	port                                     int
}

// tally counts the lines of one key since its last line.
type tally struct {
	sum    rig.EgressEvent // Count is 0 when nothing came since
	window time.Duration
	due    time.Time
}

func newJournal(out func(rig.EgressEvent)) *journal {
	return &journal{
		out: out, limit: rate.NewLimiter(journalRate, journalBurst),
		tallies: map[journalKey]*tally{}, wake: make(chan struct{}, 1),
	}
}

// refused logs a refusal. Like ones are counted together.
func (j *journal) refused(e rig.EgressEvent) {
	e.Verdict = verdictDeny
	j.add(e, true)
}

// happened logs something that has a line of its own as long as there is room.
func (j *journal) happened(e rig.EgressEvent) { j.add(e, false) }

func (j *journal) add(e rig.EgressEvent, repeats bool) {
	e.Time, e.Count = time.Now().UTC(), 1
	j.mu.Lock()
	defer j.mu.Unlock()
	key := journalKey{e.Verdict, e.Reason, e.Protocol, e.Host, e.Address, e.Port}
	if t, ok := j.tallies[key]; ok {
		t.add(e)
		return
	}
	if len(j.queue) < journalQueue && j.limit.AllowN(e.Time, 1) {
		j.queue = append(j.queue, e)
		if repeats && len(j.tallies) < journalKeys {
			j.tallies[key] = newTally(e)
		}
		j.signal()
		return
	}
	// No room: one line for all with this reason. There are few of these keys.
	key = journalKey{verdict: e.Verdict, reason: e.Reason, protocol: e.Protocol}
	e.Host, e.Address, e.Port = "", "", 0
	t, ok := j.tallies[key]
	if !ok {
		t = newTally(e)
		j.tallies[key] = t
		j.signal()
	}
	t.add(e)
}

func newTally(e rig.EgressEvent) *tally {
	t := &tally{sum: e, window: firstWindow, due: e.Time.Add(firstWindow)}
	t.reset()
	return t
}

func (t *tally) reset() { t.sum.Count, t.sum.BytesIn, t.sum.BytesOut, t.sum.Seconds = 0, 0, 0, 0 }

func (t *tally) add(e rig.EgressEvent) {
	t.sum.Count++
	t.sum.BytesIn += e.BytesIn
	t.sum.BytesOut += e.BytesOut
	t.sum.Seconds += e.Seconds
}

func (j *journal) signal() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// collect takes what is to be written at now, and says when to look again (the
// zero time: when woken). With all set, no tally waits for its window.
func (j *journal) collect(now time.Time, all bool) (lines []rig.EgressEvent, next time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	lines, j.queue = j.queue, nil
	for key, t := range j.tallies {
		if !all && now.Before(t.due) {
			if next.IsZero() || t.due.Before(next) {
				next = t.due
			}
			continue
		}
		if t.sum.Count == 0 {
			delete(j.tallies, key)
			continue
		}
		line := t.sum
		line.Time = now
		lines = append(lines, line)
		t.reset()
		t.window = min(2*t.window, lastWindow)
		t.due = now.Add(t.window)
		if next.IsZero() || t.due.Before(next) {
			next = t.due
		}
	}
	return lines, next
}

// run writes lines until ctx ends, and then what is left.
func (j *journal) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			j.write(j.collect(time.Now().UTC(), true))
			return
		case <-timer.C:
		case <-j.wake:
		}
		lines, next := j.collect(time.Now().UTC(), false)
		j.write(lines, next)
		if next.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(next))
		}
	}
}

func (j *journal) write(lines []rig.EgressEvent, _ time.Time) {
	for _, e := range lines {
		if e.Count == 1 {
			e.Count = 0 // a line that stands for itself says nothing about it
		}
		j.seq++
		e.Seq = j.seq
		j.out(e)
	}
}
