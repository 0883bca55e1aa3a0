package authority

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"rigs/internal/rig"
	"rigs/internal/server/store"
	"rigs/internal/serverapi"
)

// askTimeout is how long a guardrail that says ask waits for a person.
const askTimeout = 2 * time.Minute

// Store keeps members, guardrails and modes; store.Store is one.
type Store interface {
	Members(ctx context.Context) ([]store.Member, error)
	PutMember(ctx context.Context, m store.Member) error
	DeleteMember(ctx context.Context, workspace, principal string) error
	Rules(ctx context.Context) ([]store.Rule, error)
	AddRule(ctx context.Context, r store.Rule) error
	DeleteRule(ctx context.Context, workspace, id string) error
	SetSpaceMode(ctx context.Context, workspace, space string, m rig.Mode) error
	ReadOnlySpaces(ctx context.Context) ([][2]string, error)
}

// Audit writes down; audit.Log does. An error says that a row was not written and
// never will be.
type Audit interface {
	// Record returns when the row is in the database, with its number.
	Record(ctx context.Context, r rig.AuditRow) (rig.AuditRow, error)
	// Append returns when the row will be written, in order.
	Append(ctx context.Context, r rig.AuditRow) error
	// Redact is what is written of something typed: its length and a keyed hash.
	Redact(rigID string, content []byte) map[string]string
}

// Desk asks people; approvals.Desk does.
type Desk interface {
	Ask(ctx context.Context, a rig.Approval, timeout time.Duration) (rig.Approval, error)
	Wait(ctx context.Context, id string) (rig.Approval, error)
	Cancel(id string)
	Attended(workspace string) bool
}

// Config is what an Authority works with. Every field is needed.
type Config struct {
	Store Store
	Audit Audit
	Desk  Desk
	Log   *slog.Logger
	Now   func() time.Time
}

// Authority decides. It is safe for several goroutines.
type Authority struct {
	Config

	change sync.Mutex // one change of the database and of the copy at a time
	pace   pace

	mu       sync.RWMutex // guards the copy of what is in the database
	members  map[string]map[string]rig.Role
	rules    map[string][]rig.Rule
	readOnly map[[2]string]bool
}

// New returns an Authority that knows what the database says.
func New(ctx context.Context, c Config) (*Authority, error) {
	a := &Authority{Config: c}
	return a, a.load(ctx)
}

// load reads the copy anew.
func (a *Authority) load(ctx context.Context) error {
	ms, err1 := a.Store.Members(ctx)
	rs, err2 := a.Store.Rules(ctx)
	ro, err3 := a.Store.ReadOnlySpaces(ctx)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	members, rules, readOnly := map[string]map[string]rig.Role{}, map[string][]rig.Rule{}, map[[2]string]bool{}
	for _, m := range ms {
		if members[m.Principal] == nil {
			members[m.Principal] = map[string]rig.Role{}
		}
		members[m.Principal][m.Workspace] = m.Role
	}
	for _, r := range rs {
		rules[r.Workspace] = append(rules[r.Workspace], r.Rule)
	}
	for _, s := range ro {
		readOnly[s] = true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.members, a.rules, a.readOnly = members, rules, readOnly
	return nil
}

// Changed runs f, which changes what the Authority has a copy of, and reads the
// copy anew.
func (a *Authority) Changed(ctx context.Context, f func() error) error {
	a.change.Lock()
	defer a.change.Unlock()
	if err := f(); err != nil {
		return err
	}
	// The change is made: it counts also when who asked for it has gone.
	return a.load(context.WithoutCancel(ctx))
}

// Who is whom an action is asked by.
type Who struct {
	rig.Principal
	// Owner says that it is the server's owner: over its socket, or in a session
	// that came from there.
	Owner bool
	// Behalf is the person whose tool acts as the agent, if so: it can do no more
	// than the person.
	Behalf *Who
}

// Everywhere stands for all workspaces, and for the server as a whole.
const Everywhere = "*"

// Role is what somebody may do in a workspace, or in the server as a whole
// (Everywhere); "" is nothing. A role in the workspace itself counts before one
// that is for all. An agent that a person's tool acts as has no role of its own
// unless it was given one: it is a member where the person is.
func (a *Authority) Role(w Who, workspace string) rig.Role {
	if w.Owner {
		return rig.Owner
	}
	a.mu.RLock()
	roles := a.members[w.Name] // replaced, never changed
	a.mu.RUnlock()
	role, ok := roles[workspace]
	if !ok {
		role = roles[Everywhere]
	}
	if w.Behalf != nil {
		most := a.Role(*w.Behalf, workspace)
		if len(roles) == 0 || suffices(role, most) {
			role = most
		}
	}
	if w.Kind == rig.Agent && suffices(role, rig.Member) {
		return rig.Member // the most that an agent can be
	}
	return role
}

// Roles are the roles that a principal was given, by workspace.
func (a *Authority) Roles(principal string) map[string]rig.Role {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return maps.Clone(a.members[principal])
}

// HasRole reports whether a principal has a role anywhere.
func (a *Authority) HasRole(principal string) bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return len(a.members[principal]) > 0
}

