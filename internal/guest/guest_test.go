//go:build linux

package guest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rigs/internal/guest/account"
	"rigs/internal/guest/port"
	"rigs/internal/guest/proc"
	"rigs/internal/guest/rekey"
	"rigs/internal/guestapi"
	"rigs/internal/rig"
	"rigs/internal/wire"
)

// limit is for what must not hang; nothing that works comes near it.
const limit = 60 * time.Second

// The tests' only reaper: it owns every child of the test program.
var reaper *proc.Reaper

func TestMain(m *testing.M) {
	reaper = proc.NewReaper()
	os.Exit(m.Run())
}

// host is the keeper's view of an agent under test.
type host struct {
	port net.Conn // the serial port, from the host's side
	mux  *wire.Mux
	http *http.Client
	user account.Account
	off  chan struct{} // closed by a power-off
}

// testUser is whose commands the agent runs: an ordinary user of this machine.
func testUser(t testing.TB) account.Account {
	t.Helper()
	home, err := os.MkdirTemp("", "rigs-home")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	a := account.Account{Name: "rig", UID: os.Geteuid(), GID: os.Getegid(), Home: home, Shell: "/bin/sh"}
	if a.UID == 0 {
		a.UID, a.GID, a.Groups = 1000, 1000, []int{1000, 27}
		if err := os.Chown(home, a.UID, a.GID); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

// unkeyed starts an agent that is not rekeyed.
func unkeyed(t testing.TB) *host {
	t.Helper()
	user := testUser(t)
	off := make(chan struct{})
	a := New(Config{
		Version: "test",
		Reaper:  reaper,
		Lookup: func(name string) (account.Account, error) {
			switch name {
			case guestapi.User:
				return user, nil
			case "root":
				return account.Account{Name: "root", Home: "/root", Shell: "/bin/sh"}, nil
			}
			return account.Account{}, fmt.Errorf("no user %s", name)
		},
		Rekey: func(r guestapi.Rekey) (guestapi.Rekeyed, error) {
			if err := rekey.Check(r); err != nil {
				return guestapi.Rekeyed{}, err
			}
			return guestapi.Rekeyed{HostName: r.HostName, MachineID: r.MachineID, Time: r.Time, Reseeded: true}, nil
		},
		Quiesce:  func() error { return nil },
		PowerOff: func() { close(off) },
	})
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fds[0]), "host")
	conn, err := net.FileConn(f)
	f.Close()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	p := port.New(os.NewFile(uintptr(fds[1]), "guest"))
	go func() { done <- p.Serve(ctx, a.serve) }()
	t.Cleanup(func() {
		cancel()
		conn.Close()
		<-done
	})
	h := &host{port: conn, user: user, off: off}
	h.begin(t)
	return h
}

// unclosed is a port that outlives a session: closing only ends its reads.
type unclosed struct{ net.Conn }

func (u unclosed) Close() error { return u.SetDeadline(time.Unix(1, 0)) }

