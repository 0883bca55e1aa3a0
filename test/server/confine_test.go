package server

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"rigs/internal/keeper"
	"rigs/internal/keeper/confine"
	"rigs/internal/keeperapi"
	"rigs/internal/paths"
	"rigs/internal/rig"
	"rigs/internal/testenv"
)

// taken is what a keeper that a guest has taken over tries: a process confined
// as a keeper is, with the same files. It says what it could do.
func taken(disk, runtimeDir string, targets []string) int {
	if _, err := confine.Keeper(confine.FilesOf(keeperapi.Config{DiskDir: disk, RuntimeDir: runtimeDir}, keeper.TemplateMemory)); err != nil {
		fmt.Println("not confined:", err)
		return 1
	}
	if err := os.WriteFile(filepath.Join(disk, "mine"), nil, 0o600); err != nil {
		fmt.Println("its own disk directory:", err)
	}
	for _, t := range targets {
		kind, what, _ := strings.Cut(t, ":")
		var err error
		switch kind {
		case "read":
			_, err = os.ReadFile(what)
		case "list":
			_, err = os.ReadDir(what)
		case "make":
			err = os.WriteFile(filepath.Join(what, "planted"), nil, 0o600)
		case "signal":
			var pid int
			if _, err = fmt.Sscan(what, &pid); err == nil {
				err = syscall.Kill(pid, 0)
			}
		}
		if !errors.Is(err, os.ErrPermission) {
			fmt.Println(t, "was not refused:", err)
		}
	}
	fmt.Println("tried")
	return 0
}

func status(t *testing.T, pid int) map[string]string {
	t.Helper()
	b, err := os.ReadFile("/proc/" + itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	s := map[string]string{}
	for line := range strings.Lines(string(b)) {
		k, v, _ := strings.Cut(line, ":")
		s[k] = strings.TrimSpace(v)
	}
	return s
}

func TestAKeeperThatIsTakenOverReachesNothing(t *testing.T) {
	h := newHost(t)
	p := h.serve()
	one, two := h.open(p, rig.Spec{Space: "one"}), h.open(p, rig.Spec{Space: "two"})
	l, err := paths.New(h.home)
	if err != nil {
		t.Fatal(err)
	}
	cache, err := testenv.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	users := map[string]string{} // of rigs
	others := []string{}         // processes of rig two
	for pid, id := range h.processes() {
		s := status(t, pid)
		exe, err := os.Readlink("/proc/" + itoa(pid) + "/exe")
		if err != nil {
			t.Fatal(err)
		}
		filters := "1"
		if strings.Contains(exe, "qemu") {
			filters = "3" // the keeper's, its own, and QEMU's
		}
		const none = "0000000000000000"
		want := map[string]string{"NoNewPrivs": "1", "Seccomp": "2", "Seccomp_filters": filters, "CapInh": none, "CapPrm": none, "CapEff": none, "CapAmb": none}
		if os.Getuid() == 0 {
			want["CapBnd"] = none
		}
		for k, v := range want {
			if got, ok := s[k]; got != v && (ok || k != "Seccomp_filters") {
				t.Errorf("%s of %s: %s %q, want %q", filepath.Base(exe), id, k, got, v)
			}
		}
		if limits, err := os.ReadFile("/proc/" + itoa(pid) + "/limits"); os.Getuid() == 0 && (err != nil || !regexp.MustCompile(`(?m)^Max processes +512 +512 `).Match(limits)) {
			t.Errorf("tasks of %s are not bounded: %v\n%s", id, err, limits)
		}
		if u, ok := users[id]; ok && u != s["Uid"] {
			t.Errorf("the processes of rig %s have users %s and %s", id, u, s["Uid"])
		}
		users[id] = s["Uid"]
		if id == two.ID {
			others = append(others, "signal:"+itoa(pid))
		}
	}
	if len(users) != 2 || len(others) != 2 {
		t.Fatalf("users %v, processes of the second rig %v", users, others)
	}
	if root := os.Getuid() == 0; root && users[one.ID] == users[two.ID] {
		t.Errorf("two rigs have one user: %v", users)
	}

	cmd := exec.Command("/proc/self/exe", "taken", l.Disk(one.ID), l.Rig(one.ID))
	if os.Getuid() == 0 {
		fi, err := os.Stat(l.Disk(one.ID))
		if err != nil {
			t.Fatal(err)
		}
		st := fi.Sys().(*syscall.Stat_t)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: st.Uid, Gid: st.Gid}}
	}
	cmd.Args = append(cmd.Args, "read:"+l.Database(), "read:"+l.ID(), "read:"+l.Lock(), "list:"+h.home, "make:"+h.home,
		"list:"+l.Disks(), "list:"+l.Disk(two.ID), "read:"+filepath.Join(l.Disk(two.ID), "disk.qcow2"), "read:"+filepath.Join(l.Disk(two.ID), "keeper.log"),
		"make:"+l.Disk(two.ID), "list:"+l.Rig(two.ID), "make:"+l.Rig(two.ID), "make:"+filepath.Join(cache, "templates"), "make:/tmp", "make:/dev/shm", "read:/etc/shadow",
		"read:/proc/"+itoa(p.cmd.Process.Pid)+"/environ", "read:/proc/"+itoa(p.cmd.Process.Pid)+"/mem", "signal:"+itoa(p.cmd.Process.Pid))
	cmd.Args = append(cmd.Args, others...)
	if confine.ABI() == 0 {
		t.Skip("the kernel has no Landlock: modes of files are all there is")
	}
	cmd.Env = h.env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := confine.Start(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || out.String() != "tried\n" {
		t.Errorf("%v:\n%s", err, out.Bytes())
	}
	if _, st := run(t, h, p, two.ID, "true"); st.Code != 0 {
		t.Errorf("the other rig is disturbed: %+v", st)
	}
}