// Sees reports whether somebody may know of a workspace at all.
func (a *Authority) Sees(w Who, workspace string) bool {
	if suffices(a.Role(w, workspace), rig.Viewer) {
		return true
	}
	if workspace != Everywhere {
		return false
	}
	return a.HasRole(w.Name) // of the server, whoever has a role somewhere
}

// MayAnswer reports whether somebody answers the questions of a workspace.
func (a *Authority) MayAnswer(w Who, workspace string) bool {
	return w.Kind == rig.Person && suffices(a.Role(w, workspace), Approve.Role)
}

// Target is what an action is about.
type Target struct {
	Workspace, Space string
	RigID            string       // "" when it is about no rig
	Control          *rig.Control // who holds it, as far as is known
}

// On is the target that a rig is.
func On(r *rig.Rig) Target {
	return Target{Workspace: r.Workspace, Space: r.Space, RigID: r.ID, Control: r.Control}
}

// In is the target that a space is, or a workspace.
func In(workspace, space string) Target { return Target{Workspace: workspace, Space: space} }

// Server is the target of actions on the server as a whole.
var Server = Target{Workspace: Everywhere}

// Grant says that an action was decided to be done. It is the key to a rig's
// keeper, and made by Begin alone.
type Grant struct {
	Who    Who
	Target Target
	Action Action

	a   *Authority
	seq int64 // of the row that says so
}

// Begin decides about an action, and returns the grant for it or the reason why
// not. It may wait for a person's answer.
func (a *Authority) Begin(ctx context.Context, w Who, t Target, act Action) (*Grant, error) {
	err := a.pace.wait(ctx, w)
	if err != nil {
		return nil, rig.Errorf(rig.CodeCanceled, "%s was given up while it waited for its turn: %w", act.Verb, err)
	}
	err = a.decide(ctx, w, t, &act)
	outcome := "allowed"
	if err != nil {
		outcome = string(rig.CodeOf(err))
	}
	// Also when whoever asked has gone meanwhile: it was asked, and decided.
	row, aerr := a.Audit.Record(context.WithoutCancel(ctx), a.row(w, t, act, outcome))
	if err != nil {
		if aerr != nil {
			a.Log.Error("a refusal was not written to the audit log", "rig", t.RigID, "verb", act.Verb, "error", aerr)
		}
		return nil, err
	}
	if aerr != nil && act.Ends {
		a.Log.Error("an action was not written to the audit log and is done all the same", "rig", t.RigID, "verb", act.Verb, "by", w.Name, "error", aerr)
	} else if aerr != nil {
		return nil, rig.Errorf(rig.CodeOf(aerr), "%s was not done, because it could not be written to the audit log: %w", act.Verb, aerr)
	}
	return &Grant{Who: w, Target: t, Action: act, a: a, seq: row.Seq}, nil
}

