package vm_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"rigs/internal/keeperapi"
	"rigs/internal/rig"
	"rigs/internal/template"
	"rigs/internal/testenv"
)

// now reads the machine's clock.
func now(t *testing.T, k *testenv.Keeper) time.Time {
	t.Helper()
	s, n, _ := strings.Cut(k.Shell("date -u +%s.%N"), ".")
	sec, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	nsec, err := strconv.ParseInt(n, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Unix(sec, nsec)
}

// checkClock: within half a second of the host's time.
func checkClock(t *testing.T, k *testenv.Keeper) {
	t.Helper()
	before := time.Now()
	got := now(t, k)
	after := time.Now()
	if got.Before(before.Add(-500*time.Millisecond)) || got.After(after.Add(500*time.Millisecond)) {
		t.Errorf("the machine's clock says %v; the host's said %v before and %v after", got, before, after)
	}
}

func TestColdBoot(t *testing.T) {
	k := testenv.Start(t, testenv.Rig(t, testenv.Layout(t), ""))
	if e := k.Phase(rig.Ready); e.Boot != "cold" {
		t.Errorf("boot %q, want cold", e.Boot)
	}
	host, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		t.Fatal(err)
	}
	if got := k.Shell("uname -r"); got == strings.TrimSpace(string(host)) || got == "" {
		t.Errorf("the kernel is %q, the host's", got)
	}
	if got := k.Shell("hostname"); got != k.Config.HostName {
		t.Errorf("host name %q, want %q", got, k.Config.HostName)
	}
	checkClock(t, k) // also the right year
	st := k.Status()
	if err := k.Call("POST", "/v1/close", nil, nil); err != nil {
		t.Error(err)
	}
	if code := k.Exited(); code != 0 {
		t.Errorf("exit status %d", code)
	}
	k.AwaitGone(st.QEMUPID)
	for _, dir := range []string{k.Config.DiskDir, k.Config.RuntimeDir} {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left in %s: %v, %v", dir, left, err)
		}
	}
}

// Eight machines from one template share nothing that must be a machine's own.
func TestClonesAreDifferent(t *testing.T) {
	l := testenv.Layout(t)
	dir, key := testenv.Template(t, l)
	const line = "head -c 16 /dev/urandom | od -An -tx1; cat /proc/sys/kernel/random/uuid; python3 -c 'import uuid; print(uuid.uuid4())'; cat /etc/machine-id; hostname"
	names := []string{"/dev/urandom", "the kernel's uuid", "Python's uuid4", "machine id", "host name"}
	seen := map[string]int{}
	for i := range 8 {
		k := testenv.Start(t, testenv.Rig(t, l, dir))
		if e := k.Phase(rig.Ready); e.Boot != "clone" {
			t.Fatalf("clone %d: boot %q, want clone", i, e.Boot)
		}
		checkClock(t, k)
		lines := strings.Split(k.Shell(line), "\n")
		if len(lines) != len(names) {
			t.Fatalf("clone %d said %q", i, lines)
		}
		for j, v := range lines {
			if other, ok := seen[v]; ok {
				t.Errorf("clones %d and %d have the same %s: %s", other, i, names[j], v)
			}
			seen[v] = i
		}
		if err := k.Call("POST", "/v1/close", nil, nil); err != nil {
			t.Error(err)
		}
	}
	// None of them has changed the template. Without its stamps, all is hashed.
	if err := os.Remove(filepath.Join(dir, "seal.stamp.json")); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if _, err := template.NewStore(l).Lookup(t.Context(), key); err != nil {
		t.Errorf("after its clones the template is broken: %v", err)
	}
}

// A guest that gives memory back must not punch holes into what the others are
// cloned from.
func TestCloneGivesMemoryBack(t *testing.T) {
	l := testenv.Layout(t)
	dir, key := testenv.Template(t, l)
	cfg := testenv.Rig(t, l, dir)
	cfg.LogLevel = "debug"
	k := testenv.Start(t, cfg)
	k.Phase(rig.Ready)
	// Free what was frozen as used, in large pieces; the kernel reports it a while later, and
	// QEMU says that it was kept from discarding it.
	k.Shell("sudo sh -c 'sync; echo 3 > /proc/sys/vm/drop_caches; echo 1 > /proc/sys/vm/compact_memory'; python3 -c 'b = bytearray(128 << 20)'")
	k.Logged("ram_block_discard_range")
	if err := os.Remove(filepath.Join(dir, "seal.stamp.json")); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if _, err := template.NewStore(l).Lookup(t.Context(), key); err != nil {
		t.Errorf("the template was changed by a clone: %v", err)
	}
}

