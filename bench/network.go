package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"rigs/internal/guestapi"
	"rigs/internal/rig"
)

// load is one measurement that every guest gets in turn.
type load struct {
	name, unit string
	aims       map[string]string // kind of guest → how many times its figure the gate's should be
	without    string            // a kind of guest that cannot do it
	run        func(context.Context, *netGuest, *services) (float64, error)
}

const (
	loadSeconds = 3
	connects    = 200 // one after the other, for one figure
)

var loads = []load{
	{"iperf3 up, one connection", "Mbit/s", map[string]string{"slirp": "≥ 2", "passt": "≥ 1"}, "", iperf()},
	{"iperf3 down, one connection", "Mbit/s", map[string]string{"passt": "≥ 1"}, "", iperf("--reverse")},
	{"HTTP requests on 8 kept connections", "/s", nil, "", wrk()},
	{"HTTP requests, a new connection each, 8 at once", "/s", nil, "", wrk("--header", "Connection: close")},
	{"connect, admitted, in the guest", "ms", nil, "", connect("connect", func(g *netGuest, s *services) string { return g.host + ":" + s.httpPort })},
	// passt of Debian 12 leaves a connect to a port of the host's loopback that nobody
	// listens on without an answer.
	{"connect, refused, in the guest", "ms", nil, "passt", connect("refused", func(g *netGuest, s *services) string { return g.denied + ":" + s.closedPort })},
}

// measureNetwork compares the gate with QEMU's user networking (slirp) and with passt. Three
// clones of one template run side by side, one on each; they are measured in turns, so that what else the
// machine does falls on all of them alike.
func measureNetwork(ctx context.Context, b *bench, rep *report) (err error) {
	s, err := startServices(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	guests, err := startGuests(ctx, b, s)
	defer func() {
		for _, g := range guests {
			err = errors.Join(err, g.stop())
		}
	}()
	if err != nil {
		return err
	}
	gate := guests[0]
	peak := 0.0
	figures := map[string][]float64{} // by load and guest
	for round := range *repeat {
		for _, l := range loads {
			for i := range guests {
				g := guests[(i+round)%len(guests)]
				if g.kind == l.without {
					continue
				}
				run := func() (x float64, err error) { x, err = l.run(ctx, g, s); return }
				if g == gate {
					run = func() (float64, error) {
						return watched(g.id, &peak, func() (float64, error) { return l.run(ctx, g, s) })
					}
				}
				x, err := run()
				if err != nil {
					if g == gate {
						err = fmt.Errorf("%w\nthe end of the gate's log: %+v", err, logEnd(ctx, b, g.id))
					}
					return fmt.Errorf("%s: %s: %w", g.kind, l.name, err)
				}
				figures[l.name+g.kind] = append(figures[l.name+g.kind], x)
			}
		}
	}
	for _, l := range loads {
		others := slices.DeleteFunc(slices.Clone(guests[1:]), func(g *netGuest) bool { return g.kind == l.without })
		for _, g := range append([]*netGuest{gate}, others...) {
			rep.add(l.name+": "+g.kind, l.unit, "", figures[l.name+g.kind]...)
		}
		for _, g := range others {
			aim, ok := l.aims[g.kind]
			if !ok {
				continue
			}
			ratios := make([]float64, *repeat)
			for i := range ratios {
				ratios[i] = figures[l.name+gate.kind][i] / figures[l.name+g.kind][i]
			}
			rep.add(fmt.Sprintf("%s: gate ÷ %s, in each round", l.name, g.kind), "", aim, ratios...)
		}
	}
	rep.add("memory (PSS) of the keeper under all of that, at its peak", "MB", "< 30", peak)
	return measureGateAlone(ctx, rep)
}

// logEnd is what the gate said last, for an error.
func logEnd(ctx context.Context, b *bench, id string) []rig.EgressEvent {
	l, err := b.EgressLog(ctx, id, 0)
	if err != nil {
		return nil
	}
	return l.Events[max(0, len(l.Events)-4):]
}

// watched runs f and notes the largest size that the rig's keeper has meanwhile.
func watched(id string, peak *float64, f func() (float64, error)) (float64, error) {
	done := make(chan struct{})
	var (
		wg     sync.WaitGroup
		failed error
	)
	wg.Go(func() {
		ticker := time.NewTicker(200 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
			}
			_, keeper, err := pss(id)
			if err != nil {
				failed = err
				return
			}
			*peak = max(*peak, keeper)
		}
	})
	x, err := f()
	close(done)
	wg.Wait()
	return x, errors.Join(err, failed)
}

