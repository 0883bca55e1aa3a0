package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"rigs/client"
	"rigs/internal/rig"
)

// run runs the command line without a server.
func run(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	t.Setenv("RIGS_HOME", t.TempDir())
	t.Setenv("RIGS_SERVER", "")
	var out, errs bytes.Buffer
	a := &app{in: strings.NewReader(""), out: &out, err: &errs}
	return a.main(t.Context(), args), out.String(), errs.String()
}

func TestWrongUsageIsStatus2WithAHint(t *testing.T) {
	for _, line := range []string{
		"opne", "ls --bogus", "ls extra", "open", "open tent", "open terminal extra", "open terminal --ttl 1.5s", "open terminal --memory x",
		"exec", "exec abc", "exec abc -x -- true", "exec abc --shell a b", "exec abc -e =x true", "exec --open abc true", "exec --ttl 1h abc true", "exec --fenced -t abc true", "shell abc --allow x.test", "run", "run --timeout -1s true",
		"shell", "shell abc", "cp a", "cp a b", "cp abc:a def:b", "egress", "egress abc bogus", "egress abc allow", "egress abc ls x", "egress abc ls --follow", "audit abc bogus", "audit abc ls x", "audit verify x", "audit abc verify --follow", "audit abc -n 0", "act", "act abc",
		"image bogus", "image build", "template make tent", "token bogus", "token create", "token create x --kind robot", "close", "close abc --all",
		"help bogus", "completion bogus",
	} {
		status, stdout, stderr := run(t, strings.Fields(line)...)
		if status != 2 || stdout != "" || !strings.HasPrefix(stderr, "rigs: ") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("rigs %s: status %d, stdout %q, stderr %q; want status 2 and one line", line, status, stdout, stderr)
		}
	}
}

func TestWithoutAServerEveryCommandSaysSo(t *testing.T) {
	for _, line := range []string{
		"ls", "open terminal", "run true", "exec abc true", "exec --open s/terminal true", "cp abc:x .", "cp . abc:x", "egress abc", "egress abc allow x.test", "egress abc log -f", "audit", "audit abc", "audit abc verify", "audit abc export", "audit abc -f", "act abc screen",
		"close abc", "close --all", "park abc", "wake abc", "image ls", "image build x", "image rm x", "template ls", "template make terminal", "template rm x",
		"token ls", "token create x", "token rm x",
	} {
		status, _, stderr := run(t, strings.Fields(line)...)
		if status != 1 || !strings.Contains(stderr, "no server answers at ") {
			t.Errorf("rigs %s: status %d, stderr %q", line, status, stderr)
		}
	}
}

func TestErrorsAreProblemsWithJSON(t *testing.T) {
	for line, want := range map[string]struct {
		status int
		code   rig.Code
	}{
		"ls --json":         {1, rig.CodeUnavailable},
		"ls --json --bogus": {2, rig.CodeInvalidRequest},
		"open tent --json":  {2, rig.CodeInvalidRequest},
	} {
		status, stdout, stderr := run(t, strings.Fields(line)...)
		var p rig.Problem
		if err := json.Unmarshal([]byte(stderr), &p); err != nil {
			t.Errorf("rigs %s: stderr %q: %v", line, stderr, err)
		}
		if status != want.status || stdout != "" || p.Code != want.code || p.Detail == "" {
			t.Errorf("rigs %s: status %d, problem %+v", line, status, p)
		}
	}
}

func TestEveryCommandExplainsItselfWithAnExample(t *testing.T) {
	root := (&app{in: strings.NewReader(""), out: io.Discard, err: io.Discard}).root()
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Short == "" || c.Example == "" && c.Name() != "help" && c.Parent() != nil && c.Parent().Name() != "completion" {
			t.Errorf("%s: no short description or no example", c.CommandPath())
		}
		for _, s := range c.Commands() {
			walk(s)
		}
	}
	walk(root)
}

func TestDetachIsEnterTildeDot(t *testing.T) {
	for in, want := range map[string]struct {
		out      string
		detached bool
	}{
		"ls\r~.rest":  {"ls\r", true},
		"~.":          {"", true},
		"a~.b":        {"a~.b", false},
		"\r~~.":       {"\r~.", false},
		"\r~/x\r":     {"\r~/x\r", false},
		"\r~\r~.":     {"\r~\r", true},
		"\x03~.":      {"\x03", true},
		"x\n~.":       {"x\n", true},
		"plain text!": {"plain text!", false},
	} {
		for name, r := range map[string]io.Reader{"whole": strings.NewReader(in), "byte by byte": iotest.OneByteReader(strings.NewReader(in))} {
			detached := false
			got, err := io.ReadAll(&detachReader{r: r, detach: func() { detached = true }})
			if err != nil || string(got) != want.out && !detached || detached != want.detached {
				t.Errorf("%q, %s: %q, detached %v, %v; want %q, %v", in, name, got, detached, err, want.out, want.detached)
			}
		}
	}
}

func TestLocations(t *testing.T) {
	for in, want := range map[string]location{
		"demo/terminal:out/x":               {"demo/terminal", "out/x"},
		"demo/browser:firefox:Downloads":    {"demo/browser:firefox", "Downloads"},
		"demo/browser:file":                 {"demo/browser", "file"},
		"abc:":                              {"abc", ""},
		"abc1234567:/etc/os-release":        {"abc1234567", "/etc/os-release"},
		"./abc:x":                           {"", "./abc:x"},
		"/abc:x":                            {"", "/abc:x"},
		"dir/file:x":                        {"", "dir/file:x"},
		"ab:x":                              {"", "ab:x"},
		"plain":                             {"", "plain"},
		"-":                                 {"", "-"},
		"Abc:x":                             {"", "Abc:x"},
		"demo/terminal:with:colon":          {"demo/terminal", "with:colon"},
		"demo/terminal:/a b/\x1b[31m\nname": {"demo/terminal", "/a b/\x1b[31m\nname"},
	} {
		if got := parseLocation(in); got != want {
			t.Errorf("parseLocation(%q) = %+v, want %+v", in, got, want)
		}
	}
}

