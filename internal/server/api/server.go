package api

import (
	"cmp"
	"context"
	"errors"
	"html"
	"net/http"
	"net/url"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"rigs/internal/rig"
	"rigs/internal/server/auth"
	"rigs/internal/server/authority"
	"rigs/internal/server/store"
	"rigs/internal/serverapi"
)

func (a *API) serverRoutes() {
	handle(a, route{method: "GET", path: "/v1/server", id: "getServer", summary: "What the server is, and who the caller is", tag: "server"},
		func(ctx context.Context, _ *in) (serverapi.Server, error) {
			return serverapi.Server{Version: a.Version, DataDir: a.DataDir, StartedAt: a.StartedAt, Principal: auth.From(ctx).Principal}, nil
		})
	handle(a, route{method: "GET", path: "/v1/doctor", id: "getDoctor", summary: "What this host can boot, from trying", tag: "server"},
		func(ctx context.Context, in *struct {
			Fresh bool `query:"fresh" doc:"Try again instead of using what was found before"`
		}) (serverapi.Doctor, error) {
			return a.Doctor.Report(ctx, in.Fresh)
		})

	handle(a, route{method: "POST", path: "/v1/signin-links", id: "createSigninLink", summary: "A one-time address that signs a browser in as the caller", tag: "access"},
		func(ctx context.Context, _ *in) (serverapi.SigninLink, error) {
			base := a.URL
			if base == "" {
				return serverapi.SigninLink{}, rig.Errorf(rig.CodeUnavailable, "no sign-in link: the server listens on its socket only: start it with --listen 127.0.0.1:7878")
			}
			code, expires, err := a.Auth.NewLink(ctx)
			return serverapi.SigninLink{URL: base + "/signin?code=" + url.QueryEscape(code), ExpiresAt: expires}, err
		})
	type signedOut struct {
		SetCookie http.Cookie `header:"Set-Cookie"`
	}
	huma.Register(a.huma, route{method: "POST", path: "/v1/signout", id: "signOut", summary: "End the browser's session", tag: "access", status: http.StatusNoContent}.operation(),
		func(ctx context.Context, _ *in) (*signedOut, error) {
			c, err := a.Auth.SignOut(ctx, false)
			if err != nil {
				return nil, err
			}
			return &signedOut{*c}, nil
		})
	handle(a, route{method: "GET", path: "/v1/tokens", id: "listTokens", summary: "List tokens", tag: "access"},
		func(ctx context.Context, _ *in) (serverapi.Tokens, error) {
			if w := who(ctx); a.Authority.Role(w, authority.Everywhere) != rig.Owner {
				return serverapi.Tokens{}, rig.Errorf(rig.CodeForbidden, "%s is no owner of the server, and only owners see tokens", w.Name)
			}
			l, err := a.Auth.Tokens(ctx)
			for i := range l.Tokens {
				l.Tokens[i].Roles = a.roles(l.Tokens[i].Name)
			}
			return l, err
		})
	handle(a, route{method: "POST", path: "/v1/tokens", id: "createToken", summary: "Make a token; its secret is shown this once", tag: "access", status: http.StatusCreated},
		func(ctx context.Context, in *struct{ Body serverapi.NewToken }) (serverapi.CreatedToken, error) {
			var made serverapi.CreatedToken
			err := a.doOn(ctx, authority.Server, authority.TokenCreate.With("", "name", in.Body.Name, "kind", string(in.Body.Kind), "role", string(in.Body.Role), "workspace", in.Body.Workspace), func(*authority.Grant) (err error) {
				made, err = a.newToken(ctx, in.Body)
				return err
			})
			return made, err
		})
	handleEmpty(a, route{method: "DELETE", path: "/v1/tokens/{id}", id: "revokeToken", summary: "Revoke a token, and the sessions that came from it", tag: "access"},
		func(ctx context.Context, in *struct {
			ID string `path:"id" maxLength:"64"`
		}) error {
			return a.doOn(ctx, authority.Server, authority.TokenRevoke.With("", "token", in.ID), func(*authority.Grant) error { return a.Auth.Revoke(ctx, in.ID) })
		})
}

// newToken makes a token and gives its principal the role that was asked for, or,
// if it has none, all that a person or an agent can have. The role comes first: a
// token must not be good for more, not for a moment.
func (a *API) newToken(ctx context.Context, n serverapi.NewToken) (serverapi.CreatedToken, error) {
	m := store.Member{Workspace: cmp.Or(n.Workspace, authority.Everywhere), Principal: n.Name, Role: n.Role}
	err := auth.GoodName(n.Name)
	if n.Workspace != "" {
		err = errors.Join(err, a.hasWorkspace(ctx, n.Workspace))
	}
	if err != nil {
		return serverapi.CreatedToken{}, err
	}
	if n.Kind == rig.Agent && (m.Role == rig.Admin || m.Role == rig.Owner) {
		return serverapi.CreatedToken{}, rig.FieldErrorf("role", "an agent is a member at most: give it the role member or viewer")
	}
	switch {
	case m.Role != "":
	case n.Workspace != "", n.Kind == rig.Agent:
		m.Role = rig.Member
	default:
		m.Role = rig.Owner
	}
	if n.Role != "" || n.Workspace != "" || !a.Authority.HasRole(n.Name) {
		if err := a.Authority.PutMember(ctx, m); err != nil {
			return serverapi.CreatedToken{}, err
		}
	}
	t, err := a.Auth.NewToken(ctx, n)
	t.Roles = a.roles(n.Name)
	return t, err
}

// roles are what a principal may do, and where.
func (a *API) roles(principal string) []serverapi.Grant {
	out := []serverapi.Grant{}
	for w, r := range a.Authority.Roles(principal) {
		out = append(out, serverapi.Grant{Workspace: w, Role: r})
	}
	slices.SortFunc(out, func(x, y serverapi.Grant) int { return cmp.Compare(x.Workspace, y.Workspace) })
	return out
}

// signin exchanges a link's code for the cookie. It is a person's browser that
// asks, so a refusal is a page.
func (a *API) signin(w http.ResponseWriter, r *http.Request) {
	c, err := a.Auth.SignIn(r.Context(), r.URL.Query().Get("code"), r.TLS != nil)
	if err != nil {
		p := rig.AsProblem(err)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(p.GetStatus())
		_, _ = w.Write([]byte("<!doctype html><meta charset=utf-8><title>Rigs</title><h1>Not signed in</h1><p>" + html.EscapeString(p.Detail) + "\n")) // the browser may be gone
		return
	}
	http.SetCookie(w, c)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}
