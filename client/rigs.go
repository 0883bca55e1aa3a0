package client

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"rigs/internal/guestapi"
	"rigs/internal/keeperapi"
	"rigs/internal/rig"
	"rigs/internal/serverapi"
	"rigs/internal/wire"
)

// ListOptions narrow a listing.
type ListOptions struct {
	Space string // in the client's workspace; empty: every space
	All   bool   // closed ones too, newest first
}

// Rigs lists rigs: those of the workspace that In chose, or of all.
func (c *Client) Rigs(ctx context.Context, o ListOptions) ([]Rig, error) {
	q := url.Values{}
	if c.workspace != "" {
		q.Set("workspace", c.workspace)
	}
	if o.Space != "" {
		q.Set("space", o.Space)
	}
	if o.All {
		q.Set("all", "true")
	}
	p := "/v1/rigs"
	if len(q) > 0 {
		p += "?" + q.Encode()
	}
	l, err := get[serverapi.Rigs](ctx, c, p)
	return l.Rigs, err
}

// Open begins a new rig, or returns the one that the space has: created tells
// which. It does not wait; see WaitReady.
func (c *Client) Open(ctx context.Context, s Spec) (r Rig, created bool, err error) {
	if s.Workspace == "" {
		s.Workspace = c.workspace
	}
	code, err := c.call(ctx, http.MethodPost, "/v1/rigs", s, &r)
	return r, code == http.StatusCreated, err
}

// Rig returns a rig.
func (c *Client) Rig(ctx context.Context, ref string) (Rig, error) {
	return get[Rig](ctx, c, c.rigPath(ref, "", nil))
}

// waitSlice is how long one request of WaitReady waits at the server.
const waitSlice = 60 * time.Second

// WaitReady waits until a rig is ready, or parked, and returns it. Its steps go
// to onStep, unless that is nil. A rig that failed or was closed is an error:
// its own problem.
func (c *Client) WaitReady(ctx context.Context, ref string, onStep func(Step)) (Rig, error) {
	if onStep != nil {
		r, err := c.Rig(ctx, ref) // so that the events are those of one id
		if err != nil {
			return r, err
		}
		if ref = r.ID; r.Phase == rig.Provisioning {
			if err := c.watchSteps(ctx, ref, onStep); err != nil {
				return r, err
			}
		}
	}
	q := url.Values{"wait": {"ready"}, "timeoutSeconds": {strconv.Itoa(int(waitSlice.Seconds()))}}
	for {
		r, err := get[Rig](ctx, c, c.rigPath(ref, "", q))
		if err != nil {
			return r, err
		}
		switch r.Phase {
		case rig.Ready, rig.Parked:
			return r, nil
		case rig.Failed, rig.Closing, rig.Closed:
			if r.Error != nil {
				return r, r.Error
			}
			return r, rig.Errorf(rig.CodeGone, "rig %s is %s: %s", r.ID, r.Phase, r.CloseReason)
		case rig.Provisioning: // the server's wait ended first
		}
		ref = r.ID
	}
}

// watchSteps passes on the steps of a rig until it is not provisioning.
func (c *Client) watchSteps(ctx context.Context, id string, onStep func(Step)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	last := Step{}
	err := c.Events(ctx, EventOptions{Rig: id}, func(e Event) bool {
		if e.Rig == nil {
			return true
		}
		if s := e.Rig.Step; s != nil && *s != last {
			last = *s
			onStep(*s)
		}
		return e.Rig.Phase == rig.Provisioning
	})
	return err
}

// Close closes a rig and returns it when its machine is gone.
func (c *Client) Close(ctx context.Context, ref string) (Rig, error) {
	var r Rig
	_, err := c.call(ctx, http.MethodDelete, c.rigPath(ref, "", nil), nil, &r)
	return r, err
}

// Park stops a rig's processors; its memory stays.
func (c *Client) Park(ctx context.Context, ref string) (Rig, error) {
	return post[Rig](ctx, c, c.rigPath(ref, "/park", nil), nil)
}

