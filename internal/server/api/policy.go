package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"

	"rigs/internal/rig"
	"rigs/internal/server/auth"
	"rigs/internal/server/authority"
	"rigs/internal/server/store"
	"rigs/internal/serverapi"
)

// MembersOf is the workspace of members: one's own, or all of them.
type MembersOf struct {
	Workspace string `path:"workspace" maxLength:"63" doc:"A workspace, or * for roles in all of them"`
}

// target is what changing a workspace's policy is about.
func (a *API) policyOf(ctx context.Context, workspace string) (authority.Target, error) {
	if workspace == authority.Everywhere {
		if w := who(ctx); a.Authority.Role(w, workspace) == "" {
			return authority.Server, rig.Errorf(rig.CodeForbidden, "%s has a role in some workspaces only", w.Name)
		}
		return authority.Server, nil
	}
	return authority.In(workspace, ""), errors.Join(a.see(ctx, workspace), a.hasWorkspace(ctx, workspace))
}

// isOwner reports whether a principal is an owner of a workspace by a role of its
// own there.
func (a *API) isOwner(ctx context.Context, workspace, name string) bool {
	ms, err := a.Authority.Members(ctx, workspace)
	return err != nil || slices.ContainsFunc(ms, func(m store.Member) bool { return m.Principal == name && m.Role == rig.Owner })
}

func (a *API) policyRoutes() {
	type WorkspaceIn struct {
		Workspace string `path:"workspace" maxLength:"63"`
	}
	handle(a, route{method: "GET", path: "/v1/workspaces/{workspace}/rules", id: "listRules", summary: "A workspace's guardrails, oldest first", tag: "policy"},
		func(ctx context.Context, in *WorkspaceIn) (serverapi.Rules, error) {
			_, err := a.policyOf(ctx, in.Workspace)
			return serverapi.Rules{Rules: a.Authority.Rules(in.Workspace)}, err
		})
	handle(a, route{method: "POST", path: "/v1/workspaces/{workspace}/rules", id: "addRule", summary: "Add a guardrail for agents", tag: "policy", status: http.StatusCreated},
		func(ctx context.Context, in *struct {
			WorkspaceIn
			Body serverapi.NewRule
		}) (rig.Rule, error) {
			b := in.Body
			r := rig.Rule{Class: b.Class, Effect: b.Effect, Space: b.Space, Agent: b.Agent, Mode: b.Mode}
			t, err := a.policyOf(ctx, in.Workspace)
			if err != nil {
				return r, err
			}
			return r, a.doOn(ctx, t, authority.RuleAdd.With("", "workspace", in.Workspace, "class", string(b.Class), "effect", string(b.Effect), "space", b.Space, "agent", b.Agent, "mode", string(b.Mode)),
				func(g *authority.Grant) (err error) {
					r, err = a.Authority.AddRule(ctx, in.Workspace, r, g.Who.Name)
					return err
				})
		})
	handleEmpty(a, route{method: "DELETE", path: "/v1/workspaces/{workspace}/rules/{id}", id: "deleteRule", summary: "Remove a guardrail", tag: "policy"},
		func(ctx context.Context, in *struct {
			WorkspaceIn
			ID string `path:"id" maxLength:"64"`
		}) error {
			t, err := a.policyOf(ctx, in.Workspace)
			if err != nil {
				return err
			}
			return a.doOn(ctx, t, authority.RuleDelete.With("", "workspace", in.Workspace, "rule", in.ID),
				func(*authority.Grant) error { return a.Authority.DeleteRule(ctx, in.Workspace, in.ID) })
		})

	handle(a, route{method: "GET", path: "/v1/workspaces/{workspace}/members", id: "listMembers", summary: "Who has a role of their own in a workspace", tag: "policy"},
		func(ctx context.Context, in *MembersOf) (serverapi.Members, error) {
			out := serverapi.Members{Members: []serverapi.Membership{}}
			if _, err := a.policyOf(ctx, in.Workspace); err != nil {
				return out, err
			}
			ms, err := a.Authority.Members(ctx, in.Workspace)
			for _, m := range ms {
				out.Members = append(out.Members, serverapi.Membership{Principal: m.Principal, Role: m.Role})
			}
			return out, err
		})
	type MemberIn struct {
		MembersOf
		Name string `path:"name" maxLength:"63" doc:"Name of the principal: of a token, or of an agent"`
	}
	handle(a, route{method: "PUT", path: "/v1/workspaces/{workspace}/members/{name}", id: "putMember", summary: "Give a principal a role; who has one somewhere has none elsewhere", tag: "policy"},
		func(ctx context.Context, in *struct {
			MemberIn
			Body serverapi.NewRole
		}) (serverapi.Membership, error) {
			m := store.Member{Workspace: in.Workspace, Principal: in.Name, Role: in.Body.Role}
			out := serverapi.Membership{Principal: m.Principal, Role: m.Role}
			t, err := a.policyOf(ctx, in.Workspace)
			if err == nil {
				err = auth.GoodName(in.Name)
			}
			if err != nil {
				return out, err
			}
			act := authority.MemberPut
			if m.Role == rig.Owner || a.isOwner(ctx, in.Workspace, in.Name) { // nobody makes more of anybody than they are, or less of an owner
				act.Role = rig.Owner
			}
			return out, a.doOn(ctx, t, act.With("", "workspace", in.Workspace, "principal", in.Name, "role", string(m.Role)),
				func(*authority.Grant) error { return a.Authority.PutMember(ctx, m) })
		})
	handleEmpty(a, route{method: "DELETE", path: "/v1/workspaces/{workspace}/members/{name}", id: "deleteMember", summary: "Take a principal's role away", tag: "policy"},
		func(ctx context.Context, in *MemberIn) error {
			t, err := a.policyOf(ctx, in.Workspace)
			if err != nil {
				return err
			}
			act := authority.MemberDelete
			if a.isOwner(ctx, in.Workspace, in.Name) {
				act.Role = rig.Owner
			}
			return a.doOn(ctx, t, act.With("", "workspace", in.Workspace, "principal", in.Name),
				func(*authority.Grant) error { return a.Authority.DeleteMember(ctx, in.Workspace, in.Name) })
		})

	handle(a, route{method: "PATCH", path: "/v1/workspaces/{workspace}/spaces/{space}", id: "changeSpace", summary: "Change how a space is worked in", tag: "spaces"},
		func(ctx context.Context, in *struct {
			WorkspaceIn
			Space string `path:"space" maxLength:"63"`
			Body  serverapi.SpaceChange
		}) (serverapi.Space, error) {
			out := serverapi.Space{Name: in.Space, Workspace: in.Workspace}
			err := a.doOn(ctx, authority.In(in.Workspace, in.Space), authority.SpaceChange.With("", "workspace", in.Workspace, "space", in.Space, "mode", string(in.Body.Mode)),
				func(*authority.Grant) error { return a.Authority.SetMode(ctx, in.Workspace, in.Space, in.Body.Mode) })
			if err != nil {
				return out, err
			}
			ss, err := a.Store.Spaces(ctx, in.Workspace)
			for _, s := range ss {
				if s.Name == in.Space {
					out.CreatedAt, out.Mode = s.CreatedAt, cmp.Or(s.Mode, rig.ModeNormal)
				}
			}
			out.Rigs = a.live(func(r *rig.Rig) string { return r.Workspace + "/" + r.Space })[in.Workspace+"/"+in.Space]
			return out, err
		})
}
