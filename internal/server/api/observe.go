package api

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"runtime/debug"
	"time"
)

func stack() string { return string(debug.Stack()) }

// bodyTimeout bounds the reading of a request's JSON.
const bodyTimeout = 10 * time.Second

type hostKey struct{}

// observe counts and logs requests and bounds how long a body may take. A JSON
// body must come at once; a tar stream must keep coming.
func (a *API) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		rec := &recorder{ResponseWriter: w}
		if r.Body != nil && r.Body != http.NoBody {
			r.Body = &timedBody{ReadCloser: r.Body, c: http.NewResponseController(w), rolling: r.Method == http.MethodPut || r.URL.Path == "/v1/shed"}
		}
		r = withHeader(r.WithContext(context.WithValue(r.Context(), hostKey{}, r.Host)), rec)
		next.ServeHTTP(rec, r)
		route := r.Pattern
		if route == "" || route == "/" {
			route = "none"
		}
		d := time.Since(start)
		a.Metrics.Request(r.Method, route, rec.code(), d)
		a.Log.Debug("request", "method", r.Method, "path", r.URL.Path, "status", rec.code(), "seconds", d.Seconds())
	})
}

// recorder notes the status of an answer.
type recorder struct {
	http.ResponseWriter
	status int
}

func (r *recorder) code() int {
	if r.status == 0 {
		return http.StatusOK
	}
	return r.status
}

func (r *recorder) WriteHeader(s int) {
	if r.status == 0 {
		r.status = s
	}
	r.ResponseWriter.WriteHeader(s)
}

// Unwrap lets http.ResponseController through.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Hijack notes that the connection became a stream.
func (r *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := http.NewResponseController(r.ResponseWriter).Hijack()
	if err == nil {
		r.status = http.StatusSwitchingProtocols
	}
	return c, rw, err
}

// timedBody ends a request whose body does not come. The deadline is the
// connection's, so it is taken off when the body has ended: the server would
// otherwise take it for the client's going away.
type timedBody struct {
	io.ReadCloser
	c       *http.ResponseController
	rolling bool // each read has its own time
	begun   bool
}

func (b *timedBody) Read(p []byte) (int, error) {
	if !b.begun || b.rolling {
		b.begun = true
		if err := b.c.SetReadDeadline(time.Now().Add(bodyTimeout)); err != nil {
			return 0, err
		}
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		_ = b.c.SetReadDeadline(time.Time{}) // a connection without deadlines has none to take off
	}
	return n, err
}

func (b *timedBody) Close() error {
	_ = b.c.SetReadDeadline(time.Time{}) // as above
	return b.ReadCloser.Close()
}