// begin begins a session, as a keeper does, also with a machine that was in
// another's.
func (h *host) begin(t testing.TB) {
	t.Helper()
	if h.mux != nil {
		h.mux.Close()
		if err := h.port.SetDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := wire.HostHandshake(h.port, limit); err != nil {
		t.Fatal(err)
	}
	m, err := wire.NewMux(unclosed{h.port}, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	tr := m.Transport()
	t.Cleanup(tr.CloseIdleConnections)
	h.mux, h.http = m, &http.Client{Transport: tr, Timeout: limit}
}

func goodRekey() guestapi.Rekey {
	return guestapi.Rekey{
		Entropy: bytes.Repeat([]byte{1}, 64), Time: time.Now().UTC().Round(0), HostName: "r-test",
		MachineID: strings.Repeat("0123456789abcdef", 2), Secret: "the secret",
		Network: guestapi.Network{Address: "10.0.0.2/24", Gateway: "10.0.0.1", MTU: 65520},
	}
}

// start returns an agent that answers everything.
func start(t testing.TB) *host {
	t.Helper()
	h := unkeyed(t)
	if _, err := h.call(http.MethodPost, "/v1/rekey", goodRekey()); err != nil {
		t.Fatal(err)
	}
	return h
}

// call makes a request and returns the answer's body; a problem is an error.
func (h *host) call(method, path string, body any) ([]byte, error) {
	var r io.Reader
	switch b := body.(type) {
	case nil:
	case io.Reader:
		r = b
	default:
		j, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		r = bytes.NewReader(j)
	}
	req, err := http.NewRequest(method, "http://guest"+path, r)
	if err != nil {
		return nil, err
	}
	res, err := h.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode >= 300 {
		return nil, wire.ReadProblem(res)
	}
	return io.ReadAll(res.Body)
}

func get[T any](t *testing.T, h *host, path string) T {
	t.Helper()
	var v T
	b, err := h.call(http.MethodGet, path, nil)
	if err == nil {
		err = wire.DecodeStrict(b, &v)
	}
	if err != nil {
		t.Fatalf("GET %s: %v", path, err)
	}
	return v
}

func (h *host) dial(t testing.TB, path string) net.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c, err := wire.Dial(ctx, h.mux.Dial, "guest", path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// result is all that an exec said.
type result struct {
	guestapi.ExitStatus
	out, err string
}

func (h *host) run(t testing.TB, req guestapi.ExecRequest, in string) (result, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var out, errs bytes.Buffer
	sio := guestapi.StreamIO{Stdout: &out, Stderr: &errs}
	if req.Stdin {
		sio.Stdin = strings.NewReader(in)
	}
	st, err := guestapi.RunStream(ctx, h.dial(t, "/v1/exec"), req, sio)
	return result{st, out.String(), errs.String()}, err
}

// sh runs a line that must succeed, and returns its output.
func (h *host) sh(t *testing.T, line string) string {
	t.Helper()
	r, err := h.run(t, guestapi.ExecRequest{Shell: line}, "")
	if err != nil || r.Code != 0 {
		t.Fatalf("%s: %+v, %v", line, r, err)
	}
	return r.out
}

func code(t *testing.T, err error, want rig.Code, field string) {
	t.Helper()
	var p *rig.Problem
	if !errors.As(err, &p) || p.Code != want || p.Field != field {
		t.Errorf("got %v (%s), want code %s, field %q", err, rig.CodeOf(err), want, field)
	}
}

// eventually waits for what has no notification.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func TestNothingIsAnsweredBeforeTheRekey(t *testing.T) {
	h := unkeyed(t)
	if hello := get[guestapi.Hello](t, h, "/v1/hello"); hello.Rekeyed || hello.Version != "test" || hello.BootID == "" || hello.Kernel == "" {
		t.Errorf("hello: %+v", hello)
	}
	for _, path := range []string{"/v1/status", "/v1/stat?path=/", "/v1/files?path=/etc/hosts", "/v1/exec", "/v1/terminal"} {
		_, err := h.call(http.MethodGet, path, nil)
		code(t, err, rig.CodeNotReady, "")
	}
	_, err := h.call(http.MethodPut, "/v1/files?path=x", strings.NewReader(""))
	code(t, err, rig.CodeNotReady, "")
	if _, err := h.call(http.MethodPost, "/v1/quiesce", nil); err != nil {
		t.Errorf("quiesce: %v", err)
	}

	bad := goodRekey()
	bad.MachineID = "no"
	_, err = h.call(http.MethodPost, "/v1/rekey", bad)
	code(t, err, rig.CodeInvalidRequest, "machineId")
	_, err = h.call(http.MethodGet, "/v1/status", nil)
	code(t, err, rig.CodeNotReady, "")

	b, err := h.call(http.MethodPost, "/v1/rekey", goodRekey())
	if err != nil {
		t.Fatal(err)
	}
	var done guestapi.Rekeyed
	if err := json.Unmarshal(b, &done); err != nil {
		t.Fatal(err)
	}
	// printf 'the secret' | sha256sum
	if done.SecretSHA != "368a693d784c7d1957ec748148a5de1e1f2e97f1f6360c69b0cfcf6471bbbf07" {
		t.Errorf("secret: %q", done.SecretSHA)
	}
	if st := get[guestapi.Status](t, h, "/v1/status"); st.Commands != 0 || st.Uptime <= 0 {
		t.Errorf("status: %+v", st)
	}
	if !get[guestapi.Hello](t, h, "/v1/hello").Rekeyed {
		t.Error("hello does not say that it is rekeyed")
	}
}

func TestEachSessionBeginsWithoutAnIdentity(t *testing.T) {
	h := start(t)
	h.begin(t) // a clone's keeper does not know what its template was told
	if get[guestapi.Hello](t, h, "/v1/hello").Rekeyed {
		t.Error("the identity of the last session is taken for this one's")
	}
	_, err := h.call(http.MethodGet, "/v1/status", nil)
	code(t, err, rig.CodeNotReady, "")
}

func TestUnknownRequestsAreRefused(t *testing.T) {
	h := start(t)
	_, err := h.call(http.MethodGet, "/v1/nothing", nil)
	code(t, err, rig.CodeNotFound, "")
	_, err = h.call(http.MethodPost, "/v1/status", nil)
	code(t, err, rig.CodeInvalidRequest, "")
	_, err = h.call(http.MethodGet, "/v1/exec", nil)
	code(t, err, rig.CodeInvalidRequest, "")
	_, err = h.call(http.MethodPost, "/v1/rekey", map[string]string{"unknown": "field"})
	code(t, err, rig.CodeInvalidRequest, "")
	_, err = h.call(http.MethodPost, "/v1/rekey", strings.NewReader(`"`+strings.Repeat("x", guestapi.MaxJSON)+`"`))
	code(t, err, rig.CodeInvalidRequest, "")
}

func TestPowerOffAnswersFirst(t *testing.T) {
	h := unkeyed(t)
	if _, err := h.call(http.MethodPost, "/v1/poweroff", nil); err != nil {
		t.Fatal(err)
	}
	select {
	case <-h.off:
	case <-time.After(limit):
		t.Fatal("it stays on")
	}
}
