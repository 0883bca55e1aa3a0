package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"rigs/internal/guestapi"
	"rigs/internal/keeperapi"
	"rigs/internal/rig"
	"rigs/internal/server/authority"
	"rigs/internal/server/rigs"
	"rigs/internal/serverapi"
)

// maxClosed is how many closed rigs a listing holds.
const maxClosed = 500

// askTimeout bounds a question to a keeper that takes no time of its own.
const askTimeout = 15 * time.Second

// closeWait bounds how long a request waits for a machine to be gone; the
// machine's end is bounded more tightly itself.
const closeWait = 30 * time.Second

// RigIn names a rig. It is exported because the framework fills in the fields
// of embedded exported types only.
type RigIn struct {
	Rig       string `path:"rig" maxLength:"160" doc:"Id, a unique prefix of it (3 characters at least), or SPACE/SURFACE[:ENGINE] with the slash as %2F"`
	Workspace string `query:"workspace" maxLength:"63" doc:"Workspace of SPACE/SURFACE; default 'default'"`
}

func (a *API) rigRoutes() {
	handle(a, route{method: "GET", path: "/v1/rigs", id: "listRigs", summary: "List rigs", tag: "rigs"}, a.listRigs)

	type opened struct {
		Status int
		Body   rig.Rig
	}
	op := route{method: "POST", path: "/v1/rigs", id: "openRig", summary: "Begin a rig (201), or return the one that the space has (200)", tag: "rigs", status: http.StatusCreated, maxBody: 256 << 10}.operation()
	schema := a.huma.OpenAPI().Components.Schemas.Schema(rigType, true, "Rig")
	op.Responses = map[string]*huma.Response{"200": {Description: "The rig that the space has", Content: map[string]*huma.MediaType{"application/json": {Schema: schema}}}}
	huma.Register(a.huma, op, func(ctx context.Context, in *struct{ Body rig.Spec }) (*opened, error) {
		r, created, err := a.open(ctx, in.Body)
		if err != nil {
			return nil, err
		}
		if created {
			return &opened{http.StatusCreated, r}, nil
		}
		return &opened{http.StatusOK, r}, nil
	})

	handle(a, route{method: "GET", path: "/v1/rigs/{rig}", id: "getRig", summary: "A rig; with wait=ready, when it is not provisioning any more", tag: "rigs"},
		func(ctx context.Context, in *struct {
			RigIn
			Wait           string `query:"wait" enum:"ready" doc:"Wait until the rig is not provisioning any more"`
			TimeoutSeconds int    `query:"timeoutSeconds" default:"60" minimum:"1" maximum:"600" doc:"How long to wait; then the rig is returned as it is"`
		}) (rig.Rig, error) {
			r, err := a.rig(ctx, &in.RigIn)
			if in.Wait == "" || err != nil {
				one := []rig.Rig{r}
				a.Rigs.Measure(one)
				return one[0], err
			}
			ctx, cancel := context.WithTimeout(ctx, time.Duration(in.TimeoutSeconds)*time.Second)
			defer cancel()
			return a.Rigs.WaitReady(ctx, in.Rig, in.Workspace)
		})
	handle(a, route{method: "DELETE", path: "/v1/rigs/{rig}", id: "closeRig", summary: "Close a rig; the answer comes when its machine is gone", tag: "rigs"},
		func(ctx context.Context, in *RigIn) (rig.Rig, error) {
			// Closing goes on when the caller goes away; the answer is all that is lost.
			ctx, cancel := context.WithTimeout(ctx, closeWait)
			defer cancel()
			return do(ctx, a, in, authority.Close, func(g *authority.Grant) (rig.Rig, error) { return a.Rigs.Close(ctx, g) })
		})
	handle(a, route{method: "POST", path: "/v1/rigs/{rig}/park", id: "parkRig", summary: "Stop a rig's processors; its memory stays", tag: "rigs"},
		func(ctx context.Context, in *RigIn) (rig.Rig, error) {
			return do(ctx, a, in, authority.Park, func(g *authority.Grant) (rig.Rig, error) { return a.Rigs.Park(ctx, g) })
		})
	handle(a, route{method: "POST", path: "/v1/rigs/{rig}/wake", id: "wakeRig", summary: "Let a parked rig go on", tag: "rigs"},
		func(ctx context.Context, in *RigIn) (rig.Rig, error) {
			return do(ctx, a, in, authority.Wake, func(g *authority.Grant) (rig.Rig, error) { return a.Rigs.Wake(ctx, g) })
		})
	handle(a, route{method: "POST", path: "/v1/rigs/{rig}/exec", id: "execCollect", summary: "Run a command to its end and return its output", tag: "acting", maxBody: 2 << 20},
		func(ctx context.Context, in *struct {
			RigIn
			Body keeperapi.ExecCollect
		}) (keeperapi.ExecResult, error) {
			return using(ctx, a, &in.RigIn, execAction(in.Body.ExecRequest), rigs.Exec, func(u *rigs.Use) (out keeperapi.ExecResult, err error) {
				return out, u.Call(ctx, http.MethodPost, "/v1/exec", in.Body, &out)
			})
		})
	handle(a, route{method: "GET", path: "/v1/rigs/{rig}/stat", id: "statFile", summary: "Describe a file in a rig", tag: "files"},
		func(ctx context.Context, in *struct {
			RigIn
			Path string `query:"path" required:"true" maxLength:"4096"`
		}) (guestapi.FileInfo, error) {
			return using(ctx, a, &in.RigIn, authority.ReadFile.With("", "path", in.Path), rigs.Files, func(u *rigs.Use) (out guestapi.FileInfo, err error) {
				ctx, cancel := context.WithTimeout(ctx, askTimeout)
				defer cancel()
				return out, u.Call(ctx, http.MethodGet, "/v1/stat?"+url.Values{"path": {in.Path}}.Encode(), nil, &out)
			})
		})
}

