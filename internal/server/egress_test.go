package server_test

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"rigs/client"
	"rigs/internal/rig"
)

// bot is an agent's client of the server.
func (s *running) bot() *client.Client {
	s.t.Helper()
	tok, err := s.CreateToken(ctxOf(s.t), client.NewToken{Name: "bot", Kind: rig.Agent})
	if err != nil {
		s.t.Fatal(err)
	}
	c, err := client.New(s.url, tok.Secret)
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func (s *running) question(c *client.Client, rigID, pattern string) client.Approval {
	s.t.Helper()
	q, err := c.AskEgress(ctxOf(s.t), rigID, client.EgressAsk{Pattern: pattern, Reason: "to fetch \x1b[31mdata", TTLSeconds: 600})
	if err != nil {
		s.t.Fatal(err)
	}
	return q
}

func TestAgentAsksAndAPersonAdmits(t *testing.T) {
	s := start(t, home(t), nil)
	agent := s.bot()
	r := s.ready(rig.Spec{Space: good})

	if _, err := agent.Allow(ctxOf(t), r.ID, "direct.test"); rig.CodeOf(err) != rig.CodeDenied || !strings.Contains(err.Error(), "egress/ask") {
		t.Errorf("an agent that admits a host itself gets %v", err)
	}

	q := s.question(agent, r.ID, "Asked.Test")
	if q.State != rig.Pending || q.Pattern != "asked.test" || q.By.Name != "bot" || strings.Contains(q.Reason, "\x1b") || q.RigID != r.ID {
		t.Errorf("asked %+v", q)
	}
	if again := s.question(agent, r.ID, "asked.test"); again.ID != q.ID {
		t.Error("the same question is there twice")
	}
	_, err := agent.Approve(ctxOf(t), q.ID, client.ApprovalAnswer{})
	code(t, err, rig.CodeForbidden)
	if now, err := s.Rig(ctxOf(t), r.ID); err != nil || slices.Contains(now.Egress, "asked.test") {
		t.Errorf("it is admitted before anybody approved: %v %v", now.Egress, err)
	}

	waited := make(chan client.Approval, 1)
	go func() {
		a, err := agent.WaitApproval(ctxOf(t), q.ID)
		if err != nil {
			t.Error(err)
		}
		waited <- a
	}()
	ttl := 60
	if a, err := s.Approve(ctxOf(t), q.ID, client.ApprovalAnswer{TTLSeconds: &ttl, Note: "go on"}); err != nil || a.State != rig.Approved || a.TTLSeconds != 60 {
		t.Fatalf("approved as %+v: %v", a, err)
	}
	if a := <-waited; a.State != rig.Approved || a.Note != "go on" {
		t.Errorf("the agent learns %+v", a)
	}
	rules, err := s.Egress(ctxOf(t), r.ID)
	if err != nil || len(rules.Entries) != 1 || rules.Entries[0].Pattern != "asked.test" || rules.Entries[0].ExpiresAt.Unix() != 60 {
		t.Errorf("the gate has %+v: %v", rules, err)
	}
	_, err = s.Refuse(ctxOf(t), q.ID, client.ApprovalAnswer{})
	code(t, err, rig.CodeConflict)

	no := s.question(agent, r.ID, "no.test")
	if a, err := s.Refuse(ctxOf(t), no.ID, client.ApprovalAnswer{}); err != nil || a.State != rig.Denied {
		t.Errorf("denied as %+v: %v", a, err)
	}
	list, err := s.Approvals(ctxOf(t), client.ApprovalOptions{Rig: r.ID})
	if err != nil || len(list) != 2 || list[0].ID != no.ID {
		t.Errorf("listed %+v: %v", list, err)
	}
	if list, err := s.Approvals(ctxOf(t), client.ApprovalOptions{State: rig.Pending}); err != nil || len(list) != 0 {
		t.Errorf("pending %+v: %v", list, err)
	}
}

func TestQuestionsEndWithTheirRigAndInTime(t *testing.T) {
	s := start(t, home(t), nil)
	agent := s.bot()
	one, two := s.ready(rig.Spec{Space: good}), s.ready(rig.Spec{Space: good, New: true})
	q, other := s.question(agent, one.ID, "a.test"), s.question(agent, two.ID, "a.test")
	if _, err := s.Close(ctxOf(t), one.ID); err != nil {
		t.Fatal(err)
	}
	if a, err := s.WaitApproval(ctxOf(t), q.ID); err != nil || a.State != rig.Canceled {
		t.Errorf("of a closed rig: %+v: %v", a, err)
	}
	_, err := agent.AskEgress(ctxOf(t), one.ID, client.EgressAsk{Pattern: "a.test", Reason: "x"})
	code(t, err, rig.CodeGone)
	s.clock.advance(6 * time.Minute) // more than a question waits, less than a rig idles
	if a, err := s.WaitApproval(ctxOf(t), other.ID); err != nil || a.State != rig.Expired {
		t.Errorf("without an answer: %+v: %v", a, err)
	}
	_, err = s.Approve(ctxOf(t), other.ID, client.ApprovalAnswer{})
	code(t, err, rig.CodeConflict)
}

func TestQuestionsAndAnswersAreEvents(t *testing.T) {
	s := start(t, home(t), nil)
	agent := s.bot()
	r := s.ready(rig.Spec{Space: good})
	ctx, cancel := context.WithCancel(ctxOf(t))
	defer cancel()
	begun, states := make(chan struct{}), make(chan rig.ApprovalState, 8)
	go func() {
		first := true
		_ = s.Events(ctx, client.EventOptions{}, func(e client.Event) bool {
			if first {
				close(begun)
			}
			first = false
			if e.Approval != nil {
				states <- e.Approval.State
			}
			return true
		})
	}()
	<-begun
	q := s.question(agent, r.ID, "a.test")
	if _, err := s.Approve(ctxOf(t), q.ID, client.ApprovalAnswer{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []rig.ApprovalState{rig.Pending, rig.Approved} {
		select {
		case got := <-states:
			if got != want {
				t.Errorf("event of %s, want %s", got, want)
			}
		case <-ctx.Done():
			t.Fatalf("no event of %s", want)
		}
	}
}

func TestWorkspaceChangesWhatNewRigsStartWith(t *testing.T) {
	s := start(t, home(t), nil)
	agent := s.bot()
	before := s.ready(rig.Spec{Space: good})
	put := func(w client.WorkspaceEgress) (client.WorkspaceEgress, error) {
		return s.PutWorkspaceEgress(ctxOf(t), w)
	}
	w, err := put(client.WorkspaceEgress{Surfaces: []client.SurfaceEgress{{Surface: rig.Terminal, Add: []string{"Corp.Test", "corp.test"}, Remove: []string{"default.test"}}}})
	if err != nil {
		t.Fatal(err)
	}
	if w.Surfaces[0].Surface != rig.Terminal || !slices.Equal(w.Surfaces[0].Effective, []string{"corp.test"}) || !slices.Equal(w.Surfaces[1].Effective, []string{"default.test"}) {
		t.Errorf("results in %+v", w)
	}
	after := s.ready(rig.Spec{Space: good, New: true, Allow: []string{"mine.test"}})
	if !slices.Equal(after.Egress, []string{"corp.test", "mine.test"}) {
		t.Errorf("a new rig starts with %v", after.Egress)
	}
	if now, err := s.Rig(ctxOf(t), before.ID); err != nil || !slices.Equal(now.Egress, []string{"default.test"}) {
		t.Errorf("an old rig has %v: %v", now.Egress, err)
	}

	// An agent opens with what the workspace admits, and nothing more.
	if _, _, err := agent.Open(ctxOf(t), rig.Spec{Surface: rig.Terminal, Space: good, New: true, NoDefaults: true, Allow: []string{"CORP.test"}}); err != nil {
		t.Errorf("what is admitted anyway: %v", err)
	}
	for _, p := range []string{"evil.test", "default.test"} {
		_, _, err = agent.Open(ctxOf(t), rig.Spec{Surface: rig.Terminal, Space: good, New: true, Allow: []string{p}})
		code(t, err, rig.CodeDenied)
	}

	_, err = agent.PutWorkspaceEgress(ctxOf(t), client.WorkspaceEgress{Surfaces: []client.SurfaceEgress{}})
	code(t, err, rig.CodeForbidden)
	for name, bad := range map[string][]client.SurfaceEgress{
		"a pattern":       {{Surface: rig.Terminal, Add: []string{"-"}}},
		"both":            {{Surface: rig.Terminal, Add: []string{"a.test"}, Remove: []string{"A.test"}}},
		"a surface twice": {{Surface: rig.Terminal}, {Surface: rig.Terminal}},
	} {
		if _, err := put(client.WorkspaceEgress{Surfaces: bad}); rig.CodeOf(err) != rig.CodeInvalidRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
	if w, err := s.WorkspaceEgress(ctxOf(t)); err != nil || !slices.Equal(w.Surfaces[0].Add, []string{"corp.test"}) {
		t.Errorf("after refusals it is %+v: %v", w, err)
	}
	_, err = s.In("none").WorkspaceEgress(ctxOf(t))
	code(t, err, rig.CodeNotFound)
}

func TestEgressLogOutlivesItsRigAndItsServer(t *testing.T) {
	dir := home(t)
	s := start(t, dir, nil)
	r := s.ready(rig.Spec{Space: good})
	for _, p := range []string{"a.test", "b.test"} {
		if _, err := s.Allow(ctxOf(t), r.ID, p); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Close(ctxOf(t), r.ID); err != nil {
		t.Fatal(err)
	}
	check := func(s *running) {
		t.Helper()
		l, err := s.EgressLog(ctxOf(t), r.ID, 0)
		if err != nil || len(l.Events) != 2 || l.Events[1].Host != "b.test" || l.Lost != 0 {
			t.Errorf("the log of a closed rig is %+v: %v", l, err)
		}
		if l, err := s.EgressLog(ctxOf(t), r.ID, 2); err != nil || len(l.Events) != 0 {
			t.Errorf("after its end it is %+v: %v", l, err)
		}
	}
	check(s)
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	check(start(t, dir, nil))
}

func TestEgressIsMeasured(t *testing.T) {
	s := start(t, home(t), nil)
	r := s.ready(rig.Spec{Space: good})
	if _, err := s.Allow(ctxOf(t), r.ID, "a.test"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Close(ctxOf(t), r.ID); err != nil { // then all of its events were read
		t.Fatal(err)
	}
	s.ready(rig.Spec{Space: good})
	tok, err := s.CreateToken(ctxOf(t), client.NewToken{Name: "prometheus", Kind: rig.Person})
	if err != nil {
		t.Fatal(err)
	}
	res := s.request(http.MethodGet, "/metrics", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+tok.Secret) }, "")
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`rigs_egress_connections_total{reason="admitted",verdict="allow"} 1`,
		`rigs_egress_dropped_frames_total{kind="udp"} 3`,
		`rigs_egress_dropped_frames_total{kind="other"} 1`,
	} {
		if !strings.Contains(string(b), want+"\n") {
			t.Errorf("no %s", want)
		}
	}
}
