package metrics

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"rigs/internal/rig"
)

func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

func TestEgressIsCountedWithFewLabels(t *testing.T) {
	m := New(func() map[rig.Phase]int { return nil })
	m.EgressEvent(rig.EgressEvent{Verdict: "deny", Reason: "notAdmitted", Count: 41})
	m.EgressEvent(rig.EgressEvent{Verdict: "deny", Reason: "notAdmitted"})
	m.EgressEvent(rig.EgressEvent{Verdict: "allow", Reason: "closed", BytesOut: 10, BytesIn: 20})
	for i := range 100 { // a keeper that was taken over
		m.EgressEvent(rig.EgressEvent{Verdict: "v" + strconv.Itoa(i), Reason: "r" + strconv.Itoa(i), BytesOut: -5})
	}
	m.EgressLine("written")
	m.Dropped.Set("a", map[string]uint64{"udp": 5, "evil": 7, "worse": 1})
	m.Dropped.Set("b", map[string]uint64{"udp": 2})
	m.Dropped.Set("a", map[string]uint64{"udp": 6, "evil": 7, "worse": 1})
	m.Dropped.Keep([]string{"b"})
	m.Dropped.Set("b", map[string]uint64{"udp": 1}) // counts backwards
	got := scrape(t, m)
	for _, want := range []string{
		`rigs_egress_connections_total{reason="notAdmitted",verdict="deny"} 42`,
		`rigs_egress_connections_total{reason="closed",verdict="allow"} 1`,
		`rigs_egress_connections_total{reason="other",verdict="other"} 100`,
		`rigs_egress_bytes_total{direction="in"} 20`,
		`rigs_egress_bytes_total{direction="out"} 10`,
		`rigs_egress_log_lines_total{outcome="written"} 1`,
		`rigs_egress_dropped_frames_total{kind="udp"} 8`,
		`rigs_egress_dropped_frames_total{kind="other"} 8`,
		`rigs_egress_dropped_frames_total{kind="icmp"} 0`,
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	if n := strings.Count(got, "rigs_egress_connections_total{"); n != 3 {
		t.Errorf("%d series, want 3:\n%s", n, got)
	}
}
