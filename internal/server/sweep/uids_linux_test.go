package sweep

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"rigs/internal/keeper/confine"
	"rigs/internal/keeperapi"
)

// claimsIn has the test's claims in a directory of its own.
func claimsIn(t *testing.T) {
	t.Helper()
	before := claims
	claims = t.TempDir()
	t.Cleanup(func() { claims = before })
}

func TestUidsAreTheirOwnersAlone(t *testing.T) {
	claimsIn(t)
	seen := map[uint32]bool{}
	for _, mark := range [][2]string{{"me", "a"}, {"me", "b"}, {"you", "a"}} {
		uid, err := Claim(mark[0], mark[1])
		if err != nil {
			t.Fatal(err)
		}
		if uid < confine.FirstUID || uid > confine.LastUID || seen[uid] {
			t.Errorf("uid %d", uid)
		}
		seen[uid] = true
		got, err := Claims(mark[0], mark[1])
		if err != nil || len(got) != 1 || got[uid] != mark[1] {
			t.Errorf("claims of %v: %v %v", mark, got, err)
		}
	}
	if err := Release("me", "a"); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		owner, id string
		n         int
	}{{"me", "", 1}, {"me", "a", 0}, {"you", "a", 1}, {"yo", "", 0}, {"", "", 0}} {
		if got, err := Claims(x.owner, x.id); err != nil || len(got) != x.n {
			t.Errorf("claims of %q/%q: %v %v, want %d", x.owner, x.id, got, err, x.n)
		}
	}
}

// A process that has erased its environment is found by its uid, and one that
// runs as a uid that another data directory has handed out is not touched.
func TestAUidIsAMark(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root hands out uids")
	}
	claimsIn(t)
	begin := func(owner, id string) *exec.Cmd {
		uid, err := Claim(owner, id)
		if err != nil {
			t.Fatal(err)
		}
		c := exec.Command("sleep", "600")
		c.Env = []string{keeperapi.OwnerEnv + "="} // as after erasing
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			c.Process.Kill()
			c.Wait()
		})
		return c
	}
	target, sibling, foreign := begin("me", "a"), begin("me", "b"), begin("you", "a")
	ended := make(chan error, 1)
	go func() { ended <- target.Wait() }()
	if n, err := Kill(t.Context(), "me", "a"); err != nil || n != 1 {
		t.Errorf("killed %d: %v", n, err)
	}
	<-ended
	for _, c := range []*exec.Cmd{sibling, foreign} {
		if _, ok := userOf(c.Process.Pid); !ok {
			t.Error("another rig's process was killed")
		}
	}
	if found, err := Find("me", ""); err != nil || len(found) != 1 || found[sibling.Process.Pid] != "b" {
		t.Errorf("%v %v", found, err)
	}
}

func TestAUidInUseIsNotHandedOut(t *testing.T) {
	if used, err := inUse(uint32(os.Getuid())); err != nil || !used {
		t.Errorf("our own uid %s: %v %v", strconv.Itoa(os.Getuid()), used, err)
	}
	if used, err := inUse(confine.LastUID); err != nil || used {
		t.Errorf("a uid of nobody's: %v %v", used, err)
	}
}
