package approvals

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"rigs/internal/rig"
	"rigs/internal/server/feed"
	"rigs/internal/serverapi"
)

// bound is how long anything may take before a test gives up on it.
const bound = 30 * time.Second

var (
	ann = rig.Principal{Name: "ann", Kind: rig.Person}
	bot = rig.Principal{Name: "bot", Kind: rig.Agent}
)

type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

type fixture struct {
	*Desk
	t     *testing.T
	clock *clock
	feed  *feed.Feed
}

func desk(t *testing.T) *fixture {
	t.Helper()
	c := &clock{t: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	f := new(feed.Feed)
	return &fixture{New(f, c.now, slog.New(slog.DiscardHandler)), t, c, f}
}

func host(rigID, pattern string) rig.Approval {
	return rig.Approval{Kind: rig.ApprovalEgress, Workspace: "w", Space: "s", RigID: rigID, By: bot, Class: rig.NetworkEgress, Pattern: pattern, Reason: "because"}
}

func action(summary string) rig.Approval {
	return rig.Approval{Kind: rig.ApprovalAction, Workspace: "w", Space: "s", RigID: "r1", By: bot, Class: rig.ProcessSpawn, Verb: "exec", Summary: summary}
}

func (f *fixture) ask(a rig.Approval) rig.Approval {
	f.t.Helper()
	a, err := f.Ask(f.t.Context(), a, 0)
	if err != nil {
		f.t.Fatal(err)
	}
	return a
}

func (f *fixture) answer(id string, approve bool, ans serverapi.ApprovalAnswer) (rig.Approval, error) {
	f.t.Helper()
	return f.Answer(f.t.Context(), id, ann, approve, ans)
}

func code(t *testing.T, err error, want rig.Code) {
	t.Helper()
	if rig.CodeOf(err) != want {
		t.Errorf("error %v has code %q, want %q", err, rig.CodeOf(err), want)
	}
}

func state(t *testing.T, a rig.Approval, want rig.ApprovalState) {
	t.Helper()
	if a.State != want {
		t.Errorf("approval is %s, want %s", a.State, want)
	}
}

func TestAnswerWakesWhoWaitsAndIsPublished(t *testing.T) {
	f := desk(t)
	sub := f.feed.Subscribe(feed.Filter{Workspace: "w"})
	other := f.feed.Subscribe(feed.Filter{Workspace: "other"})
	a := f.ask(host("r1", "example.com"))
	state(t, a, rig.Pending)
	got := make(chan rig.Approval, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), bound)
		defer cancel()
		w, err := f.Wait(ctx, a.ID)
		if err != nil {
			t.Error(err)
		}
		got <- w
	}()
	if _, err := f.answer(a.ID, true, serverapi.ApprovalAnswer{Note: "fine"}); err != nil {
		t.Fatal(err)
	}
	w := <-got
	state(t, w, rig.Approved)
	if w.AnsweredBy != "ann" || w.Note != "fine" || !w.AnsweredAt.Equal(f.clock.now()) {
		t.Errorf("answered as %+v", w)
	}
	for _, want := range []rig.ApprovalState{rig.Pending, rig.Approved} {
		e := <-sub.C
		if e.Type != "approval" || e.RigID != "r1" {
			t.Errorf("event %+v", e)
		}
		state(t, *e.Approval, want)
	}
	if len(other.C) > 0 {
		t.Error("another workspace was told")
	}
}

func TestFirstAnswerWins(t *testing.T) {
	f := desk(t)
	var effects int
	var mu sync.Mutex
	f.Handle(rig.ApprovalEgress, func(context.Context, rig.Principal, *rig.Approval, bool, serverapi.ApprovalAnswer) error {
		mu.Lock()
		defer mu.Unlock()
		effects++
		return nil
	})
	a := f.ask(host("r1", "example.com"))
	const n = 16
	errs := make(chan error, n)
	for i := range n {
		go func() { _, err := f.answer(a.ID, i%2 == 0, serverapi.ApprovalAnswer{}); errs <- err }()
	}
	won := 0
	for range n {
		if err := <-errs; err == nil {
			won++
		} else {
			code(t, err, rig.CodeConflict)
		}
	}
	if won != 1 || effects != 1 {
		t.Errorf("%d answers counted and had %d effects, want one", won, effects)
	}
}

func TestOnlyPeopleAnswer(t *testing.T) {
	f := desk(t)
	a := f.ask(host("r1", "example.com"))
	for _, p := range []rig.Principal{bot, {Name: "ann", Kind: rig.Agent}, {}} {
		_, err := f.Answer(t.Context(), a.ID, p, true, serverapi.ApprovalAnswer{})
		code(t, err, rig.CodeForbidden)
	}
	if _, err := f.answer(a.ID, false, serverapi.ApprovalAnswer{}); err != nil {
		t.Error(err)
	}
}

