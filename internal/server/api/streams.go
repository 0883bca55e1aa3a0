package api

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/danielgtaylor/huma/v2"

	"rigs/internal/guestapi"
	"rigs/internal/rig"
	"rigs/internal/server/rigs"
	"rigs/internal/wire"
)

var rigType = reflect.TypeFor[rig.Rig]()

// copyTimeout bounds the writing of one piece of a relayed stream.
const copyTimeout = time.Minute

// dialTimeout bounds how long a keeper may take to begin a stream: it may have
// to wake its machine first, and gives that 30 seconds, and the agent as long.
const dialTimeout = 75 * time.Second

func (a *API) streamRoutes() {
	for _, s := range []struct {
		kind    rigs.Kind
		summary string
		start   string
	}{
		{rigs.Exec, "Run a command with its streams connected (upgrade)", "ExecRequest"},
		{rigs.Terminal, "Attach to a terminal session (upgrade)", "TerminalRequest"},
	} {
		r := route{method: "GET", path: "/v1/rigs/{rig}/" + string(s.kind), id: string(s.kind) + "Stream", summary: s.summary, tag: "acting"}
		a.mux.HandleFunc("GET "+r.path, func(w http.ResponseWriter, req *http.Request) { a.stream(w, req, s.kind) })
		a.describe(r, map[string]*huma.Response{"101": {Description: "Frames, in both directions; the client's first is a start frame with " + s.start + ". Upgrade: rigs-stream, or a WebSocket whose binary messages carry the frames as one byte stream."}},
			nil, queryParam("workspace", "Workspace of SPACE/SURFACE; default 'default'", false))
	}
	s := a.huma.OpenAPI().Components.Schemas // named in the text only
	s.Schema(reflect.TypeFor[guestapi.ExecRequest](), true, "ExecRequest")
	s.Schema(reflect.TypeFor[guestapi.TerminalRequest](), true, "TerminalRequest")
}

// stream relays an upgraded connection to the keeper. Bytes are not looked at.
func (a *API) stream(w http.ResponseWriter, r *http.Request, kind rigs.Kind) {
	ws := strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
	if !ws && !wire.IsUpgrade(r) {
		wire.WriteProblem(w, rig.Errorf(rig.CodeInvalidRequest, "this address is a stream: send Connection: Upgrade with Upgrade: %s, or open a WebSocket", wire.Protocol))
		return
	}
	u, err := a.Rigs.Use(r.Context(), r.PathValue("rig"), r.URL.Query().Get("workspace"), kind)
	if err != nil {
		wire.WriteProblem(w, err)
		return
	}
	defer u.Done()
	dialing, cancel := context.WithTimeout(r.Context(), dialTimeout)
	keeper, err := wire.Dial(dialing, u.Keeper.Dial, "keeper", "/v1/"+string(kind), nil)
	cancel()
	if err != nil {
		wire.WriteProblem(w, u.Failed(err))
		return
	}
	var client net.Conn
	if ws {
		// The guard has compared Origin with Host already, for WebSockets too.
		c, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true, CompressionMode: websocket.CompressionDisabled})
		if err != nil { // it has answered
			keeper.Close()
			return
		}
		client = websocket.NetConn(r.Context(), c, websocket.MessageBinary)
	} else {
		client, err = wire.Accept(w, r)
		if err != nil { // it has answered
			keeper.Close()
			return
		}
	}
	in, out := wire.Relay(client, keeper)
	a.Log.Debug("stream ended", "rig", u.Rig.ID, "kind", kind, "bytesIn", in, "bytesOut", out)
}

func (a *API) fileRoutes() {
	query := []*huma.Param{queryParam("path", "Absolute, or relative to the user's home", true), queryParam("workspace", "Workspace of SPACE/SURFACE; default 'default'", false)}
	tar := map[string]*huma.MediaType{"application/x-tar": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}
	r := route{method: "GET", path: "/v1/rigs/{rig}/files", id: "readFiles", summary: "The file or tree at path, as a tar stream with names relative to its parent", tag: "files"}
	a.mux.HandleFunc("GET "+r.path, a.readFiles)
	a.describe(r, map[string]*huma.Response{"200": {Description: "A tar stream", Content: tar}}, nil, query...)
	r = route{method: "PUT", path: r.path, id: "writeFiles", summary: "Extract a tar stream into directory path", tag: "files"}
	a.mux.HandleFunc("PUT "+r.path, a.writeFiles)
	a.describe(r, map[string]*huma.Response{"204": {Description: "Written"}}, &huma.RequestBody{Required: true, Content: tar}, query...)
}

// files begins a use of a rig for a request about files.
func (a *API) files(w http.ResponseWriter, r *http.Request) (*rigs.Use, string, bool) {
	p := r.URL.Query().Get("path")
	if p == "" || len(p) > guestapi.MaxPath {
		wire.WriteProblem(w, rig.FieldErrorf("path", "path: give one of at most %d bytes", guestapi.MaxPath))
		return nil, "", false
	}
	u, err := a.Rigs.Use(r.Context(), r.PathValue("rig"), r.URL.Query().Get("workspace"), rigs.Files)
	if err != nil {
		wire.WriteProblem(w, err)
		return nil, "", false
	}
	return u, "http://keeper/v1/files?" + url.Values{"path": {p}}.Encode(), true
}

func (a *API) readFiles(w http.ResponseWriter, r *http.Request) {
	u, addr, ok := a.files(w, r)
	if !ok {
		return
	}
	defer u.Done()
	req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, addr, nil)
	if err != nil {
		wire.WriteProblem(w, err)
		return
	}
	res, err := u.Keeper.HTTP.Do(req)
	if err != nil {
		wire.WriteProblem(w, u.Failed(err))
		return
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		wire.WriteProblem(w, wire.ReadProblem(res))
		return
	}
	w.Header().Set("Content-Type", "application/x-tar")
	if _, err := io.CopyBuffer(&timedWriter{w, http.NewResponseController(w)}, struct{ io.Reader }{res.Body}, make([]byte, wire.MaxFrame)); err != nil {
		a.Log.Info("copying out broke off", "rig", u.Rig.ID, "error", err)
		panic(http.ErrAbortHandler) // the client must not take a part for the whole
	}
}

func (a *API) writeFiles(w http.ResponseWriter, r *http.Request) {
	if ct := r.Header.Get("Content-Type"); ct != "application/x-tar" {
		wire.WriteProblem(w, rig.FieldErrorf("Content-Type", "the body is %q: send application/x-tar", ct))
		return
	}
	u, addr, ok := a.files(w, r)
	if !ok {
		return
	}
	defer u.Done()
	req, err := http.NewRequestWithContext(r.Context(), http.MethodPut, addr, io.NopCloser(r.Body))
	if err != nil {
		wire.WriteProblem(w, err)
		return
	}
	req.Header.Set("Content-Type", "application/x-tar")
	res, err := u.Keeper.HTTP.Do(req)
	if err != nil {
		wire.WriteProblem(w, u.Failed(err))
		return
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusNoContent {
		wire.WriteProblem(w, wire.ReadProblem(res))
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// timedWriter gives each write its own time.
type timedWriter struct {
	w io.Writer
	c *http.ResponseController
}

func (t *timedWriter) Write(p []byte) (int, error) {
	if err := t.c.SetWriteDeadline(time.Now().Add(copyTimeout)); err != nil {
		return 0, err
	}
	return t.w.Write(p)
}
