package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"rigs/internal/rig"
	"rigs/internal/server/authority"
	"rigs/internal/serverapi"
)

// AuditIn says which piece of a log is asked for. It is exported for the framework.
type AuditIn struct {
	After int64 `query:"after" minimum:"0" doc:"Only rows with a higher number"`
	Limit int   `query:"limit" minimum:"1" maximum:"1000" default:"200" doc:"At most so many"`
	Tail  bool  `query:"tail" doc:"The last ones instead of the first ones; without after"`
}

// audited is a log that the caller may read: a rig's, which may be closed, or the
// server's own for an empty name.
func (a *API) audited(ctx context.Context, in *RigIn) (string, error) {
	w := who(ctx)
	role := a.Authority.Role(w, authority.Everywhere)
	admin := w.Kind == rig.Person && (role == rig.Admin || role == rig.Owner)
	if in.Rig == "" {
		if !admin {
			return "", rig.Errorf(rig.CodeForbidden, "%s may not read the server's own audit log: it is for its admins", w.Name)
		}
		return "", nil
	}
	r, err := a.rig(ctx, in)
	if rig.CodeOf(err) == rig.CodeNotFound && rig.ValidID(in.Rig) && admin {
		// Logs outlive what is remembered of their rigs.
		if has, herr := a.Audit.Has(ctx, in.Rig); herr != nil || has {
			return in.Rig, herr
		}
	}
	return r.ID, err
}

func (a *API) auditRoutes() {
	type rigAuditIn struct {
		RigIn
		AuditIn
	}
	handle(a, route{method: "GET", path: "/v1/rigs/{rig}/audit", id: "getAudit", summary: "Rows of a rig's audit log, oldest first; also of a closed rig", tag: "audit"},
		func(ctx context.Context, in *rigAuditIn) (serverapi.AuditLog, error) {
			return a.auditRows(ctx, &in.RigIn, &in.AuditIn)
		})
	handle(a, route{method: "GET", path: "/v1/audit", id: "getServerAudit", summary: "Rows of the server's own audit log, oldest first; for its admins", tag: "audit"},
		func(ctx context.Context, in *AuditIn) (serverapi.AuditLog, error) {
			return a.auditRows(ctx, &RigIn{}, in)
		})
	handle(a, route{method: "GET", path: "/v1/rigs/{rig}/audit/verify", id: "verifyAudit", summary: "Check a rig's audit log: whether a row was changed, taken out or put in", tag: "audit"},
		a.verifyAudit)
	handle(a, route{method: "GET", path: "/v1/audit/verify", id: "verifyServerAudit", summary: "Check the server's own audit log", tag: "audit"},
		func(ctx context.Context, _ *in) (serverapi.AuditVerified, error) { return a.verifyAudit(ctx, &RigIn{}) })

	export := func(path, id, summary string) huma.Operation {
		op := route{method: "GET", path: path, id: id, summary: summary, tag: "audit"}.operation()
		op.Responses = map[string]*huma.Response{"200": {Description: "One AuditRow a line", Content: map[string]*huma.MediaType{"application/jsonl": {Schema: &huma.Schema{Type: huma.TypeString}}}}}
		return op
	}
	huma.Register(a.huma, export("/v1/rigs/{rig}/audit/export", "exportAudit", "A rig's whole audit log as JSON Lines"), func(ctx context.Context, in *struct {
		RigIn
		After int64 `query:"after" minimum:"0" doc:"Only rows with a higher number"`
	}) (*huma.StreamResponse, error) {
		return a.exportAudit(ctx, &in.RigIn, in.After)
	})
	huma.Register(a.huma, export("/v1/audit/export", "exportServerAudit", "The server's own whole audit log as JSON Lines"), func(ctx context.Context, in *struct {
		After int64 `query:"after" minimum:"0" doc:"Only rows with a higher number"`
	}) (*huma.StreamResponse, error) {
		return a.exportAudit(ctx, &RigIn{}, in.After)
	})
}

func (a *API) auditRows(ctx context.Context, in *RigIn, q *AuditIn) (serverapi.AuditLog, error) {
	id, err := a.audited(ctx, in)
	switch {
	case err != nil:
		return serverapi.AuditLog{}, err
	case q.Tail && q.After > 0:
		return serverapi.AuditLog{}, rig.FieldErrorf("tail", "tail and after say different things: give one of them")
	case q.Tail:
		return a.Audit.Tail(ctx, id, q.Limit)
	}
	return a.Audit.List(ctx, id, q.After, q.Limit)
}

func (a *API) verifyAudit(ctx context.Context, in *RigIn) (serverapi.AuditVerified, error) {
	id, err := a.audited(ctx, in)
	if err != nil {
		return serverapi.AuditVerified{}, err
	}
	return a.Audit.Verify(ctx, id)
}

func (a *API) exportAudit(ctx context.Context, in *RigIn, after int64) (*huma.StreamResponse, error) {
	id, err := a.audited(ctx, in)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		_, w := humago.Unwrap(hc)
		w.Header().Set("Content-Type", "application/jsonl")
		if err := a.Audit.Export(ctx, &timedWriter{w, http.NewResponseController(w)}, id, after); err != nil {
			a.Log.Info("an export of an audit log broke off", "rig", id, "error", err)
			panic(http.ErrAbortHandler) // the client must not take a part for the whole
		}
	}}, nil
}