func (a *Authority) row(w Who, t Target, act Action, outcome string) rig.AuditRow {
	r := rig.AuditRow{RigID: t.RigID, Time: a.Now().UTC(), Principal: w.Name, Kind: w.Kind, Action: act.Verb, Outcome: outcome, Detail: act.Detail}
	if len(act.Classes) > 0 {
		r.Class = act.Classes[len(act.Classes)-1]
	}
	return r
}

// decide is the order of SPEC §7 and §16.
func (a *Authority) decide(ctx context.Context, w Who, t Target, act *Action) error {
	switch role := a.Role(w, t.Workspace); {
	case act.People && w.Kind != rig.Person:
		return rig.Errorf(rig.CodeForbidden, "%s is an agent, and only people may do this (%s)", w.Name, act.Verb)
	case role == "":
		return rig.Errorf(rig.CodeForbidden, "%s has no role in workspace %s: an admin of it gives one with 'rigs policy members put'", w.Name, t.Workspace)
	case !suffices(role, act.Role):
		return rig.Errorf(rig.CodeForbidden, "%s is a %s of workspace %s, and %s takes a %s: an admin can change that", w.Name, role, t.Workspace, act.Verb, act.Role)
	}
	if w.Kind == rig.Agent {
		if err := a.guard(ctx, w, t, act); err != nil {
			return err
		}
	}
	return act.held(t, w.Principal)
}

// held is an error with code controlHeld when the action is not one for somebody else
// than who holds control of its target.
func (act *Action) held(t Target, by rig.Principal) error {
	if act.Drives || act.Leads && by.Kind == rig.Agent {
		return Held(t, by)
	}
	return nil
}

// Held is an error with code controlHeld when what was granted must not be done to a
// rig, or no more: a person may have been asked in between, and another one have taken
// control.
func (g *Grant) Held(r *rig.Rig) error { return g.Action.held(On(r), g.Who.Principal) }

// Held is an error with code controlHeld when somebody else holds control.
func Held(t Target, by rig.Principal) error {
	c := t.Control
	if c == nil || c.Holder == by {
		return nil
	}
	p := rig.Errorf(rig.CodeControlHeld, "%s holds control of rig %s since %s: nothing was done; looking still works, and acting again when control is given back", c.Holder.Name, t.RigID, c.Since.Local().Format(time.TimeOnly))
	h := c.Holder
	p.Holder = &h
	return p
}

// still is an error when a stream that was granted must not go on: a role was taken
// away, a guardrail denies it now, or its space has become read only. What has to be
// asked for since then was granted before.
func (a *Authority) still(w Who, t Target, act *Action) error {
	if role := a.Role(w, t.Workspace); !suffices(role, act.Role) {
		return rig.Errorf(rig.CodeForbidden, "%s may not go on: %s takes a %s of workspace %s", w.Name, act.Verb, act.Role, t.Workspace)
	}
	if w.Kind != rig.Agent {
		return nil
	}
	if effect, class, rule, s := a.effect(w, t, act); effect == rig.Deny {
		return denied(t, act, class, rule, s)
	}
	return nil
}

// guard applies the guardrails to an agent's action, asking a person where they
// say so.
func (a *Authority) guard(ctx context.Context, w Who, t Target, act *Action) error {
	effect, class, rule, s := a.effect(w, t, act)
	switch effect {
	case rig.Allow:
		return nil
	case rig.Deny:
		return denied(t, act, class, rule, s)
	case rig.Ask:
	}
	return a.askPerson(ctx, w, t, act, class)
}

