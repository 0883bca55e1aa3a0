package keeper

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"time"

	"rigs/internal/guestapi"
	"rigs/internal/keeper/vm"
	"rigs/internal/rig"
	"rigs/internal/wire"
)

// The guest's end of the gate's wire.
const (
	guestAddress = "10.0.0.2/24"
	gateAddress  = "10.0.0.1"
)

// clockSlack is how far from ours a guest's clock may be after it was set.
const clockSlack = 500 * time.Millisecond

// maxProblem bounds a guest's error answer in bytes.
const maxProblem = 16 << 10

// agent is the session with a machine's agent.
type agent struct {
	conn net.Conn
	mux  *wire.Mux
	http *http.Client
}

// lent is a connection that a session may use but not close: closing it ends
// the session's reader only.
type lent struct{ net.Conn }

func (l lent) Close() error { return l.SetReadDeadline(time.Unix(1, 0)) }

// connect begins a session on conn, the agent's port, which the agent owns from
// then on.
func connect(ctx context.Context, conn net.Conn) (*agent, error) {
	timeout := answerTimeout
	if d, ok := ctx.Deadline(); ok {
		timeout = time.Until(d)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	if err := wire.HostHandshake(conn, timeout); err != nil {
		stop()
		return nil, err
	}
	if !stop() {
		return nil, context.Cause(ctx)
	}
	mux, err := wire.NewMux(&muxGuard{Conn: lent{conn}}, true)
	if err != nil {
		return nil, err
	}
	return &agent{conn: conn, mux: mux, http: &http.Client{
		Transport:     mux.Transport(),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// close ends the session; errors of a machine that is being ended mean nothing.
func (a *agent) close() {
	_ = a.mux.Close()
	_ = a.conn.Close()
}

// rest ends the session and leaves the guest waiting for the next.
func (a *agent) rest() error {
	if err := a.mux.Close(); err != nil {
		return err
	}
	return wire.HostRest(a.conn, answerTimeout)
}

// call makes one request with JSON both ways; in and out may be nil.
func (a *agent) call(ctx context.Context, method, path string, in, out any) error {
	return a.callUpTo(ctx, guestapi.MaxJSON, method, path, in, out)
}

// callUpTo is call for an answer of at most limit bytes.
func (a *agent) callUpTo(ctx context.Context, limit int64, method, path string, in, out any) error {
	err := wire.Call(ctx, a.http, method, "http://guest"+path, in, out, limit, guestProblem)
	if errors.Is(err, wire.ErrAnswer) {
		return rig.Errorf(rig.CodeBackendFailure, "the machine's agent answered %s with nonsense: %w", path, err)
	}
	return err
}

// guestCodes are the codes that a guest may put into an error: those about the
// request and the guest's own things. Whatever it says else is its failure.
var guestCodes = []rig.Code{rig.CodeInvalidRequest, rig.CodeNotFound, rig.CodeConflict, rig.CodeTooLarge, rig.CodeTimeout, rig.CodeForbidden, rig.CodeCapacity}

// guestProblem reads a guest's error answer.
func guestProblem(res *http.Response) error {
	b, err := io.ReadAll(io.LimitReader(res.Body, maxProblem))
	if err != nil {
		return rig.Errorf(rig.CodeBackendFailure, "the machine's agent failed: %w", err)
	}
	return cleanProblem(b)
}

// cleanProblem makes a guest's problem fit to pass on: a code that it may use,
// a bounded text without control characters, nothing else.
func cleanProblem(b []byte) *rig.Problem {
	var p rig.Problem
	if wire.DecodeStrict(b, &p) != nil || p.Detail == "" {
		return rig.Errorf(rig.CodeBackendFailure, "the machine's agent failed and did not say why")
	}
	return cleanCode(p.Code, p.Detail, p.Field)
}

func cleanCode(code rig.Code, detail, field string) *rig.Problem {
	if !slices.Contains(guestCodes, code) {
		code = rig.CodeBackendFailure
	}
	out := rig.Errorf(code, "%s", cut(vm.Clean(detail), 1000))
	out.Field = cut(vm.Clean(field), 64)
	return out
}

// hello asks the agent who it is.
func (a *agent) hello(ctx context.Context) (guestapi.Hello, error) {
	var h guestapi.Hello
	err := a.call(ctx, http.MethodGet, "/v1/hello", nil, &h)
	return h, err
}

// identity is what makes a machine its own.
type identity struct {
	hostName, machineID, secret string
}

func newIdentity(hostName string) identity {
	var id [16]byte
	rand.Read(id[:]) // never fails since Go 1.24
	return identity{hostName: hostName, machineID: hex.EncodeToString(id[:]), secret: rand.Text()}
}

// rekey gives the machine its identity, fresh entropy and the time, and returns only
// when the guest has confirmed every one of them.
func (a *agent) rekey(ctx context.Context, id identity) error {
	ask := guestapi.Rekey{
		Entropy: make([]byte, 64), HostName: id.hostName, MachineID: id.machineID, Secret: id.secret,
		Network: guestapi.Network{Address: guestAddress, Gateway: gateAddress, MTU: vm.MTU},
	}
	rand.Read(ask.Entropy) // never fails since Go 1.24
	ask.Time = time.Now().UTC()
	var got guestapi.Rekeyed
	if err := a.call(ctx, http.MethodPost, "/v1/rekey", ask, &got); err != nil {
		return fmt.Errorf("give the machine its identity: %w", err)
	}
	return confirm(ask, got, time.Now())
}

// confirm compares a guest's confirmation, received at received, with what was
// asked for.
func confirm(ask guestapi.Rekey, got guestapi.Rekeyed, received time.Time) error {
	secret := sha256.Sum256([]byte(ask.Secret))
	var wrong string
	switch {
	case !got.Reseeded:
		wrong = "its random numbers were not seeded anew"
	case got.MachineID != ask.MachineID:
		wrong = "its machine id is another"
	case got.HostName != ask.HostName:
		wrong = "its host name is another"
	case got.SecretSHA != hex.EncodeToString(secret[:]):
		wrong = "its secret is another"
	case got.Time.Before(ask.Time.Add(-clockSlack)), got.Time.After(received.Add(clockSlack)):
		wrong = "its clock is wrong"
	default:
		return nil
	}
	return rig.Errorf(rig.CodeBackendFailure, "the machine did not take on its own identity: %s: it is not handed out", wrong)
}

// errAgent explains a session that ended by itself.
var errAgent = errors.New("the session with the machine's agent ended")
