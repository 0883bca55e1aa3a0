//go:build linux

package guest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"rigs/internal/guestapi"
	"rigs/internal/rig"
	"rigs/internal/wire"
)

func TestExecRunsAsTheUser(t *testing.T) {
	h := start(t)
	want := fmt.Sprintf("%d %d %s\n", h.user.UID, h.user.GID, h.user.Home)
	if got := h.sh(t, `echo $(id -u) $(id -g) $PWD`); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if os.Geteuid() == 0 {
		if got := h.sh(t, "id -G"); got != "1000 27\n" {
			t.Errorf("groups: %q", got)
		}
	}
	env := h.sh(t, "env")
	for _, e := range []string{"HOME=" + h.user.Home, "USER=rig", "LOGNAME=rig", "SHELL=/bin/sh", "LANG=C.UTF-8"} {
		if !strings.Contains(env, e+"\n") {
			t.Errorf("%s is not in the environment:\n%s", e, env)
		}
	}
	if strings.Contains(env, "TERM=") {
		t.Error("TERM is set without a terminal")
	}
}

func TestExecAsRoot(t *testing.T) {
	h := start(t)
	r, err := h.run(t, guestapi.ExecRequest{Argv: []string{"id", "-u"}, Root: true, Cwd: "/"}, "")
	if os.Geteuid() != 0 {
		code(t, err, rig.CodeInvalidRequest, "root")
		return
	}
	if err != nil || r.out != "0\n" {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestExecStatus(t *testing.T) {
	h := start(t)
	for name, mode := range map[string]os.FileMode{"plain": 0o755, "closed": 0o644} {
		if err := os.WriteFile(filepath.Join(h.user.Home, name), []byte("echo from a file without a first line"), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(h.user.Home, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(h.user.Home, "lost"), []byte("#!/no/interpreter\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		req       guestapi.ExecRequest
		code      int
		signal    string
		out, errs string // errs: a part
	}{
		"argv":                   {req: guestapi.ExecRequest{Argv: []string{"printf", "%s|", "a b", "", "*"}}, out: "a b||*|"},
		"shell":                  {req: guestapi.ExecRequest{Shell: "echo out; echo err >&2; exit 7"}, code: 7, out: "out\n", errs: "err\n"},
		"env":                    {req: guestapi.ExecRequest{Shell: `echo "$A $HOME"`, Env: []string{"A=1", "HOME=/x", "A=2"}}, out: "2 /x\n"},
		"PATH of the request":    {req: guestapi.ExecRequest{Argv: []string{"plain"}, Env: []string{"PATH=/nowhere:" + h.user.Home}}, out: "from a file without a first line\n"},
		"cwd":                    {req: guestapi.ExecRequest{Shell: "pwd", Cwd: "/usr"}, out: "/usr\n"},
		"cwd from home":          {req: guestapi.ExecRequest{Shell: "pwd", Cwd: "."}, out: h.user.Home + "\n"},
		"cwd with a tilde":       {req: guestapi.ExecRequest{Shell: "pwd", Cwd: "~"}, out: h.user.Home + "\n"},
		"a path from the cwd":    {req: guestapi.ExecRequest{Argv: []string{"./plain"}}, out: "from a file without a first line\n"},
		"no input":               {req: guestapi.ExecRequest{Argv: []string{"cat"}}},
		"killed":                 {req: guestapi.ExecRequest{Shell: "kill -KILL $$"}, code: 137, signal: "KILL"},
		"segmentation fault":     {req: guestapi.ExecRequest{Shell: "kill -SEGV $$"}, code: 139, signal: "SEGV"},
		"not found":              {req: guestapi.ExecRequest{Argv: []string{"no-such-command"}}, code: 127, errs: "no-such-command: command not found"},
		"not found by path":      {req: guestapi.ExecRequest{Argv: []string{"/no/such"}}, code: 127, errs: "/no/such: no such file"},
		"not found in the shell": {req: guestapi.ExecRequest{Shell: "no-such-command"}, code: 127, errs: "not found"},
		"not executable":         {req: guestapi.ExecRequest{Argv: []string{"./closed"}}, code: 126, errs: "./closed: permission denied"},
		"a directory":            {req: guestapi.ExecRequest{Argv: []string{"/usr"}}, code: 126, errs: "/usr: permission denied"},
		"no interpreter":         {req: guestapi.ExecRequest{Argv: []string{"./lost"}}, code: 127, errs: "interpreter"},
		"on a terminal":          {req: guestapi.ExecRequest{Shell: "stty size; echo $TERM; exit 4", TTY: true, Size: guestapi.Size{Cols: 91, Rows: 17}}, code: 4, out: "17 91\r\nxterm-256color\r\n"},
		"not found, terminal":    {req: guestapi.ExecRequest{Argv: []string{"no-such-command"}, TTY: true}, code: 127, out: "rigs: no-such-command: command not found\n"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := h.run(t, c.req, "")
			if err != nil {
				t.Fatal(err)
			}
			if r.Code != c.code || r.Signal != c.signal || r.TimedOut || r.out != c.out || !strings.Contains(r.err, c.errs) || c.errs == "" && r.err != "" {
				t.Errorf("got %+v", r)
			}
		})
	}
}

func TestExecRefusesWhatCannotBe(t *testing.T) {
	h := start(t)
	long := make([]string, guestapi.MaxEnv+1)
	for i := range long {
		long[i] = "A=1"
	}
	for name, c := range map[string]struct {
		req   guestapi.ExecRequest
		field string
	}{
		"no command":        {guestapi.ExecRequest{}, "argv"},
		"an empty name":     {guestapi.ExecRequest{Argv: []string{""}}, "argv"},
		"two commands":      {guestapi.ExecRequest{Argv: []string{"a"}, Shell: "b"}, "shell"},
		"a NUL in argv":     {guestapi.ExecRequest{Argv: []string{"a", "b\x00"}}, "argv"},
		"a NUL in shell":    {guestapi.ExecRequest{Shell: "a\x00"}, "shell"},
		"env without =":     {guestapi.ExecRequest{Shell: "a", Env: []string{"A"}}, "env"},
		"env without name":  {guestapi.ExecRequest{Shell: "a", Env: []string{"=A"}}, "env"},
		"env with a digit":  {guestapi.ExecRequest{Shell: "a", Env: []string{"1A=x"}}, "env"},
		"env with a NUL":    {guestapi.ExecRequest{Shell: "a", Env: []string{"A=\x00"}}, "env"},
		"too many env":      {guestapi.ExecRequest{Shell: "a", Env: long}, "env"},
		"a missing cwd":     {guestapi.ExecRequest{Shell: "a", Cwd: "/no/such"}, "cwd"},
		"a file as cwd":     {guestapi.ExecRequest{Shell: "a", Cwd: "/etc/passwd"}, "cwd"},
		"a NUL in cwd":      {guestapi.ExecRequest{Shell: "a", Cwd: "/\x00"}, "cwd"},
		"too long a cwd":    {guestapi.ExecRequest{Shell: "a", Cwd: strings.Repeat("/", guestapi.MaxPath+1)}, "cwd"},
		"a negative time":   {guestapi.ExecRequest{Shell: "a", TimeoutSeconds: -1}, "timeoutSeconds"},
		"for ever and ever": {guestapi.ExecRequest{Shell: "a", TimeoutSeconds: 1e300}, "timeoutSeconds"},
		"too wide":          {guestapi.ExecRequest{Shell: "a", TTY: true, Size: guestapi.Size{Cols: 1001, Rows: 1}}, "size"},
		"negative size":     {guestapi.ExecRequest{Shell: "a", TTY: true, Size: guestapi.Size{Cols: -1, Rows: 1}}, "size"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := h.run(t, c.req, "")
			code(t, err, rig.CodeInvalidRequest, c.field)
		})
	}
	if os.Geteuid() == 0 {
		t.Run("a closed cwd", func(t *testing.T) {
			dir := filepath.Join(h.user.Home, "closed")
			if err := os.Mkdir(dir, 0o700); err != nil { // root's
				t.Fatal(err)
			}
			_, err := h.run(t, guestapi.ExecRequest{Shell: "a", Cwd: dir}, "")
			code(t, err, rig.CodeInvalidRequest, "cwd")
			if !strings.Contains(err.Error(), "permission denied") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestExecInput(t *testing.T) {
	h := start(t)
	in := strings.Repeat("0123456789abcdef", 5<<20/16) // many times the window
	for _, line := range []string{"cat", "cat >&2"} {
		r, err := h.run(t, guestapi.ExecRequest{Shell: line, Stdin: true}, in)
		if err != nil || r.Code != 0 || r.out+r.err != in {
			t.Errorf("%s: %d bytes of %d, %+v, %v", line, len(r.out+r.err), len(in), r.ExitStatus, err)
		}
	}
	// What a command does not want is no failure.
	if r, err := h.run(t, guestapi.ExecRequest{Shell: "head -c 5", Stdin: true}, in); err != nil || r.out != in[:5] {
		t.Errorf("head: %+v, %v", r, err)
	}
	if r, err := h.run(t, guestapi.ExecRequest{Shell: "exec <&-; echo closed", Stdin: true}, in); err != nil || r.out != "closed\n" {
		t.Errorf("closed: %+v, %v", r, err)
	}
	// A terminal turns the end of the input into its end-of-file character.
	if r, err := h.run(t, guestapi.ExecRequest{Shell: "stty -echo; cat", Stdin: true, TTY: true}, "a line\n"); err != nil || !strings.HasSuffix(r.out, "a line\r\n") {
		t.Errorf("terminal: %+v, %v", r, err)
	}
}

// A command that does not read its input must still be reached by signals.
func TestExecSignalsPassAFullWindow(t *testing.T) {
	h := start(t)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	out, signals := newWaiter("up\n"), make(chan guestapi.Signal)
	go func() {
		<-out.seen
		signals <- guestapi.Signal{Name: "USR1"}
	}()
	st, err := guestapi.RunStream(ctx, h.dial(t, "/v1/exec"), guestapi.ExecRequest{Shell: "echo up; exec sleep 999", Stdin: true},
		guestapi.StreamIO{Stdin: zeros{}, Stdout: out, Signals: signals})
	if err != nil || st.Signal != "USR1" || st.Code != 128+int(syscall.SIGUSR1) {
		t.Errorf("%+v, %v", st, err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// waiter closes seen when text has been written to it.
type waiter struct {
	text string
	got  bytes.Buffer
	seen chan struct{}
}

func newWaiter(text string) *waiter { return &waiter{text: text, seen: make(chan struct{})} }

func (w *waiter) Write(p []byte) (int, error) {
	was := strings.Contains(w.got.String(), w.text)
	w.got.Write(p)
	if !was && strings.Contains(w.got.String(), w.text) {
		close(w.seen)
	}
	return len(p), nil
}

func TestExecSignalReachesTheGroup(t *testing.T) {
	h := start(t)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	out, signals := newWaiter("up\n"), make(chan guestapi.Signal)
	go func() {
		<-out.seen
		signals <- guestapi.Signal{Name: "TERM"}
	}()
	// The shell survives the signal and reports how its child ended.
	line := `trap : TERM; sh -c 'echo up; exec sleep 999'; echo child $?`
	if _, err := guestapi.RunStream(ctx, h.dial(t, "/v1/exec"), guestapi.ExecRequest{Shell: line}, guestapi.StreamIO{Stdout: out, Signals: signals}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.got.String(), "child 143\n") {
		t.Errorf("got %q", out.got.String())
	}
}

func TestExecTimeout(t *testing.T) {
	h := start(t)
	for name, c := range map[string]struct {
		line string
		code int
	}{
		"listens":       {"exec sleep 999", 143},
		"cleans up":     {`trap 'echo bye; exit 9' TERM; sleep 999 & wait`, 9},
		"does not care": {`trap "" TERM; sleep 999`, 137},
		"is stopped":    {`kill -STOP $$; sleep 999`, 143},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := h.run(t, guestapi.ExecRequest{Shell: c.line, TimeoutSeconds: 0.3}, "")
			if err != nil || !r.TimedOut || r.Code != c.code {
				t.Errorf("%+v, %v", r, err)
			}
			if c.code == 9 && r.out != "bye\n" {
				t.Errorf("its last words: %q", r.out)
			}
		})
	}
}

// D1: all bytes of the command, and not one moment for its orphans.
func TestExecReturnsWhenTheCommandEnds(t *testing.T) {
	h := start(t)
	for _, line := range []string{
		"echo hi; sleep 999 & echo $!",
		"setsid sleep 999 & echo hi; echo $!",
		"echo hi; yes >&2 & echo $!", // one that goes on writing
	} {
		for _, tty := range []bool{false, true} {
			r, err := h.run(t, guestapi.ExecRequest{Shell: "trap '' HUP; " + line, TTY: tty}, "")
			if err != nil || r.Code != 0 {
				t.Fatalf("%s: %+v, %v", line, r.ExitStatus, err)
			}
			lines := strings.Fields(r.out)
			i := 0
			for i < len(lines) && lines[i] != "hi" {
				i++ // a terminal shows the orphan's lines too
			}
			pid := 0
			for _, l := range lines[i:] {
				if n, err := strconv.Atoi(l); err == nil {
					pid = n
				}
			}
			if pid == 0 {
				t.Fatalf("%s (terminal: %v): incomplete output %.100q", line, tty, r.out)
			}
			// Still running: the end of the command was not the end of it.
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !strings.Contains(line, "yes") {
				t.Errorf("%s (terminal: %v): the orphan is gone: %v", line, tty, err)
			}
		}
	}
	var n counter
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	st, err := guestapi.RunStream(ctx, h.dial(t, "/v1/exec"), guestapi.ExecRequest{Shell: "yes | head -c 100M"}, guestapi.StreamIO{Stdout: &n})
	if err != nil || st.Code != 0 || n != 100<<20 {
		t.Errorf("%d bytes, %+v, %v", n, st, err)
	}
}

type counter int64

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }

// What is in the pipe when the command ends is not lost, also when the client is
// slow to take it.
func TestExecKeepsTheLastWords(t *testing.T) {
	h := start(t)
	for range 20 {
		want := 200_000
		r, err := h.run(t, guestapi.ExecRequest{Shell: fmt.Sprintf("head -c %d /dev/zero; (sleep 999 &)", want)}, "")
		if err != nil || len(r.out) != want {
			t.Fatalf("%d bytes of %d, %v", len(r.out), want, err)
		}
	}
	eventually(t, "the orphans to be killed", func() bool { return killAll(h.user.UID, "sleep\x00999\x00") == 0 })
}

// killAll kills the user's processes with that command line and counts them.
func killAll(uid int, cmdline string) int {
	n := 0
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		b, err := os.ReadFile(dir + "/cmdline")
		if err != nil || string(b) != cmdline {
			continue
		}
		var st syscall.Stat_t
		if syscall.Stat(dir, &st) != nil || int(st.Uid) != uid {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if syscall.Kill(pid, syscall.SIGKILL) == nil {
			n++
		}
	}
	return n
}

func TestExecEndsWithItsClient(t *testing.T) {
	h := start(t)
	for name, c := range map[string]struct {
		req guestapi.ExecRequest
	}{
		"listens":               {guestapi.ExecRequest{Shell: "echo $$; exec sleep 999"}},
		"ignores the hang-up":   {guestapi.ExecRequest{Shell: `trap "" HUP TERM; echo $$; while :; do sleep 999; done`}},
		"writes without end":    {guestapi.ExecRequest{Shell: `echo $$; exec yes`}},
		"on a terminal":         {guestapi.ExecRequest{Shell: "echo $$; exec sleep 999", TTY: true}},
		"terminal, writes":      {guestapi.ExecRequest{Shell: "echo $$; exec yes", TTY: true}},
		"does not read its own": {guestapi.ExecRequest{Shell: "echo $$; exec sleep 999", Stdin: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			defer cancel()
			out := newWaiter("\n")
			go func() {
				<-out.seen
				cancel()
			}()
			sio := guestapi.StreamIO{Stdout: out}
			if c.req.Stdin {
				sio.Stdin = zeros{}
			}
			_, err := guestapi.RunStream(ctx, h.dial(t, "/v1/exec"), c.req, sio)
			code(t, err, rig.CodeCanceled, "")
			first, _, _ := strings.Cut(out.got.String(), "\n")
			pid, err := strconv.Atoi(strings.TrimSpace(first))
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, "the command to end", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
		})
	}
	t.Cleanup(func() {
		eventually(t, "no command to be counted", func() bool { return get[guestapi.Status](t, h, "/v1/status").Commands == 0 })
	})
}

func TestStatusCountsCommands(t *testing.T) {
	h := start(t)
	out := newWaiter("up\n")
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	done := make(chan struct{})
	conn := h.dial(t, "/v1/exec")
	go func() {
		defer close(done)
		_, _ = guestapi.RunStream(ctx, conn, guestapi.ExecRequest{Shell: "echo up; exec sleep 999"}, guestapi.StreamIO{Stdout: out})
	}()
	<-out.seen
	if st := get[guestapi.Status](t, h, "/v1/status"); st.Commands != 1 {
		t.Errorf("%+v", st)
	}
	cancel()
	<-done
	eventually(t, "the command to be gone", func() bool { return get[guestapi.Status](t, h, "/v1/status").Commands == 0 })
}

func TestExecResize(t *testing.T) {
	h := start(t)
	out, resize := newWaiter("24 80"), make(chan guestapi.Size)
	go func() {
		<-out.seen
		resize <- guestapi.Size{Cols: 123, Rows: 45}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	line := `trap 'stty size; exit' WINCH; stty size; while :; do sleep 0.05; done`
	if _, err := guestapi.RunStream(ctx, h.dial(t, "/v1/exec"), guestapi.ExecRequest{Shell: line, TTY: true}, guestapi.StreamIO{Stdout: out, Resize: resize}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.got.String(), "45 123") {
		t.Errorf("got %q", out.got.String())
	}
}

// A client that breaks the protocol is told how, and its command is ended.
func TestStreamProtocol(t *testing.T) {
	h := start(t)
	exec := guestapi.ExecRequest{Shell: "exec sleep 999", Stdin: true}
	for name, c := range map[string]struct {
		send  func(w *wire.Writer) error
		code  rig.Code
		field string
	}{
		"no start": {func(w *wire.Writer) error { return w.Write(wire.KindStdin, []byte("x")) }, rig.CodeInvalidRequest, ""},
		"an unknown field": {func(w *wire.Writer) error {
			return w.WriteJSON(wire.KindStart, map[string]any{"shell": "x", "more": 1})
		}, rig.CodeInvalidRequest, ""},
		"two starts":         {then(exec, func(w *wire.Writer) error { return w.WriteJSON(wire.KindStart, exec) }), rig.CodeInvalidRequest, ""},
		"the guest's kinds":  {then(exec, func(w *wire.Writer) error { return w.Write(wire.KindStdout, nil) }), rig.CodeInvalidRequest, ""},
		"an unknown signal":  {then(exec, func(w *wire.Writer) error { return w.WriteJSON(wire.KindSignal, guestapi.Signal{Name: "SIGTERM"}) }), rig.CodeInvalidRequest, "name"},
		"a malformed signal": {then(exec, func(w *wire.Writer) error { return w.Write(wire.KindSignal, []byte("{")) }), rig.CodeInvalidRequest, "name"},
		"a malformed resize": {then(exec, func(w *wire.Writer) error { return w.Write(wire.KindResize, []byte(`{"cols":1,"rows":1,"x":1}`)) }), rig.CodeInvalidRequest, "size"},
		"more than a window": {then(exec, overrun), rig.CodeTooLarge, ""},
		"input after its end": {then(exec, func(w *wire.Writer) error {
			return errors.Join(w.Write(wire.KindEOF, nil), w.Write(wire.KindStdin, []byte("x")))
		}), rig.CodeInvalidRequest, ""},
	} {
		t.Run(name, func(t *testing.T) {
			conn := h.dial(t, "/v1/exec")
			defer conn.Close()
			if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
				t.Fatal(err)
			}
			if err := c.send(wire.NewWriter(conn)); err != nil {
				t.Fatal(err)
			}
			r := wire.NewReader(conn)
			for {
				f, err := r.Next()
				if err != nil {
					t.Fatalf("no problem came: %v", err)
				}
				if f.Kind == wire.KindAck {
					continue
				}
				var p rig.Problem
				if f.Kind != wire.KindError || json.Unmarshal(f.Payload, &p) != nil || p.Code != c.code || p.Field != c.field {
					t.Fatalf("got kind %d: %s", f.Kind, f.Payload)
				}
				break
			}
			if _, err := r.Next(); !errors.Is(err, io.EOF) {
				t.Errorf("after the problem: %v", err)
			}
		})
	}
	eventually(t, "all commands to end", func() bool { return get[guestapi.Status](t, h, "/v1/status").Commands == 0 })
}

func then(start any, next func(*wire.Writer) error) func(*wire.Writer) error {
	return func(w *wire.Writer) error {
		if err := w.WriteJSON(wire.KindStart, start); err != nil {
			return err
		}
		return next(w)
	}
}

// overrun sends more than the window and the command's pipe together hold.
func overrun(w *wire.Writer) error {
	for range 2 * wire.Window / wire.MaxFrame * 2 {
		if err := w.Write(wire.KindStdin, make([]byte, wire.MaxFrame)); err != nil {
			return err
		}
	}
	return nil
}

// Many at once, each with its own output.
func TestExecsDoNotMix(t *testing.T) {
	h := start(t)
	for i := range 16 {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			want := strings.Repeat(strconv.Itoa(i)+"\n", 2000)
			r, err := h.run(t, guestapi.ExecRequest{Shell: fmt.Sprintf("yes %d | head -n 2000; exit %d", i, i)}, "")
			if err != nil || r.out != want || r.Code != i {
				t.Errorf("%d bytes, %+v, %v", len(r.out), r.ExitStatus, err)
			}
		})
	}
}
