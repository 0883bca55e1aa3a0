package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"rigs/client"
	"rigs/internal/guestapi"
	"rigs/internal/rig"
	"rigs/internal/serverapi"
	"rigs/internal/wire"
)

// as makes a token and returns its bearer's client.
func (s *running) as(n client.NewToken) *client.Client {
	s.t.Helper()
	tok, err := s.CreateToken(ctxOf(s.t), n)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.bearer(tok)
}

func (s *running) bearer(tok client.CreatedToken) *client.Client {
	s.t.Helper()
	c, err := client.New(s.url, tok.Secret)
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// audit reads a piece of a rig's audit log.
func (s *running) audit(id string, after int64) serverapi.AuditLog {
	s.t.Helper()
	if s.auditor == "" {
		tok, err := s.CreateToken(ctxOf(s.t), client.NewToken{Name: "auditor", Kind: rig.Person})
		if err != nil {
			s.t.Fatal(err)
		}
		s.auditor = tok.Secret
	}
	res := s.request("GET", fmt.Sprintf("/v1/rigs/%s/audit?limit=1000&after=%d", id, after), bearer(s.auditor), "")
	var l serverapi.AuditLog
	if err := wire.ReadJSON(res.Body, 8<<20, &l); err != nil || res.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %v", res.Status, err)
	}
	return l
}

func run(t *testing.T, c *client.Client, id, shell string) error {
	t.Helper()
	_, err := c.Run(ctxOf(t), id, client.ExecCollect{ExecRequest: guestapi.ExecRequest{Shell: shell}})
	return err
}

func TestControlIsExclusiveAndAgentsAreTold(t *testing.T) {
	s := start(t, home(t), nil)
	r := s.ready(rig.Spec{Space: good})
	ann := s.as(client.NewToken{Name: "ann", Kind: rig.Person})
	bob := s.as(client.NewToken{Name: "bob", Kind: rig.Person, Role: rig.Member})
	agent := s.as(client.NewToken{Name: "otto", Kind: rig.Agent})
	var notices []string
	agent = agent.OnNotice(func(n string) { notices = append(notices, n) })

	if err := run(t, agent, r.ID, "true"); err != nil {
		t.Fatal(err)
	}
	_, err := agent.Take(ctxOf(t), r.ID, client.Take{})
	code(t, err, rig.CodeForbidden) // people only

	taken, err := ann.Take(ctxOf(t), r.ID, client.Take{})
	if err != nil || taken.Control == nil || taken.Control.Holder.Name != "ann" || !slices.Contains(taken.InUse, "control held by ann") {
		t.Fatalf("%+v %v", taken, err)
	}
	for name, f := range map[string]func(c *client.Client) error{
		"exec":  func(c *client.Client) error { return run(t, c, r.ID, "true") },
		"write": func(c *client.Client) error { return c.WriteFiles(ctxOf(t), r.ID, "~", strings.NewReader("")) },
		"park":  func(c *client.Client) error { _, err := c.Park(ctxOf(t), r.ID); return err },
		"close": func(c *client.Client) error { _, err := c.Close(ctxOf(t), r.ID); return err },
		"drop":  func(c *client.Client) error { return c.DeleteSpace(ctxOf(t), good) },
	} {
		for _, c := range []*client.Client{agent, bob} {
			err := f(c)
			p := rig.AsProblem(err)
			if p == nil || p.Code != rig.CodeControlHeld || p.Holder == nil || p.Holder.Name != "ann" || !strings.Contains(p.Detail, "ann") {
				t.Errorf("%s while ann holds control: %v", name, err)
			}
		}
	}
	_, err = agent.Deny(ctxOf(t), r.ID, "example.com")
	code(t, err, rig.CodeControlHeld) // what the machine may reach is the holder's, too
	if _, err := s.AddRule(ctxOf(t), serverapi.Default, client.NewRule{Class: rig.NetworkEgress, Effect: rig.Allow}); err != nil {
		t.Fatal(err)
	}
	_, err = agent.Allow(ctxOf(t), r.ID, "example.com")
	code(t, err, rig.CodeControlHeld)
	if _, err := bob.Allow(ctxOf(t), r.ID, "example.com"); err != nil {
		t.Errorf("people answer what agents ask: %v", err)
	}
	_, err = bob.Take(ctxOf(t), r.ID, client.Take{})
	code(t, err, rig.CodeControlHeld)
	_, err = bob.Take(ctxOf(t), r.ID, client.Take{Force: true})
	code(t, err, rig.CodeForbidden) // for admins
	_, err = bob.Give(ctxOf(t), r.ID)
	code(t, err, rig.CodeControlHeld)

	// Looking still works, and tells of the take-over.
	if _, err := agent.Stat(ctxOf(t), r.ID, "/"); err != nil {
		t.Error(err)
	}
	if err := run(t, ann, r.ID, "true"); err != nil {
		t.Errorf("the holder cannot act: %v", err)
	}
	if r, err := ann.Give(ctxOf(t), r.ID); err != nil || r.Control != nil {
		t.Errorf("%+v %v", r, err)
	}
	if err := run(t, agent, r.ID, "true"); err != nil {
		t.Errorf("after control was given back: %v", err)
	}
	if len(notices) != 2 || !strings.Contains(notices[0], "ann took control") || !strings.Contains(notices[1], "ann gave control back") {
		t.Errorf("notices %q", notices)
	}
	// Taking by force, by whoever may.
	if _, err := ann.Take(ctxOf(t), r.ID, client.Take{}); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Take(ctxOf(t), r.ID, client.Take{Force: true}); err != nil || r.Control.Holder.Name == "ann" {
		t.Errorf("%+v %v", r.Control, err)
	}
}