// effect is what the guardrails say of an agent's action.
func (a *Authority) effect(w Who, t Target, act *Action) (rig.Effect, rig.Class, string, scope) {
	a.mu.RLock()
	rules := a.rules[t.Workspace] // replaced, never changed
	s := scope{space: t.Space, agent: w.Name, mode: rig.ModeNormal}
	if a.readOnly[[2]string{t.Workspace, t.Space}] {
		s.mode = rig.ModeReadOnly
	}
	a.mu.RUnlock()
	effect, class, rule := judge(rules, act.Classes, s)
	return effect, class, rule, s
}

func denied(t Target, act *Action, class rig.Class, rule string, s scope) error {
	if s.mode == rig.ModeReadOnly {
		return rig.Errorf(rig.CodeDenied, "space %s is read only: agents look and change nothing in it; a person can change its mode", t.Space)
	}
	return rig.Errorf(rig.CodeDenied, "a guardrail of workspace %s denies %s (%s): rule %s; a person can change it", t.Workspace, act.Verb, class, rule)
}

// askPerson waits for a person's answer.
func (a *Authority) askPerson(ctx context.Context, w Who, t Target, act *Action, class rig.Class) error {
	if !a.Desk.Attended(t.Workspace) {
		return rig.Errorf(rig.CodeDenied, "a person has to approve %s (%s), and nobody is there to be asked: try again when somebody has the page open", act.Verb, class)
	}
	q := rig.Approval{Kind: rig.ApprovalAction, Workspace: t.Workspace, Space: t.Space, RigID: t.RigID, By: w.Principal, Class: class, Verb: act.Verb, Summary: act.Summary}
	if act.Egress != "" {
		q.Pattern, q.TTLSeconds = act.Egress, act.EgressSeconds
	}
	q, err := a.Desk.Ask(ctx, q, askTimeout)
	if err != nil {
		return err
	}
	if act.Detail == nil {
		act.Detail = map[string]string{}
	}
	act.Detail["approval"] = q.ID
	answered, err := a.Desk.Wait(ctx, q.ID)
	if err != nil {
		a.Desk.Cancel(q.ID)
		return rig.Errorf(rig.CodeCanceled, "%s was given up while a person was asked: %w", act.Verb, err)
	}
	if answered.State == rig.Approved {
		act.Detail["approvedBy"] = answered.AnsweredBy
		return nil
	}
	why := map[rig.ApprovalState]string{rig.Denied: answered.AnsweredBy + " said no", rig.Expired: "nobody answered in time", rig.Canceled: "the question was taken back"}[answered.State]
	if answered.Note != "" {
		why += ": " + answered.Note
	}
	p := rig.Errorf(rig.CodeDenied, "a person was asked to approve %s (%s): %s", act.Verb, class, why)
	p.Approval = q.ID
	return p
}

// End writes down how the action ended: done, or the error's code. It is called
// once.
func (g *Grant) End(ctx context.Context, err error, detail ...string) {
	r := g.a.row(g.Who, g.Target, g.Action, "done")
	r.Ref, r.Detail = g.seq, nil
	if err != nil {
		r.Outcome = string(rig.CodeOf(err))
	}
	if len(detail) > 0 {
		r.Detail = g.Action.With("", detail...).Detail
	}
	// Whoever asked may have gone; what happened has happened.
	if err := g.a.Audit.Append(context.WithoutCancel(ctx), r); err != nil {
		g.a.Log.Error("an action's end was not written to the audit log", "rig", g.Target.RigID, "verb", g.Action.Verb, "error", err)
	}
}

// Also writes the action down, done, in the log of another target: of the rig that it
// opened.
func (g *Grant) Also(ctx context.Context, t Target) {
	r := g.a.row(g.Who, t, g.Action, "done")
	if err := g.a.Audit.Append(context.WithoutCancel(ctx), r); err != nil {
		g.a.Log.Error("an action was not written to a second audit log", "rig", t.RigID, "verb", g.Action.Verb, "error", err)
	}
}

