//go:build linux

package guest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"rigs/internal/guest/account"
	"rigs/internal/guest/exec"
	"rigs/internal/guest/proc"
	"rigs/internal/guest/terminal"
	"rigs/internal/guestapi"
	"rigs/internal/rig"
	"rigs/internal/wire"
)

// Config is what the agent stands on; the machine's in production.
type Config struct {
	Version  string
	Reaper   *proc.Reaper
	Lookup   func(name string) (account.Account, error)
	Rekey    func(guestapi.Rekey) (guestapi.Rekeyed, error) // of a request with all fields
	Quiesce  func() error
	PowerOff func() // returns at once
}

// Agent answers the keeper.
type Agent struct {
	cfg       Config
	exec      exec.Runner
	terminals terminal.Terminals
	commands  atomic.Int64

	mu      sync.Mutex // one rekey at a time; guards secret
	secret  string
	rekeyed atomic.Bool
}

// New returns an Agent that is not rekeyed.
func New(cfg Config) *Agent {
	return &Agent{
		cfg:       cfg,
		exec:      exec.Runner{Reaper: cfg.Reaper, Lookup: cfg.Lookup},
		terminals: terminal.Terminals{Reaper: cfg.Reaper, Lookup: cfg.Lookup},
	}
}

// Handler serves guestapi.
func (a *Agent) Handler() http.Handler {
	routes := map[string]map[string]route{
		"/v1/hello":    {http.MethodGet: {do: a.hello, early: true}},
		"/v1/rekey":    {http.MethodPost: {do: a.rekey, early: true}},
		"/v1/quiesce":  {http.MethodPost: {do: a.quiesce, early: true}},
		"/v1/poweroff": {http.MethodPost: {do: a.powerOff, early: true}},
		"/v1/exec":     {http.MethodGet: {do: a.runExec}},
		"/v1/terminal": {http.MethodGet: {do: a.runTerminal}},
		"/v1/files":    {http.MethodGet: {do: a.sendFiles}, http.MethodPut: {do: a.receiveFiles}},
		"/v1/stat":     {http.MethodGet: {do: a.stat}},
		"/v1/read":     {http.MethodPost: {do: a.readFile}},
		"/v1/write":    {http.MethodPost: {do: a.writeFile}},
		"/v1/list":     {http.MethodPost: {do: a.listDir}},
		"/v1/screen":   {http.MethodPost: {do: a.screen}},
		"/v1/status":   {http.MethodGet: {do: a.status}},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		methods, ok := routes[r.URL.Path]
		if !ok {
			wire.WriteProblem(w, rig.Errorf(rig.CodeNotFound, "the guest has no %.100q", r.URL.Path))
			return
		}
		rt, ok := methods[r.Method]
		if !ok {
			wire.WriteProblem(w, rig.Errorf(rig.CodeInvalidRequest, "%s is no method of %s", r.Method, r.URL.Path))
			return
		}
		if !rt.early && !a.rekeyed.Load() {
			wire.WriteProblem(w, rig.Errorf(rig.CodeNotReady, "%s is refused: the machine has no identity of its own yet: rekey it first", r.URL.Path))
			return
		}
		if err := rt.do(w, r); err != nil {
			wire.WriteProblem(w, err)
		}
	})
}

// route is one request. An error is answered as a problem.
type route struct {
	do    func(http.ResponseWriter, *http.Request) error
	early bool // answered before the rekey
}

func (a *Agent) hello(w http.ResponseWriter, _ *http.Request) error {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return err
	}
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return err
	}
	wire.WriteJSON(w, guestapi.Hello{
		Version: a.cfg.Version,
		BootID:  strings.TrimSpace(string(id)),
		Kernel:  unix.ByteSliceToString(u.Release[:]),
		Rekeyed: a.rekeyed.Load(),
	})
	return nil
}

func (a *Agent) quiesce(w http.ResponseWriter, _ *http.Request) error {
	debug.FreeOSMemory()
	err := a.cfg.Quiesce()
	if err == nil {
		err = a.exec.Warm()
	}
	if err != nil {
		return rig.Errorf(rig.CodeInternal, "cannot make the machine ready to be frozen: %w", err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (a *Agent) powerOff(w http.ResponseWriter, _ *http.Request) error {
	w.WriteHeader(http.StatusNoContent)
	// The answer goes out before the machine does.
	if err := http.NewResponseController(w).Flush(); err != nil {
		return err
	}
	a.cfg.PowerOff()
	return nil
}

func (a *Agent) rekey(w http.ResponseWriter, r *http.Request) error {
	var req guestapi.Rekey
	if err := wire.ReadJSON(r.Body, guestapi.MaxJSON, &req); err != nil {
		return rig.Errorf(rig.CodeInvalidRequest, "cannot rekey: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	// Until it has succeeded the machine is nobody's.
	a.rekeyed.Store(false)
	done, err := a.cfg.Rekey(req)
	if err != nil {
		return err
	}
	a.secret = req.Secret
	sum := sha256.Sum256([]byte(a.secret))
	done.SecretSHA = hex.EncodeToString(sum[:])
	a.rekeyed.Store(true)
	wire.WriteJSON(w, done)
	return nil
}

func (a *Agent) runExec(w http.ResponseWriter, r *http.Request) error {
	conn, err := wire.Accept(w, r)
	if err != nil {
		return nil // Accept has answered
	}
	a.commands.Add(1)
	defer a.commands.Add(-1)
	// The connection is no longer the server's, so neither is the request's
	// context: the end of the stream says when the client has gone.
	a.exec.Serve(context.WithoutCancel(r.Context()), conn)
	return nil
}

func (a *Agent) runTerminal(w http.ResponseWriter, r *http.Request) error {
	if conn, err := wire.Accept(w, r); err == nil { // else Accept has answered
		a.terminals.Serve(conn)
	}
	return nil
}

func (a *Agent) status(w http.ResponseWriter, _ *http.Request) error {
	up, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(string(up), " ")
	seconds, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return err
	}
	wire.WriteJSON(w, guestapi.Status{Commands: int(a.commands.Load()), Terminals: a.terminals.Attached(), Uptime: seconds})
	return nil
}
