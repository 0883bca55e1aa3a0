package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"rigs/internal/config"
	"rigs/internal/guestapi"
	"rigs/internal/keeperapi"
	"rigs/internal/rig"
	"rigs/internal/server"
	"rigs/internal/server/rigs"
	"rigs/internal/serverapi"
	"rigs/internal/wire"
)

// The test binary is also the programs that the tests start: a keeper without a
// machine, a machine that outlives its keeper, and a server to be killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "keeper":
			os.Exit(fakeKeeper())
		case "machine":
			select {}
		case "serve":
			os.Exit(serveHome(os.Args[2]))
		}
	}
	os.Exit(m.Run())
}

// A space's name says how its rigs' keepers behave.
const (
	good     = "good"
	slow     = "slow"      // never ready
	failing  = "failing"   // says that the machine failed
	dying    = "dying"     // ends before it listens
	deaf     = "deaf"      // ready, does not close, ignores signals, keeps its lifeline's end to itself
	survivor = "survivor"  // its machine outlives it
	blocked  = "blocked"   // preparing never ends
	missing  = "missing"   // preparing fails
	stale    = "stale-ttl" // closes itself for its TTL at once
)

type fakePreparer struct{}

// Supports refuses one surface.
func (fakePreparer) Supports(s rig.Surface) error {
	if s == rig.Mac {
		return rig.Errorf(rig.CodeUnavailable, "no %s can be had", s)
	}
	return nil
}

func (fakePreparer) Prepare(ctx context.Context, s rig.Spec, r rig.Resources, step func(rig.Step)) (rigs.Prepared, error) {
	step(rig.Step{Text: "Looking at the image", Done: 1, Total: 2, Unit: "steps"})
	switch s.Space {
	case blocked:
		<-ctx.Done()
		return rigs.Prepared{}, ctx.Err()
	case missing:
		return rigs.Prepared{}, rig.Errorf(rig.CodeUnavailable, "the image is not built: run 'rigs image build terminal'")
	}
	return rigs.Prepared{Image: "terminal@sha256:0", Machine: keeperapi.Machine{Surface: s.Surface, Accel: "tcg", QEMU: s.Space}}, nil
}

type fakePolicy struct{}

func (fakePolicy) Canonical(p string) (string, error) {
	if p == "" || p[0] == '-' {
		return "", errors.New("not a pattern")
	}
	return strings.ToLower(p), nil
}
func (fakePolicy) Defaults(rig.Surface) []string       { return []string{"default.test"} }
func (fakePolicy) Covers(list []string, p string) bool { return slices.Contains(list, p) }

type fakeImages struct{}

func (fakeImages) List(context.Context) ([]serverapi.Image, error) { return nil, nil }
func (fakeImages) Build(_ context.Context, name string, _ bool, step func(rig.Step)) (serverapi.Image, error) {
	step(rig.Step{Text: "Unpacking", Done: 1, Total: 2})
	if name == "broken" {
		return serverapi.Image{}, rig.Errorf(rig.CodeIntegrity, "a digest does not match")
	}
	return serverapi.Image{Name: name, State: "ready"}, nil
}
func (fakeImages) Remove(context.Context, string) error { return nil }

type fakeTemplates struct{}

func (fakeTemplates) List(context.Context) ([]serverapi.Template, error) { return nil, nil }
func (fakeTemplates) Make(_ context.Context, m serverapi.MakeTemplate, step func(rig.Step)) (serverapi.Template, error) {
	step(rig.Step{Text: "Booting"})
	return serverapi.Template{Key: "k", Surface: m.Surface}, nil
}
func (fakeTemplates) Remove(context.Context, string) error { return nil }

type fakeDoctor struct{}

func (fakeDoctor) Report(context.Context, bool) (serverapi.Doctor, error) {
	return serverapi.Doctor{Host: serverapi.Host{OS: "linux"}}, nil
}

func fakeParts(server.Host) (server.Parts, error) {
	return server.Parts{Preparer: fakePreparer{}, Policy: fakePolicy{}, Images: fakeImages{}, Templates: fakeTemplates{}, Doctor: fakeDoctor{}}, nil
}

