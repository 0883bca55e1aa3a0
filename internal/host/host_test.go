package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rigs/internal/paths"
	"rigs/internal/rig"
)

func layout(t *testing.T) paths.Layout {
	t.Helper()
	l, err := paths.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestQEMUVersions(t *testing.T) {
	for out, want := range map[string]string{
		"QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)\nCopyright": "7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)",
		"QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)\n":                  "10.0.2 (Debian 1:10.0.2+ds-2)",
		"QEMU emulator version 8.2.2":                                            "8.2.2",
	} {
		if q, err := parseQEMU(out); err != nil || q.Text != want {
			t.Errorf("%q: %+v, %v", out, q, err)
		}
	}
	for _, out := range []string{"", "bash: no", "QEMU emulator version x.y", "QEMU emulator version 6.2.0"} {
		if q, err := parseQEMU(out); rig.CodeOf(err) != rig.CodeUnavailable {
			t.Errorf("%q: %+v, %v", out, q, err)
		}
	}
}

func TestFindQEMU(t *testing.T) {
	dir := t.TempDir()
	fake := filepath.Join(dir, "fake")
	write := func(script string) {
		if err := os.WriteFile(fake, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("RIGS_QEMU", fake)
	if _, err := FindQEMU(t.Context()); rig.CodeOf(err) != rig.CodeUnavailable || !strings.Contains(err.Error(), "apt install") {
		t.Errorf("none: %v", err)
	}
	write("echo 'QEMU emulator version 9.1.0'")
	if q, err := FindQEMU(t.Context()); err != nil || q.Path != fake || q.Version.Major != 9 {
		t.Errorf("%+v, %v", q, err)
	}
	write("echo 'a library is missing' >&2; exit 127")
	if _, err := FindQEMU(t.Context()); err == nil || !strings.Contains(err.Error(), "a library is missing") {
		t.Errorf("broken: %v", err)
	}
}

// The rate is measured once in a boot, and stays through the next.
func TestTSC(t *testing.T) {
	if !haveTSC {
		t.Skip("no time-stamp counter")
	}
	l := layout(t)
	a, err := TSCKHz(t.Context(), l)
	if err != nil || a < 100_000 {
		t.Fatalf("%d, %v", a, err)
	}
	if b, err := TSCKHz(t.Context(), l); err != nil || b != a {
		t.Errorf("%d, then %d, %v", a, b, err)
	}
	path := filepath.Join(l.Probes(), "tsc.json")
	near, far := a+a/1_000_000*20, a*2
	for kept, want := range map[int]bool{near: true, far: false} {
		if err := writeProbe(path, tscRecord{BootID: "another", CPU: CPU(), KHz: kept}); err != nil {
			t.Fatal(err)
		}
		got, err := TSCKHz(t.Context(), l)
		if err != nil || (got == kept) != want {
			t.Errorf("kept %d from an earlier boot, measured about %d: %d, %v", kept, a, got, err)
		}
	}
	if err := os.WriteFile(path, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := TSCKHz(t.Context(), l); err != nil || !within(a, got, 10*tscTolerance) {
		t.Errorf("after a damaged record: %d, %v", got, err)
	}
}

func TestProbe(t *testing.T) {
	device := filepath.Join(t.TempDir(), "kvm")
	if a, ok := withoutProbe(device); !ok || a.Name != "tcg" || a.Fix == "" {
		t.Errorf("no device: %+v, %v", a, ok)
	}
	if err := os.WriteFile(device, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ok := withoutProbe(device); ok {
		t.Error("a device that opens needs a probe")
	}
	l := layout(t)
	asked := 0
	answer := errors.New("it hung")
	p := Probing{Kernel: "k", Run: func(context.Context, string) error { asked++; return answer }}
	ask := func() Accel {
		t.Helper()
		a, err := probe(t.Context(), l, p, device)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	if a := ask(); a.Name != "tcg" || asked != 1 || !strings.Contains(a.Detail, "it hung") {
		t.Errorf("%+v, asked %d times", a, asked)
	}
	if a := ask(); a.Name != "tcg" || asked != 1 {
		t.Errorf("not remembered: %+v, asked %d times", a, asked)
	}
	answer = nil
	p.Kernel = "another"
	if a := ask(); a.Name != "kvm" || asked != 2 {
		t.Errorf("%+v, asked %d times", a, asked)
	}
	p.Fresh = true
	if ask(); asked != 3 {
		t.Errorf("asked %d times", asked)
	}
	p.Run, p.Fresh = nil, false
	if a := ask(); a.Name != "kvm" {
		t.Errorf("what is known counts: %+v", a)
	}
	p.Kernel = "unknown"
	if a := ask(); a.Name != "tcg" {
		t.Errorf("what is not known does not: %+v", a)
	}
	// A caller who leaves proves nothing about KVM.
	ctx, cancel := context.WithCancel(t.Context())
	p.Run = func(ctx context.Context, _ string) error { cancel(); <-ctx.Done(); return ctx.Err() }
	if _, err := probe(ctx, l, p, device); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if r, err := readAccel(filepath.Join(l.Probes(), "kvm.json")); err != nil || r.Key == probeKey(p) {
		t.Errorf("it was remembered: %+v, %v", r, err)
	}
}

func TestProbeIsBounded(t *testing.T) {
	device := filepath.Join(t.TempDir(), "kvm")
	if err := os.WriteFile(device, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := probe(t.Context(), layout(t), Probing{Run: func(ctx context.Context, _ string) error {
		if d, ok := ctx.Deadline(); !ok || time.Until(d) > ProbeTimeout {
			t.Errorf("deadline %v, %v", d, ok)
		}
		return nil
	}}, device)
	if err != nil {
		t.Error(err)
	}
}

func TestFacts(t *testing.T) {
	if n := meminfo(strings.NewReader("MemTotal:       24683520 kB\nMemAvailable:   1048576 kB\n"), "MemAvailable"); n != 1024 {
		t.Errorf("%d MB", n)
	}
	if n := meminfo(strings.NewReader("nonsense"), "MemTotal"); n != 0 {
		t.Errorf("%d MB", n)
	}
	const info = "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: A CPU @ 2 GHz\nstepping\t: 1\n\nprocessor\t: 1\nvendor_id\t: other\n"
	if s := cpuName(strings.NewReader(info)); s != "GenuineIntel A CPU @ 2 GHz 1" {
		t.Errorf("%q", s)
	}
	dir := t.TempDir()
	if a, b := DiskFreeMB(dir), DiskFreeMB(filepath.Join(dir, "not", "yet")); a == 0 || b == 0 {
		t.Errorf("%d MB, %d MB", a, b)
	}
}
