package server_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"rigs/client"
	"rigs/internal/keeperapi"
	"rigs/internal/rig"
	"rigs/internal/server"
	"rigs/internal/server/sweep"
)

// Case L2: the server is killed at every step of opening and closing a rig, and
// the next start leaves no process, socket, file or row that says otherwise.
func TestAfterAKillTheNextStartFindsNothingLeft(t *testing.T) {
	for _, x := range []struct {
		name, space string
		reach       func(t *testing.T, v *victim)
	}{
		{"while it prepares", blocked, func(t *testing.T, v *victim) { v.open(t, blocked, rig.Provisioning) }},
		{"while the machine boots", slow, func(t *testing.T, v *victim) { v.open(t, slow, rig.Provisioning) }},
		{"when it is ready", good, func(t *testing.T, v *victim) { v.open(t, good, rig.Ready) }},
		{"when its keeper does not end with it", deaf, func(t *testing.T, v *victim) { v.open(t, deaf, rig.Ready) }},
		{"when its machine does not end with its keeper", survivor, func(t *testing.T, v *victim) { v.open(t, survivor, rig.Ready) }},
		{"when it has failed", failing, func(t *testing.T, v *victim) { v.open(t, failing, rig.Failed) }},
		{"while it closes", deaf, func(t *testing.T, v *victim) {
			id := v.open(t, deaf, rig.Ready)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go v.Close(ctx, id) // is not answered: the server is killed
			v.reach(t, id, rig.Closing)
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			dir := home(t)
			v := spawn(t, dir)
			x.reach(t, v)
			v.kill()
			s := start(t, dir, nil)
			if p := processes(t, dir); len(p) > 0 {
				t.Errorf("processes are left: %v", p)
			}
			l := layout(t, dir)
			for _, d := range []string{l.Runtime(), l.Disks()} {
				if e, err := os.ReadDir(d); err != nil || len(e) > 0 {
					t.Errorf("%s: %v %v", d, e, err)
				}
			}
			if rs, err := s.Rigs(ctxOf(t), client.ListOptions{}); err != nil || len(rs) > 0 {
				t.Errorf("%v %v", rs, err)
			}
			rs, err := s.Rigs(ctxOf(t), client.ListOptions{All: true})
			if err != nil || len(rs) != 1 || rs[0].Phase != rig.Closed || rs[0].ClosedAt.IsZero() || rs[0].CloseReason == "" {
				t.Errorf("%+v %v", rs, err)
			}
			s.ready(rig.Spec{Space: good}) // and it works
		})
	}
}

func (v *victim) open(t *testing.T, space string, p rig.Phase) string {
	t.Helper()
	r, _, err := v.Open(ctxOf(t), rig.Spec{Surface: rig.Terminal, Space: space})
	if err != nil {
		t.Fatal(err)
	}
	v.reach(t, r.ID, p)
	return r.ID
}

// reach waits for a phase, and while provisioning for the furthest step.
func (v *victim) reach(t *testing.T, id string, p rig.Phase) {
	t.Helper()
	err := v.Events(ctxOf(t), client.EventOptions{Rig: id}, func(e client.Event) bool {
		if e.Rig == nil || e.Rig.Phase != p {
			return true
		}
		return p == rig.Provisioning && (e.Rig.Step == nil || e.Rig.Step.Text != map[string]string{blocked: "Looking at the image", slow: "Booting"}[e.Rig.Space])
	})
	if err != nil {
		t.Fatalf("%v: %s", err, v.stderr)
	}
}

func TestTheSweepLeavesOtherServersAlone(t *testing.T) {
	one, other := home(t), home(t)
	mine := start(t, one, nil)
	r := mine.ready(rig.Spec{Space: survivor})
	v := spawn(t, other)
	v.open(t, survivor, rig.Ready)
	v.kill()
	start(t, other, nil)
	if p := processes(t, other); len(p) > 0 {
		t.Errorf("its own are left: %v", p)
	}
	if p := processes(t, one); len(p) != 2 {
		t.Errorf("the other server's keeper and machine: %v", p)
	}
	if r, err := mine.Rig(ctxOf(t), r.ID); err != nil || r.Phase != rig.Ready {
		t.Errorf("%+v %v", r, err)
	}
}

// Case L7: what carries no mark is not touched, and a mark of somebody else's
// making does not match.
func TestTheSweepKillsByMarkOnly(t *testing.T) {
	const owner = "00112233445566778899aabbccddeeff"
	begin := func(env ...string) *exec.Cmd {
		cmd := exec.Command("/proc/self/exe", "machine")
		cmd.Env = env
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		return cmd
	}
	mark := keeperapi.OwnerEnv + "="
	spared := []*exec.Cmd{
		begin(),
		begin(mark + "ffeeddccbbaa99887766554433221100/aaaaaaaaaa"),
		begin(mark + owner), // no rig
		begin("X"+mark+owner+"/aaaaaaaaaa", "Y="+mark+owner+"/aaaaaaaaaa"),
		begin(mark + owner + "0/aaaaaaaaaa"),
		begin(mark + owner + "/bbbbbbbbbb"), // another rig's
	}
	target := begin(mark + owner + "/aaaaaaaaaa")
	for _, c := range append(spared, target) { // until each has its own environment
		for b := []byte(nil); !strings.Contains(string(b), "machine"); b, _ = os.ReadFile("/proc/" + itoa(c.Process.Pid) + "/cmdline") {
			if ctxOf(t).Err() != nil {
				t.Fatal("not started")
			}
		}
	}
	n, err := sweep.Kill(ctxOf(t), owner, "aaaaaaaaaa")
	if err != nil || n != 1 {
		t.Errorf("killed %d: %v", n, err)
	}
	if err := target.Wait(); err == nil || target.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("%v", err)
	}
	for i, c := range spared {
		if err := c.Process.Signal(syscall.Signal(0)); err != nil {
			t.Errorf("%d was killed: %v", i, err)
		}
	}
	if _, err := sweep.Kill(ctxOf(t), "", ""); err == nil {
		t.Error("no owner matches everything")
	}
}

