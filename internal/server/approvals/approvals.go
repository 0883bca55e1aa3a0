// Package approvals is the desk at which questions to people wait for an
// answer: an agent wants a host admitted, or does something whose guardrail says
// ask.
//
// # Trust
//
// Who asks may be hostile: it may ask without end, and what it says may try to
// look like something else on the screen of who answers. So questions are
// bounded in number, rate and length, and text is kept to printable characters
// and line ends. Only people answer, each question once; the first answer counts.
//
// # One answer, one effect
//
// What an answer causes is done by the kind's Effect, between the decision and
// everybody learning of it: an approval that says approved has had its effect.
// While the effect is under way the question takes no other answer. A question
// about an action is never shared: an answer lets one action happen.
//
// # Memory
//
// Everything is in memory. A restart cancels what was pending, together with the
// request that waited for it. Expiry compares with the wall clock, at each Tick
// and at each look.
package approvals

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/time/rate"

	"rigs/internal/rig"
	"rigs/internal/server/feed"
	"rigs/internal/serverapi"
)

// The bounds.
const (
	MaxPending      = 256 // questions without an answer, in all
	MaxPendingByOne = 16  // and of one asker
	MaxFinal        = 200 // answered ones that are remembered
	DefaultTimeout  = 5 * time.Minute
	MaxTimeout      = time.Hour
	maxPattern      = 512
	maxReason       = 1000
	maxSummary      = 1000
	maxVerb         = 64
	maxNote         = 1000
	maxLimiters     = 1024
	asksPerSecond   = 1 // of one asker, after a burst
	asksBurst       = 2 * MaxPendingByOne
	ellipsis        = "…"
)

// Filter selects approvals; empty fields match all.
type Filter struct {
	Workspace, Space, RigID string
	State                   rig.ApprovalState
}

func (f Filter) admits(a *rig.Approval) bool {
	return feed.Filter{Workspace: f.Workspace, Space: f.Space, RigID: f.RigID}.Admits(a.Workspace, a.Space, a.RigID) &&
		(f.State == "" || f.State == a.State)
}

// Effect does what an answer causes. It may change a, such as the pattern's
// spelling. When it fails the question stays open, unless the error's code is
// gone: then it is canceled.
type Effect func(ctx context.Context, by rig.Principal, a *rig.Approval, approve bool, ans serverapi.ApprovalAnswer) error

// Desk holds the questions. It is safe for several goroutines. Make it with New.
type Desk struct {
	feed *feed.Feed
	now  func() time.Time
	log  *slog.Logger

	effects map[string]Effect

	mu       sync.Mutex
	all      []*question // oldest first
	watchers map[*watcher]struct{}
	limiters map[string]*rate.Limiter
	closed   bool
}

type question struct {
	a        rig.Approval
	claimed  bool // an answer is having its effect
	canceled bool // meanwhile the rig went away
	done     chan struct{}
}

type watcher struct {
	by        rig.Principal
	workspace string // "": all
	may       func(workspace string) bool
	left      time.Time // zero: it is here
}

// New returns a desk without questions.
func New(f *feed.Feed, now func() time.Time, log *slog.Logger) *Desk {
	return &Desk{feed: f, now: func() time.Time { return now().Round(0).UTC() }, log: log, effects: map[string]Effect{},
		watchers: map[*watcher]struct{}{}, limiters: map[string]*rate.Limiter{}}
}

// Handle sets the effect of answers to a kind of question. It is called before
// the desk is used.
func (d *Desk) Handle(kind string, f Effect) { d.effects[kind] = f }

// clean makes a string of the asker's fit to be shown: bounded, valid, and
// without characters that a screen would act on.
func clean(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return utf8.RuneError
	}, strings.TrimSpace(s))
	if len(s) <= most {
		return s
	}
	s = s[:most-len(ellipsis)]
	for !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s + ellipsis
}

