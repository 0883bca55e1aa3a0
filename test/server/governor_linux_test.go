package server

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"rigs/client"
	"rigs/internal/rig"
	"rigs/internal/wire"
)

// with adds settings for the servers of a host.
func (h *host) with(env ...string) *host {
	h.env = append(h.env, env...)
	return h
}

// until waits for a condition that nobody announces.
func (h *host) until(what string, ok func() bool) {
	h.t.Helper()
	ctx := h.ctx()
	for tick := time.NewTicker(100 * time.Millisecond); !ok(); <-tick.C {
		if ctx.Err() != nil {
			h.t.Fatalf("never: %s", what)
		}
	}
}

// TestTheMemoryBudgetEvictsTheRightMachine: rigs are opened until one has to go. It is
// the least recently used of those that nobody drives, by memory as measured.
func TestTheMemoryBudgetEvictsTheRightMachine(t *testing.T) {
	const budget = 1100
	h := newHost(t).with(fmt.Sprintf("RIGS_MEMORY_BUDGET_MB=%d", budget))
	p := h.serve()
	driven := h.open(p, rig.Spec{Space: "driven"})
	if _, err := p.Take(h.ctx(), driven.ID, client.Take{}); err != nil {
		t.Fatal(err)
	}
	oldest := h.open(p, rig.Spec{Space: "oldest"})
	used := h.open(p, rig.Spec{Space: "used"})
	for _, id := range []string{oldest.ID, used.ID} { // in this order
		if _, err := p.Run(h.ctx(), id, client.ExecCollect{ExecRequest: client.ExecRequest{Shell: "true"}}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 12 { // nominal sizes of six would fill the budget twice
		sum := 0
		h.until("the memory of each is measured", func() bool {
			before, err := p.Rigs(h.ctx(), client.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			sum = 0
			for _, r := range before {
				if r.ResidentMB == 0 {
					return false
				}
				sum += r.ResidentMB
			}
			return true
		})
		h.open(p, rig.Spec{Space: "more", New: true})
		gone, err := p.Rig(h.ctx(), oldest.ID)
		if err != nil {
			t.Fatal(err)
		}
		if gone.Phase.Live() {
			continue
		}
		if gone.CloseReason != rig.MemoryEvicted {
			t.Errorf("the least recently used one: %+v", gone)
		}
		// A machine may grow to 640 MB with what belongs to it.
		if sum+640 < budget*9/10 {
			t.Errorf("evicted at %d MB measured of %d", sum, budget)
		}
		for _, id := range []string{driven.ID, used.ID} {
			if r, err := p.Rig(h.ctx(), id); err != nil || !r.Phase.Live() {
				t.Errorf("%+v %v", r, err)
			}
		}
		if i == 0 && sum+640 > budget {
			t.Logf("evicted at once: three machines take %d MB", sum)
		}
		return
	}
	t.Error("a dozen machines more, and none was evicted")
}

// TestAFullDiskStopsNobodyButTheWriter is case L10: the disk with the rigs' disks and
// the database is full.
func TestAFullDiskStopsNobodyButTheWriter(t *testing.T) {
	h := newHost(t)
	if os.Getuid() != 0 {
		t.Skip("mounting a small disk takes root")
	}
	if err := syscall.Mount("tmpfs", h.home, "tmpfs", 0, "size=160m,mode=711"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(h.home, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	p := h.serve()
	writer, other := h.open(p, rig.Spec{Space: "writer"}), h.open(p, rig.Spec{Space: "other"})
	// The writer is told, or stopped: it does not matter to it how its command ends.
	conn, err := p.Stream(h.ctx(), writer.ID, "exec")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := wire.NewWriter(conn).WriteJSON(wire.KindStart, client.ExecRequest{Shell: "dd if=/dev/urandom of=/var/tmp/big bs=1M count=400 conv=fsync"}); err != nil {
		t.Fatal(err)
	}
	h.until("the disk is full", func() bool {
		var st syscall.Statfs_t
		return syscall.Statfs(h.home, &st) == nil && st.Bavail*uint64(st.Bsize) < 1<<20
	})
	// Everybody else goes on. What cannot be written down is refused and says why.
	if rigs, err := p.Rigs(h.ctx(), client.ListOptions{}); err != nil || len(rigs) != 2 {
		t.Errorf("%v %v", rigs, err)
	}
	if _, err := p.Run(h.ctx(), other.ID, client.ExecCollect{ExecRequest: client.ExecRequest{Shell: "true"}}); err != nil && rig.CodeOf(err) != rig.CodeCapacity {
		t.Errorf("another rig: %v", err)
	}
	// Closing makes room, whatever can be written down.
	if r, err := p.Close(h.ctx(), writer.ID); err != nil || r.Phase != rig.Closed {
		t.Errorf("%+v %v", r, err)
	}
	h.until("another rig goes on, when there is room again", func() bool { // the audit log tries again now and then
		_, err := p.Run(h.ctx(), other.ID, client.ExecCollect{ExecRequest: client.ExecRequest{Shell: "true"}})
		if err != nil && rig.CodeOf(err) != rig.CodeCapacity {
			t.Fatal(err)
		}
		return err == nil
	})
	third := h.open(p, rig.Spec{Space: "third"})
	if _, err := p.Close(h.ctx(), third.ID); err != nil {
		t.Error(err)
	}
	if err := p.end(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	p = h.serve() // the database is whole
	rigs, err := p.Rigs(h.ctx(), client.ListOptions{All: true})
	if err != nil || len(rigs) != 3 {
		t.Errorf("%+v %v", rigs, err)
	}
}

// TestOpeningAndClosingLeavesNothing is case L11. RIGS_CYCLES=300 does it as often as
// the case says.
func TestOpeningAndClosingLeavesNothing(t *testing.T) {
	cycles := 15
	if s := os.Getenv("RIGS_CYCLES"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		cycles = n
	}
	h := newHost(t)
	p := h.serve()
	account := func() (files, tasks, kb int) {
		t.Helper()
		dir := "/proc/" + strconv.Itoa(p.cmd.Process.Pid)
		fds, err1 := os.ReadDir(dir + "/fd")
		ts, err2 := os.ReadDir(dir + "/task")
		status, err3 := os.ReadFile(dir + "/status")
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(status)) {
			if strings.HasPrefix(line, "VmRSS:") {
				if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &kb); err != nil {
					t.Fatal(err)
				}
			}
		}
		return len(fds), len(ts), kb
	}
	cycle := func() {
		t.Helper()
		r := h.open(p, rig.Spec{New: true})
		if _, err := p.Run(h.ctx(), r.ID, client.ExecCollect{ExecRequest: client.ExecRequest{Shell: "true"}}); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Close(h.ctx(), r.ID); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 { // what is made once is there
		cycle()
	}
	files, tasks, kb := account()
	for range cycles {
		cycle()
	}
	files2, tasks2, kb2 := account()
	if files2 > files+4 || tasks2 > tasks+8 {
		t.Errorf("after %d cycles: %d open files, before %d; %d threads, before %d", cycles, files2, files, tasks2, tasks)
	}
	if kb2 > kb+16<<10+cycles*64 {
		t.Errorf("after %d cycles: %d KB resident, before %d", cycles, kb2, kb)
	}
	for _, d := range []string{filepath.Join(h.home, "rigs")} {
		if left, err := os.ReadDir(d); err != nil || len(left) > 0 {
			t.Errorf("%s: %v %v", d, left, err)
		}
	}
	out, err := exec.Command("ps", "-o", "pid=,args=", "--ppid", strconv.Itoa(p.cmd.Process.Pid)).Output()
	if err == nil && len(out) > 0 {
		t.Errorf("processes are left:\n%s", out)
	}
	t.Logf("%d cycles: %d open files, %d threads, %d KB resident", cycles, files2, tasks2, kb2)
}
