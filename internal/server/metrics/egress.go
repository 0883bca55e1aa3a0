package metrics

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"rigs/internal/rig"
)

// other is the label of what a keeper says and no gate of ours would. A keeper may
// have been taken over; it does not decide how many labels there are.
const other = "other"

// reasons are those of docs/egress.md.
var reasons = []string{
	"notAdmitted", "portNotAdmitted", "rawAddress", "forbiddenRange", "serverName", "httpHost", "protocol", "badName", "removed", "expired",
	"tooManyConnections", "rateLimit", "admitted", "closed", "idle", "abandoned", "lookupFailed", "upstreamRefused", "upstreamUnreachable",
	"proxyUnreachable", "proxyAuthentication", "proxyRefused", "proxyFailed",
}

// dropKinds are the kinds of frames that a gate drops.
var dropKinds = []string{
	"malformed", "oversize", "ethertype", "arp", "source", "fragment", "options", "multicast", "tcp", "udp", "icmp", "ipv6", "protocol",
}

func bounded(s string, known []string) string {
	if slices.Contains(known, s) {
		return s
	}
	return other
}

// egress counts what gates say.
type egress struct {
	connections *prometheus.CounterVec
	bytes       *prometheus.CounterVec
	lines       *prometheus.CounterVec
}

func newEgress() egress {
	return egress{
		connections: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rigs_egress_connections_total",
			Help: "What gates decided, by reason. An admitted connection counts when it is made and, with another reason, when it ends."}, []string{"verdict", "reason"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rigs_egress_bytes_total",
			Help: "Bytes of connections that ended: out of rigs, and in."}, []string{"direction"}),
		lines: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rigs_egress_log_lines_total",
			Help: "Lines of egress logs: written; dropped because the disk was full or too slow; invalid, as a keeper that is not to be trusted sends them."}, []string{"outcome"}),
	}
}

// EgressEvent counts what an event of a gate stands for.
func (m *Metrics) EgressEvent(e rig.EgressEvent) {
	verdict := bounded(e.Verdict, []string{"allow", "deny"})
	m.egress.connections.WithLabelValues(verdict, bounded(e.Reason, reasons)).Add(float64(max(1, e.Count)))
	m.egress.bytes.WithLabelValues("out").Add(float64(max(0, e.BytesOut)))
	m.egress.bytes.WithLabelValues("in").Add(float64(max(0, e.BytesIn)))
}

// EgressLine counts a line of an egress log.
func (m *Metrics) EgressLine(outcome string) { m.egress.lines.WithLabelValues(outcome).Inc() }

// Dropped counts frames that gates dropped. Each rig's keeper says how many since
// the rig's beginning, so that totals only grow when the last word of a closed rig
// stays.
type Dropped struct {
	mu    sync.Mutex
	total map[string]uint64
	last  map[string]map[string]uint64 // by rig
}

var droppedDesc = prometheus.NewDesc("rigs_egress_dropped_frames_total", "Frames of guests that gates dropped, by kind, as last asked.", []string{"kind"}, nil)

// Set notes what a rig's keeper says.
func (d *Dropped) Set(rigID string, counts map[string]uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.total == nil {
		d.total, d.last = map[string]uint64{}, map[string]map[string]uint64{}
	}
	last := d.last[rigID]
	if last == nil {
		last = map[string]uint64{}
		d.last[rigID] = last
	}
	sums := map[string]uint64{}
	for kind, n := range counts {
		sums[bounded(kind, dropKinds)] += n
	}
	for kind, n := range sums {
		if n > last[kind] { // a keeper that counts backwards is not believed
			d.total[kind] += n - last[kind]
			last[kind] = n
		}
	}
}

// Keep forgets the rigs that are not among those given: they are closed. Set must
// not be called for them again.
func (d *Dropped) Keep(live []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id := range d.last {
		if !slices.Contains(live, id) {
			delete(d.last, id)
		}
	}
}

// Describe is part of prometheus.Collector.
func (d *Dropped) Describe(c chan<- *prometheus.Desc) { c <- droppedDesc }

// Collect is part of prometheus.Collector.
func (d *Dropped) Collect(c chan<- prometheus.Metric) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, kind := range append(slices.Clone(dropKinds), other) {
		c <- prometheus.MustNewConstMetric(droppedDesc, prometheus.CounterValue, float64(d.total[kind]), kind)
	}
}
