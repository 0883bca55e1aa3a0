package api

import (
	"context"
	"net/http"

	"rigs/internal/rig"
	"rigs/internal/server/auth"
	"rigs/internal/server/authority"
	"rigs/internal/server/rigs"
	"rigs/internal/serverapi"
)

// who is the caller of a request.
func who(ctx context.Context) authority.Who { return asWho(auth.From(ctx)) }

func asWho(c auth.Caller) authority.Who {
	w := authority.Who{Principal: c.Principal, Owner: c.Owner}
	if c.Behalf != nil {
		b := asWho(*c.Behalf)
		w.Behalf = &b
	}
	return w
}

// see is an error unless the caller may know of a workspace.
func (a *API) see(ctx context.Context, workspace string) error {
	if w := who(ctx); !a.Authority.Sees(w, workspace) {
		return rig.Errorf(rig.CodeForbidden, "%s has no role in workspace %s", w.Name, workspace)
	}
	return nil
}

// sees is see as a filter.
func (a *API) sees(ctx context.Context) func(workspace string) bool {
	w := who(ctx)
	return func(workspace string) bool { return a.Authority.Sees(w, workspace) }
}

// rig is a rig that the caller may know of.
func (a *API) rig(ctx context.Context, in *RigIn) (rig.Rig, error) {
	r, err := a.Rigs.Get(ctx, in.Rig, in.Workspace)
	if err == nil {
		err = a.see(ctx, r.Workspace)
	}
	return r, err
}

// begin passes an action on a rig through the chokepoint. The grant has to be
// ended.
func (a *API) begin(ctx context.Context, in *RigIn, act authority.Action) (*authority.Grant, error) {
	r, err := a.Rigs.Get(ctx, in.Rig, in.Workspace)
	if err != nil {
		return nil, err
	}
	return a.Authority.Begin(ctx, who(ctx), authority.On(&r), act)
}

// do does an action on a rig with the grant for it.
func do[T any](ctx context.Context, a *API, in *RigIn, act authority.Action, f func(g *authority.Grant) (T, error)) (T, error) {
	g, err := a.begin(ctx, in, act)
	if err != nil {
		var none T
		return none, err
	}
	v, err := f(g)
	g.End(ctx, err)
	return v, err
}

// using does an action in a rig's machine with the grant for it.
func using[T any](ctx context.Context, a *API, in *RigIn, act authority.Action, kind rigs.Kind, f func(u *rigs.Use) (T, error)) (T, error) {
	return do(ctx, a, in, act, func(g *authority.Grant) (T, error) {
		u, err := a.Rigs.Use(ctx, g, kind)
		if err != nil {
			var none T
			return none, err
		}
		defer u.Done()
		notify(ctx, u)
		return f(u)
	})
}

// doOn does an action that is not about one rig.
func (a *API) doOn(ctx context.Context, t authority.Target, act authority.Action, f func(g *authority.Grant) error) error {
	g, err := a.Authority.Begin(ctx, who(ctx), t, act)
	if err != nil {
		return err
	}
	err = f(g)
	g.End(ctx, err)
	return err
}

type headerKey struct{}

// withHeader lets handlers of the framework's set headers of the answer.
func withHeader(r *http.Request, w http.ResponseWriter) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), headerKey{}, w.Header()))
}

// notify puts what the caller has to be told into the answer's header.
func notify(ctx context.Context, u *rigs.Use) {
	h, ok := ctx.Value(headerKey{}).(http.Header)
	if !ok {
		return
	}
	for _, n := range u.Notices() {
		h.Add(serverapi.NoticeHeader, n)
	}
}
