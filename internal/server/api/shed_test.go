package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestSheddingOverHTTP(t *testing.T) {
	const two = `{"messages":[{"content":[{"type":"image","source":{"type":"file","file_id":"a"}}, {"type":"image","source":{"type":"file","file_id":"b"}}]}],"n":1.0e2}`
	mux := New(Config{}).mux
	for _, x := range []struct {
		query, body string
		status      int
		contains    string
		shed        string
	}{
		{"", two, 200, two, "0"},
		{"?keep=1", two, 200, `{"messages":[{"content":[{"type":"text","text":"[image left out] still st_ca978112ca1bbdca: image in file a"}, {"type":"image","source":{"type":"file","file_id":"b"}}]}],"n":1.0e2}`, "1"},
		{"?keep=x", two, 400, `"field":"keep"`, ""},
		{"?keep=-1", two, 400, `"field":"keep"`, ""},
		{"", `{}`, 400, `"field":"messages"`, ""},
		{"", `[`, 400, `"code":"invalidRequest"`, ""},
		{"", `[` + strings.Repeat(" ", maxConversation) + `]`, 413, `"code":"tooLarge"`, ""},
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "/v1/shed"+x.query, strings.NewReader(x.body))
		r.Header.Set("Content-Type", "application/json")
		mux.ServeHTTP(w, r)
		if w.Code != x.status || !strings.Contains(w.Body.String(), x.contains) || w.Header().Get("Rigs-Images-Shed") != x.shed {
			t.Errorf("%s %.40s: %d %.300s %v", x.query, x.body, w.Code, w.Body, w.Header())
		}
		if x.status == 200 && (w.Body.String() != x.contains || w.Header().Get("Content-Type") != "application/json") {
			t.Errorf("%s: %q %v", x.query, w.Body, w.Header())
		}
	}
}
