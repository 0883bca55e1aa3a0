// Package api is the server's HTTP interface: the routes of docs/api.md, their
// OpenAPI description, and the page.
//
// It holds no rules about rigs. Every request passes the guard (Host and
// Origin) and, except for the health check, the sign-in address and the page's
// own files, needs an authenticated caller. What a guest says is relayed as it
// is: tar streams and the frames of upgraded connections are never looked at,
// and their content types are ours.
package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"rigs/internal/mcp"
	"rigs/internal/rig"
	"rigs/internal/server/approvals"
	"rigs/internal/server/audit"
	"rigs/internal/server/auth"
	"rigs/internal/server/authority"
	"rigs/internal/server/feed"
	"rigs/internal/server/metrics"
	"rigs/internal/server/rigs"
	"rigs/internal/server/store"
	"rigs/internal/serverapi"
	"rigs/internal/wire"
)

// Images builds and lists images.
type Images interface {
	List(ctx context.Context) ([]serverapi.Image, error)
	Build(ctx context.Context, name string, noCache bool, step func(rig.Step)) (serverapi.Image, error)
	Remove(ctx context.Context, name string) error
}

// Templates makes and lists templates.
type Templates interface {
	List(ctx context.Context) ([]serverapi.Template, error)
	Make(ctx context.Context, t serverapi.MakeTemplate, step func(rig.Step)) (serverapi.Template, error)
	Remove(ctx context.Context, key string) error
}

// Doctor finds out what this host can do.
type Doctor interface {
	Report(ctx context.Context, fresh bool) (serverapi.Doctor, error)
}

// Config is what the API works with. Every field is needed.
type Config struct {
	Rigs      *rigs.Manager
	Auth      *auth.Auth
	Authority *authority.Authority
	Audit     *audit.Log
	Desk      *approvals.Desk
	Store     *store.Store
	Feed      *feed.Feed
	Metrics   *metrics.Metrics
	Images    Images
	Templates Templates
	Doctor    Doctor
	Page      fs.FS
	Log       *slog.Logger
	Now       func() time.Time

	Version   string
	DataDir   string
	StartedAt time.Time
	// URL is the server's own address for a browser; empty without HTTP.
	URL string
}

// API is the handler of everything.
type API struct {
	Config
	mux  *http.ServeMux // what needs a caller
	huma huma.API

	scraping sync.Mutex // one scrape of the metrics at a time
}

// New returns the API.
func New(c Config) *API {
	a := &API{Config: c, mux: http.NewServeMux()}
	hc := huma.DefaultConfig("Rigs", Version)
	hc.Info.Description = "Disposable virtual machines that an AI agent drives while a person watches. Errors are RFC 9457 problems with a stable code."
	hc.DocsPath, hc.SchemasPath, hc.OpenAPIPath, hc.CreateHooks = "", "", "", nil
	hc.RejectUnknownQueryParameters = true
	hc.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"token":   {Type: "http", Scheme: "bearer"},
		"session": {Type: "apiKey", In: "cookie", Name: serverapi.SessionCookie},
	}
	hc.Security = []map[string][]string{{"token": {}}, {"session": {}}}
	a.huma = humago.New(a.mux, hc)
	if c.Desk != nil { // a description needs none
		c.Desk.Handle(rig.ApprovalEgress, a.admit)
	}
	a.serverRoutes()
	a.spaceRoutes()
	a.rigRoutes()
	a.controlRoutes()
	a.policyRoutes()
	a.egressRoutes()
	a.approvalRoutes()
	a.streamRoutes()
	a.fileRoutes()
	a.eventRoutes()
	a.auditRoutes()
	a.actRoutes()
	a.imageRoutes()
	a.shedRoutes()
	a.mux.HandleFunc("GET /metrics", a.metrics)
	a.mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) { wire.WriteJSON(w, a.huma.OpenAPI()) })
	a.mux.HandleFunc("/", notFound)
	return a
}

// Version is the version of the API: of its paths and shapes, not of the server.
const Version = "1"

//go:generate go run ./openapi ../../../client/openapi.json

// OpenAPI is the description of the API, indented. It is committed as
// client/openapi.json, from which the page's client is generated.
func OpenAPI() ([]byte, error) {
	b, err := json.MarshalIndent(New(Config{}).huma.OpenAPI(), "", " ")
	return append(b, '\n'), err
}

// Handler is everything that the server answers.
func (a *API) Handler() http.Handler {
	inner := a.Auth.Require(a.observe(a.mux))
	outer := http.NewServeMux()
	outer.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	outer.HandleFunc("GET /signin", a.signin)
	for _, p := range []string{"/v1/", "/metrics", "/openapi.json"} {
		outer.Handle(p, inner)
	}
	outer.Handle("/mcp", a.Auth.Require(a.observe(mcp.Handler(a.recovered(inner), mcpCaller, a.Version, a.Log))))
	outer.Handle("/", page(a.Page))
	return headers(a.Auth.Guard(a.recovered(outer)))
}

// mcpCaller is what tells callers apart to whom an MCP session may belong.
func mcpCaller(r *http.Request) string {
	c := auth.From(r.Context())
	return fmt.Sprintf("%q %q %q %t %t", c.Kind, c.Name, c.TokenID, c.Owner, c.Behalf != nil)
}

func notFound(w http.ResponseWriter, r *http.Request) {
	wire.WriteProblem(w, rig.Errorf(rig.CodeNotFound, "there is no %s %s: see /openapi.json", r.Method, r.URL.Path))
}

// headers are those of every answer. The page sets a wider policy of its own.
func headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// recovered turns a fault of ours into a problem, and its trace into the log.
func (a *API) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if v == http.ErrAbortHandler { //nolint:errorlint // the very value, as net/http compares it
				panic(v)
			}
			a.Log.Error("panic", "path", r.URL.Path, "value", v, "stack", stack())
			wire.WriteProblem(w, rig.Errorf(rig.CodeInternal, "the server made a mistake: its log has the details"))
		}()
		next.ServeHTTP(w, r)
	})
}
