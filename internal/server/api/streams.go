package api

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"github.com/danielgtaylor/huma/v2"

	"rigs/internal/guestapi"
	"rigs/internal/rig"
	"rigs/internal/server/authority"
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

// startTimeout bounds the wait for a stream's first frame.
const startTimeout = 10 * time.Second

// stream upgrades a connection, passes what its first frame asks for through the
// chokepoint, and relays the rest to the keeper. What comes from there is not
// looked at but for the frames' headers.
func (a *API) stream(w http.ResponseWriter, r *http.Request, kind rigs.Kind) {
	ws := strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
	if !ws && !wire.IsUpgrade(r) {
		wire.WriteProblem(w, rig.Errorf(rig.CodeInvalidRequest, "this address is a stream: send Connection: Upgrade with Upgrade: %s, or open a WebSocket", wire.Protocol))
		return
	}
	in := RigIn{Rig: r.PathValue("rig"), Workspace: r.URL.Query().Get("workspace")}
	ctx := r.Context()
	target, err := a.Rigs.Usable(ctx, in.Rig, in.Workspace)
	if err == nil {
		err = a.see(ctx, target.Workspace)
	}
	if err != nil {
		wire.WriteProblem(w, err)
		return
	}
	in = RigIn{Rig: target.ID}
	var client net.Conn
	if ws {
		// The guard has compared Origin with Host already, for WebSockets too.
		c, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true, CompressionMode: websocket.CompressionDisabled})
		if err != nil { // it has answered
			return
		}
		c.SetReadLimit(-1) // message boundaries mean nothing; frames have their own limit
		client = websocket.NetConn(ctx, c, websocket.MessageBinary)
	} else if client, err = wire.Accept(w, r); err != nil { // it has answered
		return
	}
	defer client.Close()
	defer context.AfterFunc(ctx, func() { client.Close() })() // whoever it is may not go on
	from, to := wire.NewReader(bufio.NewReaderSize(client, wire.MaxFrame)), wire.NewWriter(client)
	if err := a.relay(ctx, &in, kind, client, from, to); err != nil {
		_ = client.SetWriteDeadline(time.Now().Add(copyTimeout))
		_ = to.WriteJSON(wire.KindError, rig.AsProblem(err)) // the client may be gone
	}
}

// relay is a stream from its first frame on. An error is for the client, to whom
// nothing is being sent any more.
func (a *API) relay(ctx context.Context, in *RigIn, kind rigs.Kind, client net.Conn, from *wire.Reader, to *wire.Writer) error {
	if err := client.SetReadDeadline(time.Now().Add(startTimeout)); err != nil {
		return err
	}
	f, err := from.Next()
	if err != nil || f.Kind != wire.KindStart {
		return rig.Errorf(rig.CodeInvalidRequest, "a stream begins with a start frame, within %v", startTimeout)
	}
	_ = client.SetReadDeadline(time.Time{}) // it could be set, so it can be taken off
	start := slices.Clone(f.Payload)
	act := authority.Attach.With("open a terminal")
	if kind == rigs.Exec {
		var e guestapi.ExecRequest
		if err := f.Decode(&e); err != nil {
			return rig.Errorf(rig.CodeInvalidRequest, "the start frame: %w", err)
		}
		act = execAction(e)
	}
	// A client that goes away while a person is asked takes its question back.
	asking, gone := context.WithCancel(ctx)
	over := make(chan struct{})
	defer close(over)
	next := readAhead(from, gone, over)
	_, err = do(asking, a, in, act, func(g *authority.Grant) (struct{}, error) {
		u, err := a.Rigs.Use(ctx, g, kind)
		if err != nil {
			return struct{}{}, err
		}
		defer u.Done()
		dialing, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		keeper, err := wire.Dial(dialing, u.Keeper.Dial, "keeper", "/v1/"+string(kind), nil)
		if err != nil {
			return struct{}{}, u.Failed(err)
		}
		defer keeper.Close()
		down := wire.NewWriter(keeper)
		if err := down.Write(wire.KindStart, start); err != nil {
			return struct{}{}, u.Failed(err)
		}
		return struct{}{}, relayFrames(client, keeper, next, to, down, func(f wire.Frame) error { return input(ctx, u, f) })
	})
	return err
}

// ahead is a client's next frame, or why there is none.
type ahead struct {
	wire.Frame
	err error
}