// Ask puts a question, whose Kind, Workspace, Space, RigID, By and content a
// holds, and returns it with its id. A timeout of 0 means DefaultTimeout. Asking
// for the same pattern again returns the question that is pending.
func (d *Desk) Ask(ctx context.Context, a rig.Approval, timeout time.Duration) (rig.Approval, error) {
	if err := ctx.Err(); err != nil {
		return rig.Approval{}, rig.Errorf(rig.CodeCanceled, "the question was not put: %w", err)
	}
	a.Reason, a.Summary, a.Verb = clean(a.Reason, maxReason), clean(a.Summary, maxSummary), clean(a.Verb, maxVerb)
	if len(a.Pattern) > maxPattern {
		return rig.Approval{}, rig.FieldErrorf("pattern", "the pattern has %d bytes: the most is %d", len(a.Pattern), maxPattern)
	}
	timeout = min(cmp.Or(max(timeout, 0), DefaultTimeout), MaxTimeout)

	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	d.expire(now)
	if d.closed {
		return rig.Approval{}, rig.Errorf(rig.CodeUnavailable, "the server is shutting down: nobody can be asked")
	}
	pending, own := 0, 0
	for _, q := range d.all {
		if q.a.State != rig.Pending {
			continue
		}
		pending++
		if q.a.By != a.By {
			continue
		}
		own++
		if same(&q.a, &a) {
			return q.a, nil
		}
	}
	switch {
	case own >= MaxPendingByOne:
		return rig.Approval{}, rig.Errorf(rig.CodeCapacity, "%d questions of %s are waiting for an answer already: wait for one of them", own, a.By.Name)
	case pending >= MaxPending:
		return rig.Approval{}, rig.Errorf(rig.CodeCapacity, "%d questions are waiting for an answer already: try again when some were answered", pending)
	case !d.limiter(a.By).AllowN(now, 1):
		return rig.Approval{}, rig.Errorf(rig.CodeCapacity, "%s asks too much: try again in some seconds", a.By.Name)
	}
	a.ID, a.State, a.CreatedAt, a.ExpiresAt = rig.NewID(), rig.Pending, now, now.Add(timeout)
	a.AnsweredAt, a.AnsweredBy, a.Note = time.Time{}, "", ""
	d.all = append(d.all, &question{a: a, done: make(chan struct{})})
	d.log.Info("approval asked", "approval", a.ID, "kind", a.Kind, "rig", a.RigID, "by", a.By.Name, "pattern", a.Pattern, "verb", a.Verb)
	d.publish(a)
	return a, nil
}

// same tells questions that one answer settles. Those about actions never are:
// each answer lets one action happen.
func same(a, b *rig.Approval) bool {
	return a.Kind == rig.ApprovalEgress && b.Kind == a.Kind && a.RigID == b.RigID && a.Pattern == b.Pattern
}

// limiter is called with the lock held. Principals are few, as a person makes
// each; the bound is for a server that has seen very many over time.
func (d *Desk) limiter(p rig.Principal) *rate.Limiter {
	key := string(p.Kind) + "/" + p.Name
	l := d.limiters[key]
	if l == nil {
		if len(d.limiters) >= maxLimiters {
			clear(d.limiters)
		}
		l = rate.NewLimiter(asksPerSecond, asksBurst)
		d.limiters[key] = l
	}
	return l
}

// publish is called with the lock held, so events are in the order of changes.
func (d *Desk) publish(a rig.Approval) {
	d.feed.Publish(a.Workspace, a.Space, rig.Event{Type: "approval", RigID: a.RigID, Approval: &a})
}