// A damaged template costs time, never the rig.
func TestDamagedTemplateBootsCold(t *testing.T) {
	l := testenv.Layout(t)
	dir, _ := testenv.Template(t, l)
	bad := testenv.TempDir(t)
	for _, name := range []string{"memory", "disk.qcow2"} {
		if err := os.Symlink(filepath.Join(dir, name), filepath.Join(bad, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(bad, "state"), []byte("no state at all"), 0o644); err != nil {
		t.Fatal(err)
	}
	k := testenv.Start(t, testenv.Rig(t, l, bad))
	if e := k.Phase(rig.Ready); e.Boot != "cold" {
		t.Errorf("boot %q, want cold", e.Boot)
	}
	k.Event("step that says so", func(e keeperapi.Event) bool {
		return e.Step != nil && strings.Contains(e.Step.Text, "template could not be used")
	})
	k.Shell("true")
}

// What does not boot says why, with the end of its console.
func TestImageThatDoesNotBoot(t *testing.T) {
	cfg := testenv.Rig(t, testenv.Layout(t), "")
	cfg.Boot.RootFS = filepath.Join(testenv.TempDir(t), "rootfs")
	if err := os.WriteFile(cfg.Boot.RootFS, make([]byte, 1<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	k := testenv.Start(t, cfg)
	e := k.Phase(rig.Failed)
	if e.Error == nil || e.Error.Code != rig.CodeBackendFailure || !strings.Contains(e.Error.Detail, "cannot mount the image") {
		t.Errorf("it failed with %v; want backendFailure and the console's end", e.Error)
	}
	_, err := k.Collect(keeperapi.ExecCollect{})
	if rig.CodeOf(err) != rig.CodeBackendFailure {
		t.Errorf("an action on it: %v", err)
	}
	if pid := k.Status().QEMUPID; pid != 0 {
		k.AwaitGone(pid)
	}
}

func TestQEMUThatIsNotThere(t *testing.T) {
	cfg := testenv.Rig(t, testenv.Layout(t), "")
	cfg.Machine.QEMU = filepath.Join(testenv.TempDir(t), "qemu")
	k := testenv.Start(t, cfg)
	if e := k.Phase(rig.Failed); e.Error == nil || e.Error.Code != rig.CodeUnavailable || !strings.Contains(e.Error.Detail, "install QEMU") {
		t.Errorf("it failed with %v", e.Error)
	}
}

func TestProbe(t *testing.T) {
	l := testenv.Layout(t)
	cfg := testenv.Rig(t, l, "")
	cfg.Mode = keeperapi.ModeProbe
	if err := testenv.Task(t.Context(), t, cfg); err != nil {
		t.Errorf("with emulation: %v", err)
	}
	if f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0); err == nil {
		f.Close()
		t.Skip("this host has a KVM device")
	}
	cfg.Machine.Accel = "kvm"
	if err := testenv.Task(t.Context(), t, cfg); rig.CodeOf(err) != rig.CodeBackendFailure {
		t.Errorf("with KVM, without a device: %v", err)
	}
}

// Root's server runs machines as somebody else.
func TestAsOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("the other tests run as an ordinary user already")
	}
	const nobody = 65534
	l := testenv.Layout(t)
	dir, _ := testenv.Template(t, l)
	cfg := testenv.Rig(t, l, dir)
	for _, d := range []string{cfg.RuntimeDir, cfg.DiskDir} {
		if err := os.Chown(d, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	if cfg.Template = copyTemplate(t, dir, nobody); t.Failed() {
		return
	}
	k := testenv.StartAs(t, cfg, &syscall.Credential{Uid: nobody, Gid: nobody})
	if e := k.Phase(rig.Ready); e.Boot != "clone" {
		t.Errorf("boot %q, want clone", e.Boot)
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", k.Status().QEMUPID))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Uid:\t65534\t65534\t65534\t65534\n", "Groups:\t \n", "Seccomp:\t2\n", "NoNewPrivs:\t1\n"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("QEMU's status lacks %q:\n%s", want, b)
		}
	}
	k.Shell("true")
}

// copyTemplate gives a user a template of his own: the shared one may be
// another's, whose memory file an old QEMU could not open.
func copyTemplate(t *testing.T, dir string, uid int) string {
	t.Helper()
	to := testenv.TempDir(t)
	if err := os.Chmod(to, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"memory", "state", "disk.qcow2"} {
		copySparse(t, filepath.Join(dir, name), filepath.Join(to, name))
		if err := os.Chown(filepath.Join(to, name), uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

func copySparse(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const block = 1 << 16
	zero := string(make([]byte, block))
	for off := 0; off < len(b); off += block {
		part := b[off:min(off+block, len(b))]
		if string(part) == zero {
			continue
		}
		if _, err := f.WriteAt(part, int64(off)); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Truncate(int64(len(b))); err != nil {
		t.Fatal(err)
	}
}
