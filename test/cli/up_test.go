package cli_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"rigs/internal/keeperapi"
)

// What the README promises: up does the whole job, again it uses what is there,
// a killed server leaves nothing alive, down ends it.
func TestUpAndDown(t *testing.T) {
	if testing.Short() {
		t.Skip("starts machines")
	}
	home, err := os.MkdirTemp("", "rigs-up")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	if err := os.Chmod(home, 0o711); err != nil {
		t.Fatal(err)
	}
	cache := testCache(t)
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "rigs"), args...)
		cmd.Env = append(os.Environ(), "RIGS_HOME="+home, "RIGS_CACHE="+cache, "RIGS_SERVER=")
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err != nil {
			log, _ := os.ReadFile(filepath.Join(home, "server.log"))
			t.Fatalf("rigs %v: %v\n%s%s\nserver.log:\n%s", args, err, &out, &errs, log)
		}
		return out.String()
	}
	t.Cleanup(func() {
		if pid := serverPID(home); pid > 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})

	first := run("up", "--listen", "127.0.0.1:0")
	for _, want := range []string{"(welcome/terminal)", "$ uname -a\n    Linux terminal-", "example.com:443  notAdmitted", "/signin?code="} {
		if !strings.Contains(first, want) {
			t.Errorf("up does not say %q:\n%s", want, first)
		}
	}
	server := serverPID(home)
	if again := run("up"); !strings.Contains(again, "was there already") || serverPID(home) != server {
		t.Errorf("a second up does not use what is there:\n%s", again)
	}
	id, err := os.ReadFile(filepath.Join(home, "id"))
	if err != nil {
		t.Fatal(err)
	}
	owner := keeperapi.OwnerEnv + "=" + strings.TrimSpace(string(id)) + "/"
	if len(owned(owner)) == 0 {
		t.Fatal("no process carries the ownership mark: this test would see nothing")
	}

	if err := syscall.Kill(server, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait(t, "the killed server's machines end", func() bool { return len(owned(owner)) == 0 })
	if third := run("up", "--listen", "127.0.0.1:0"); strings.Contains(third, "was there already") {
		t.Errorf("the dead machine is said to be there:\n%s", third)
	}
	if rigs := strings.Fields(run("ls", "-q")); len(rigs) != 1 {
		t.Errorf("%d rigs are listed, want the new one: %q", len(rigs), rigs)
	}

	server = serverPID(home)
	run("down")
	if alive(server) {
		t.Error("down returned while the server was still there")
	}
	if left := owned(owner); len(left) > 0 {
		t.Errorf("down left processes %v", left)
	}
	if _, err := os.Stat(filepath.Join(home, "rigs.sock")); !os.IsNotExist(err) {
		t.Errorf("down left the socket: %v", err)
	}
}

// serverPID is the process that says it holds the data directory; 0: none.
func serverPID(home string) int {
	b, err := os.ReadFile(filepath.Join(home, "server.lock"))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || !alive(pid) {
		return 0
	}
	return pid
}

// alive reports whether a process runs; one that only waits to be reaped by
// whoever inherited it does not.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	state := b[bytes.LastIndexByte(b, ')')+1:]
	return !bytes.HasPrefix(state, []byte(" Z")) && !bytes.HasPrefix(state, []byte(" X"))
}

// owned lists the processes that carry an ownership mark.
func owned(mark string) (pids []string) {
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range all {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // it has ended, or is another user's
		}
		for v := range bytes.SplitSeq(b, []byte{0}) {
			if strings.HasPrefix(string(v), mark) {
				pids = append(pids, filepath.Base(filepath.Dir(f)))
			}
		}
	}
	return pids
}

// wait polls until ok; what it waits for has its own bound, this is a backstop.
func wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	end := time.After(time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("after a minute, not true: %s", what)
		}
	}
}