func TestCommandRequests(t *testing.T) {
	t.Setenv("RIGS_TEST_SET", "yes")
	cf := commandFlags{env: []string{"A=b=c", "RIGS_TEST_SET", "RIGS_TEST_UNSET"}, timeout: 90 * time.Second, cwd: "/x"}
	got, err := cf.request([]string{"ls", "-l"}, true)
	want := client.ExecRequest{Argv: []string{"ls", "-l"}, Env: []string{"A=b=c", "RIGS_TEST_SET=yes"}, TimeoutSeconds: 90, Cwd: "/x", Stdin: true}
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	cf = commandFlags{shell: true}
	if got, err := cf.request([]string{"a | b"}, false); err != nil || got.Shell != "a | b" || got.Argv != nil {
		t.Errorf("--shell: %+v, %v", got, err)
	}
}

func TestACommandsEndIsTheExitStatus(t *testing.T) {
	var st exitStatus
	if err := status(client.ExitStatus{Code: 7}, nil); !errors.As(err, &st) || st != 7 {
		t.Errorf("status 7: %v", err)
	}
	if err := status(client.ExitStatus{}, nil); err != nil {
		t.Errorf("status 0: %v", err)
	}
	if err := status(client.ExitStatus{Code: 137, TimedOut: true, Seconds: 2}, nil); rig.CodeOf(err) != rig.CodeTimeout {
		t.Errorf("timed out: %v", err)
	}
}

func TestPlainProgressSaysEachStepOnce(t *testing.T) {
	var b bytes.Buffer
	p := &progress{w: &b, keep: true}
	p.Step(client.Step{Text: "one"})
	p.Step(client.Step{Text: "one", Done: 1, Total: 2})
	p.Step(client.Step{Text: "two \x1b[2J"})
	p.Stop()
	p.Wait()
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "✓ one ") || !strings.HasPrefix(lines[1], `✗ two \x1b[2J `) {
		t.Errorf("printed %q", b.String())
	}
}

func TestItemsOfOneCountShareALine(t *testing.T) {
	var b bytes.Buffer
	p := &progress{w: &b, keep: true}
	for i, name := range []string{"git", "curl", "less"} {
		p.Step(client.Step{Text: "Unpack " + name, Done: int64(i + 1), Total: 3, Unit: "packages"})
	}
	p.Step(client.Step{Text: "Install git", Done: 1, Total: 3, Unit: "packages"})
	p.Done()
	p.Wait()
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "✓ Unpack 3 packages ") || !strings.HasPrefix(lines[1], "✓ Install git ") {
		t.Errorf("printed %q", b.String())
	}
}

func TestQuickWorkShowsNothing(t *testing.T) {
	var b bytes.Buffer
	p := &progress{w: &b}
	p.Step(client.Step{Text: "quick"})
	p.Done()
	p.Wait()
	if b.Len() > 0 {
		t.Errorf("printed %q", b.String())
	}
}

func TestTheFirstSignalIsTheCommands(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	signals := passSignals(ctx, cancel)
	kill(t, "INT")
	if s := <-signals; s.Name != "INT" {
		t.Fatalf("got %+v", s)
	}
	if ctx.Err() != nil {
		t.Fatal("the first signal gave the command up")
	}
	kill(t, "TERM")
	<-ctx.Done()
	var st exitStatus
	if !errors.As(context.Cause(ctx), &st) || st != 130 {
		t.Errorf("cause %v, want exit status 130", context.Cause(ctx))
	}
}

func TestSizes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 123456789: "123 MB", 999999: "1.0 MB", 5 << 40: "5.5 TB"} {
		if got := size(n); got != want {
			t.Errorf("size(%d) = %q, want %q", n, got, want)
		}
	}
}

// kill sends this process a signal that the test has taken.
func kill(t *testing.T, name string) {
	t.Helper()
	for s, n := range signalNames {
		if n == name {
			if err := syscall.Kill(os.Getpid(), s); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestARigThatWasThereIsNotWhatTheFlagsAskFor(t *testing.T) {
	r := client.Rig{
		Image: "terminal@sha256:aa", Boot: "clone", Egress: []string{"example.com", "b.test:8443"},
		Resources: rig.Resources{MemoryMB: 512, VCPUs: 2, TTLSeconds: 60, IdleSeconds: 30},
	}
	for _, c := range []struct {
		spec client.Spec
		want string
	}{
		{client.Spec{}, ""},
		{client.Spec{Image: "terminal", MemoryMB: 512, VCPUs: 2, TTLSeconds: 60, IdleSeconds: 30, Allow: []string{"EXAMPLE.com"}}, ""},
		{client.Spec{NoDefaults: true, Allow: []string{"example.com", "b.test:8443"}}, ""},
		{client.Spec{NoDefaults: true, Allow: []string{"example.com"}}, "--no-defaults"},
		{client.Spec{Image: "term", Allow: []string{"example.org"}}, "--image --allow"},
		{client.Spec{MemoryMB: 1024, VCPUs: 1, TTLSeconds: 61, IdleSeconds: 31, Cold: true}, "--memory --cpus --ttl --idle --cold"},
	} {
		if got := strings.Join(unmet(c.spec, r), " "); got != c.want {
			t.Errorf("%+v: %q, want %q", c.spec, got, c.want)
		}
	}
}