// serveHome is a server process: it prints a line when it is ready.
func serveHome(home string) int {
	c, err := config.Load(map[string]string{"dataDir": home, "listen": "none", "logLevel": "debug"}, func(string) (string, bool) { return "", false })
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		err = server.Run(ctx, server.Options{Config: c, Version: "test", Parts: fakeParts, Ready: func(server.Ready) { fmt.Println("ready") }})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// keeper serves keeperapi without a machine.
type keeper struct {
	cfg  keeperapi.Config
	mode string

	mu     sync.Mutex
	rules  []string
	ttl    []int // of those that were admitted since the start
	seq    int64
	events chan keeperapi.Event
	end    chan struct{}
	once   sync.Once
	calls  map[string]int
}

func fakeKeeper() int {
	var cfg keeperapi.Config
	if err := json.NewDecoder(os.Stdin).Decode(&cfg); err != nil {
		fmt.Fprintln(os.Stderr, "config:", err)
		return 2
	}
	if want := os.Getenv(keeperapi.OwnerEnv); want != cfg.Owner {
		fmt.Fprintln(os.Stderr, "mark:", want)
		return 2
	}
	k := &keeper{cfg: cfg, mode: cfg.Machine.QEMU, rules: cfg.Egress, events: make(chan keeperapi.Event, 64), end: make(chan struct{}), calls: map[string]int{}}
	fmt.Fprintln(os.Stderr, "keeper of", cfg.RigID, "as", os.Getuid())
	switch k.mode {
	case dying:
		fmt.Fprintln(os.Stderr, "no hypervisor here")
		return 3
	case deaf:
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE)
	case survivor:
		cmd := exec.Command("/proc/self/exe", "machine")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
	}
	l, err := net.Listen("unix", cfg.Socket)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	srv := &http.Server{Handler: k.handler()}
	go srv.Serve(l)
	k.events <- keeperapi.Event{Type: "step", Step: &rig.Step{Text: "Booting"}}
	switch k.mode {
	case slow:
	case failing:
		k.events <- keeperapi.Event{Type: "phase", Phase: rig.Failed, Error: rig.Errorf(rig.CodeBackendFailure, "the kernel panicked")}
	case stale:
		k.events <- keeperapi.Event{Type: "phase", Phase: rig.Closing, Reason: rig.TTLExpired}
	default:
		k.events <- keeperapi.Event{Type: "phase", Phase: rig.Ready, Boot: "cold"}
	}
	<-k.end
	srv.Close()
	return 0
}

func (k *keeper) stop() {
	if k.mode != deaf {
		k.once.Do(func() { close(k.end) })
	}
}