// open passes the opening of a rig through the chokepoint.
func (a *API) open(ctx context.Context, s rig.Spec) (rig.Rig, bool, error) {
	t := authority.In(cmp.Or(s.Workspace, serverapi.Default), cmp.Or(s.Space, serverapi.Default))
	act := authority.Open.With(fmt.Sprintf("open a %s in space %s", s.Surface, t.Space), "space", t.Space, "surface", string(s.Surface), "engine", string(s.Engine), "image", s.Image, "allow", strings.Join(s.Allow, ", "))
	g, err := a.Authority.Begin(ctx, who(ctx), t, act)
	if err != nil {
		return rig.Rig{}, false, err
	}
	r, created, err := a.Rigs.Open(ctx, g, s)
	g.End(ctx, err, "rig", r.ID)
	if created {
		g.Also(ctx, authority.On(&r))
	}
	return r, created, err
}

// maxCommand is how much of a command is written down, in bytes.
const maxCommand = 512

// quote writes a command as one would type it into a shell: where a word begins and
// ends is part of what somebody is asked to approve.
func quote(argv []string) string {
	out := make([]string, len(argv))
	for i, w := range argv {
		out[i] = w
		if w == "" || strings.Trim(w, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-") != "" {
			out[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(out, " ")
}

// execAction is the running of a command, which is written down; its input and its
// environment are not.
func execAction(e guestapi.ExecRequest) authority.Action {
	c := e.Shell
	if len(e.Argv) > 0 {
		c = quote(e.Argv)
	}
	if len(c) > maxCommand {
		c = c[:maxCommand] + "…"
	}
	return authority.Exec.With("run "+c, "command", c, "cwd", e.Cwd)
}

func (a *API) listRigs(ctx context.Context, in *struct {
	Workspace string `query:"workspace" maxLength:"63" doc:"Only this workspace's"`
	Space     string `query:"space" maxLength:"63" doc:"Only this space's"`
	All       bool   `query:"all" doc:"Closed ones too, newest first"`
}) (serverapi.Rigs, error) {
	sees := a.sees(ctx)
	unseen := func(r rig.Rig) bool { return !sees(r.Workspace) }
	out := serverapi.Rigs{Rigs: slices.DeleteFunc(a.Rigs.List(in.Workspace, in.Space), unseen)}
	a.Rigs.Measure(out.Rigs)
	if !in.All {
		return out, nil
	}
	closed, err := a.Store.ClosedRigs(ctx, in.Workspace, in.Space, maxClosed)
	if err != nil {
		return out, err
	}
	seen := map[string]bool{}
	for i := range out.Rigs {
		seen[out.Rigs[i].ID] = true
	}
	for i := range closed { // one that was closed between the two looks is in both
		if !seen[closed[i].ID] && !unseen(closed[i]) {
			out.Rigs = append(out.Rigs, closed[i])
		}
	}
	slices.SortStableFunc(out.Rigs, func(x, y rig.Rig) int {
		return cmp.Or(y.OpenedAt.Compare(x.OpenedAt), cmp.Compare(x.ID, y.ID))
	})
	return out, nil
}
