package api

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"rigs/internal/keeperapi"
	"rigs/internal/policy"
	"rigs/internal/rig"
	"rigs/internal/server/authority"
	"rigs/internal/server/store"
	"rigs/internal/serverapi"
)

// maxEffective bounds what a workspace makes of a surface's default list: a rig's
// own additions and its image's mirrors have to fit into the gate's list, too.
const maxEffective = 512

func (a *API) egressRoutes() {
	a.rigEgressRoutes()
	a.workspaceEgressRoutes()
}

func (a *API) rigEgressRoutes() {
	handle(a, route{method: "GET", path: "/v1/rigs/{rig}/egress", id: "getEgress", summary: "The patterns that a rig's gate admits, and when they end", tag: "egress"},
		func(ctx context.Context, in *RigIn) (keeperapi.EgressRules, error) {
			var out keeperapi.EgressRules
			if _, err := a.rig(ctx, in); err != nil {
				return out, err
			}
			ctx, cancel := context.WithTimeout(ctx, askTimeout)
			defer cancel()
			return out, a.Rigs.Look(ctx, in.Rig, in.Workspace, "/v1/egress", &out)
		})
	type changeIn struct {
		RigIn
		Body keeperapi.EgressChange
	}
	handle(a, route{method: "POST", path: "/v1/rigs/{rig}/egress/allow", id: "allowEgress", summary: "Admit a pattern, for a time or as long as the rig lives", tag: "egress"},
		func(ctx context.Context, in *changeIn) (keeperapi.EgressRules, error) {
			out, err := a.allow(ctx, &in.RigIn, in.Body, "")
			if w := who(ctx); w.Kind == rig.Agent && rig.CodeOf(err) == rig.CodeDenied {
				p := *rig.AsProblem(err)
				p.Detail += ": POST …/egress/ask ('rigs egress RIG ask HOST') leaves the question for a person"
				return out, &p
			}
			return out, err
		})
	handle(a, route{method: "POST", path: "/v1/rigs/{rig}/egress/deny", id: "denyEgress", summary: "Remove a pattern and close what only it admitted", tag: "egress"},
		func(ctx context.Context, in *changeIn) (keeperapi.EgressRules, error) {
			return do(ctx, a, &in.RigIn, authority.EgressDeny.With("remove "+in.Body.Pattern, "pattern", in.Body.Pattern), func(g *authority.Grant) (out keeperapi.EgressRules, err error) {
				ctx, cancel := context.WithTimeout(ctx, askTimeout)
				defer cancel()
				return out, a.Rigs.Change(ctx, g, "/v1/egress/deny", in.Body, &out)
			})
		})
	handle(a, route{method: "POST", path: "/v1/rigs/{rig}/egress/ask", id: "askEgress", summary: "Ask a person to admit a pattern; it is admitted when one approves", tag: "egress", status: http.StatusCreated},
		func(ctx context.Context, in *struct {
			RigIn
			Body serverapi.EgressAsk
		}) (rig.Approval, error) {
			return a.askEgress(ctx, &in.RigIn, in.Body)
		})
	handle(a, route{method: "GET", path: "/v1/rigs/{rig}/egress/log", id: "getEgressLog", summary: "What the gate decided; also of a closed rig", tag: "egress"},
		func(ctx context.Context, in *struct {
			RigIn
			After int64 `query:"after" minimum:"0" doc:"Only events with a higher number"`
		}) (keeperapi.EgressLog, error) {
			r, err := a.rig(ctx, &in.RigIn)
			if err != nil {
				return keeperapi.EgressLog{}, err
			}
			ctx, cancel := context.WithTimeout(ctx, askTimeout)
			defer cancel()
			return a.Rigs.EgressLog(ctx, r.ID, "", in.After)
		})
}

