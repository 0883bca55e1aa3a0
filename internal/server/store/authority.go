package store

import (
	"context"

	"rigs/internal/rig"
	"rigs/internal/server/store/db"
)

// Member is a principal's role in a workspace; "*" stands for all of them.
type Member struct {
	Workspace, Principal string
	Role                 rig.Role
}

// Members lists the members of every workspace.
func (s *Store) Members(ctx context.Context) ([]Member, error) {
	rows, err := s.q.ListMembers(ctx)
	out := make([]Member, len(rows))
	for i, r := range rows {
		out[i] = Member{r.Workspace, r.Principal, rig.Role(r.Role)}
	}
	return out, err
}

// PutMember gives a principal a role instead of the one that it had.
func (s *Store) PutMember(ctx context.Context, m Member) error {
	return s.q.PutMember(ctx, db.PutMemberParams{Workspace: m.Workspace, Principal: m.Principal, Role: string(m.Role)})
}

// DeleteMember takes a principal's role away, or returns ErrNotFound.
func (s *Store) DeleteMember(ctx context.Context, workspace, principal string) error {
	n, err := s.q.DeleteMember(ctx, db.DeleteMemberParams{Workspace: workspace, Principal: principal})
	return oneRow(n, err, ErrNotFound)
}

// Rule is a guardrail and the workspace that it belongs to.
type Rule struct {
	Workspace string
	rig.Rule
}

// Rules lists the guardrails of every workspace, oldest first.
func (s *Store) Rules(ctx context.Context) ([]Rule, error) {
	rows, err := s.q.ListRules(ctx)
	out := make([]Rule, len(rows))
	for i, r := range rows {
		out[i] = Rule{r.Workspace, rig.Rule{ID: r.ID, Class: rig.Class(r.Class), Effect: rig.Effect(r.Effect), Space: r.Space, Agent: r.Agent,
			Mode: rig.Mode(r.Mode), CreatedAt: fromMillis(r.CreatedAt), CreatedBy: r.CreatedBy}}
	}
	return out, err
}

// AddRule writes a guardrail, or returns ErrExists when there is one that says
// the same.
func (s *Store) AddRule(ctx context.Context, r Rule) error {
	n, err := s.q.InsertRule(ctx, db.InsertRuleParams{ID: r.ID, Workspace: r.Workspace, Class: string(r.Class), Effect: string(r.Effect),
		Space: r.Space, Agent: r.Agent, Mode: string(r.Mode), CreatedAt: millis(r.CreatedAt), CreatedBy: r.CreatedBy})
	return oneRow(n, err, ErrExists)
}

// DeleteRule removes a guardrail of a workspace, or returns ErrNotFound.
func (s *Store) DeleteRule(ctx context.Context, workspace, id string) error {
	n, err := s.q.DeleteRule(ctx, db.DeleteRuleParams{ID: id, Workspace: workspace})
	return oneRow(n, err, ErrNotFound)
}

// SetSpaceMode changes how a space is worked in, or returns ErrNotFound.
func (s *Store) SetSpaceMode(ctx context.Context, workspace, space string, m rig.Mode) error {
	n, err := s.q.SetSpaceMode(ctx, db.SetSpaceModeParams{Mode: string(m), Workspace: workspace, Name: space})
	return oneRow(n, err, ErrNotFound)
}

// ReadOnlySpaces lists the spaces, as workspace and name, whose mode is
// readOnly.
func (s *Store) ReadOnlySpaces(ctx context.Context) ([][2]string, error) {
	rows, err := s.q.ReadOnlySpaces(ctx)
	out := make([][2]string, len(rows))
	for i, r := range rows {
		out[i] = [2]string{r.Workspace, r.Name}
	}
	return out, err
}