func TestASecondServerOnADataDirectoryIsRefusedAndNamesTheFirst(t *testing.T) {
	dir := home(t)
	s := start(t, dir, nil)
	r := s.ready(rig.Spec{Space: good})
	err := server.Run(ctxOf(t), server.Options{Config: load(t, dir, nil), Parts: fakeParts, Log: testLog{t}})
	code(t, err, rig.CodeConflict)
	if err == nil || !strings.Contains(err.Error(), "process "+itoa(os.Getpid())) {
		t.Error(err)
	}
	if r, err := s.Rig(ctxOf(t), r.ID); err != nil || r.Phase != rig.Ready {
		t.Errorf("the first is disturbed: %+v %v", r, err)
	}
}

func TestAStartThatFailsSaysWhyAndLeavesNothing(t *testing.T) {
	busy := start(t, home(t), nil)
	addr := strings.TrimPrefix(busy.url, "http://")
	run := func(dir string, flags map[string]string) error {
		ctx, cancel := context.WithTimeout(t.Context(), bound)
		defer cancel()
		return server.Run(ctx, server.Options{Config: load(t, dir, flags), Parts: fakeParts, Log: testLog{t}, Ready: func(server.Ready) { cancel() }})
	}
	t.Run("a busy port", func(t *testing.T) {
		dir := home(t)
		err := run(dir, map[string]string{"listen": addr})
		code(t, err, rig.CodeUnavailable)
		if err == nil || !strings.Contains(err.Error(), addr) || !strings.Contains(err.Error(), "--listen") {
			t.Error(err)
		}
		for _, p := range []string{layout(t, dir).ServerSocket(), layout(t, dir).Runtime(), layout(t, dir).Database()} {
			if _, err := os.Lstat(p); err == nil {
				t.Errorf("%s is left", p)
			}
		}
		if err := run(dir, nil); err != nil {
			t.Errorf("and it can be started elsewhere: %v", err)
		}
	})
	t.Run("a path too long for a socket", func(t *testing.T) {
		err := run(home(t)+"/"+strings.Repeat("d", 100), nil)
		code(t, err, rig.CodeUnavailable)
		if err == nil || !strings.Contains(err.Error(), "RIGS_HOME") {
			t.Error(err)
		}
	})
	t.Run("a file in the data directory's place", func(t *testing.T) {
		f := home(t) + "/file"
		if err := os.WriteFile(f, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		code(t, run(f+"/data", nil), rig.CodeUnavailable)
	})
	t.Run("a program that is none", func(t *testing.T) {
		f := home(t) + "/file"
		if err := os.WriteFile(f, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, setting := range []string{"qemu", "guest"} {
			for _, path := range []string{f, f + "-missing", t.TempDir()} {
				err := run(home(t), map[string]string{setting: path})
				code(t, err, rig.CodeUnavailable)
				if err == nil || !strings.Contains(err.Error(), "setting "+setting+": "+path) {
					t.Error(err)
				}
			}
		}
	})
	t.Run("an id that is none", func(t *testing.T) {
		dir := home(t)
		if err := os.WriteFile(layout(t, dir).ID(), []byte("*"), 0o600); err != nil {
			t.Fatal(err)
		}
		code(t, run(dir, nil), rig.CodeUnavailable)
	})
	t.Run("a database that is none", func(t *testing.T) {
		dir := home(t)
		if err := os.WriteFile(layout(t, dir).Database(), []byte(strings.Repeat("not a database", 100)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := run(dir, nil); err == nil || !strings.Contains(err.Error(), "rigs.db") {
			t.Error(err)
		}
		if _, err := os.Lstat(layout(t, dir).ServerSocket()); err == nil {
			t.Error("the socket is left")
		}
	})
	t.Run("a planted runtime directory", func(t *testing.T) {
		dir := home(t)
		rt := layout(t, dir).Runtime()
		if err := os.Symlink(t.TempDir(), rt); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(rt)
		if err := run(dir, nil); err == nil || !strings.Contains(err.Error(), rt) {
			t.Error(err)
		}
	})
	t.Run("a directory that machines cannot enter", func(t *testing.T) {
		if os.Getuid() != 0 {
			t.Skip("machines run as another user only when the server is root")
		}
		dir := home(t)
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		err := run(dir, nil)
		code(t, err, rig.CodeUnavailable)
		if err == nil || !strings.Contains(err.Error(), "chmod o+x "+dir) {
			t.Error(err)
		}
	})
}

func TestKeepersOfRootAreUnprivilegedAndTheirDirectoriesTheirOwn(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give keepers another user")
	}
	s := start(t, home(t), nil)
	r := s.ready(rig.Spec{Space: good})
	for pid := range processes(t, s.home) {
		fi, err := os.Stat("/proc/" + itoa(pid))
		if err != nil || fi.Sys().(*syscall.Stat_t).Uid == 0 {
			t.Errorf("%v %v", fi, err)
		}
	}
	l := layout(t, s.home)
	for dir, mode := range map[string]os.FileMode{l.Rig(r.ID): 0o700, l.Disk(r.ID): 0o700, l.Runtime(): 0o711, l.Disks(): 0o711} {
		if fi, err := os.Stat(dir); err != nil || fi.Mode().Perm() != mode {
			t.Errorf("%s: %v %v", dir, fi, err)
		}
	}
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	start(t, s.home, nil) // its directories are found again
}
