// Package cli_test runs the command line as a command: scripts under testdata,
// first without a server, then against a real one with real machines.
package cli_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// bin is the directory with the programs under test.
var bin string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if bin, err = os.MkdirTemp("", "rigs-cli-bin"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(bin)
		// Machines run as another user when the tests run as root.
		if err := os.Chmod(bin, 0o755); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		for _, p := range []string{"rigs", "rigs-guest"} {
			cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", bin+"/", "rigs/cmd/"+p)
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
			if out, err := cmd.CombinedOutput(); err != nil {
				fmt.Fprintf(os.Stderr, "building %s: %v\n%s", p, err, out)
				return 1
			}
		}
		return m.Run()
	}())
}

// commands are what scripts can use beside testscript's own.
var commands = map[string]func(*testscript.TestScript, bool, []string){
	// status N CMD...: CMD ends with exactly this status.
	"status": func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) < 2 {
			ts.Fatalf("usage: status N CMD...")
		}
		want, err := strconv.Atoi(args[0])
		ts.Check(err)
		got := 0
		var ee *exec.ExitError
		switch err := ts.Exec(args[1], args[2:]...); {
		case errors.As(err, &ee):
			got = ee.ExitCode()
		case err != nil:
			ts.Fatalf("%v", err)
		}
		if got != want {
			ts.Fatalf("status %d, want %d", got, want)
		}
	},
	// setenv NAME FILE: the trimmed content of FILE (or stdout) as a variable.
	"setenv": func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) != 2 {
			ts.Fatalf("usage: setenv NAME FILE")
		}
		ts.Setenv(args[0], regexp.MustCompile(`\s+$`).ReplaceAllString(ts.ReadFile(args[1]), ""))
	},
}

func params(dir string, env ...string) testscript.Params {
	return testscript.Params{
		Dir: dir, Cmds: commands, RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Vars = append(e.Vars, "PATH="+bin+":"+os.Getenv("PATH"), "RIGS_HOME="+filepath.Join(e.WorkDir, "home"))
			e.Vars = append(e.Vars, env...)
			return nil
		},
	}
}

func TestWithoutAServer(t *testing.T) { testscript.Run(t, params("testdata/alone")) }

func TestWithAServer(t *testing.T) {
	if testing.Short() {
		t.Skip("starts machines")
	}
	home := startServer(t)
	testscript.Run(t, params("testdata/server", "RIGS_HOME="+home))
}

// startServer runs a server with a data directory of its own until the test
// ends, and returns that directory. What can be made again comes from the cache
// that all suites share.
func startServer(t *testing.T) string {
	home, err := os.MkdirTemp("", "rigs-cli")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	if err := os.Chmod(home, 0o711); err != nil {
		t.Fatal(err)
	}
	cache := testCache(t)
	ready, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer ready.Close()
	logPath := filepath.Join(t.TempDir(), "server.log")
	log, err := os.Create(logPath)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(filepath.Join(bin, "rigs"), "serve", "--listen=127.0.0.1:0", "--ready-fd=3")
	cmd.Env = append(os.Environ(), "RIGS_HOME="+home, "RIGS_CACHE="+cache)
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	t.Cleanup(func() {
		ended := make(chan error, 1)
		_ = cmd.Process.Signal(syscall.SIGTERM)
		go func() { ended <- cmd.Wait() }()
		select {
		case err = <-ended:
		case <-time.After(time.Minute):
			_ = cmd.Process.Kill()
			err = errors.Join(errors.New("it had to be killed"), <-ended)
		}
		if err != nil || t.Failed() {
			b, _ := os.ReadFile(logPath)
			t.Logf("the server's log:\n%s", b)
		}
		if err != nil {
			t.Errorf("the server ended with: %v", err)
		}
	})
	if _, err := bufio.NewReader(ready).ReadString('\n'); err != nil {
		t.Fatalf("the server is not ready: %v", err)
	}
	rigs(t, home, "image", "build", "terminal")
	rigs(t, home, "template", "make", "terminal")
	return home
}

func rigs(t *testing.T, home string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "rigs"), args...)
	cmd.Env = append(os.Environ(), "RIGS_HOME="+home)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("rigs %v: %v\n%s", args, err, out)
	}
}

func testCache(t *testing.T) string {
	dir := os.Getenv("RIGS_TEST_CACHE")
	if dir == "" && os.Getuid() == 0 {
		dir = "/var/cache/rigs-test"
	}
	if dir == "" {
		home, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		dir = filepath.Join(home, "rigs-test")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}