// Wake lets a parked rig go on.
func (c *Client) Wake(ctx context.Context, ref string) (Rig, error) {
	return post[Rig](ctx, c, c.rigPath(ref, "/wake", nil), nil)
}

// Run runs a command to its end and returns its output, of which the server
// keeps a bounded part.
func (c *Client) Run(ctx context.Context, ref string, e ExecCollect) (ExecResult, error) {
	return post[ExecResult](ctx, c, c.rigPath(ref, "/exec", nil), e)
}

// Exec runs a command with its input and output connected to sio and returns
// how it ended. When ctx ends, so does the command.
func (c *Client) Exec(ctx context.Context, ref string, e ExecRequest, sio StreamIO) (ExitStatus, error) {
	conn, err := c.Stream(ctx, ref, "exec")
	if err != nil {
		return ExitStatus{}, err
	}
	defer conn.Close()
	return guestapi.RunStream(ctx, conn, e, sio)
}

// Terminal attaches to a terminal session until it ends or ctx does.
func (c *Client) Terminal(ctx context.Context, ref string, t TerminalRequest, sio StreamIO) (ExitStatus, error) {
	conn, err := c.Stream(ctx, ref, "terminal")
	if err != nil {
		return ExitStatus{}, err
	}
	defer conn.Close()
	return guestapi.RunStream(ctx, conn, t, sio)
}

// Stream opens the raw connection of "exec" or "terminal": frames, the first of
// which the caller sends (see docs/api.md).
func (c *Client) Stream(ctx context.Context, ref, kind string) (net.Conn, error) {
	h := http.Header{}
	c.authorize(h)
	conn, err := wire.Dial(ctx, c.dial, c.base.Host, c.rigPath(ref, "/"+kind, nil), h)
	if err != nil && rig.CodeOf(err) == rig.CodeInternal {
		err = c.unreachable(ctx, err)
	}
	return conn, err
}

// ReadFiles returns the file or tree at path in a rig as a tar stream whose
// names are relative to path's parent. The caller closes it. The stream is a
// guest's word: extract it with care.
func (c *Client) ReadFiles(ctx context.Context, ref, path string) (io.ReadCloser, error) {
	res, err := c.do(ctx, http.MethodGet, c.rigPath(ref, "/files", url.Values{"path": {path}}), nil, "")
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}

// WriteFiles extracts a tar stream into directory path in a rig.
func (c *Client) WriteFiles(ctx context.Context, ref, path string, tar io.Reader) error {
	res, err := c.do(ctx, http.MethodPut, c.rigPath(ref, "/files", url.Values{"path": {path}}), io.NopCloser(tar), "application/x-tar")
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// Stat describes one file in a rig.
func (c *Client) Stat(ctx context.Context, ref, path string) (FileInfo, error) {
	return get[FileInfo](ctx, c, c.rigPath(ref, "/stat", url.Values{"path": {path}}))
}

// Egress returns the patterns that a rig's gate admits.
func (c *Client) Egress(ctx context.Context, ref string) (EgressRules, error) {
	return get[EgressRules](ctx, c, c.rigPath(ref, "/egress", nil))
}

// Allow admits a pattern.
func (c *Client) Allow(ctx context.Context, ref, pattern string) (EgressRules, error) {
	return post[EgressRules](ctx, c, c.rigPath(ref, "/egress/allow", nil), keeperapi.EgressChange{Pattern: pattern})
}

// Deny removes a pattern and closes the connections that only it admitted.
func (c *Client) Deny(ctx context.Context, ref, pattern string) (EgressRules, error) {
	return post[EgressRules](ctx, c, c.rigPath(ref, "/egress/deny", nil), keeperapi.EgressChange{Pattern: pattern})
}

// EgressLog returns what the gate decided after the event with number after.
func (c *Client) EgressLog(ctx context.Context, ref string, after int64) (EgressLog, error) {
	return get[EgressLog](ctx, c, c.rigPath(ref, "/egress/log", url.Values{"after": {strconv.FormatInt(after, 10)}}))
}
