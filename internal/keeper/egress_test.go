package keeper

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rigs/internal/keeperapi"
)

// An admission with a TTL is told with its end, and its end is told.
func TestEgressAdmissionWithTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{}
		var err error
		if k.gate, err = newGate(keeperapi.Config{Egress: []string{"ever.test"}}, k.egressEvent, k.tellRules); err != nil {
			t.Fatal(err)
		}
		go k.gate.Expire(t.Context())
		events, stop := k.watch()
		defer stop()
		h := k.handler()
		ask := func(path, body string, status int) (rules keeperapi.EgressRules) {
			t.Helper()
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body)))
			if w.Code != status {
				t.Fatalf("%s %s: %d %s", path, body, w.Code, w.Body)
			}
			if status == http.StatusOK {
				if err := json.Unmarshal(w.Body.Bytes(), &rules); err != nil {
					t.Fatal(err)
				}
			}
			return rules
		}
		told := func(want ...string) {
			t.Helper()
			synctest.Wait()
			for {
				select {
				case e := <-events:
					if e.Type != "rules" {
						continue
					}
					if !slices.Equal(e.Rules, want) {
						t.Errorf("told of %q, want %q", e.Rules, want)
					}
				default:
					t.Errorf("nobody is told of %q", want)
				}
				return
			}
		}
		told("ever.test")
		end := time.Now().Add(time.Minute).UTC()
		rules := ask("/v1/egress/allow", `{"pattern":"BRIEF.test","ttlSeconds":60}`, http.StatusOK)
		want := []keeperapi.EgressEntry{{Pattern: "ever.test"}, {Pattern: "brief.test", ExpiresAt: end}}
		if !slices.Equal(rules.Entries, want) || !slices.Equal(rules.Patterns, []string{"ever.test", "brief.test"}) {
			t.Errorf("%+v, want %+v", rules, want)
		}
		told("ever.test", "brief.test")
		time.Sleep(time.Minute)
		told("ever.test")

		if rules := ask("/v1/egress/deny", `{"pattern":"ever.test"}`, http.StatusOK); rules.Entries == nil || rules.Patterns == nil || len(rules.Entries) != 0 {
			t.Errorf("an empty list: %+v", rules)
		}
		for _, body := range []string{`{"pattern":"a.test","ttlSeconds":-1}`, `{"pattern":"a.test","ttlSeconds":604801}`} {
			ask("/v1/egress/allow", body, http.StatusBadRequest)
		}
		ask("/v1/egress/deny", `{"pattern":"a.test","ttlSeconds":60}`, http.StatusBadRequest)
	})
}