// settle gives a question its final state. It is called with the lock held.
func (d *Desk) settle(q *question, state rig.ApprovalState, now time.Time, by, note string) {
	q.a.State, q.a.AnsweredAt, q.a.AnsweredBy, q.a.Note = state, now, by, note
	q.claimed = false
	close(q.done)
	d.log.Info("approval "+string(state), "approval", q.a.ID, "rig", q.a.RigID, "by", by)
	d.publish(q.a)
	final := 0
	for _, x := range d.all {
		if x.a.State != rig.Pending {
			final++
		}
	}
	d.all = slices.DeleteFunc(d.all, func(x *question) bool {
		if x.a.State == rig.Pending || final <= MaxFinal {
			return false
		}
		final--
		return true
	})
}

// expire is called with the lock held.
func (d *Desk) expire(now time.Time) {
	for _, q := range slices.Clone(d.all) {
		if q.a.State == rig.Pending && !q.claimed && !now.Before(q.a.ExpiresAt) {
			d.settle(q, rig.Expired, now, "", "")
		}
	}
}

// Tick lets questions expire.
func (d *Desk) Tick() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.expire(d.now())
}

// find is called with the lock held.
func (d *Desk) find(id string) (*question, error) {
	for _, q := range d.all {
		if q.a.ID == id {
			return q, nil
		}
	}
	return nil, rig.Errorf(rig.CodeNotFound, "no approval %q: it was answered long ago, or the server was restarted since: see 'rigs approvals'", clean(id, maxVerb))
}

// Get returns an approval as it is.
func (d *Desk) Get(id string) (rig.Approval, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.expire(d.now())
	q, err := d.find(id)
	if err != nil {
		return rig.Approval{}, err
	}
	return q.a, nil
}

// Wait returns an approval when it is final, or as it is, with an error, when
// ctx ends.
func (d *Desk) Wait(ctx context.Context, id string) (rig.Approval, error) {
	d.mu.Lock()
	d.expire(d.now())
	q, err := d.find(id)
	d.mu.Unlock()
	if err != nil {
		return rig.Approval{}, err
	}
	select {
	case <-q.done:
	case <-ctx.Done():
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if q.a.State == rig.Pending {
		err = ctx.Err()
	}
	return q.a, err
}

// Answer answers a question, once: the first answer counts and later ones are a
// conflict. It returns when the answer has had its effect.
func (d *Desk) Answer(ctx context.Context, id string, by rig.Principal, approve bool, ans serverapi.ApprovalAnswer) (rig.Approval, error) {
	d.mu.Lock()
	d.expire(d.now())
	q, err := d.find(id)
	if err == nil {
		err = d.claim(q, by, approve, ans)
	}
	if err != nil {
		d.mu.Unlock()
		return rig.Approval{}, err
	}
	a := q.a
	d.mu.Unlock()

	if approve && ans.TTLSeconds != nil {
		a.TTLSeconds = *ans.TTLSeconds
	}
	if approve && ans.Pattern != "" {
		a.Pattern = ans.Pattern
	}
	if f := d.effects[a.Kind]; f != nil {
		err = f(ctx, by, &a, approve, ans)
	}

	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	switch {
	case err == nil && approve:
		q.a.Pattern, q.a.TTLSeconds = a.Pattern, a.TTLSeconds
		d.settle(q, rig.Approved, now, by.Name, clean(ans.Note, maxNote))
	case err == nil:
		d.settle(q, rig.Denied, now, by.Name, clean(ans.Note, maxNote))
	case q.canceled, rig.CodeOf(err) == rig.CodeGone:
		d.settle(q, rig.Canceled, now, "", "")
	default:
		q.claimed = false // it can be answered again; time goes on
		d.expire(now)
	}
	return q.a, err
}

// claim reserves a question for one answer. It is called with the lock held.
func (d *Desk) claim(q *question, by rig.Principal, approve bool, ans serverapi.ApprovalAnswer) error {
	switch {
	case by.Kind != rig.Person:
		return rig.Errorf(rig.CodeForbidden, "%s is an agent, and only people answer approvals", by.Name)
	case q.claimed:
		return rig.Errorf(rig.CodeConflict, "approval %s is being answered by somebody else", q.a.ID)
	case q.a.State == rig.Approved || q.a.State == rig.Denied:
		return rig.Errorf(rig.CodeConflict, "approval %s was %s by %s already", q.a.ID, q.a.State, q.a.AnsweredBy)
	case q.a.State == rig.Expired:
		return rig.Errorf(rig.CodeConflict, "approval %s has expired: it has to be asked again", q.a.ID)
	case q.a.State == rig.Canceled:
		return rig.Errorf(rig.CodeConflict, "approval %s was canceled: who asked has gone, or the rig was closed", q.a.ID)
	case q.a.Kind != rig.ApprovalEgress && (ans.Pattern != "" || ans.TTLSeconds != nil):
		return rig.FieldErrorf("pattern", "approval %s is about an action: it takes neither a pattern nor a time", q.a.ID)
	case q.a.Kind != rig.ApprovalAction && ans.Remember != "":
		return rig.FieldErrorf("remember", "approval %s is about a host: to admit one for all rigs from now on, add it to the workspace's defaults ('rigs policy egress add')", q.a.ID)
	case !approve && (ans.Pattern != "" || ans.TTLSeconds != nil):
		return rig.FieldErrorf("pattern", "a denial takes neither a pattern nor a time")
	case ans.Remember != "" && d.effects[q.a.Kind] == nil:
		return rig.FieldErrorf("remember", "this server keeps no rules: leave remember out")
	}
	q.claimed = true
	return nil
}

// Cancel ends a question whose asker has gone. It does nothing to a final one.
func (d *Desk) Cancel(id string) {
	d.cancel(func(a *rig.Approval) bool { return a.ID == id })
}

// CancelRig ends the questions about a rig that is at its end.
func (d *Desk) CancelRig(rigID string) {
	d.cancel(func(a *rig.Approval) bool { return rigID != "" && a.RigID == rigID })
}

func (d *Desk) cancel(which func(*rig.Approval) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	for _, q := range slices.Clone(d.all) {
		switch {
		case q.a.State != rig.Pending || !which(&q.a):
		case q.claimed:
			q.canceled = true
		default:
			d.settle(q, rig.Canceled, now, "", "")
		}
	}
}

// Close cancels every question and takes no more.
func (d *Desk) Close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.cancel(func(*rig.Approval) bool { return true })
}

