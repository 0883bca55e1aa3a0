package template

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"rigs/internal/keeperapi"
	"rigs/internal/paths"
	"rigs/internal/rig"
)

func inputs(change func(*Inputs)) Inputs {
	in := Inputs{
		Machine: keeperapi.Machine{Surface: rig.Terminal, Accel: "tcg", QEMU: "/usr/bin/qemu", QEMUVersion: "7.2.22 (Debian 1)", MemoryMB: 512, VCPUs: 2, DiskMB: 8192, TSCKHz: 2000000},
		Digests: []string{"sha256:a", "sha256:b"}, Surface: rig.Terminal, Image: "terminal@sha256:a",
	}
	if change != nil {
		change(&in)
	}
	return in
}

func TestKeyIsOfEverythingThatCounts(t *testing.T) {
	base := Key(inputs(nil))
	if !keyPattern.MatchString(base) || base != Key(inputs(nil)) {
		t.Errorf("key %q", base)
	}
	seen := map[string]string{base: "nothing"}
	for name, change := range map[string]func(*Inputs){
		"image":          func(in *Inputs) { in.Digests[0] = "sha256:c" },
		"order":          func(in *Inputs) { in.Digests[0], in.Digests[1] = in.Digests[1], in.Digests[0] },
		"QEMU's version": func(in *Inputs) { in.Machine.QEMUVersion = "7.2.23 (Debian 1)" },
		"QEMU's package": func(in *Inputs) { in.Machine.QEMUVersion = "7.2.22 (Debian 2)" },
		"accelerator":    func(in *Inputs) { in.Machine.Accel = "kvm" },
		"memory":         func(in *Inputs) { in.Machine.MemoryMB = 1024 },
		"processors":     func(in *Inputs) { in.Machine.VCPUs = 1 },
		"disk":           func(in *Inputs) { in.Machine.DiskMB = 4096 },
		"clock":          func(in *Inputs) { in.Machine.TSCKHz++ },
		"engine":         func(in *Inputs) { in.Engine = rig.Firefox },
		"host processor": func(in *Inputs) { in.Machine.Accel, in.CPU = "kvm", "another" },
	} {
		key := Key(inputs(change))
		if other, ok := seen[key]; ok {
			t.Errorf("another %s, the key of another %s", name, other)
		}
		seen[key] = name
	}
	for name, change := range map[string]func(*Inputs){
		"name of the image": func(in *Inputs) { in.Image = "other" },
		"path of QEMU":      func(in *Inputs) { in.Machine.QEMU = "/opt/qemu" },
		"host processor, which an emulated guest does not see": func(in *Inputs) { in.CPU = "another" },
	} {
		if Key(inputs(change)) != base {
			t.Errorf("another %s, another key", name)
		}
	}
}

func store(t *testing.T) (*Store, paths.Layout) {
	t.Helper()
	l, err := paths.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return NewStore(l), l
}

// fill writes what a keeper would.
func fill(_ context.Context, dir string) error {
	for name, size := range map[string]int{memoryFile: 1 << 20, stateFile: 5000, diskFile: 70000} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Repeat(name[:1], size)), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func TestMadeOnceAndFound(t *testing.T) {
	s, _ := store(t)
	in := inputs(nil)
	key := Key(in)
	if _, err := s.Lookup(t.Context(), key); !errors.Is(err, ErrMissing) {
		t.Fatal(err)
	}
	var made atomic.Int32
	var wg sync.WaitGroup
	for range 8 { // as different processes would: each takes the lock by itself
		wg.Go(func() {
			dir, err := s.Make(t.Context(), key, in, func(ctx context.Context, dir string) error {
				made.Add(1)
				return fill(ctx, dir)
			})
			if err != nil || filepath.Base(dir) != key {
				t.Errorf("%q, %v", dir, err)
			}
		})
	}
	wg.Wait()
	if made.Load() != 1 {
		t.Errorf("made %d times", made.Load())
	}
	list, err := s.List(t.Context())
	if err != nil || len(list) != 1 || list[0].State != "ready" || list[0].Image != in.Image || list[0].MemoryMB != 512 || list[0].SizeBytes < 1<<20 {
		t.Errorf("%+v, %v", list, err)
	}
	if err := s.Remove(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(t.Context(), key); rig.CodeOf(err) != rig.CodeNotFound {
		t.Errorf("removed twice: %v", err)
	}
	if _, err := s.Lookup(t.Context(), key); !errors.Is(err, ErrMissing) {
		t.Error(err)
	}
}

// A flipped byte in any of its files makes a template vanish, and be made again.
func TestDamagedIsRemoved(t *testing.T) {
	for _, name := range []string{memoryFile, stateFile, diskFile, manifestFile, "seal.json"} {
		t.Run(name, func(t *testing.T) {
			s, l := store(t)
			in := inputs(nil)
			key := Key(in)
			dir, err := s.Make(t.Context(), key, in, fill)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, name)
			if err := os.Chmod(path, 0o600); err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			b[len(b)/2] ^= 1
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Lookup(t.Context(), key); !errors.Is(err, ErrMissing) {
				t.Fatalf("Lookup: %v", err)
			}
			if _, err := os.Stat(l.Template(key)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("it is still there: %v", err)
			}
			if _, err := s.Make(t.Context(), key, in, fill); err != nil {
				t.Errorf("made again: %v", err)
			}
		})
	}
}

