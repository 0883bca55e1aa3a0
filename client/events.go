package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"rigs/internal/rig"
)

// maxEvent bounds one line of an event stream, in bytes.
const maxEvent = 1 << 20

// EventOptions narrow an event stream. The client's workspace narrows it too.
type EventOptions struct {
	Space  string
	Rig    string // a rig in any form
	Viewer string // names this viewer, as Take does
	Opened func() // called when the server has answered; may be nil
}

// Events passes the server's events to f until f returns false (then nil is
// returned), ctx ends, or the stream breaks. It begins with one event for every
// live rig that matches; for a Rig in any phase.
func (c *Client) Events(ctx context.Context, o EventOptions, f func(Event) bool) error {
	q := url.Values{}
	for k, v := range map[string]string{"workspace": c.workspace, "space": o.Space, "rig": o.Rig, "viewer": o.Viewer} {
		if v != "" {
			q.Set(k, v)
		}
	}
	res, err := c.do(ctx, http.MethodGet, "/v1/events?"+q.Encode(), nil, "")
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if o.Opened != nil {
		o.Opened()
	}
	err = readSSE(res.Body, func(_ string, data []byte) (bool, error) {
		var e Event
		if err := json.Unmarshal(data, &e); err != nil {
			return false, fmt.Errorf("event stream: %w", err)
		}
		return f(e), nil
	})
	if err != nil {
		return c.broken(ctx, err)
	}
	return nil
}

// broken says that a stream ended before its end.
func (c *Client) broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return rig.Errorf(rig.CodeUnavailable, "the stream of events from %s broke off: %w: the server may have been stopped", c.display, err)
}

// work posts a request that is answered by steps and then by a result.
func work[T any](ctx context.Context, c *Client, path string, in any, progress func(Step)) (T, error) {
	var out T
	b, err := json.Marshal(in)
	if err != nil {
		return out, err
	}
	res, err := c.do(ctx, http.MethodPost, path, bytes.NewReader(b), "application/json")
	if err != nil {
		return out, err
	}
	defer res.Body.Close()
	var failure *rig.Problem
	err = readSSE(res.Body, func(event string, data []byte) (bool, error) {
		switch event {
		case "step":
			var s Step
			if err := json.Unmarshal(data, &s); err != nil {
				return false, err
			}
			if progress != nil {
				progress(s)
			}
			return true, nil
		case "done":
			return false, json.Unmarshal(data, &out)
		case "error":
			failure = new(rig.Problem)
			return false, json.Unmarshal(data, failure)
		}
		return true, nil // a newer server's
	})
	switch {
	case failure != nil:
		return out, failure
	case err != nil:
		return out, c.broken(ctx, err)
	}
	return out, nil
}

// readSSE reads server-sent events until f returns false or an error. A stream
// that ends by itself is io.ErrUnexpectedEOF.
func readSSE(r io.Reader, f func(event string, data []byte) (bool, error)) error {
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 0, 4096), maxEvent)
	event, data := "", []byte(nil)
	for sc.Scan() {
		line := sc.Text()
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "event":
			event = value
		case "data":
			if len(data) > 0 {
				data = append(data, '\n')
			}
			data = append(data, value...)
		case "":
			if line != "" || len(data) == 0 { // a comment (heartbeat), or nothing yet
				continue
			}
			more, err := f(event, data)
			if err != nil || !more {
				return err
			}
			event, data = "", nil
		}
	}
	if err := sc.Err(); err != nil {
		return err
	}
	return io.ErrUnexpectedEOF
}