func TestEffectDecides(t *testing.T) {
	f := desk(t)
	fail := errors.New("the gate is not there")
	f.Handle(rig.ApprovalEgress, func(_ context.Context, _ rig.Principal, a *rig.Approval, approve bool, _ serverapi.ApprovalAnswer) error {
		if approve {
			a.Pattern = strings.ToLower(a.Pattern)
			return fail
		}
		return nil
	})
	a := f.ask(host("r1", "example.com"))
	if _, err := f.answer(a.ID, true, serverapi.ApprovalAnswer{}); !errors.Is(err, fail) {
		t.Errorf("error %v", err)
	}
	now, err := f.Get(a.ID)
	if err != nil {
		t.Fatal(err)
	}
	state(t, now, rig.Pending) // can be tried again
	fail = nil
	ttl := 60
	now, err = f.answer(a.ID, true, serverapi.ApprovalAnswer{TTLSeconds: &ttl, Pattern: "API.example.com"})
	if err != nil {
		t.Fatal(err)
	}
	if state(t, now, rig.Approved); now.Pattern != "api.example.com" || now.TTLSeconds != 60 {
		t.Errorf("approved %q for %d s", now.Pattern, now.TTLSeconds)
	}

	fail = rig.Errorf(rig.CodeGone, "the rig is closed")
	b := f.ask(host("r2", "example.com"))
	now, err = f.answer(b.ID, true, serverapi.ApprovalAnswer{})
	code(t, err, rig.CodeGone)
	state(t, now, rig.Canceled)
}