// services are what the guests reach on this host, on its loopback.
type services struct {
	iperf                           *exec.Cmd
	http                            *http.Server
	iperfPort, httpPort, closedPort string
}

func startServices(ctx context.Context) (*services, error) {
	s := &services{http: &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat("x", 1000)) // a client that goes is no error
		}),
		ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
	}}
	var ports [2]string
	for i := range ports { // ports that were free a moment ago
		l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it does not wait
		if err != nil {
			return nil, err
		}
		_, ports[i], _ = net.SplitHostPort(l.Addr().String())
		l.Close()
	}
	s.iperfPort, s.closedPort = ports[0], ports[1]
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it does not wait
	if err != nil {
		return nil, err
	}
	_, s.httpPort, _ = net.SplitHostPort(l.Addr().String())
	go s.http.Serve(l) //nolint:errcheck // it is closed by stop
	s.iperf = exec.CommandContext(ctx, "iperf3", "--server", "--bind", "127.0.0.1", "--port", s.iperfPort)
	if err := s.iperf.Start(); err != nil {
		return nil, errors.Join(err, s.http.Close())
	}
	return s, nil
}

func (s *services) stop() error {
	err := errors.Join(s.http.Close(), s.iperf.Process.Kill())
	_ = s.iperf.Wait() // it was killed
	return err
}

func iperf(more ...string) func(context.Context, *netGuest, *services) (float64, error) {
	return func(ctx context.Context, g *netGuest, s *services) (float64, error) {
		out, err := g.tool(ctx, slices.Concat([]string{"iperf3", "--client", g.host, "--port", s.iperfPort, "--json", "--omit", "1", "--time", strconv.Itoa(loadSeconds)}, more)...)
		if err != nil {
			return 0, err
		}
		var r struct {
			End struct {
				Received struct {
					BitsPerSecond float64 `json:"bits_per_second"`
				} `json:"sum_received"`
			} `json:"end"`
			Error string `json:"error"`
		}
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			return 0, err
		}
		if r.Error != "" || r.End.Received.BitsPerSecond == 0 {
			return 0, fmt.Errorf("iperf3: %s", r.Error)
		}
		return r.End.Received.BitsPerSecond / 1e6, nil
	}
}

var requestsPerSecond = regexp.MustCompile(`Requests/sec: +([0-9.]+)`)

func wrk(more ...string) func(context.Context, *netGuest, *services) (float64, error) {
	return func(ctx context.Context, g *netGuest, s *services) (float64, error) {
		out, err := g.tool(ctx, slices.Concat([]string{"wrk", "--threads", "1", "--connections", "8", "--duration", strconv.Itoa(loadSeconds) + "s"}, more, []string{"http://" + g.host + ":" + s.httpPort + "/"})...)
		if err != nil {
			return 0, err
		}
		m := requestsPerSecond.FindStringSubmatch(out)
		if m == nil || strings.Contains(out, "Socket errors") || strings.Contains(out, "Non-2xx") {
			return 0, fmt.Errorf("wrk: %s", out)
		}
		return strconv.ParseFloat(m[1], 64)
	}
}

// connect returns the median of many connects.
func connect(how string, to func(*netGuest, *services) string) func(context.Context, *netGuest, *services) (float64, error) {
	return func(ctx context.Context, g *netGuest, s *services) (float64, error) {
		out, err := g.tool(ctx, "netprobe", how, to(g, s), strconv.Itoa(connects))
		if err != nil {
			return 0, err
		}
		var took []float64
		for f := range strings.FieldsSeq(out) {
			us, err := strconv.ParseFloat(f, 64)
			if err != nil {
				return 0, err
			}
			took = append(took, us/1000)
		}
		if len(took) != connects {
			return 0, fmt.Errorf("%d of %d connects", len(took), connects)
		}
		return quantile(took, 0.5), nil
	}
}

func quantile(values []float64, q float64) float64 {
	v := slices.Sorted(slices.Values(values))
	return v[min(int(q*float64(len(v))), len(v)-1)]
}

// tool runs one of the programs that installTools brought.
func (g *netGuest) tool(ctx context.Context, argv ...string) (string, error) {
	out, err := g.exec(ctx, guestapi.ExecRequest{Argv: append([]string{toolDir + "/" + argv[0]}, argv[1:]...), TimeoutSeconds: 60}, nil)
	if err != nil {
		err = fmt.Errorf("%s: %w", argv[0], err)
	}
	return out, err
}
