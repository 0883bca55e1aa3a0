package vm

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fakeQEMU is the other end of a monitor. handle answers each command; an empty
// answer is none.
func fakeQEMU(t *testing.T, handle func(command string, c *net.UnixConn) string) *net.UnixConn {
	t.Helper()
	ours, f, err := socketPair()
	if err != nil {
		t.Skip(err)
	}
	theirs, err := net.FileConn(f)
	f.Close()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer theirs.Close()
		io.WriteString(theirs, `{"QMP": {"version": {}, "capabilities": ["oob"]}}`+"\n")
		s := bufio.NewScanner(theirs)
		for s.Scan() {
			var m struct {
				Execute string `json:"execute"`
			}
			if err := json.Unmarshal(s.Bytes(), &m); err != nil {
				return
			}
			answer := `{"return": {}}`
			if handle != nil && m.Execute != "qmp_capabilities" {
				answer = handle(m.Execute, theirs.(*net.UnixConn))
			}
			if answer == "END" {
				return
			}
			if _, err := io.WriteString(theirs, answer+"\n"); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { <-done })
	return ours
}

func client(t *testing.T, c *net.UnixConn, onEvent func(string, json.RawMessage)) (*QMP, context.Context) {
	t.Helper()
	q := NewQMP(c, onEvent)
	t.Cleanup(func() { q.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return q, ctx
}

func TestQMPAnswersAndEvents(t *testing.T) {
	events := make(chan string, 1)
	q, ctx := client(t, fakeQEMU(t, func(cmd string, c *net.UnixConn) string {
		io.WriteString(c, `{"event": "STOP", "timestamp": {}, "data": {"a": 1}}`+"\n")
		return `{"return": {"status": "` + cmd + `"}}`
	}), func(name string, data json.RawMessage) { events <- name + string(data) })
	var out struct{ Status string }
	if err := q.Execute(ctx, "query-status", nil, &out); err != nil || out.Status != "query-status" {
		t.Errorf("%+v, %v", out, err)
	}
	if e := <-events; e != `STOP{"a": 1}` {
		t.Errorf("event %s", e)
	}
}

func TestQMPRefusal(t *testing.T) {
	q, ctx := client(t, fakeQEMU(t, func(string, *net.UnixConn) string {
		return `{"error": {"class": "GenericError", "desc": "no\u001b[31m"}}`
	}), nil)
	var refused *QMPError
	if err := q.Execute(ctx, "cont", nil, nil); !errors.As(err, &refused) || refused.Command != "cont" || refused.Desc != "no" {
		t.Errorf("%v", err)
	}
}

func TestQMPThatEndsOrRaves(t *testing.T) {
	for name, answer := range map[string]string{
		"ends": "END", "raves": "{", "says nothing": `{"id": 1}`, "floods": `{"return": "` + strings.Repeat("x", maxQMP) + `"}`,
		"answers twice": "{\"return\": {}}\n{\"return\": {}}\n{\"return\": {}}",
	} {
		t.Run(name, func(t *testing.T) {
			q, ctx := client(t, fakeQEMU(t, func(string, *net.UnixConn) string { return answer }), nil)
			var err error
			for range 3 {
				err = errors.Join(err, q.Execute(ctx, "stop", nil, nil))
			}
			if !errors.Is(err, ErrMonitor) {
				t.Errorf("%v", err)
			}
			if ctx.Err() != nil {
				t.Error("it hung")
			}
		})
	}
}

func TestQMPThatIsSilent(t *testing.T) {
	hold := make(chan struct{})
	q, _ := client(t, fakeQEMU(t, func(string, *net.UnixConn) string { <-hold; return "END" }), nil)
	defer close(hold)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := q.Execute(ctx, "stop", nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestQMPPassesDescriptors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("passed"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ours, theirFile, err := socketPair()
	if err != nil {
		t.Skip(err)
	}
	c, err := net.FileConn(theirFile)
	theirFile.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	q, ctx := client(t, ours, nil)
	sent := make(chan error, 1)
	go func() { sent <- q.SendFD(ctx, "state", f) }()
	buf, oob := make([]byte, 4096), make([]byte, 256)
	var got *os.File
	for got == nil {
		_, n, _, _, err := c.(*net.UnixConn).ReadMsgUnix(buf, oob)
		if err != nil {
			t.Fatal(err)
		}
		msgs, err := unix.ParseSocketControlMessage(oob[:n])
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range msgs {
			fds, err := unix.ParseUnixRights(&m)
			if err != nil {
				t.Fatal(err)
			}
			got = os.NewFile(uintptr(fds[0]), "passed")
		}
	}
	defer got.Close()
	if b, err := io.ReadAll(got); err != nil || string(b) != "passed" {
		t.Errorf("%q, %v", b, err)
	}
	io.WriteString(c, "{\"return\": {}}\n{\"return\": {}}\n")
	if err := <-sent; err != nil {
		t.Error(err)
	}
}
