package mcp

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"
)

// within calls a handler in this process, as the caller of another request: with
// that request's credentials and what its connection said about who is there.
// Each call is authenticated anew, so a token that was revoked stops working in
// the middle of a session.
type within struct {
	handler http.Handler
	origin  *http.Request
	header  []string // which of origin's headers are the caller's credentials
}

// RoundTrip implements http.RoundTripper. The answer's body comes as it is
// written, and closing it ends the request.
func (t *within) RoundTrip(req *http.Request) (*http.Response, error) {
	// The values are those of the origin's connection; the life is the request's.
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.origin.Context()))
	stop := context.AfterFunc(req.Context(), cancel)
	in := req.Clone(ctx) //nolint:contextcheck // it ends with req's, see above
	in.RequestURI, in.RemoteAddr, in.Host, in.TLS = req.URL.RequestURI(), t.origin.RemoteAddr, t.origin.Host, t.origin.TLS
	if in.Body == nil {
		in.Body = http.NoBody
	}
	for _, h := range t.header {
		if _, set := in.Header[h]; set && h != "Authorization" && h != "Cookie" {
			continue
		}
		in.Header.Del(h)
		if v, ok := t.origin.Header[h]; ok {
			in.Header[h] = v
		}
	}
	r, w := io.Pipe()
	a := &answer{header: http.Header{}, body: w, begun: make(chan struct{})}
	go func() {
		defer cancel()
		defer stop()
		defer in.Body.Close()
		t.handler.ServeHTTP(a, in)
		a.WriteHeader(http.StatusOK)
		w.Close()
	}()
	select {
	case <-a.begun:
	case <-req.Context().Done():
		r.CloseWithError(req.Context().Err())
		return nil, req.Context().Err()
	}
	return &http.Response{
		Status: http.StatusText(a.status), StatusCode: a.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: a.sent, Body: &answerBody{PipeReader: r, cancel: cancel}, ContentLength: -1, Request: req,
	}, nil
}

// answerBody ends its request when it is closed.
type answerBody struct {
	*io.PipeReader
	cancel context.CancelFunc
}

func (b *answerBody) Close() error {
	b.cancel()
	return b.PipeReader.Close()
}

// answer is the handler's side.
type answer struct {
	header http.Header
	body   *io.PipeWriter
	once   sync.Once
	begun  chan struct{} // closed when status and sent are set
	status int
	sent   http.Header
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	if status < 200 { // 100 Continue and the like are not answers
		return
	}
	a.once.Do(func() {
		a.status, a.sent = status, a.header.Clone()
		close(a.begun)
	})
}

func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

// Flush implements http.Flusher: nothing is held back.
func (a *answer) Flush() { a.WriteHeader(http.StatusOK) }

// SetWriteDeadline implements what http.ResponseController asks for. Who reads is
// in this process, and ends the request when it is gone.
func (*answer) SetWriteDeadline(time.Time) error { return nil }

// SetReadDeadline is as SetWriteDeadline: the body is in memory.
func (*answer) SetReadDeadline(time.Time) error { return nil }
