package mcp

import (
	"context"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"rigs/client"
	"rigs/internal/fence"
	"rigs/internal/rig"
)

// pending asks the questions that were there before the events were watched.
func (s *session) pending() {
	all, err := s.person.Approvals(s.ctx, client.ApprovalOptions{State: rig.Pending})
	if err != nil {
		return // the events will bring them, or the page will
	}
	for i := range all {
		s.ask(&all[i])
	}
}

// ask puts a question of this session's agent to the client's user, once, and
// passes the answer on. It does not wait.
func (s *session) ask(a *client.Approval) {
	if !s.asks() || a.By != (rig.Principal{Name: s.name, Kind: rig.Agent}) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// Another session's agent may have the same name: its user is asked there.
	if _, ok := s.asked[a.ID]; ok || s.calls == 0 {
		return
	}
	ctx, cancel := context.WithDeadline(s.ctx, a.ExpiresAt)
	s.asked[a.ID] = cancel
	go func() {
		defer cancel() // the entry stays: a question is put once
		s.elicit(ctx, a)
	}()
}

// elicit asks, and answers in the person's name. A user who closes the question
// without an answer leaves it to the page and the command line.
func (s *session) elicit(ctx context.Context, a *client.Approval) {
	props := map[string]any{
		"allow": map[string]any{"type": "boolean", "title": "Allow it", "default": false},
		"note":  map[string]any{"type": "string", "title": "Note", "description": "For the agent", "maxLength": 500},
	}
	if a.Kind == rig.ApprovalAction {
		props["remember"] = map[string]any{"type": "string", "title": "Remember this answer", "enum": []string{"no", "space", "agent", "workspace"}, "default": "no"}
	}
	res, err := s.mcp.Elicit(ctx, &mcp.ElicitParams{Message: question(a), RequestedSchema: map[string]any{"type": "object", "properties": props, "required": []string{"allow"}}})
	if err != nil {
		return // the client cannot, or somebody else has answered: the question is where it was
	}
	var ans client.ApprovalAnswer
	allow := false
	switch res.Action {
	case "accept":
		allow, _ = res.Content["allow"].(bool)
		ans.Note, _ = res.Content["note"].(string)
		if r, _ := res.Content["remember"].(string); r != "no" {
			ans.Remember = r
		}
	case "decline":
	default:
		return
	}
	answer := s.person.Refuse
	if allow {
		answer = s.person.Approve
	}
	if _, err := answer(ctx, a.ID, ans); err != nil && rig.CodeOf(err) != rig.CodeConflict {
		s.hub.options.Log.Warn("an answer was not taken", "approval", a.ID, "error", err)
	}
}

// question is what a person is asked. What the agent says is quoted.
func question(a *client.Approval) string {
	who := "Agent " + fence.Source(a.By.Name)
	where := a.Space
	if a.RigID != "" {
		where = "rig " + a.RigID + " (space " + a.Space + ")"
	}
	q := fmt.Sprintf("%s wants to do this in %s: %s", who, where, fence.Source(a.Summary))
	if a.Kind == rig.ApprovalEgress {
		q = fmt.Sprintf("%s asks that %s may reach %s", who, where, fence.Source(a.Pattern))
		if a.TTLSeconds > 0 {
			q += fmt.Sprintf(" for %d s", a.TTLSeconds)
		}
	}
	if a.Reason != "" {
		q += ".\nIts reason, in its own words: “" + fence.Source(a.Reason) + "”"
	}
	return q
}