func (k *keeper) handler() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /v1/events", func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		w.WriteHeader(http.StatusOK)
		rc.Flush()
		for {
			select {
			case e := <-k.events:
				json.NewEncoder(w).Encode(e)
				rc.Flush()
			case <-r.Context().Done():
				k.stop()
				return
			case <-k.end:
				return
			}
		}
	})
	m.HandleFunc("GET /v1/status", func(w http.ResponseWriter, r *http.Request) {
		wire.WriteJSON(w, keeperapi.Status{Phase: rig.Ready, Dropped: map[string]uint64{"udp": 3, "evil": 1}})
	})
	m.HandleFunc("POST /v1/exec", func(w http.ResponseWriter, r *http.Request) {
		var e keeperapi.ExecCollect
		if err := wire.ReadJSON(r.Body, 1<<22, &e); err != nil {
			wire.WriteProblem(w, rig.Errorf(rig.CodeInvalidRequest, "%w", err))
			return
		}
		switch e.Shell {
		case "crash":
			os.Exit(9)
		case "lie":
			w.Write([]byte(`{"code":0,"evil":true}`))
		case "flood":
			w.Write([]byte(`{"stdout":"`))
			b := make([]byte, 1<<20)
			for i := range b {
				b[i] = 'A'
			}
			for range 64 {
				w.Write(b)
			}
		default:
			wire.WriteJSON(w, keeperapi.ExecResult{Stdout: []byte(e.Shell), Stderr: e.Input})
		}
	})
	stream := func(w http.ResponseWriter, r *http.Request) {
		c, err := wire.Accept(w, r)
		if err != nil {
			return
		}
		defer c.Close()
		fr, fw := wire.NewReader(c), wire.NewWriter(c)
		for { // echoes input, ends at its end
			f, err := fr.Next()
			if err != nil {
				return
			}
			switch f.Kind {
			case wire.KindStdin:
				fw.WriteAck(len(f.Payload))
				fw.WriteData(wire.KindStdout, f.Payload)
			case wire.KindEOF:
				fw.WriteJSON(wire.KindExit, guestapi.ExitStatus{Code: 7})
				return
			}
		}
	}
	m.HandleFunc("GET /v1/exec", stream)
	m.HandleFunc("GET /v1/terminal", stream)
	m.HandleFunc("GET /v1/files", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Query().Get("path") {
		case "calls":
			k.mu.Lock()
			defer k.mu.Unlock()
			json.NewEncoder(w).Encode(k.calls)
		case "none":
			wire.WriteProblem(w, rig.Errorf(rig.CodeNotFound, "no file none"))
		case "cut":
			w.Write(make([]byte, 1000))
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		default:
			w.Header().Set("Content-Type", "text/html") // a guest's word is not believed
			w.Write([]byte("a tar of " + r.URL.Query().Get("path")))
		}
	})
	m.HandleFunc("PUT /v1/files", func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		if n != 3<<20 {
			wire.WriteProblem(w, rig.Errorf(rig.CodeInvalidRequest, "%d bytes", n))
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	m.HandleFunc("GET /v1/stat", func(w http.ResponseWriter, r *http.Request) {
		wire.WriteJSON(w, guestapi.FileInfo{Path: r.URL.Query().Get("path"), Type: "file"})
	})
	m.HandleFunc("GET /v1/egress", func(w http.ResponseWriter, r *http.Request) {
		k.mu.Lock()
		defer k.mu.Unlock()
		out := keeperapi.EgressRules{Patterns: k.rules}
		for i, p := range k.rules[len(k.rules)-len(k.ttl):] {
			e := keeperapi.EgressEntry{Pattern: p}
			if k.ttl[i] > 0 {
				e.ExpiresAt = time.Unix(int64(k.ttl[i]), 0) // so that tests can see what was asked
			}
			out.Entries = append(out.Entries, e)
		}
		wire.WriteJSON(w, out)
	})
	m.HandleFunc("POST /v1/egress/allow", func(w http.ResponseWriter, r *http.Request) {
		var c keeperapi.EgressChange
		wire.ReadJSON(r.Body, 1<<16, &c)
		k.mu.Lock()
		k.rules = append(k.rules, c.Pattern)
		k.ttl = append(k.ttl, c.TTLSeconds)
		k.seq++
		seq := k.seq
		rules := append([]string{}, k.rules...)
		k.mu.Unlock()
		k.events <- keeperapi.Event{Type: "rules", Rules: rules}
		k.events <- keeperapi.Event{Type: "egress", Egress: &rig.EgressEvent{Seq: seq, Verdict: "allow", Reason: "admitted", Protocol: "tcp", Host: c.Pattern}}
		wire.WriteJSON(w, keeperapi.EgressRules{Patterns: rules})
	})
	m.HandleFunc("POST /v1/egress/deny", func(w http.ResponseWriter, r *http.Request) {
		wire.WriteJSON(w, keeperapi.EgressRules{Patterns: []string{}})
	})
	m.HandleFunc("GET /v1/egress/log", func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.ParseInt(r.URL.Query().Get("after"), 10, 64)
		wire.WriteJSON(w, keeperapi.EgressLog{Events: []rig.EgressEvent{{Seq: n + 1, Verdict: "deny", Reason: "notAdmitted", Protocol: "tcp"}}})
	})
	m.HandleFunc("POST /v1/park", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNoContent) })
	m.HandleFunc("POST /v1/wake", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNoContent) })
	m.HandleFunc("POST /v1/close", func(w http.ResponseWriter, r *http.Request) {
		if k.mode == deaf {
			<-r.Context().Done()
			return
		}
		w.WriteHeader(http.StatusNoContent)
		http.NewResponseController(w).Flush()
		time.AfterFunc(time.Millisecond, k.stop)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		k.mu.Lock()
		k.calls[r.Method+" "+r.URL.Path]++
		k.mu.Unlock()
		m.ServeHTTP(w, r)
	})
}
