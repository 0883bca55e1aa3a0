package api

import (
	"context"
	"errors"
	"net/http"

	"rigs/internal/rig"
	"rigs/internal/server/authority"
	"rigs/internal/server/feed"
	"rigs/internal/server/store"
	"rigs/internal/serverapi"
)

func (a *API) spaceRoutes() {
	type WorkspaceIn struct {
		Workspace string `path:"workspace" maxLength:"63"`
	}
	handle(a, route{method: "GET", path: "/v1/workspaces", id: "listWorkspaces", summary: "List workspaces", tag: "spaces"},
		func(ctx context.Context, _ *in) (serverapi.Workspaces, error) {
			out := serverapi.Workspaces{Workspaces: []serverapi.Workspace{}}
			ws, err := a.Store.Workspaces(ctx)
			live := a.live(func(r *rig.Rig) string { return r.Workspace })
			sees := a.sees(ctx)
			for _, w := range ws {
				if !sees(w.Name) {
					continue
				}
				out.Workspaces = append(out.Workspaces, serverapi.Workspace{Name: w.Name, CreatedAt: w.CreatedAt, Spaces: w.Spaces, Rigs: live[w.Name]})
			}
			return out, err
		})
	handle(a, route{method: "POST", path: "/v1/workspaces", id: "createWorkspace", summary: "Make a workspace", tag: "spaces", status: http.StatusCreated},
		func(ctx context.Context, in *struct{ Body serverapi.Name }) (serverapi.Workspace, error) {
			w := serverapi.Workspace{Name: in.Body.Name, CreatedAt: a.Now().UTC()}
			if err := validName(w.Name); err != nil {
				return w, err
			}
			return w, a.doOn(ctx, authority.Server, authority.WorkspaceCreate.With("", "workspace", w.Name), func(*authority.Grant) error {
				return known(a.Store.AddWorkspace(ctx, w.Name, w.CreatedAt), "workspace", w.Name)
			})
		})
	handleEmpty(a, route{method: "DELETE", path: "/v1/workspaces/{workspace}", id: "deleteWorkspace", summary: "Close a workspace's rigs and forget it", tag: "spaces"},
		func(ctx context.Context, in *WorkspaceIn) error {
			if in.Workspace == serverapi.Default {
				return rig.Errorf(rig.CodeConflict, "the workspace %q stays: it is where those go who name none", in.Workspace)
			}
			return a.doOn(ctx, authority.In(in.Workspace, ""), authority.WorkspaceDelete.With("", "workspace", in.Workspace), func(g *authority.Grant) error {
				return a.Rigs.Drop(ctx, g, feed.Filter{Workspace: in.Workspace}, rig.WorkspaceGone, func() error {
					return a.Authority.Changed(ctx, func() error {
						return known(a.Store.DeleteWorkspace(ctx, in.Workspace), "workspace", in.Workspace)
					})
				})
			})
		})

	handle(a, route{method: "GET", path: "/v1/workspaces/{workspace}/spaces", id: "listSpaces", summary: "List a workspace's spaces", tag: "spaces"},
		func(ctx context.Context, in *WorkspaceIn) (serverapi.Spaces, error) {
			out := serverapi.Spaces{Spaces: []serverapi.Space{}}
			if err := errors.Join(a.see(ctx, in.Workspace), a.hasWorkspace(ctx, in.Workspace)); err != nil {
				return out, err
			}
			ss, err := a.Store.Spaces(ctx, in.Workspace)
			live := a.live(func(r *rig.Rig) string { return r.Workspace + "/" + r.Space })
			for _, s := range ss {
				out.Spaces = append(out.Spaces, serverapi.Space{Name: s.Name, Workspace: s.Workspace, CreatedAt: s.CreatedAt, Rigs: live[s.Workspace+"/"+s.Name], Mode: s.Mode})
			}
			return out, err
		})
	handle(a, route{method: "POST", path: "/v1/workspaces/{workspace}/spaces", id: "createSpace", summary: "Make a space", tag: "spaces", status: http.StatusCreated},
		func(ctx context.Context, in *struct {
			WorkspaceIn
			Body serverapi.Name
		}) (serverapi.Space, error) {
			s := serverapi.Space{Name: in.Body.Name, Workspace: in.Workspace, CreatedAt: a.Now().UTC()}
			if err := errors.Join(validName(s.Name), a.hasWorkspace(ctx, in.Workspace)); err != nil {
				return s, err
			}
			s.Mode = rig.ModeNormal
			return s, a.doOn(ctx, authority.In(s.Workspace, s.Name), authority.SpaceCreate.With("", "workspace", s.Workspace, "space", s.Name), func(*authority.Grant) error {
				return known(a.Store.AddSpace(ctx, s.Workspace, s.Name, s.CreatedAt), "space", s.Name)
			})
		})
	handleEmpty(a, route{method: "DELETE", path: "/v1/workspaces/{workspace}/spaces/{space}", id: "deleteSpace", summary: "Close a space's rigs and forget it", tag: "spaces"},
		func(ctx context.Context, in *struct {
			WorkspaceIn
			Space string `path:"space" maxLength:"63"`
		}) error {
			return a.doOn(ctx, authority.In(in.Workspace, in.Space), authority.SpaceDelete.With("close every rig of space "+in.Space, "workspace", in.Workspace, "space", in.Space), func(g *authority.Grant) error {
				return a.Rigs.Drop(ctx, g, feed.Filter{Workspace: in.Workspace, Space: in.Space}, rig.ConversationEnded, func() error {
					return a.Authority.Changed(ctx, func() error { return known(a.Store.DeleteSpace(ctx, in.Workspace, in.Space), "space", in.Space) })
				})
			})
		})
}

// live counts the live rigs by what key says of them.
func (a *API) live(key func(*rig.Rig) string) map[string]int {
	n := map[string]int{}
	for _, r := range a.Rigs.List("", "") {
		if r.Phase.Live() {
			n[key(&r)]++
		}
	}
	return n
}

func (a *API) hasWorkspace(ctx context.Context, name string) error {
	ok, err := a.Store.HasWorkspace(ctx, name)
	if err == nil && !ok {
		err = known(store.ErrNotFound, "workspace", name)
	}
	return err
}

func validName(name string) error {
	if !rig.ValidName(name) {
		return rig.FieldErrorf("name", "%q is not a name: use 1 to 63 of a-z 0-9 . _ -, beginning with a letter or digit, and no two dots together", name)
	}
	return nil
}

// known turns the store's answers about names into problems.
func known(err error, what, name string) error {
	switch {
	case errors.Is(err, store.ErrExists):
		return rig.Errorf(rig.CodeConflict, "there is a %s %q already", what, name)
	case errors.Is(err, store.ErrNotFound):
		return rig.Errorf(rig.CodeNotFound, "no %s %q", what, name)
	}
	return err
}