func TestNoAnswerExpires(t *testing.T) {
	f := desk(t)
	a, err := f.Ask(t.Context(), action("make"), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	f.clock.advance(time.Minute - time.Nanosecond)
	f.Tick()
	if now, _ := f.Get(a.ID); now.State != rig.Pending {
		t.Errorf("%s before its time", now.State)
	}
	f.clock.advance(time.Nanosecond)
	f.Tick()
	w, err := f.Wait(t.Context(), a.ID)
	if err != nil {
		t.Fatal(err)
	}
	state(t, w, rig.Expired)
	_, err = f.answer(a.ID, true, serverapi.ApprovalAnswer{})
	code(t, err, rig.CodeConflict)
}

func TestTimeoutsAreBounded(t *testing.T) {
	f := desk(t)
	for _, c := range []struct{ ask, want time.Duration }{{0, DefaultTimeout}, {-1, DefaultTimeout}, {time.Second, time.Second}, {24 * time.Hour, MaxTimeout}} {
		a, err := f.Ask(t.Context(), action(c.ask.String()), c.ask)
		if err != nil {
			t.Fatal(err)
		}
		if got := a.ExpiresAt.Sub(a.CreatedAt); got != c.want {
			t.Errorf("a timeout of %v became %v, want %v", c.ask, got, c.want)
		}
	}
}

func TestCancel(t *testing.T) {
	f := desk(t)
	one, two, three := f.ask(host("r1", "a.test")), f.ask(host("r2", "a.test")), f.ask(action("x"))
	f.CancelRig("r2")
	f.CancelRig("")
	f.Cancel(three.ID)
	for id, want := range map[string]rig.ApprovalState{one.ID: rig.Pending, two.ID: rig.Canceled, three.ID: rig.Canceled} {
		a, err := f.Get(id)
		if err != nil {
			t.Fatal(err)
		}
		state(t, a, want)
	}
	f.Close()
	if a, _ := f.Get(one.ID); a.State != rig.Canceled {
		t.Errorf("closing leaves %s", a.State)
	}
	_, err := f.Ask(t.Context(), host("r1", "b.test"), 0)
	code(t, err, rig.CodeUnavailable)
}

// A rig that goes away while its answer is having its effect: the question must
// not stay open.
func TestCanceledWhileAnswered(t *testing.T) {
	f := desk(t)
	f.Handle(rig.ApprovalEgress, func(_ context.Context, _ rig.Principal, a *rig.Approval, _ bool, _ serverapi.ApprovalAnswer) error {
		f.CancelRig(a.RigID)
		return errors.New("the connection was reset")
	})
	a := f.ask(host("r1", "a.test"))
	now, err := f.answer(a.ID, true, serverapi.ApprovalAnswer{})
	if err == nil {
		t.Error("no error")
	}
	state(t, now, rig.Canceled)
}

func TestSameHostIsOneQuestionAndActionsAreEachTheirOwn(t *testing.T) {
	f := desk(t)
	a := f.ask(host("r1", "example.com"))
	if b := f.ask(host("r1", "example.com")); b.ID != a.ID {
		t.Error("asked twice")
	}
	other := host("r1", "example.com")
	other.By = rig.Principal{Name: "bot2", Kind: rig.Agent}
	for _, x := range []rig.Approval{host("r2", "example.com"), host("r1", "example.org"), other} {
		if b := f.ask(x); b.ID == a.ID {
			t.Errorf("%+v was taken for another question", x)
		}
	}
	first, second := f.ask(action("rm -r x")), f.ask(action("rm -r x"))
	if first.ID == second.ID {
		t.Error("one answer would let two actions happen")
	}
	if _, err := f.answer(a.ID, false, serverapi.ApprovalAnswer{}); err != nil {
		t.Fatal(err)
	}
	if b := f.ask(host("r1", "example.com")); b.ID == a.ID {
		t.Error("an answered question was handed out for a new one")
	}
}

func TestQuestionsAreBounded(t *testing.T) {
	f := desk(t)
	for i := range MaxPendingByOne {
		f.ask(action(string(rune('a' + i))))
	}
	_, err := f.Ask(t.Context(), action("one more"), 0)
	code(t, err, rig.CodeCapacity)
	for i := MaxPendingByOne; i < MaxPending; i++ {
		a := action("x")
		a.By.Name = "bot" + string(rune('A'+i/8))
		f.ask(a)
	}
	a := action("x")
	a.By.Name = "somebody new"
	_, err = f.Ask(t.Context(), a, 0)
	code(t, err, rig.CodeCapacity)
}

func TestAskersAreSlowedDownAndHistoryIsBounded(t *testing.T) {
	f := desk(t)
	refused := 0
	for range 10 * asksBurst {
		a, err := f.Ask(t.Context(), action("x"), 0)
		if err != nil {
			code(t, err, rig.CodeCapacity)
			refused++
			continue
		}
		f.Cancel(a.ID)
	}
	if refused != 9*asksBurst {
		t.Errorf("%d refused, want %d", refused, 9*asksBurst)
	}
	for range 2 * MaxFinal {
		f.clock.advance(time.Second)
		f.Cancel(f.ask(action("x")).ID)
	}
	f.clock.advance(time.Second)
	last := f.ask(action("last"))
	all := f.List(Filter{})
	if len(all) != MaxFinal+1 || all[0].ID != last.ID {
		t.Errorf("%d are kept, the first is %+v", len(all), all[0])
	}
}

func TestTextIsBoundedAndPlain(t *testing.T) {
	f := desk(t)
	in := host("r1", "a.test")
	in.Reason = "ok\n\x1b]0;title\x07\u202egnp.exe\x00\xff" + strings.Repeat("ä", 5000)
	in.By.Name = "bot"
	a := f.ask(in)
	if len(a.Reason) > maxReason || !utf8.ValidString(a.Reason) || strings.ContainsAny(a.Reason, "\x1b\x07\u202e\x00") {
		t.Errorf("reason %q", a.Reason)
	}
	if !strings.HasPrefix(a.Reason, "ok\n") || !strings.HasSuffix(a.Reason, ellipsis) {
		t.Errorf("reason %q", a.Reason)
	}
	in.Pattern = strings.Repeat("a", maxPattern+1)
	_, err := f.Ask(t.Context(), in, 0)
	code(t, err, rig.CodeInvalidRequest)
}

func TestAnswersThatMakeNoSense(t *testing.T) {
	f := desk(t)
	h, x := f.ask(host("r1", "a.test")), f.ask(action("x"))
	ttl := 1
	for _, c := range []struct {
		id      string
		approve bool
		ans     serverapi.ApprovalAnswer
	}{
		{h.ID, true, serverapi.ApprovalAnswer{Remember: "space"}},
		{h.ID, false, serverapi.ApprovalAnswer{TTLSeconds: &ttl}},
		{x.ID, true, serverapi.ApprovalAnswer{Pattern: "a.test"}},
		{x.ID, true, serverapi.ApprovalAnswer{TTLSeconds: &ttl}},
		{x.ID, true, serverapi.ApprovalAnswer{Remember: "space"}}, // no rules here
	} {
		_, err := f.answer(c.id, c.approve, c.ans)
		code(t, err, rig.CodeInvalidRequest)
	}
	_, err := f.answer("none", true, serverapi.ApprovalAnswer{})
	code(t, err, rig.CodeNotFound)
	if n := len(f.List(Filter{State: rig.Pending})); n != 2 {
		t.Errorf("%d are pending, want 2", n)
	}
}

func TestAttended(t *testing.T) {
	f := desk(t)
	for name, c := range map[string]struct {
		by        rig.Principal
		workspace string
		want      bool
	}{
		"a person who sees all":         {ann, "", true},
		"who sees the workspace":        {ann, "w", true},
		"who sees another workspace":    {ann, "v", false},
		"an agent":                      {bot, "", false},
		"a person who may only look on": {rig.Principal{Name: "viewer", Kind: rig.Person}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			stop := f.Watch(c.by, c.workspace, func(string) bool { return c.by.Name != "viewer" })
			if got := f.Attended("w"); got != c.want {
				t.Errorf("attended: %v, want %v", got, c.want)
			}
			stop()
			if got := f.Attended("w"); got != c.want { // a page that is loaded again is not gone
				t.Errorf("attended a moment later: %v, want %v", got, c.want)
			}
			f.clock.advance(reload)
			if f.Attended("w") {
				t.Error("attended by nobody")
			}
		})
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	f := desk(t)
	a := f.ask(action("x"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w, err := f.Wait(ctx, a.ID)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	state(t, w, rig.Pending)
}
