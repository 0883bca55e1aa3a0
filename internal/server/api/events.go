package api

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"rigs/internal/rig"
	"rigs/internal/server/auth"
	"rigs/internal/server/authority"
	"rigs/internal/server/feed"
	"rigs/internal/serverapi"
)

const (
	// heartbeat keeps a silent stream of events from looking dead.
	heartbeat = 15 * time.Second
	// eventTimeout bounds the writing of one event.
	eventTimeout = 10 * time.Second
)

// sse writes server-sent events. It is safe for several goroutines.
type sse struct {
	mu sync.Mutex
	w  io.Writer
	c  *http.ResponseController
}

// streamed is an answer of events: f runs when the header was sent.
func streamed(f func(s *sse)) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		_, w := humago.Unwrap(hc)
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		s := &sse{w: w, c: http.NewResponseController(w)}
		if s.write(": hello\n\n") != nil {
			return
		}
		f(s)
	}}
}

func (s *sse) write(text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.c.SetWriteDeadline(time.Now().Add(eventTimeout)); err != nil {
		return err
	}
	if _, err := io.WriteString(s.w, text); err != nil {
		return err
	}
	return s.c.Flush()
}

func (s *sse) send(event string, v any) error {
	b, err := json.Marshal(v) // on one line
	if err != nil {
		return err
	}
	return s.write("event: " + event + "\ndata: " + string(b) + "\n\n")
}

// eventResponses describes a stream of events with data of the types given.
func (a *API) eventResponses(events map[string]reflect.Type) map[string]*huma.Response {
	props := map[string]*huma.Schema{}
	for name, t := range events {
		props[name] = a.huma.OpenAPI().Components.Schemas.Schema(t, true, name)
	}
	return map[string]*huma.Response{"200": {
		Description: "Server-sent events. Each property of the schema is the name of an event, its value the data of it.",
		Content:     map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeObject, Properties: props}}},
	}}
}

func (a *API) eventRoutes() {
	t := reflect.TypeFor[rig.Event]()
	op := route{method: "GET", path: "/v1/events", id: "watchEvents", summary: "Events of rigs as they happen, beginning with one for every live rig", tag: "rigs"}.operation()
	op.Responses = a.eventResponses(map[string]reflect.Type{"rig": t, "egress": t, "rules": t, "approval": t, "audit": t})
	huma.Register(a.huma, op, func(ctx context.Context, in *struct {
		Workspace string `query:"workspace" maxLength:"63" doc:"Only this workspace's"`
		Space     string `query:"space" maxLength:"63" doc:"Only this space's"`
		Rig       string `query:"rig" maxLength:"160" doc:"Only this rig's, in any form that names one"`
		Viewer    string `query:"viewer" maxLength:"64" doc:"Names the viewer that this stream is of, as POST …/take does"`
	}) (*huma.StreamResponse, error) {
		f, workspace := feed.Filter{Workspace: in.Workspace, Space: in.Space}, in.Workspace
		if in.Rig != "" {
			r, err := a.rig(ctx, &RigIn{in.Rig, in.Workspace})
			if err != nil {
				return nil, err
			}
			f, workspace = feed.Filter{RigID: r.ID}, r.Workspace
		}
		f.Sees = a.sees(ctx)
		return streamed(func(s *sse) {
			defer a.Rigs.Watch(auth.From(ctx).Principal, in.Viewer)()
			w := who(ctx)
			defer a.Desk.Watch(w.Principal, workspace, func(workspace string) bool { return a.Authority.MayAnswer(w, workspace) })()
			a.events(ctx, f, s)
		}), nil
	})
}

