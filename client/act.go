package client

import (
	"context"
	"encoding/json"

	"rigs/internal/keeperapi"
	"rigs/internal/rig"
)

type (
	// Action is a verb of a surface with what it takes.
	Action = rig.Action
	// ActResult is what an action gave: the field of its verb is set.
	ActResult = keeperapi.ActResult
)

// Act does one action on a rig.
func (c *Client) Act(ctx context.Context, ref string, a Action) (ActResult, error) {
	b, err := json.Marshal(a)
	if err != nil {
		return ActResult{}, err
	}
	return post[ActResult](ctx, c, c.rigPath(ref, "/act", nil), json.RawMessage(b))
}
