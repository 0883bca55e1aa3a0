package keeper

import (
	"bytes"
	"context"
	"net/http"

	"rigs/internal/guestapi"
	"rigs/internal/keeperapi"
	"rigs/internal/rig"
	"rigs/internal/wire"
)

// serveCollect runs a command to its end and answers with its output.
func (k *keeper) serveCollect(w http.ResponseWriter, r *http.Request) error {
	var c keeperapi.ExecCollect
	if err := readBody(w, r, maxCollectBody, &c); err != nil {
		return err
	}
	if c.Limit < 0 || c.Limit > keeperapi.MaxCollect {
		return rig.FieldErrorf("limit", "limit %d: it must be 0 to %d bytes", c.Limit, keeperapi.MaxCollect)
	}
	if c.Limit == 0 {
		c.Limit = keeperapi.MaxCollect
	}
	res, err := k.collect(r.Context(), c)
	if err == nil {
		wire.WriteJSON(w, res)
	}
	return err
}

func (k *keeper) collect(of context.Context, c keeperapi.ExecCollect) (keeperapi.ExecResult, error) {
	var none keeperapi.ExecResult
	a, done, err := k.use(of, "exec")
	if err != nil {
		return none, err
	}
	defer done()
	ctx, cancel := context.WithTimeout(of, answerTimeout)
	conn, err := wire.Dial(ctx, a.mux.Dial, "guest", "/v1/exec", nil)
	cancel()
	if err != nil {
		return none, k.broken(guestError(err))
	}
	stdout, stderr := &head{limit: c.Limit}, &head{limit: c.Limit}
	sio := guestapi.StreamIO{Stdout: stdout, Stderr: stderr}
	if c.Stdin = c.Stdin || len(c.Input) > 0; c.Stdin {
		sio.Stdin = bytes.NewReader(c.Input)
	}
	st, err := guestapi.RunStream(of, conn, c.ExecRequest, sio)
	if err != nil {
		if of.Err() == nil && rig.CodeOf(err) == rig.CodeBackendFailure {
			return none, k.explain(err)
		}
		return none, guestError(err)
	}
	return keeperapi.ExecResult{
		ExitStatus: st, Stdout: stdout.b, Stderr: stderr.b, StdoutTruncated: stdout.more, StderrTruncated: stderr.more,
	}, nil
}

// head keeps the first bytes written to it.
type head struct {
	b     []byte
	limit int
	more  bool
}

func (h *head) Write(p []byte) (int, error) {
	n := min(len(p), h.limit-len(h.b))
	h.b = append(h.b, p[:n]...)
	h.more = h.more || n < len(p)
	return len(p), nil
}