// events sends events until the client is gone, has fallen behind, or the
// server shuts down.
func (a *API) events(ctx context.Context, f feed.Filter, s *sse) {
	sub, now := a.Rigs.Subscribe(f)
	defer sub.Close()
	if f.RigID != "" && len(now) == 0 { // a closed one
		r, err := a.Rigs.Get(ctx, f.RigID, "")
		if err != nil {
			return
		}
		now = append(now, r)
	}
	for i := range now {
		if s.send("rig", rig.Event{Type: "rig", RigID: now[i].ID, Rig: &now[i]}) != nil {
			return
		}
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		var err error
		select {
		case e, ok := <-sub.C:
			if !ok {
				return
			}
			err = s.send(e.Type, e)
		case <-beat.C:
			err = s.write(": still here\n\n")
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// work sends the steps of long work, and then its result or its problem. When
// the client goes away, the work is given up.
func work[T any](ctx context.Context, s *sse, f func(ctx context.Context, step func(rig.Step)) (T, error)) {
	ctx, cancel := context.WithCancel(ctx)
	stop := make(chan struct{})
	var beats sync.WaitGroup
	beats.Go(func() {
		beat := time.NewTicker(heartbeat)
		defer beat.Stop()
		for {
			select {
			case <-stop:
				return
			case <-beat.C:
				if s.write(": still here\n\n") != nil {
					cancel()
				}
			}
		}
	})
	v, err := f(ctx, func(st rig.Step) {
		if s.send("step", st) != nil {
			cancel()
		}
	})
	close(stop)
	beats.Wait()
	cancel()
	if err != nil {
		_ = s.send("error", rig.AsProblem(err)) // the client may be gone
		return
	}
	_ = s.send("done", v) // as above
}

func (a *API) imageRoutes() {
	type NameIn struct {
		Name string `path:"name" maxLength:"160"`
	}
	handle(a, route{method: "GET", path: "/v1/images", id: "listImages", summary: "Image definitions, and what was built from them", tag: "images"},
		func(ctx context.Context, _ *in) (serverapi.Images, error) {
			l, err := a.Images.List(ctx)
			return serverapi.Images{Images: append([]serverapi.Image{}, l...)}, err
		})
	op := route{method: "POST", path: "/v1/images/{name}/build", id: "buildImage", summary: "Build an image", tag: "images"}.operation()
	op.Responses = a.eventResponses(map[string]reflect.Type{"step": reflect.TypeFor[rig.Step](), "done": reflect.TypeFor[serverapi.Image](), "error": reflect.TypeFor[rig.Problem]()})
	huma.Register(a.huma, op, func(ctx context.Context, in *struct {
		NameIn
		Body *serverapi.BuildImage
	}) (*huma.StreamResponse, error) {
		noCache := in.Body != nil && in.Body.NoCache
		return streamed(func(s *sse) {
			work(ctx, s, func(ctx context.Context, step func(rig.Step)) (serverapi.Image, error) {
				var img serverapi.Image
				err := a.doOn(ctx, authority.Server, authority.ImageBuild.With("", "image", in.Name), func(*authority.Grant) (err error) {
					img, err = a.Images.Build(ctx, in.Name, noCache, step)
					return err
				})
				return img, err
			})
		}), nil
	})
	handleEmpty(a, route{method: "DELETE", path: "/v1/images/{name}", id: "removeImage", summary: "Remove what was built of an image", tag: "images"},
		func(ctx context.Context, in *NameIn) error {
			return a.doOn(ctx, authority.Server, authority.ImageRemove.With("", "image", in.Name), func(*authority.Grant) error { return a.Images.Remove(ctx, in.Name) })
		})

	handle(a, route{method: "GET", path: "/v1/templates", id: "listTemplates", summary: "Frozen machines that rigs are cloned from", tag: "images"},
		func(ctx context.Context, _ *in) (serverapi.Templates, error) {
			l, err := a.Templates.List(ctx)
			return serverapi.Templates{Templates: append([]serverapi.Template{}, l...)}, err
		})
	op = route{method: "POST", path: "/v1/templates", id: "makeTemplate", summary: "Make a template, unless it is there", tag: "images"}.operation()
	op.Responses = a.eventResponses(map[string]reflect.Type{"step": reflect.TypeFor[rig.Step](), "done": reflect.TypeFor[serverapi.Template](), "error": reflect.TypeFor[rig.Problem]()})
	huma.Register(a.huma, op, func(ctx context.Context, in *struct{ Body serverapi.MakeTemplate }) (*huma.StreamResponse, error) {
		return streamed(func(s *sse) {
			work(ctx, s, func(ctx context.Context, step func(rig.Step)) (serverapi.Template, error) {
				var made serverapi.Template
				err := a.doOn(ctx, authority.Server, authority.TemplateMake.With("", "surface", string(in.Body.Surface), "image", in.Body.Image), func(*authority.Grant) (err error) {
					made, err = a.Templates.Make(ctx, in.Body, step)
					return err
				})
				return made, err
			})
		}), nil
	})
	handleEmpty(a, route{method: "DELETE", path: "/v1/templates/{key}", id: "removeTemplate", summary: "Remove a template; rigs that were cloned from it go on", tag: "images"},
		func(ctx context.Context, in *struct {
			Key string `path:"key" maxLength:"128"`
		}) error {
			return a.doOn(ctx, authority.Server, authority.TemplateRemove.With("", "template", in.Key), func(*authority.Grant) error { return a.Templates.Remove(ctx, in.Key) })
		})
}
