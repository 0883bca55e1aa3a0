package gate

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// What arrives at this machine is more than what its interfaces say.
func TestRoutedHere(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a network namespace takes root")
	}
	impossible := make(chan string)
	go func() {
		defer close(impossible)
		runtime.LockOSThread() // and never unlocked: the thread ends, and its namespace with it
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			impossible <- fmt.Sprintf("no network namespace here: %v", err)
			return
		}
		for _, args := range [][]string{
			{"link", "set", "lo", "up"},
			{"addr", "add", "192.88.1.1/24", "dev", "lo"},
			{"route", "add", "local", "192.88.2.0/24", "dev", "lo"},
			{"-6", "route", "add", "local", "2606:4700:1::/48", "dev", "lo"},
			{"tuntap", "add", "dev", "out", "mode", "tap"},
			{"link", "set", "out", "up"},
			{"addr", "add", "192.88.4.1/24", "dev", "out"},
			{"route", "add", "default", "dev", "out"},
		} {
			if b, err := exec.CommandContext(t.Context(), "ip", args...).CombinedOutput(); err != nil {
				impossible <- fmt.Sprintf("ip %q: %v: %s", args, err, b)
				return
			}
		}
		for a, want := range map[string]bool{
			"192.88.1.1": true, "192.88.1.77": true, "192.88.2.77": true, "192.88.4.1": true, "127.9.9.9": true, "2606:4700:1::77": true, "::1": true,
			"::ffff:192.88.2.77": true, "192.88.4.77": false, "192.88.3.77": false, "2606:4700:2::77": false,
		} {
			if got := thisMachine().has(mustAddr(t, a)); got != want {
				t.Errorf("%s arrives here: %v, want %v", a, got, want)
			}
		}
		// One that appears later.
		if b, err := exec.CommandContext(t.Context(), "ip", "addr", "add", "192.88.3.77/32", "dev", "out").CombinedOutput(); err != nil {
			t.Errorf("ip: %v: %s", err, b)
		} else if !thisMachine().has(mustAddr(t, "192.88.3.77")) {
			t.Error("an address that was added is not noticed")
		}
	}()
	if why := <-impossible; why != "" {
		t.Skip(why)
	}
}
