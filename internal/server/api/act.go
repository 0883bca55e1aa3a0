package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"rigs/internal/guestapi"
	"rigs/internal/keeperapi"
	"rigs/internal/rig"
	"rigs/internal/server/authority"
	"rigs/internal/server/rigs"
	"rigs/internal/wire"
)

// maxAct bounds an action, in bytes of JSON: a file's content, of which a byte can
// take six.
const maxAct = 8 << 20

// actTimeout bounds an action beyond the time that is its own: its machine may have
// to be woken first.
const actTimeout = 75 * time.Second

func (a *API) actRoutes() {
	r := route{method: "POST", path: "/v1/rigs/{rig}/act", id: "act", summary: "Do one action on a rig: a verb of its surface, with what that takes", tag: "acting"}
	a.mux.HandleFunc("POST "+r.path, a.serveAct)
	schemas := a.huma.OpenAPI().Components.Schemas
	actions := &huma.Schema{}
	for _, v := range rig.Verbs {
		args := schemas.Schema(reflect.TypeOf(v.New()).Elem(), true, v.Name)
		actions.OneOf = append(actions.OneOf, &huma.Schema{
			Description: v.Summary + " (" + string(v.Surface) + ")",
			AllOf: []*huma.Schema{
				{Type: huma.TypeObject, Required: []string{"verb"}, Properties: map[string]*huma.Schema{"verb": {Type: huma.TypeString, Enum: []any{v.Name}}}},
				args,
			},
		})
	}
	a.describe(r,
		map[string]*huma.Response{"200": {Description: "What it gave, in the field of the verb", Content: map[string]*huma.MediaType{
			"application/json": {Schema: schemas.Schema(reflect.TypeFor[keeperapi.ActResult](), true, "ActResult")},
		}}},
		&huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: actions}}},
		queryParam("workspace", "Workspace of SPACE/SURFACE; default 'default'", false))
}

func (a *API) serveAct(w http.ResponseWriter, r *http.Request) {
	out, err := a.act(r)
	if err != nil {
		wire.WriteProblem(w, err)
		return
	}
	wire.WriteJSON(w, out)
}

func (a *API) act(r *http.Request) (out keeperapi.ActResult, err error) {
	ctx, in := r.Context(), &RigIn{Rig: r.PathValue("rig"), Workspace: r.URL.Query().Get("workspace")}
	target, err := a.rig(ctx, in)
	if err != nil {
		return out, err
	}
	b, err := io.ReadAll(io.LimitReader(r.Body, maxAct+1))
	switch {
	case err != nil:
		return out, rig.Errorf(rig.CodeInvalidRequest, "the action did not come whole: %w", err)
	case len(b) > maxAct:
		return out, rig.Errorf(rig.CodeTooLarge, "the action has more than %d bytes", maxAct)
	}
	act, err := rig.ParseAction(target.Surface, b)
	if err != nil {
		return out, err
	}
	in = &RigIn{Rig: target.ID} // a name may be another rig's in a moment
	return using(ctx, a, in, verbAction(act), useOf(act), func(u *rigs.Use) (out keeperapi.ActResult, err error) {
		body, err := json.Marshal(act) // what was understood, and nothing else
		if err != nil {
			return out, err
		}
		most := actTimeout
		if e, ok := act.Args.(*rig.ExecArgs); ok {
			most += time.Duration(cmp.Or(e.Timeout, rig.DefaultExecTimeout) * float64(time.Second))
		}
		ctx, cancel := context.WithTimeout(ctx, most)
		defer cancel()
		return out, u.Call(ctx, http.MethodPost, "/v1/act", json.RawMessage(body), &out)
	})
}

// useOf is what an action counts as while it is done.
func useOf(act rig.Action) rigs.Kind {
	if _, ok := act.Args.(*rig.ExecArgs); ok {
		return rigs.Exec
	}
	return rigs.Files
}

// verbAction is a verb's action as the chokepoint sees it. What is written into a
// file is not written down.
func verbAction(act rig.Action) authority.Action {
	v := act.Verb
	as := authority.Verb(v.Name, v.Class, v.Mutates)
	switch a := act.Args.(type) {
	case *rig.ExecArgs:
		return execAction(guestapi.ExecRequest{Argv: a.Argv, Shell: a.Shell, Cwd: a.Cwd})
	case *rig.ReadFileArgs:
		return as.With("read "+a.Path, "path", a.Path)
	case *rig.WriteFileArgs:
		how := "write"
		if a.Append {
			how = "append to"
		}
		return as.With(fmt.Sprintf("%s %s (%d bytes)", how, a.Path, len(a.Data())), "path", a.Path, "bytes", strconv.Itoa(len(a.Data())), "mode", a.Mode)
	case *rig.ListDirArgs:
		return as.With("list "+a.Path, "path", a.Path)
	case *rig.ScreenArgs:
		return as.With("look at the screen", "session", a.Session)
	}
	return as.With(v.Summary)
}
