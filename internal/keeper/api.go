package keeper

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"rigs/internal/guestapi"
	"rigs/internal/keeperapi"
	"rigs/internal/rig"
	"rigs/internal/wire"
)

const (
	// maxCollectBody bounds POST /v1/exec; the input is base64 in it.
	maxCollectBody = 16 << 20
	// stall is how long a guest may keep a transfer waiting for its next byte.
	stall = 2 * time.Minute
	// writeStall is how long a server may keep us waiting.
	eventStall = 30 * time.Second
)

// handler serves package keeperapi.
func (k *keeper) handler() http.Handler {
	m := http.NewServeMux()
	handle := func(pattern string, f func(http.ResponseWriter, *http.Request) error) {
		m.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := f(w, r); err != nil {
				wire.WriteProblem(w, err)
			}
		})
	}
	handle("GET /v1/events", k.serveEvents)
	handle("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) error {
		wire.WriteJSON(w, k.status())
		return nil
	})
	handle("POST /v1/exec", k.serveCollect)
	handle("GET /v1/exec", func(w http.ResponseWriter, r *http.Request) error { return k.serveStream(w, r, "exec") })
	handle("GET /v1/terminal", func(w http.ResponseWriter, r *http.Request) error { return k.serveStream(w, r, "terminal") })
	handle("GET /v1/files", k.serveGetFiles)
	handle("PUT /v1/files", k.servePutFiles)
	handle("GET /v1/stat", k.serveStat)
	handle("POST /v1/act", k.serveAct)
	handle("GET /v1/egress", func(w http.ResponseWriter, _ *http.Request) error {
		wire.WriteJSON(w, k.egressRules())
		return nil
	})
	handle("POST /v1/egress/allow", func(w http.ResponseWriter, r *http.Request) error { return k.serveChange(w, r, k.allow) })
	handle("POST /v1/egress/deny", func(w http.ResponseWriter, r *http.Request) error { return k.serveChange(w, r, k.deny) })
	handle("GET /v1/egress/log", k.serveEgressLog)
	handle("POST /v1/park", func(w http.ResponseWriter, r *http.Request) error { return none(w, k.park(r.Context())) })
	handle("POST /v1/wake", func(w http.ResponseWriter, r *http.Request) error {
		_, err := k.live(r.Context())
		return none(w, err)
	})
	handle("POST /v1/close", k.serveClose)
	return m
}

