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

	// lookupHold is how long a refused lookup waits for the connection that usually
	// follows at once: then that one's line says all there is to say.
	lookupHold = time.Second
)

// journal turns what happens into lines of the egress log, in order, one at a
// time, and no more of them than the bounds allow: what does not fit is counted
// into a line that stands for many. It never blocks the one who reports.
type journal struct {
	out   func(rig.EgressEvent)
	named func(host string) bool // whether the policy knows it by now
	count func(rig.EgressEvent)  // sees everything, before it is counted together

	mu      sync.Mutex
	limit   *rate.Limiter
	queue   []rig.EgressEvent
	tallies map[journalKey]*tally
	lookups map[string]*lookup // refused, by host, in the last lookupHold
	wake    chan struct{}      // holds one token when there is something to do

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

// lookup is a refused lookup whose line is held back.
type lookup struct {
	event rig.EgressEvent // Count is 0 when a connection has said it
	due   time.Time
}

func newJournal(out func(rig.EgressEvent), named func(host string) bool) *journal {
	return &journal{
		out: out, named: named, count: func(rig.EgressEvent) {}, limit: rate.NewLimiter(journalRate, journalBurst),
		tallies: map[journalKey]*tally{}, lookups: map[string]*lookup{}, wake: make(chan struct{}, 1),
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
	j.count(e)
	j.mu.Lock()
	defer j.mu.Unlock()
	if isLookup(e) && j.hold(e) {
		return
	}
	j.enter(e, repeats)
}

// enter puts a line into the queue, or counts it. j.mu is held.
func (j *journal) enter(e rig.EgressEvent, repeats bool) {
	key := keyOf(e)
	if t, ok := j.tallies[key]; ok {
		t.add(e)
		j.said(e)
		return
	}
	if len(j.queue) < journalQueue && j.limit.AllowN(time.Now(), 1) {
		j.queue = append(j.queue, e)
		j.said(e)
		if repeats && len(j.tallies) < journalKeys {
			j.tallies[key] = newTally(e, time.Now().UTC())
		}
		j.signal()
		return
	}
	// No room: one line for all with this reason. There are few of these keys.
	key = journalKey{verdict: e.Verdict, reason: e.Reason, protocol: e.Protocol}
	e.Host, e.Address, e.Port = "", "", 0
	t, ok := j.tallies[key]
	if !ok {
		t = newTally(e, time.Now().UTC())
		j.tallies[key] = t
		j.signal()
	}
	t.add(e)
}

func keyOf(e rig.EgressEvent) journalKey {
	return journalKey{e.Verdict, e.Reason, e.Protocol, e.Host, e.Address, e.Port}
}

// isLookup reports whether e is a lookup of a name that the policy does not know.
func isLookup(e rig.EgressEvent) bool {
	return e.Protocol == protoDNS && e.Reason == ReasonNotAdmitted
}

// hold keeps a lookup for the connection that may follow. It is false when that
// cannot be: there are too many, or its like was told already. j.mu is held.
func (j *journal) hold(e rig.EgressEvent) bool {
	if _, told := j.tallies[keyOf(e)]; told {
		return false
	}
	if l, ok := j.lookups[e.Host]; ok {
		if l.event.Count > 0 {
			l.event.Count++
		}
		return true
	}
	if len(j.lookups) >= journalKeys {
		return false
	}
	j.lookups[e.Host] = &lookup{e, e.Time.Add(lookupHold)}
	j.signal()
	return true
}

// said notes that a line about a connection tells what the lookups of its host
// would. j.mu is held.
func (j *journal) said(e rig.EgressEvent) {
	if e.Protocol == protoDNS || e.Host == "" {
		return
	}
	if l, ok := j.lookups[e.Host]; ok {
		l.event.Count = 0
	}
	lookups := rig.EgressEvent{Verdict: verdictDeny, Reason: ReasonNotAdmitted, Protocol: protoDNS, Host: e.Host}
	if t, ok := j.tallies[keyOf(lookups)]; ok {
		t.reset()
	}
}

// release enters the lookups that no connection followed. j.mu is held.
func (j *journal) release(now time.Time, all bool) (next time.Time) {
	for host, l := range j.lookups {
		if !all && now.Before(l.due) {
			if next.IsZero() || l.due.Before(next) {
				next = l.due
			}
			continue
		}
		delete(j.lookups, host)
		if l.event.Count > 0 {
			j.enter(l.event, true)
		}
	}
	return next
}

func newTally(e rig.EgressEvent, now time.Time) *tally {
	t := &tally{sum: e, window: firstWindow, due: now.Add(firstWindow)}
	t.reset()
	return t
}

func (t *tally) reset() { t.sum.Count, t.sum.BytesIn, t.sum.BytesOut, t.sum.Seconds = 0, 0, 0, 0 }

func (t *tally) add(e rig.EgressEvent) {
	t.sum.Count += e.Count
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
	next = j.release(now, all)
	lines, j.queue = j.queue, nil
	for key, t := range j.tallies {
		if !all && now.Before(t.due) {
			if next.IsZero() || t.due.Before(next) {
				next = t.due
			}
			continue
		}
		if t.sum.Count == 0 || isLookup(t.sum) && t.sum.Host != "" && j.named(t.sum.Host) {
			delete(j.tallies, key) // nothing new; or it was told, and is admitted by now
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
