package store

import (
	"context"

	"rigs/internal/rig"
	"rigs/internal/server/store/db"
)

// EgressChange is what a workspace adds to, and removes from, the default egress
// list of a surface.
type EgressChange struct{ Add, Remove []string }

const (
	egressAdd    = "add"
	egressRemove = "remove"
)

// WorkspaceEgress returns a workspace's changes of the default egress lists.
func (s *Store) WorkspaceEgress(ctx context.Context, workspace string) (map[rig.Surface]EgressChange, error) {
	rows, err := s.q.WorkspaceEgress(ctx, workspace)
	out := map[rig.Surface]EgressChange{}
	for _, r := range rows {
		c := out[rig.Surface(r.Surface)]
		if r.Effect == egressAdd {
			c.Add = append(c.Add, r.Pattern)
		} else {
			c.Remove = append(c.Remove, r.Pattern)
		}
		out[rig.Surface(r.Surface)] = c
	}
	return out, err
}

// PutWorkspaceEgress replaces a workspace's changes of the default egress lists.
func (s *Store) PutWorkspaceEgress(ctx context.Context, workspace string, changes map[rig.Surface]EgressChange) error {
	return s.Update(ctx, func(q *db.Queries) error {
		if err := q.DeleteWorkspaceEgress(ctx, workspace); err != nil {
			return err
		}
		for surface, c := range changes {
			for effect, patterns := range map[string][]string{egressAdd: c.Add, egressRemove: c.Remove} {
				for i, p := range patterns {
					row := db.InsertWorkspaceEgressParams{Workspace: workspace, Surface: string(surface), Effect: effect, Position: int64(i), Pattern: p}
					if err := q.InsertWorkspaceEgress(ctx, row); err != nil {
						return err
					}
				}
			}
		}
		return nil
	})
}