// readAhead reads a client's frames, one before it is wanted, so that the client's going
// away is noticed at any time: gone is called then. A frame is valid until the next one
// was received. Nothing follows an error. The reading ends when over is closed and the
// connection is.
func readAhead(from *wire.Reader, gone func(), over <-chan struct{}) <-chan ahead {
	next := make(chan ahead)
	go func() {
		defer gone()
		var buffers [2][]byte // the receiver has one while the other is filled
		for i := 0; ; i ^= 1 {
			f, err := from.Next()
			if err == nil {
				buffers[i] = append(buffers[i][:0], f.Payload...)
				f.Payload = buffers[i]
			} else {
				gone()
			}
			select {
			case next <- ahead{f, err}:
			case <-over:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return next
}

// input lets a client's frame pass, or says why not.
func input(ctx context.Context, u *rigs.Use, f wire.Frame) error {
	switch f.Kind {
	case wire.KindStdin:
		return u.Input(ctx, "input", f.Payload)
	case wire.KindSignal:
		return u.Input(ctx, "signal", f.Payload)
	case wire.KindEOF:
		return u.Input(ctx, "end", nil)
	case wire.KindResize:
		return nil // of what is shown; what runs inside may see it
	case wire.KindStart, wire.KindStdout, wire.KindStderr, wire.KindAck, wire.KindExit, wire.KindError:
	}
	return rig.Errorf(rig.CodeInvalidRequest, "a client does not send frames of kind %d after the first", f.Kind)
}

// relayFrames passes frames both ways until the keeper's end, the client's, or one
// that check refuses, which it returns; nothing is written to the client then.
func relayFrames(client, keeper net.Conn, next <-chan ahead, to, down *wire.Writer, check func(wire.Frame) error) error {
	var wg sync.WaitGroup
	var refusing atomic.Bool
	wg.Go(func() { // what the machine says
		defer func() {
			if !refusing.Load() {
				client.Close() // in good order, which also ends the wait below
			}
		}()
		r := wire.NewReader(bufio.NewReaderSize(keeper, wire.MaxFrame))
		for {
			f, err := r.Next()
			if err != nil || client.SetWriteDeadline(time.Now().Add(copyTimeout)) != nil || to.Write(f.Kind, f.Payload) != nil {
				return
			}
		}
	})
	var refused error
	for {
		f := <-next
		err := f.err
		if errors.Is(err, io.EOF) { // half of it: what comes back is still wanted
			if h, ok := keeper.(interface{ CloseWrite() error }); ok && h.CloseWrite() == nil {
				break
			}
		}
		if err != nil {
			keeper.Close()
			break
		}
		if refused = check(f.Frame); refused != nil {
			refusing.Store(true)
			keeper.Close()
			break
		}
		if down.Write(f.Kind, f.Payload) != nil {
			break
		}
	}
	wg.Wait()
	return refused
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

// files does a request about files with a use of the rig. f returns an error until
// it has answered, and nil from then on.
func (a *API) files(w http.ResponseWriter, r *http.Request, act authority.Action, f func(ctx context.Context, u *rigs.Use, addr string) error) {
	p := r.URL.Query().Get("path")
	if p == "" || len(p) > guestapi.MaxPath {
		wire.WriteProblem(w, rig.FieldErrorf("path", "path: give one of at most %d bytes", guestapi.MaxPath))
		return
	}
	in := RigIn{Rig: r.PathValue("rig"), Workspace: r.URL.Query().Get("workspace")}
	ctx := r.Context()
	_, err := using(ctx, a, &in, act.With("", "path", p), rigs.Files, func(u *rigs.Use) (struct{}, error) {
		return struct{}{}, f(ctx, u, "http://keeper/v1/files?"+url.Values{"path": {p}}.Encode())
	})
	if err != nil && !errors.Is(err, errCutShort) {
		wire.WriteProblem(w, err)
	}
	if errors.Is(err, errCutShort) {
		panic(http.ErrAbortHandler) // the client must not take a part for the whole
	}
}

// errCutShort says that an answer broke off when a part of it was sent.
var errCutShort = rig.Errorf(rig.CodeCanceled, "the copy broke off")

func (a *API) readFiles(w http.ResponseWriter, r *http.Request) {
	a.files(w, r, authority.ReadFile, func(ctx context.Context, u *rigs.Use, addr string) error { return a.sendFiles(ctx, w, u, addr) })
}

func (a *API) sendFiles(ctx context.Context, w http.ResponseWriter, u *rigs.Use, addr string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, addr, nil)
	if err != nil {
		return err
	}
	res, err := u.Keeper.HTTP.Do(req)
	if err != nil {
		return u.Failed(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return wire.ReadProblem(res)
	}
	w.Header().Set("Content-Type", "application/x-tar")
	if _, err := io.CopyBuffer(&timedWriter{w, http.NewResponseController(w)}, struct{ io.Reader }{res.Body}, make([]byte, wire.MaxFrame)); err != nil {
		a.Log.Info("copying out broke off", "rig", u.Rig.ID, "error", err)
		return errCutShort
	}
	return nil
}

func (a *API) writeFiles(w http.ResponseWriter, r *http.Request) {
	if ct := r.Header.Get("Content-Type"); ct != "application/x-tar" {
		wire.WriteProblem(w, rig.FieldErrorf("Content-Type", "the body is %q: send application/x-tar", ct))
		return
	}
	a.files(w, r, authority.WriteFile, func(ctx context.Context, u *rigs.Use, addr string) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, addr, io.NopCloser(r.Body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/x-tar")
		res, err := u.Keeper.HTTP.Do(req)
		if err != nil {
			return u.Failed(err)
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusNoContent {
			return wire.ReadProblem(res)
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	})
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
