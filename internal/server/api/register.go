package api

import (
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// route is what registering a route needs beside its shapes.
type route struct {
	method, path string
	id           string // operation id
	summary      string
	tag          string
	status       int   // of success; 0: 200, or 204 without a body
	maxBody      int64 // bytes of JSON; 0: 64 KB
}

func (r route) operation() huma.Operation {
	op := huma.Operation{
		OperationID: r.id, Method: r.method, Path: r.path, Summary: r.summary, Tags: []string{r.tag}, DefaultStatus: r.status,
		MaxBodyBytes: 64 << 10, BodyReadTimeout: -1, // timedBody sees to it
	}
	if r.maxBody > 0 {
		op.MaxBodyBytes = r.maxBody
	}
	return op
}

// body is an answer with a JSON body.
type body[T any] struct{ Body T }

// in is a request without parameters.
type in struct{}

// handle registers a route whose answer has a body.
func handle[I, T any](a *API, r route, f func(ctx context.Context, in *I) (T, error)) {
	huma.Register(a.huma, r.operation(), func(ctx context.Context, in *I) (*body[T], error) {
		v, err := f(ctx, in)
		if err != nil {
			return nil, err
		}
		return &body[T]{v}, nil
	})
}

// handleEmpty registers a route whose answer has none.
func handleEmpty[I any](a *API, r route, f func(ctx context.Context, in *I) error) {
	r.status = http.StatusNoContent
	huma.Register(a.huma, r.operation(), func(ctx context.Context, in *I) (*struct{}, error) { return nil, f(ctx, in) })
}

// describe adds an operation that the framework does not handle to the
// description, with the parameters of its path and those given.
func (a *API) describe(r route, responses map[string]*huma.Response, request *huma.RequestBody, query ...*huma.Param) {
	op := r.operation()
	for seg := range strings.SplitSeq(r.path, "/") {
		if strings.HasPrefix(seg, "{") {
			op.Parameters = append(op.Parameters, &huma.Param{Name: strings.Trim(seg, "{}"), In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}})
		}
	}
	op.Parameters = append(op.Parameters, query...)
	op.RequestBody = request
	op.Responses = responses
	op.Responses["default"] = &huma.Response{Description: "Error", Content: map[string]*huma.MediaType{
		"application/problem+json": {Schema: &huma.Schema{Ref: "#/components/schemas/Problem"}},
	}}
	a.huma.OpenAPI().AddOperation(&op)
}

func queryParam(name, doc string, required bool) *huma.Param {
	return &huma.Param{Name: name, In: "query", Description: doc, Required: required, Schema: &huma.Schema{Type: huma.TypeString}}
}