// List returns the approvals that match, newest first.
func (d *Desk) List(f Filter) []rig.Approval {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.expire(d.now())
	out := []rig.Approval{}
	for _, q := range slices.Backward(d.all) {
		if f.admits(&q.a) {
			out = append(out, q.a)
		}
	}
	return out
}

// Watch notes that p sees the events of a workspace, or of all of them (""),
// until the returned function is called. may says in which p may answer.
func (d *Desk) Watch(p rig.Principal, workspace string, may func(workspace string) bool) (stop func()) {
	w := &watcher{by: p, workspace: workspace, may: may}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.watchers[w] = struct{}{}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		w.left = d.now()
		for w := range d.watchers { // those who are not coming back
			if w.away(d.now()) {
				delete(d.watchers, w)
			}
		}
	}
}

// reload is how long somebody who left is waited for: a page that is loaded again is
// away for a moment.
const reload = 10 * time.Second

func (w *watcher) away(now time.Time) bool {
	return !w.left.IsZero() && now.Sub(w.left).Abs() >= reload
}

// Attended reports whether a person is there who sees the events of a workspace
// and may answer its questions.
func (d *Desk) Attended(workspace string) bool {
	d.mu.Lock()
	var here []*watcher
	now := d.now()
	for w := range d.watchers {
		if w.by.Kind == rig.Person && !w.away(now) && (w.workspace == "" || w.workspace == workspace) {
			here = append(here, w)
		}
	}
	d.mu.Unlock() // who may answer is a question to others
	return slices.ContainsFunc(here, func(w *watcher) bool { return w.may(workspace) })
}
