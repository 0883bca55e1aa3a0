package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"rigs/internal/rig"
)

// WriteProblem answers with err as an RFC 9457 problem.
func WriteProblem(w http.ResponseWriter, err error) {
	p := rig.AsProblem(err)
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.GetStatus())
	_ = json.NewEncoder(w).Encode(p) // the peer may be gone
}

// WriteJSON answers with v.
func WriteJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the peer may be gone
}

// ErrAnswer is wrapped when a peer's answer is not what was asked for.
var ErrAnswer = errors.New("the answer is not understood")

// Call makes one request with JSON both ways; in and out may be nil. The answer is
// bounded by limit bytes and decoded strictly. What refused makes of an answer that is no success
// is the error; ReadProblem is one, for a peer whose words can be passed on.
func Call(ctx context.Context, c *http.Client, method, url string, in, out any, limit int64, refused func(*http.Response) error) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode/100 != 2 {
		return refused(res)
	}
	if out == nil {
		_, err := io.Copy(io.Discard, io.LimitReader(res.Body, limit)) // so that the connection can be used again
		return err
	}
	if err := ReadJSON(res.Body, limit, out); err != nil {
		return fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	return nil
}