// Input writes down one input event of a stream that the grant began. control is
// who holds control now. An error means that the event must not reach the rig.
func (g *Grant) Input(ctx context.Context, control *rig.Control, kind string, content []byte) error {
	if err := g.a.pace.wait(ctx, g.Who); err != nil {
		return rig.Errorf(rig.CodeCanceled, "input was given up while it waited for its turn: %w", err)
	}
	t := g.Target
	t.Control = control
	err := Held(t, g.Who.Principal)
	if err == nil {
		err = g.a.still(g.Who, t, &g.Action)
	}
	r := g.a.row(g.Who, g.Target, g.Action, "allowed")
	r.Action, r.Detail = g.Action.Verb+"."+kind, g.a.Audit.Redact(t.RigID, content)
	if err != nil {
		r.Outcome = string(rig.CodeOf(err))
	}
	if aerr := g.a.Audit.Append(ctx, r); err == nil {
		err = aerr
	}
	return err
}

// Note writes down something that the server itself did.
func (a *Authority) Note(ctx context.Context, t Target, verb string, detail ...string) {
	act := Action{Verb: verb}.With("", detail...)
	r := a.row(Who{Principal: rig.Principal{Name: "rigs", Kind: rig.System}}, t, act, "done")
	if err := a.Audit.Append(context.WithoutCancel(ctx), r); err != nil {
		a.Log.Error("what the server did was not written to the audit log", "rig", t.RigID, "verb", verb, "error", err)
	}
}

// Rules lists a workspace's guardrails, oldest first.
func (a *Authority) Rules(workspace string) []rig.Rule {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return append([]rig.Rule{}, a.rules[workspace]...)
}

// AddRule writes a guardrail and returns it; one that says the same is returned
// instead.
func (a *Authority) AddRule(ctx context.Context, workspace string, r rig.Rule, by string) (rig.Rule, error) {
	if !slices.Contains(rig.Classes, r.Class) {
		return r, rig.FieldErrorf("class", "class %q: it must be one of %v", r.Class, rig.Classes)
	}
	if restricts(r.Effect) < 0 {
		return r, rig.FieldErrorf("effect", "effect %q: it must be allow, ask or deny", r.Effect)
	}
	if r.Space != "" && !rig.ValidName(r.Space) {
		return r, rig.FieldErrorf("space", "%q is not the name of a space", r.Space)
	}
	r.ID, r.CreatedAt, r.CreatedBy = rig.NewID(), a.Now().UTC(), by
	err := a.Changed(ctx, func() error { return a.Store.AddRule(ctx, store.Rule{Workspace: workspace, Rule: r}) })
	if errors.Is(err, store.ErrExists) {
		for _, have := range a.Rules(workspace) {
			if have.Class == r.Class && have.Effect == r.Effect && have.Space == r.Space && have.Agent == r.Agent && have.Mode == r.Mode {
				return have, nil
			}
		}
	}
	return r, err
}

// DeleteRule removes a guardrail.
func (a *Authority) DeleteRule(ctx context.Context, workspace, id string) error {
	err := a.Changed(ctx, func() error { return a.Store.DeleteRule(ctx, workspace, id) })
	if errors.Is(err, store.ErrNotFound) {
		return rig.Errorf(rig.CodeNotFound, "workspace %s has no rule %q: see 'rigs policy rules'", workspace, id)
	}
	return err
}

// Members lists who has a role in a workspace, or everywhere.
func (a *Authority) Members(ctx context.Context, workspace string) ([]store.Member, error) {
	all, err := a.Store.Members(ctx)
	return slices.DeleteFunc(all, func(m store.Member) bool { return m.Workspace != workspace }), err
}

// PutMember gives a principal a role.
func (a *Authority) PutMember(ctx context.Context, m store.Member) error {
	if !slices.Contains(rig.Roles, m.Role) {
		return rig.FieldErrorf("role", "role %q: it must be one of %v", m.Role, rig.Roles)
	}
	return a.Changed(ctx, func() error { return a.Store.PutMember(ctx, m) })
}