func TestFailureLeavesNothing(t *testing.T) {
	s, l := store(t)
	in := inputs(nil)
	key := Key(in)
	boom := errors.New("boom")
	for name, f := range map[string]func(context.Context, string) error{
		"fails": func(ctx context.Context, dir string) error { return errors.Join(fill(ctx, dir), boom) },
		"incomplete": func(_ context.Context, dir string) error {
			return os.WriteFile(filepath.Join(dir, memoryFile), nil, 0o600)
		},
	} {
		if _, err := s.Make(t.Context(), key, in, f); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	entries, err := os.ReadDir(l.Templates())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".lock") {
			t.Errorf("left: %s", e.Name())
		}
	}
}

func TestInterruptedIsSwept(t *testing.T) {
	s, l := store(t)
	key, busy := Key(inputs(nil)), Key(inputs(func(in *Inputs) { in.Machine.VCPUs = 1 }))
	for _, k := range []string{key, busy} {
		if err := os.MkdirAll(filepath.Join(l.Templates(), "."+k+".new"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	unlock, err := lock(t.Context(), filepath.Join(l.Templates(), "."+busy+".lock"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(l.Templates(), "."+key+".new")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("not swept: %v", err)
	}
	if _, err := os.Stat(filepath.Join(l.Templates(), "."+busy+".new")); err != nil {
		t.Errorf("swept while it was being made: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Make(ctx, busy, inputs(nil), fill); !errors.Is(err, context.Canceled) {
		t.Errorf("Make while another does: %v", err)
	}
	unlock()
}

func TestKeysThatAreNone(t *testing.T) {
	s, _ := store(t)
	for _, key := range []string{"", "..", "../x", strings.Repeat("A", 32), strings.Repeat("a", 33)} {
		if _, err := s.Lookup(t.Context(), key); !errors.Is(err, ErrMissing) {
			t.Errorf("Lookup(%q): %v", key, err)
		}
		if _, err := s.Make(t.Context(), key, inputs(nil), fill); err == nil {
			t.Errorf("Make(%q)", key)
		}
		if err := s.Remove(t.Context(), key); rig.CodeOf(err) != rig.CodeNotFound {
			t.Errorf("Remove(%q): %v", key, err)
		}
	}
}

func TestTheLeastRecentlyUsedGoWhenThereAreMany(t *testing.T) {
	s, l := store(t)
	var keys []string
	for i := range keepTemplates {
		in := inputs(func(in *Inputs) { in.Machine.MemoryMB = 512 + i })
		keys = append(keys, Key(in))
		dir, err := s.Make(t.Context(), Key(in), in, fill)
		if err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(time.Duration(i-100) * time.Hour)
		if err := os.Chtimes(dir, at, at); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Lookup(t.Context(), keys[0]); err != nil { // the oldest, used again
		t.Fatal(err)
	}
	in := inputs(nil)
	in.Machine.VCPUs = 1
	if _, err := s.Make(t.Context(), Key(in), in, fill); err != nil {
		t.Fatal(err)
	}
	for i, key := range keys {
		_, err := os.Stat(l.Template(key))
		if gone := errors.Is(err, os.ErrNotExist); gone != (i == 1) {
			t.Errorf("template %d: gone: %v", i, gone)
		}
	}
}