// allow admits a pattern in a rig's gate. approval is the question that was
// answered so, if one was.
func (a *API) allow(ctx context.Context, in *RigIn, c keeperapi.EgressChange, approval string) (keeperapi.EgressRules, error) {
	var none keeperapi.EgressRules
	pattern, err := a.Rigs.Pattern(c.Pattern)
	if err != nil {
		return none, err
	}
	c.Pattern = pattern
	seconds, lasting := "", "as long as the rig lives"
	if c.TTLSeconds > 0 {
		seconds, lasting = strconv.Itoa(c.TTLSeconds), "for "+(time.Duration(c.TTLSeconds)*time.Second).String()
	}
	act := authority.EgressAllow.With("admit "+pattern+" "+lasting, "pattern", pattern, "seconds", seconds, "approval", approval)
	act.Egress, act.EgressSeconds = pattern, c.TTLSeconds
	return do(ctx, a, in, act, func(g *authority.Grant) (out keeperapi.EgressRules, err error) {
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		return out, a.Rigs.Change(ctx, g, "/v1/egress/allow", c, &out)
	})
}

func (a *API) askEgress(ctx context.Context, in *RigIn, ask serverapi.EgressAsk) (rig.Approval, error) {
	pattern, err := a.Rigs.Pattern(ask.Pattern)
	if err != nil {
		return rig.Approval{}, err
	}
	return do(ctx, a, in, authority.EgressAsk.With("", "pattern", pattern), func(g *authority.Grant) (rig.Approval, error) {
		r, err := a.Rigs.Usable(ctx, g.Target.RigID, "")
		if err != nil {
			return rig.Approval{}, err
		}
		if admitted(r.Egress, pattern) {
			now := a.Now().UTC()
			return rig.Approval{Kind: rig.ApprovalEgress, Workspace: r.Workspace, Space: r.Space, RigID: r.ID, By: g.Who.Principal, Class: rig.NetworkEgress, Pattern: pattern,
				Reason: ask.Reason, State: rig.Approved, CreatedAt: now, ExpiresAt: now, AnsweredAt: now, AnsweredBy: "rigs", Note: "it is admitted already: nobody was asked"}, nil
		}
		q, err := a.Desk.Ask(ctx, rig.Approval{
			Kind: rig.ApprovalEgress, Workspace: r.Workspace, Space: r.Space, RigID: r.ID, By: g.Who.Principal, Class: rig.NetworkEgress,
			Pattern: pattern, TTLSeconds: ask.TTLSeconds, Reason: ask.Reason,
		}, time.Duration(ask.TimeoutSeconds)*time.Second)
		if err != nil {
			return q, err
		}
		// It may have been closed in between, and then its questions were canceled
		// before this one was there.
		if _, err := a.Rigs.Usable(ctx, r.ID, ""); err != nil {
			a.Desk.Cancel(q.ID)
			return q, err
		}
		return q, nil
	})
}

// admitted reports whether a list admits all that a pattern names. Of a pattern with a
// star only the very same one is known to.
func admitted(list []string, pattern string) bool {
	if slices.Contains(list, pattern) {
		return true
	}
	want, err := policy.Parse(pattern)
	have, err2 := policy.ParseList(list)
	if err != nil || err2 != nil || want.Private() {
		return false
	}
	host, ports := want.Exact()
	return host != "" && !slices.ContainsFunc(ports, func(port int) bool { return !have.Match(host, port).Admitted })
}

// admit is the effect of an answer to askEgress.
func (a *API) admit(ctx context.Context, _ rig.Principal, q *rig.Approval, approve bool, _ serverapi.ApprovalAnswer) error {
	if !approve {
		return nil
	}
	pattern, err := a.Rigs.Pattern(q.Pattern)
	if err != nil {
		return err
	}
	q.Pattern = pattern
	_, err = a.allow(ctx, &RigIn{Rig: q.RigID}, keeperapi.EgressChange{Pattern: pattern, TTLSeconds: q.TTLSeconds}, q.ID)
	if rig.CodeOf(err) == rig.CodeNotFound { // closed so long ago that it is forgotten
		err = rig.Errorf(rig.CodeGone, "rig %s is not there any more: %w", q.RigID, err)
	}
	return err
}