func TestControlTakenWhileAPersonIsAskedCounts(t *testing.T) {
	s := start(t, home(t), nil)
	r := s.ready(rig.Spec{Space: good})
	ann := s.as(client.NewToken{Name: "ann", Kind: rig.Person})
	agent := s.as(client.NewToken{Name: "otto", Kind: rig.Agent})
	if _, err := s.AddRule(ctxOf(t), serverapi.Default, client.NewRule{Class: rig.EnclosureControl, Effect: rig.Ask}); err != nil {
		t.Fatal(err)
	}
	ctx := ctxOf(t)
	asked, watching := make(chan string, 8), make(chan struct{}, 1)
	go func() {
		_ = s.Events(ctx, client.EventOptions{}, func(e client.Event) bool { // ended by ctx
			select {
			case watching <- struct{}{}:
			default:
			}
			if e.Approval != nil && e.Approval.State == rig.Pending {
				asked <- e.Approval.ID
			}
			return true
		})
	}()
	<-watching
	for name, f := range map[string]func() error{
		"close": func() error { _, err := agent.Close(ctx, r.ID); return err },
		"park":  func() error { _, err := agent.Park(ctx, r.ID); return err },
		"drop":  func() error { return agent.DeleteSpace(ctx, good) },
	} {
		done := make(chan error, 1)
		go func() { done <- f() }()
		q := <-asked
		if _, err := ann.Take(ctx, r.ID, client.Take{}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Approve(ctx, q, serverapi.ApprovalAnswer{}); err != nil {
			t.Error(err)
		}
		if err := <-done; rig.CodeOf(err) != rig.CodeControlHeld {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := ann.Give(ctx, r.ID); err != nil {
			t.Fatal(err)
		}
	}
}

func TestControlOfAVanishedViewerIsGivenBack(t *testing.T) {
	s := start(t, home(t), nil)
	r := s.ready(rig.Spec{Space: good})
	seen, stop := context.WithCancel(ctxOf(t))
	defer stop()
	first := make(chan struct{}, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Events(seen, client.EventOptions{Rig: r.ID, Viewer: "tab-1"}, func(e client.Event) bool { // ended by stop
			select {
			case first <- struct{}{}:
			default:
			}
			return true
		})
	}()
	<-first
	if _, err := s.Take(ctxOf(t), r.ID, client.Take{Viewer: "tab-1"}); err != nil {
		t.Fatal(err)
	}
	// While the viewer is there it is kept, however long.
	s.clock.advance(10 * time.Minute)
	canary := s.ready(rig.Spec{Space: "canary", IdleSeconds: 10})
	s.clock.advance(11 * time.Second)
	s.phase(canary.ID, rig.Parked) // so the clock has ticked
	if r, err := s.Rig(ctxOf(t), r.ID); err != nil || r.Control == nil {
		t.Fatalf("%+v %v", r, err)
	}
	stop()
	<-done
	s.until(r.ID, "watched by nobody", func(r rig.Rig) bool {
		s.clock.advance(61 * time.Second) // whenever the server notices that the stream has ended
		return true
	})
	s.until(r.ID, "free", func(r rig.Rig) bool { return r.Control == nil })
	log := s.audit(r.ID, 0)
	last := log.Rows[len(log.Rows)-1]
	if last.Action != "give" || last.Kind != rig.System || last.Detail["why"] != "viewerGone" {
		t.Errorf("%+v", last)
	}
}

// terminal opens a terminal of a rig and returns what types into it and returns the
// answer, and its reader.
func terminal(t *testing.T, c *client.Client, id string) (echo func(text string) wire.Frame, rd *wire.Reader) {
	t.Helper()
	conn, err := c.Stream(ctxOf(t), id, "terminal")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	w, rd := wire.NewWriter(conn), wire.NewReader(conn)
	if err := w.WriteJSON(wire.KindStart, guestapi.TerminalRequest{}); err != nil {
		t.Fatal(err)
	}
	return func(text string) wire.Frame { // the fake terminal acknowledges, then says what it was told
		t.Helper()
		if err := w.Write(wire.KindStdin, []byte(text)); err != nil {
			t.Fatal(err)
		}
		for {
			f, err := rd.Next()
			if err != nil {
				t.Fatal(err)
			}
			if f.Kind != wire.KindAck {
				return f
			}
		}
	}, rd
}

func TestAStreamEndsWithWhatItWasBegunBy(t *testing.T) {
	s := start(t, home(t), nil)
	r := s.ready(rig.Spec{Space: good})
	refused := func(f wire.Frame, want rig.Code) {
		t.Helper()
		var p rig.Problem
		if f.Kind != wire.KindError || f.Decode(&p) != nil || p.Code != want {
			t.Errorf("kind %d: %s", f.Kind, f.Payload)
		}
	}
	otto := s.as(client.NewToken{Name: "otto", Kind: rig.Agent})

	echo, _ := terminal(t, otto, r.ID)
	if f := echo("one"); string(f.Payload) != "one" {
		t.Errorf("%+v", f)
	}
	if _, err := s.ChangeSpace(ctxOf(t), serverapi.Default, good, client.SpaceChange{Mode: rig.ModeReadOnly}); err != nil {
		t.Fatal(err)
	}
	refused(echo("two"), rig.CodeDenied)
	if _, err := s.ChangeSpace(ctxOf(t), serverapi.Default, good, client.SpaceChange{Mode: rig.ModeNormal}); err != nil {
		t.Fatal(err)
	}

	echo, _ = terminal(t, otto, r.ID)
	echo("three")
	if _, err := s.PutMember(ctxOf(t), serverapi.Default, client.Membership{Principal: "otto", Role: rig.Viewer}); err != nil {
		t.Fatal(err)
	}
	refused(echo("four"), rig.CodeForbidden)

	tok, err := s.CreateToken(ctxOf(t), client.NewToken{Name: "emma", Kind: rig.Agent})
	if err != nil {
		t.Fatal(err)
	}
	emma := s.bearer(tok)
	echo, rd := terminal(t, emma, r.ID)
	echo("five")
	events, first := make(chan error, 1), make(chan struct{}, 1)
	go func() {
		events <- emma.Events(ctxOf(t), client.EventOptions{}, func(client.Event) bool {
			select {
			case first <- struct{}{}:
			default:
			}
			return true
		})
	}()
	<-first
	if err := s.RevokeToken(ctxOf(t), tok.ID); err != nil {
		t.Fatal(err)
	}
	for err == nil { // nothing is typed: it ends by itself
		_, err = rd.Next()
	}
	<-events
}

func TestAnAgentsInputStopsReachingARigThatSomebodyTook(t *testing.T) {
	s := start(t, home(t), nil)
	r := s.ready(rig.Spec{Space: good})
	agent := s.as(client.NewToken{Name: "otto", Kind: rig.Agent})
	echo, rd := terminal(t, agent, r.ID)
	if f := echo("before"); string(f.Payload) != "before" {
		t.Errorf("%+v", f)
	}
	if _, err := s.Take(ctxOf(t), r.ID, client.Take{}); err != nil {
		t.Fatal(err)
	}
	f := echo("after")
	var p rig.Problem
	if f.Kind != wire.KindError || f.Decode(&p) != nil || p.Code != rig.CodeControlHeld {
		t.Errorf("kind %d: %s", f.Kind, f.Payload)
	}
	if _, err := rd.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("the stream goes on: %v", err)
	}
	log := s.audit(r.ID, 0)
	var input []string
	for _, row := range log.Rows {
		if row.Action == "terminal.input" {
			input = append(input, row.Principal+" "+row.Outcome+" "+row.Detail["bytes"])
		}
		if b, _ := json.Marshal(row); strings.Contains(string(b), "before") || strings.Contains(string(b), "after") {
			t.Errorf("what was typed is in the log: %s", b)
		}
	}
	if want := []string{"otto allowed 6", "otto controlHeld 5"}; !slices.Equal(input, want) {
		t.Errorf("%q, want %q", input, want)
	}
}

func TestGuardrailsAllowAskAndDeny(t *testing.T) {
	s := start(t, home(t), nil)
	r := s.ready(rig.Spec{Space: good})
	agent := s.as(client.NewToken{Name: "otto", Kind: rig.Agent})
	other := s.as(client.NewToken{Name: "emma", Kind: rig.Agent})
	rule := func(n client.NewRule) rig.Rule {
		t.Helper()
		x, err := s.AddRule(ctxOf(t), serverapi.Default, n)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	deny := rule(client.NewRule{Class: rig.ProcessSpawn, Effect: rig.Deny, Agent: "otto"})
	code(t, run(t, agent, r.ID, "true"), rig.CodeDenied)
	if err := run(t, other, r.ID, "true"); err != nil {
		t.Error(err)
	}
	if err := run(t, s.Client, r.ID, "true"); err != nil {
		t.Errorf("guardrails bind a person: %v", err)
	}
	if again := rule(client.NewRule{Class: rig.ProcessSpawn, Effect: rig.Deny, Agent: "otto"}); again.ID != deny.ID {
		t.Errorf("the same rule twice: %+v", again)
	}
	if err := s.DeleteRule(ctxOf(t), serverapi.Default, deny.ID); err != nil {
		t.Fatal(err)
	}
	// Ask, and nobody is there: denied at once.
	rule(client.NewRule{Class: rig.ProcessSpawn, Effect: rig.Ask})
	code(t, run(t, agent, r.ID, "true"), rig.CodeDenied)
	// Somebody watches, sees the question and answers it.
	ctx := ctxOf(t)
	asked := make(chan rig.Approval, 8)
	watching := make(chan struct{}, 1)
	go func() {
		_ = s.Events(ctx, client.EventOptions{}, func(e client.Event) bool {
			select {
			case watching <- struct{}{}:
			default:
			}
			if e.Approval != nil && e.Approval.State == rig.Pending {
				asked <- *e.Approval
			}
			return true
		})
	}()
	<-watching
	answer := func(approve bool, ans serverapi.ApprovalAnswer) error {
		t.Helper()
		done := make(chan error, 1)
		go func() { done <- run(t, agent, r.ID, "echo hello") }()
		select {
		case q := <-asked:
			if q.By.Name != "otto" || q.Class != rig.ProcessSpawn || q.Verb != "exec" || !strings.Contains(q.Summary, "echo hello") || q.RigID != r.ID {
				t.Errorf("%+v", q)
			}
			_, err := agent.Approve(ctx, q.ID, serverapi.ApprovalAnswer{})
			code(t, err, rig.CodeForbidden) // an agent does not answer itself
			give := s.Refuse
			if approve {
				give = s.Approve
			}
			if _, err := give(ctx, q.ID, ans); err != nil {
				t.Error(err)
			}
		case err := <-done:
			t.Errorf("it was not asked: %v", err)
			return err
		}
		return <-done
	}
	if err := answer(true, serverapi.ApprovalAnswer{}); err != nil {
		t.Errorf("approved: %v", err)
	}
	err := answer(false, serverapi.ApprovalAnswer{Note: "not now"})
	code(t, err, rig.CodeDenied)
	if p := rig.AsProblem(err); p == nil || p.Approval == "" || !strings.Contains(p.Detail, "not now") {
		t.Errorf("%v", err)
	}
	// A client that goes away takes its question back: nothing is done in its name.
	conn, err := agent.Stream(ctx, r.ID, "exec")
	if err != nil {
		t.Fatal(err)
	}
	if err := wire.NewWriter(conn).WriteJSON(wire.KindStart, guestapi.ExecRequest{Argv: []string{"touch", "a b", "it's"}}); err != nil {
		t.Fatal(err)
	}
	q := <-asked
	if q.Summary != `run touch 'a b' 'it'\''s'` {
		t.Errorf("%q does not say what is a word", q.Summary)
	}
	conn.Close()
	if q, err := s.WaitApproval(ctx, q.ID); err != nil || q.State != rig.Canceled {
		t.Errorf("%+v %v", q, err)
	}
	// A remembered answer takes the place of the rule that asked, also of one for the agent.
	own := rule(client.NewRule{Class: rig.ProcessSpawn, Effect: rig.Ask, Agent: "otto"})
	done := make(chan error, 1)
	go func() { done <- run(t, agent, r.ID, "true") }()
	q = <-asked
	_, err = s.Approve(ctx, q.ID, serverapi.ApprovalAnswer{Remember: "workspace"}) // it would change nothing for this agent
	code(t, err, rig.CodeInvalidRequest)
	if _, err := s.Refuse(ctx, q.ID, serverapi.ApprovalAnswer{}); err != nil {
		t.Error(err)
	}
	code(t, <-done, rig.CodeDenied)
	if err := answer(true, serverapi.ApprovalAnswer{Remember: "agent"}); err != nil {
		t.Error(err)
	}
	if err := run(t, agent, r.ID, "true"); err != nil {
		t.Errorf("remembered: %v", err)
	}
	go func() { done <- run(t, other, r.ID, "true") }() // of nobody else
	if q = <-asked; q.By.Name != "emma" {
		t.Errorf("%+v", q)
	}
	if _, err := s.Refuse(ctx, q.ID, serverapi.ApprovalAnswer{}); err != nil {
		t.Error(err)
	}
	code(t, <-done, rig.CodeDenied)
	rules, err := s.Rules(ctx, serverapi.Default)
	if err != nil || slices.ContainsFunc(rules, func(r rig.Rule) bool { return r.ID == own.ID }) {
		t.Errorf("%+v %v", rules, err)
	}
	// A read-only space denies it all, and looking still works.
	if _, err := s.ChangeSpace(ctx, serverapi.Default, good, client.SpaceChange{Mode: rig.ModeReadOnly}); err != nil {
		t.Fatal(err)
	}
	code(t, run(t, agent, r.ID, "true"), rig.CodeDenied)
	if _, err := agent.Stat(ctx, r.ID, "/"); err != nil {
		t.Error(err)
	}
	_, _, err = agent.Open(ctx, rig.Spec{Space: good, Surface: rig.Terminal, New: true})
	code(t, err, rig.CodeDenied)
}

func TestRolesLimitWhatIsSeenAndDone(t *testing.T) {
	s := start(t, home(t), nil)
	ctx := ctxOf(t)
	if _, err := s.CreateWorkspace(ctx, "team"); err != nil {
		t.Fatal(err)
	}
	here, there := s.ready(rig.Spec{Space: good}), s.ready(rig.Spec{Workspace: "team", Space: good})
	viewer := s.as(client.NewToken{Name: "vera", Kind: rig.Person, Role: rig.Viewer, Workspace: "team"})
	member := s.as(client.NewToken{Name: "mia", Kind: rig.Person, Workspace: "team"})
	admin := s.as(client.NewToken{Name: "ada", Kind: rig.Person, Role: rig.Admin})
	_, err := s.CreateToken(ctx, client.NewToken{Name: "otto", Kind: rig.Agent, Role: rig.Owner})
	code(t, err, rig.CodeInvalidRequest)
	agent := s.as(client.NewToken{Name: "otto", Kind: rig.Agent})
	if _, err := s.PutMember(ctx, serverapi.Default, client.Membership{Principal: "otto", Role: rig.Owner}); err != nil { // makes no more of it
		t.Fatal(err)
	}
	if _, err := s.PutMember(ctx, "team", client.Membership{Principal: "otto", Role: rig.Owner}); err != nil {
		t.Fatal(err)
	}

	rigs, err := viewer.Rigs(ctx, client.ListOptions{})
	if err != nil || len(rigs) != 1 || rigs[0].ID != there.ID {
		t.Errorf("%+v %v", rigs, err)
	}
	if ws, err := viewer.Workspaces(ctx); err != nil || len(ws) != 1 || ws[0].Name != "team" {
		t.Errorf("%+v %v", ws, err)
	}
	_, err = viewer.Rig(ctx, here.ID)
	code(t, err, rig.CodeForbidden)
	if _, err := viewer.Stat(ctx, there.ID, "/"); err != nil {
		t.Error(err)
	}
	for id, c := range map[string]*client.Client{there.ID: viewer, here.ID: member} {
		code(t, run(t, c, id, "true"), rig.CodeForbidden)
		_, err = c.Take(ctx, id, client.Take{})
		code(t, err, rig.CodeForbidden)
	}
	if err := run(t, member, there.ID, "true"); err != nil {
		t.Error(err)
	}
	_, err = member.AddRule(ctx, "team", client.NewRule{Class: rig.ProcessSpawn, Effect: rig.Deny})
	code(t, err, rig.CodeForbidden)
	_, err = agent.AddRule(ctx, "team", client.NewRule{Class: rig.ProcessSpawn, Effect: rig.Allow})
	code(t, err, rig.CodeForbidden)
	if _, err := admin.AddRule(ctx, "team", client.NewRule{Class: rig.SecretAccess, Effect: rig.Deny}); err != nil {
		t.Error(err)
	}
	// Nobody makes more of anybody than they are.
	_, err = admin.PutMember(ctx, "team", client.Membership{Principal: "ada", Role: rig.Owner})
	code(t, err, rig.CodeForbidden)
	_, err = admin.CreateToken(ctx, client.NewToken{Name: "new", Kind: rig.Person})
	code(t, err, rig.CodeForbidden)
	code(t, admin.DeleteWorkspace(ctx, "team"), rig.CodeForbidden)
	if _, err := admin.PutMember(ctx, "team", client.Membership{Principal: "vera", Role: rig.Member}); err != nil {
		t.Error(err)
	}
	if err := run(t, viewer, there.ID, "true"); err != nil {
		t.Errorf("a role that was raised does not count at once: %v", err)
	}
	if err := admin.DeleteMember(ctx, "team", "vera"); err != nil {
		t.Error(err)
	}
	code(t, run(t, viewer, there.ID, "true"), rig.CodeForbidden) // less than before, never more

	// A person's tool that acts as an agent has an agent's rights, and the log says so.
	tool := s.As("claude")
	if err := run(t, tool, here.ID, "true"); err != nil {
		t.Error(err)
	}
	_, err = tool.Take(ctx, here.ID, client.Take{})
	code(t, err, rig.CodeForbidden)
	_, err = tool.SigninLink(ctx)
	code(t, err, rig.CodeForbidden)
	code(t, run(t, viewer.As("claude"), there.ID, "true"), rig.CodeForbidden)
	_, err = agent.As("somebody").Server(ctx)
	code(t, err, rig.CodeForbidden)
	log := s.audit(here.ID, 0)
	if !slices.ContainsFunc(log.Rows, func(r rig.AuditRow) bool {
		return r.Principal == "claude" && r.Kind == rig.Agent && r.Action == "exec"
	}) {
		t.Errorf("%+v", log)
	}
}

// TestNothingReachesAKeeperAroundTheChokepoint walks every operation that the server
// describes, and what it does not, as an agent that may do nothing at all: no
// request may arrive at the keeper but those that only look. Then as somebody who
// may: whatever arrives has a row in the audit log before it.
func TestNothingReachesAKeeperAroundTheChokepoint(t *testing.T) {
	s := start(t, home(t), nil)
	r := s.ready(rig.Spec{Space: good})
	calls := func() map[string]int {
		t.Helper()
		st, err := s.ReadFiles(ctxOf(t), r.ID, "calls") // the fake keeper's account of what it was asked
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		var n map[string]int
		if err := json.NewDecoder(st).Decode(&n); err != nil {
			t.Fatal(err)
		}
		delete(n, "GET /v1/files")
		return n
	}
	rows := func() int {
		t.Helper()
		n := 0
		for after := int64(0); ; {
			l := s.audit(r.ID, after)
			for _, row := range l.Rows {
				if row.Outcome == "allowed" && row.Detail["path"] != "calls" { // not those of asking for the account
					n++
				}
			}
			if !l.More {
				return n
			}
			after = l.Rows[len(l.Rows)-1].Seq
		}
	}
	walk := func(change func(*http.Request), each func(method, path string, status int)) {
		t.Helper()
		for _, rt := range routes(t, s) {
			method, path := strings.ToUpper(rt[0]), strings.Replace(rt[1], "/v1/rigs/rig", "/v1/rigs/"+r.ID, 1)
			if !strings.Contains(path, r.ID) || strings.HasSuffix(path, "/close") || method == "DELETE" {
				continue
			}
			body, query := bodies[rt[1]], "?path=x"
			if method == "GET" && !strings.Contains(path, "/files") && !strings.HasSuffix(path, "/stat") {
				query = ""
			}
			if method == "POST" {
				query = ""
			}
			res := s.request(method, path+query, func(req *http.Request) {
				change(req)
				switch {
				case method == "PUT":
					req.Header.Set("Content-Type", "application/x-tar")
				case body != "":
					req.Header.Set("Content-Type", "application/json")
				}
			}, body)
			_, _ = io.CopyN(io.Discard, res.Body, 1<<16) // streams of events are cut by the test's end
			res.Body.Close()
			each(method, path, res.StatusCode)
		}
	}
	nobody, err := s.CreateToken(ctxOf(t), client.NewToken{Name: "nobody", Kind: rig.Agent, Workspace: serverapi.Default, Role: rig.Viewer})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range rig.Classes {
		if _, err := s.AddRule(ctxOf(t), serverapi.Default, client.NewRule{Class: c, Effect: rig.Deny}); err != nil {
			t.Fatal(err)
		}
	}
	owner, err := s.CreateToken(ctxOf(t), client.NewToken{Name: "ann", Kind: rig.Person})
	if err != nil {
		t.Fatal(err)
	}
	before := calls()
	looks := map[string]bool{"GET /v1/stat": true, "GET /v1/egress": true, "GET /v1/egress/log": true, "GET /v1/status": true, "GET /v1/files": true, "GET /v1/list": true, "GET /v1/read": true, "GET /v1/screen": true}
	walk(bearer(nobody.Secret), func(method, path string, status int) {
		for call, n := range calls() {
			if n != before[call] && !looks[call] {
				t.Errorf("%s %s as somebody who may do nothing: the keeper got %s (status %d)", method, path, call, status)
			}
		}
		before = calls()
	})
	for _, stream := range []string{"exec", "terminal"} {
		conn, err := s.bearer(nobody).Stream(ctxOf(t), r.ID, stream)
		if err != nil {
			t.Fatal(err)
		}
		var p rig.Problem
		err = wire.NewWriter(conn).WriteJSON(wire.KindStart, guestapi.ExecRequest{})
		f, rerr := wire.NewReader(conn).Next()
		if err != nil || rerr != nil || f.Kind != wire.KindError || f.Decode(&p) != nil || p.Code != rig.CodeForbidden {
			t.Errorf("%s: %v %v %+v %+v", stream, err, rerr, f, p)
		}
		conn.Close()
		if n := calls()["GET /v1/"+stream]; n != 0 {
			t.Errorf("the keeper got %d of %s", n, stream)
		}
	}
	reached, recorded := 0, rows()
	walk(bearer(owner.Secret), func(method, path string, status int) {
		n, did := rows(), false
		for call, k := range calls() {
			did = did || k != before[call] && call != "GET /v1/egress" && call != "GET /v1/egress/log" && call != "GET /v1/status"
		}
		if did {
			reached++
			t.Logf("%s %s: status %d", method, path, status)
			if n == recorded {
				t.Errorf("%s %s reached the keeper without a row", method, path)
			}
		}
		before, recorded = calls(), n
	})
	if reached < 5 {
		t.Errorf("only %d operations reached the keeper: the walk does not try what it should", reached)
	}
}

// bodies are requests that would do something.
var bodies = map[string]string{
	"/v1/rigs/rig/exec":         `{"shell":"true"}`,
	"/v1/rigs/rig/act":          `{"verb":"exec","args":{"shell":"true"}}`,
	"/v1/rigs/rig/egress/allow": `{"pattern":"a.test"}`,
	"/v1/rigs/rig/egress/deny":  `{"pattern":"default.test"}`,
	"/v1/rigs/rig/egress/ask":   `{"pattern":"b.test","reason":"x"}`,
	"/v1/rigs/rig/take":         `{}`,
}
