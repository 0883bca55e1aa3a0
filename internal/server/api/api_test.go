package api

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

func TestTheCommittedDescriptionIsFresh(t *testing.T) {
	want, err := OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile("../../../client/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Error("client/openapi.json is stale: run 'go generate ./internal/server/api'")
	}
}

// The routes of docs/api.md and those of the description are the same.
func TestTheDescriptionHasTheDocumentedRoutes(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	short := map[string]string{"/v1/rigs/{rig}/egress/deny": "/egress/allow · /deny", "/v1/rigs/{rig}/wake": "/park · /wake", "/v1/approvals/{id}/deny": "/approve · /deny"}
	paths := New(Config{}).huma.OpenAPI().Paths
	for path := range paths {
		name, ok := short[path]
		if !ok {
			name = path
		}
		if !bytes.Contains(doc, []byte(name)) {
			t.Errorf("%s is not documented", path)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^\| (?:GET|POST|PUT|DELETE) (/v1/[^ ?]*)`).FindAllSubmatch(doc, -1) {
		if paths[string(m[1])] == nil {
			t.Errorf("%s is documented and not described", m[1])
		}
	}
}

func TestThePageIsWhatEveryOtherAddressShows(t *testing.T) {
	h := page(fstest.MapFS{
		"index.html": {Data: []byte("<title>page")}, "assets/a-1234.js": {Data: []byte("js")}, "favicon.svg": {Data: []byte("<svg")}, ".gitkeep": {},
	})
	for _, x := range []struct {
		path, body, cache string
		status            int
	}{
		{"/", "<title>page", "no-cache", 200},
		{"/index.html", "<title>page", "no-cache", 200},
		{"/spaces/welcome", "<title>page", "no-cache", 200},
		{"/.gitkeep", "<title>page", "no-cache", 200},
		{"/assets/a-1234.js", "js", "immutable", 200},
		{"/assets/gone-1.js", "notFound", "", 404},
		{"/favicon.svg", "<svg", "no-cache", 200},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, x.path, nil))
		if w.Code != x.status || !strings.Contains(w.Body.String(), x.body) || !strings.Contains(w.Header().Get("Cache-Control"), x.cache) {
			t.Errorf("%s: %d %q %v", x.path, w.Code, w.Body, w.Header())
		}
	}
}