func (a *API) workspaceEgressRoutes() {
	handle(a, route{method: "GET", path: "/v1/workspaces/{workspace}/egress", id: "getWorkspaceEgress", summary: "What a workspace changes in the default egress lists, and what results", tag: "egress"},
		func(ctx context.Context, in *struct {
			Workspace string `path:"workspace" maxLength:"63"`
		}) (serverapi.WorkspaceEgress, error) {
			if err := a.see(ctx, in.Workspace); err != nil {
				return serverapi.WorkspaceEgress{}, err
			}
			if err := a.hasWorkspace(ctx, in.Workspace); err != nil {
				return serverapi.WorkspaceEgress{}, err
			}
			return a.workspaceEgress(ctx, in.Workspace)
		})
	handle(a, route{method: "PUT", path: "/v1/workspaces/{workspace}/egress", id: "putWorkspaceEgress", summary: "Replace what a workspace changes in the default egress lists; it counts for rigs opened from then on", tag: "egress", maxBody: 2 << 20},
		func(ctx context.Context, in *struct {
			Workspace string `path:"workspace" maxLength:"63"`
			Body      serverapi.WorkspaceEgress
		}) (serverapi.WorkspaceEgress, error) {
			if err := a.hasWorkspace(ctx, in.Workspace); err != nil {
				return serverapi.WorkspaceEgress{}, err
			}
			changes, detail, err := a.egressChanges(in.Body)
			if err != nil {
				return serverapi.WorkspaceEgress{}, err
			}
			err = a.doOn(ctx, authority.In(in.Workspace, ""), authority.WorkspaceEgress.With("", detail...), func(*authority.Grant) error {
				return a.Store.PutWorkspaceEgress(ctx, in.Workspace, changes)
			})
			if err != nil {
				return serverapi.WorkspaceEgress{}, err
			}
			return a.workspaceEgress(ctx, in.Workspace)
		})
}

// workspaceEgress lists every surface.
func (a *API) workspaceEgress(ctx context.Context, workspace string) (serverapi.WorkspaceEgress, error) {
	out := serverapi.WorkspaceEgress{Surfaces: []serverapi.SurfaceEgress{}}
	changes, err := a.Store.WorkspaceEgress(ctx, workspace)
	for _, s := range rig.Surfaces {
		c := changes[s]
		out.Surfaces = append(out.Surfaces, serverapi.SurfaceEgress{Surface: s, Add: c.Add, Remove: c.Remove, Effective: a.Rigs.EffectiveEgress(s, c)})
	}
	return out, err
}

// egressChanges checks what a workspace wants to change, and says it for the audit
// log.
func (a *API) egressChanges(w serverapi.WorkspaceEgress) (map[rig.Surface]store.EgressChange, []string, error) {
	changes := map[rig.Surface]store.EgressChange{}
	var detail []string
	for _, s := range w.Surfaces {
		if _, twice := changes[s.Surface]; twice {
			return nil, nil, rig.FieldErrorf("surfaces", "surface %s is there twice", s.Surface)
		}
		if _, err := rig.ParseSurface(string(s.Surface)); err != nil {
			return nil, nil, rig.FieldErrorf("surfaces", "%w", err)
		}
		var c store.EgressChange
		for _, l := range []struct {
			from []string
			to   *[]string
		}{{s.Add, &c.Add}, {s.Remove, &c.Remove}} {
			for _, p := range l.from {
				p, err := a.Rigs.Pattern(p)
				if err != nil {
					return nil, nil, rig.FieldErrorf("surfaces", "%s: %w", s.Surface, err)
				}
				if !slices.Contains(*l.to, p) {
					*l.to = append(*l.to, p)
				}
			}
		}
		for _, p := range c.Add {
			if slices.Contains(c.Remove, p) {
				return nil, nil, rig.FieldErrorf("surfaces", "%s: %q is both added and removed", s.Surface, p)
			}
		}
		if n := len(a.Rigs.EffectiveEgress(s.Surface, c)); n > maxEffective {
			return nil, nil, rig.FieldErrorf("surfaces", "%s: the list would have %d patterns, and the most is %d: use wildcards", s.Surface, n, maxEffective)
		}
		changes[s.Surface] = c
		detail = append(detail, string(s.Surface), "+"+strconv.Itoa(len(c.Add))+" -"+strconv.Itoa(len(c.Remove)))
	}
	return changes, detail, nil
}

// metrics asks every gate for its counters first.
func (a *API) metrics(w http.ResponseWriter, r *http.Request) {
	a.scraping.Lock() // a slower scrape must not bring back a rig that a later one has forgotten
	said, live := a.Rigs.Statuses(r.Context())
	for id, s := range said {
		a.Metrics.Dropped.Set(id, s.Dropped)
	}
	a.Metrics.Dropped.Keep(live)
	a.scraping.Unlock()
	a.Metrics.Handler().ServeHTTP(w, r)
}
