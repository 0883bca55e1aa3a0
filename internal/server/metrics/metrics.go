// Package metrics counts what the server does, for Prometheus. Its labels have
// few values: phases, surfaces, reasons and route patterns; never names that a
// caller chose.
package metrics

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"rigs/internal/rig"
)

// Metrics are the server's. Make them with New.
type Metrics struct {
	registry *prometheus.Registry
	opens    *prometheus.CounterVec
	failures *prometheus.CounterVec
	closes   *prometheus.CounterVec
	openTime *prometheus.HistogramVec
	httpTime *prometheus.HistogramVec
	swept    prometheus.Counter
	egress   egress
	// Dropped counts frames that gates dropped.
	Dropped Dropped
}

// New returns metrics whose gauge of rigs by phase is read from phases.
func New(phases func() map[rig.Phase]int) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		opens:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rigs_opens_total", Help: "Rigs whose opening was begun."}, []string{"surface"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rigs_failures_total", Help: "Rigs that failed, by error code."}, []string{"surface", "code"}),
		closes:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rigs_closes_total", Help: "Rigs closed, by reason."}, []string{"surface", "reason"}),
		openTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "rigs_open_seconds", Help: "From the request to a ready machine.",
			Buckets: []float64{.1, .2, .3, .5, .75, 1, 1.5, 2, 3, 5, 10, 20, 40, 80}}, []string{"surface", "boot"}),
		httpTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "rigs_http_request_seconds", Help: "HTTP requests, streams until they end.",
			Buckets: []float64{.001, .005, .01, .05, .1, .5, 1, 5, 30, 300}}, []string{"method", "route", "status"}),
		swept:  prometheus.NewCounter(prometheus.CounterOpts{Name: "rigs_swept_processes_total", Help: "Processes of an earlier server that were ended at the start."}),
		egress: newEgress(),
	}
	m.registry.MustRegister(m.egress.connections, m.egress.bytes, m.egress.lines, &m.Dropped)
	m.registry.MustRegister(m.opens, m.failures, m.closes, m.openTime, m.httpTime, m.swept, phaseGauge{phases},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

var rigsDesc = prometheus.NewDesc("rigs_rigs", "Rigs that are not closed, by phase.", []string{"phase"}, nil)

type phaseGauge struct{ phases func() map[rig.Phase]int }

func (g phaseGauge) Describe(c chan<- *prometheus.Desc) { c <- rigsDesc }

func (g phaseGauge) Collect(c chan<- prometheus.Metric) {
	n := g.phases()
	for _, p := range []rig.Phase{rig.Provisioning, rig.Ready, rig.Parked, rig.Closing, rig.Failed} {
		c <- prometheus.MustNewConstMetric(rigsDesc, prometheus.GaugeValue, float64(n[p]), string(p))
	}
}

// Opened counts a begun opening.
func (m *Metrics) Opened(s rig.Surface) { m.opens.WithLabelValues(string(s)).Inc() }

// Ready counts a machine that became ready.
func (m *Metrics) Ready(s rig.Surface, boot string, d time.Duration) {
	m.openTime.WithLabelValues(string(s), boot).Observe(d.Seconds())
}

// Failed counts a failed rig.
func (m *Metrics) Failed(s rig.Surface, c rig.Code) {
	m.failures.WithLabelValues(string(s), string(c)).Inc()
}

// Closed counts a closed rig.
func (m *Metrics) Closed(s rig.Surface, r rig.CloseReason) {
	m.closes.WithLabelValues(string(s), string(r)).Inc()
}

// Swept counts processes that the sweep ended.
func (m *Metrics) Swept(n int) { m.swept.Add(float64(n)) }

// Request counts an HTTP request. route is the pattern that it matched.
func (m *Metrics) Request(method, route string, status int, d time.Duration) {
	m.httpTime.WithLabelValues(method, route, strconv.Itoa(status)).Observe(d.Seconds())
}

// Handler answers with everything in Prometheus' text format.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}