func none(w http.ResponseWriter, err error) error {
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

// serveEvents streams events. The first stream is the lifeline.
func (k *keeper) serveEvents(w http.ResponseWriter, r *http.Request) error {
	lifeline := false
	k.attach1.Do(func() {
		lifeline = true
		close(k.attached)
	})
	events, stop := k.watch()
	defer stop()
	if lifeline {
		defer k.end(rig.ServerShutdown)
	}
	w.Header().Set("Content-Type", "application/jsonl")
	rc := http.NewResponseController(w)
	enc := json.NewEncoder(w)
	for {
		select {
		case e, ok := <-events:
			if !ok {
				return nil // too far behind
			}
			_ = rc.SetWriteDeadline(time.Now().Add(eventStall))
			if enc.Encode(e) != nil || rc.Flush() != nil {
				return nil
			}
			if e.Type == "phase" && e.Phase == rig.Closed {
				return nil
			}
		case <-r.Context().Done():
			return nil
		}
	}
}

// serveClose asks for the end and answers when the machine is gone.
func (k *keeper) serveClose(w http.ResponseWriter, r *http.Request) error {
	events, stop := k.watch()
	defer stop()
	k.end(rig.Requested)
	for {
		select {
		case e, ok := <-events:
			if !ok || e.Type == "phase" && e.Phase == rig.Closed {
				return none(w, nil)
			}
		case <-r.Context().Done():
			return nil
		}
	}
}

func (k *keeper) serveChange(w http.ResponseWriter, r *http.Request, change func(keeperapi.EgressChange) error) error {
	var c keeperapi.EgressChange
	if err := readBody(w, r, guestapi.MaxJSON, &c); err != nil {
		return err
	}
	if err := change(c); err != nil {
		return err
	}
	k.tellRules()
	wire.WriteJSON(w, k.egressRules())
	return nil
}

// maxTTL is the longest admission with an end: one for longer has none.
const maxTTL = 7 * 24 * time.Hour

func (k *keeper) allow(c keeperapi.EgressChange) error {
	if c.TTLSeconds < 0 || c.TTLSeconds > int(maxTTL/time.Second) {
		return rig.FieldErrorf("ttlSeconds", "ttlSeconds %d: it must be from 1 to %d, or 0 for as long as the rig lives", c.TTLSeconds, int(maxTTL/time.Second))
	}
	var until time.Time
	if c.TTLSeconds > 0 {
		until = time.Now().Add(time.Duration(c.TTLSeconds) * time.Second)
	}
	return k.gate.Allow(c.Pattern, until)
}

func (k *keeper) deny(c keeperapi.EgressChange) error {
	if c.TTLSeconds != 0 {
		return rig.FieldErrorf("ttlSeconds", "ttlSeconds %d: only an admission can have an end: leave it away", c.TTLSeconds)
	}
	return k.gate.Deny(c.Pattern)
}

func (k *keeper) egressRules() keeperapi.EgressRules {
	rules := keeperapi.EgressRules{Patterns: []string{}, Entries: k.gate.Entries()}
	for _, e := range rules.Entries {
		rules.Patterns = append(rules.Patterns, e.Pattern)
	}
	return rules
}

// tellRules publishes the list as it is now. The last one to be published is the
// last one there was.
func (k *keeper) tellRules() {
	k.rules.Lock()
	defer k.rules.Unlock()
	k.hub.publish(keeperapi.Event{Type: "rules", Rules: k.gate.Patterns()})
}

func (k *keeper) serveEgressLog(w http.ResponseWriter, r *http.Request) error {
	var after int64
	if s := r.URL.Query().Get("after"); s != "" {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < 0 {
			return rig.FieldErrorf("after", "after=%.40q: it must be a sequence number", s)
		}
		after = n
	}
	wire.WriteJSON(w, k.egress.after(after))
	return nil
}

// readBody decodes a request's JSON strictly.
func readBody(w http.ResponseWriter, r *http.Request, limit int64, v any) error {
	err := wire.ReadJSON(http.MaxBytesReader(w, r.Body, limit+1), limit, v)
	switch {
	case errors.Is(err, wire.ErrTooLarge):
		return rig.Errorf(rig.CodeTooLarge, "request: %w", err)
	case err != nil:
		return rig.Errorf(rig.CodeInvalidRequest, "request: %w", err)
	}
	return nil
}

// guestPath is the request's parameter path, checked, as a query for the guest.
func guestPath(r *http.Request) (string, error) {
	p := r.URL.Query().Get("path")
	if p == "" || len(p) > guestapi.MaxPath {
		return "", rig.FieldErrorf("path", "path: it must have 1 to %d bytes", guestapi.MaxPath)
	}
	return "?" + url.Values{"path": {p}}.Encode(), nil
}

func (k *keeper) serveStat(w http.ResponseWriter, r *http.Request) error {
	q, err := guestPath(r)
	if err != nil {
		return err
	}
	a, done, err := k.use(r.Context(), "files")
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
	defer cancel()
	var info guestapi.FileInfo
	if err := a.call(ctx, http.MethodGet, "/v1/stat"+q, nil, &info); err != nil {
		return k.broken(err)
	}
	if err := checkInfo(info); err != nil {
		return err
	}
	wire.WriteJSON(w, info)
	return nil
}

// serveGetFiles relays a tar out. The guest's answer is a status and bytes, of
// which nothing is believed.
func (k *keeper) serveGetFiles(w http.ResponseWriter, r *http.Request) error {
	q, err := guestPath(r)
	if err != nil {
		return err
	}
	a, done, err := k.use(r.Context(), "files")
	if err != nil {
		return err
	}
	defer done()
	ctx, watchdog := newWatchdog(r.Context(), stall)
	defer watchdog.stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://guest/v1/files"+q, nil)
	if err != nil {
		return err
	}
	res, err := a.http.Do(req)
	if err != nil {
		return k.broken(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return guestProblem(res)
	}
	w.Header().Set("Content-Type", "application/x-tar")
	_, err = io.CopyBuffer(struct{ io.Writer }{w}, watchdog.reader(res.Body), make([]byte, wire.MaxFrame))
	if err != nil {
		k.log.Warn("files out: cut short", "err", err)
		panic(http.ErrAbortHandler) // the only way to tell a cut from an end
	}
	return nil
}

// servePutFiles relays a tar in.
func (k *keeper) servePutFiles(w http.ResponseWriter, r *http.Request) error {
	q, err := guestPath(r)
	if err != nil {
		return err
	}
	a, done, err := k.use(r.Context(), "files")
	if err != nil {
		return err
	}
	defer done()
	req, err := http.NewRequestWithContext(r.Context(), http.MethodPut, "http://guest/v1/files"+q, r.Body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-tar")
	res, err := a.http.Do(req)
	if err != nil {
		return k.broken(err)
	}
	defer res.Body.Close()
	if res.StatusCode/100 != 2 {
		return guestProblem(res)
	}
	return none(w, nil)
}
