package api

import (
	"context"

	"rigs/internal/rig"
	"rigs/internal/server/authority"
	"rigs/internal/serverapi"
)

func (a *API) controlRoutes() {
	handle(a, route{method: "POST", path: "/v1/rigs/{rig}/take", id: "takeControl", summary: "Take control of a rig: nobody else's actions change anything in it then", tag: "control"},
		func(ctx context.Context, in *struct {
			RigIn
			Body *serverapi.Take
		}) (rig.Rig, error) {
			var t serverapi.Take
			if in.Body != nil {
				t = *in.Body
			}
			act := authority.Take
			if t.Force {
				act.Role = rig.Admin
				act = act.With("", "force", "true")
			}
			return do(ctx, a, &in.RigIn, act, func(g *authority.Grant) (rig.Rig, error) { return a.Rigs.Take(ctx, g, t.Viewer, t.Force) })
		})
	handle(a, route{method: "POST", path: "/v1/rigs/{rig}/give", id: "giveControl", summary: "Give control of a rig back", tag: "control"},
		func(ctx context.Context, in *RigIn) (rig.Rig, error) {
			return do(ctx, a, in, authority.Give, func(g *authority.Grant) (rig.Rig, error) { return a.Rigs.Give(ctx, g) })
		})
}