// DeleteMember takes a principal's role away.
func (a *Authority) DeleteMember(ctx context.Context, workspace, principal string) error {
	err := a.Changed(ctx, func() error { return a.Store.DeleteMember(ctx, workspace, principal) })
	if errors.Is(err, store.ErrNotFound) {
		return rig.Errorf(rig.CodeNotFound, "%s has no role of its own in workspace %s", principal, workspace)
	}
	return err
}

// SetMode changes how a space is worked in.
func (a *Authority) SetMode(ctx context.Context, workspace, space string, m rig.Mode) error {
	if m != rig.ModeNormal && m != rig.ModeReadOnly {
		return rig.FieldErrorf("mode", "mode %q: it must be normal or readOnly", m)
	}
	err := a.Changed(ctx, func() error { return a.Store.SetSpaceMode(ctx, workspace, space, m) })
	if errors.Is(err, store.ErrNotFound) {
		return rig.Errorf(rig.CodeNotFound, "workspace %s has no space %q", workspace, space)
	}
	return err
}

// Remember is the effect of an answer about an action: with remember, a guardrail
// that gives the same answer from now on, to the agent in the space, to the agent, or
// to every agent of the workspace. It takes the place of rules of the same scope. Who
// may give that answer was decided before (Remembering).
func (a *Authority) Remember(ctx context.Context, by rig.Principal, q *rig.Approval, approve bool, ans serverapi.ApprovalAnswer) error {
	r := rig.Rule{Class: q.Class, Effect: rig.Deny}
	if approve {
		r.Effect = rig.Allow
	}
	switch ans.Remember {
	case "":
		return nil
	case "space":
		r.Space, r.Agent = q.Space, q.By.Name
	case "agent":
		r.Agent = q.By.Name
	case "workspace":
	default:
		return rig.FieldErrorf("remember", "remember %q: it must be space, agent or workspace", ans.Remember)
	}
	var replaced []string
	after := []rig.Rule{r}
	for _, have := range a.Rules(q.Workspace) {
		if have.Class == r.Class && have.Space == r.Space && have.Agent == r.Agent && have.Mode == "" {
			replaced = append(replaced, have.ID)
		} else {
			after = append(after, have)
		}
	}
	if effect, rule := judgeClass(after, q.Class, scope{space: q.Space, agent: q.By.Name, mode: rig.ModeNormal}); effect != r.Effect {
		return rig.FieldErrorf("remember", "remembering it for the %s would change nothing: rule %s is more specific; remember it for the space, or change that rule", ans.Remember, rule)
	}
	// The new rule first: there is no moment without one.
	r, err := a.AddRule(ctx, q.Workspace, r, by.Name)
	if err != nil {
		return err
	}
	a.noteRule(ctx, q, by, RuleAdd, "rule", r.ID, "class", string(r.Class), "effect", string(r.Effect), "space", r.Space, "agent", r.Agent)
	for _, id := range replaced {
		if id == r.ID {
			continue // it said so already
		}
		if err := a.DeleteRule(ctx, q.Workspace, id); err != nil {
			return err
		}
		a.noteRule(ctx, q, by, RuleDelete, "rule", id)
	}
	return nil
}

// noteRule writes down, in the server's log, what an answer did to the rules.
func (a *Authority) noteRule(ctx context.Context, q *rig.Approval, by rig.Principal, act Action, detail ...string) {
	row := a.row(Who{Principal: by}, In(q.Workspace, ""), act.With("", append(detail, "workspace", q.Workspace, "approval", q.ID)...), "done")
	if err := a.Audit.Append(context.WithoutCancel(ctx), row); err != nil {
		a.Log.Error("a remembered rule was not written to the audit log", "approval", q.ID, "error", err)
	}
}

// Remembering is an answer that is remembered. A member of the workspace may have a
// rule written so for a space or an agent, an admin one for all of it.
func Remembering(act Action, remember string) Action {
	if remember == "workspace" {
		act.Role = rig.Admin
	}
	return act
}
