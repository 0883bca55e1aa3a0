// Package testenv gives tests the real thing: the terminal image, its kernel, a
// template, and rigs with their keepers, as a server would start them.
//
// What can be made again is kept in one cache for all suites and all runs:
// RIGS_TEST_CACHE, or else /var/cache/rigs-test for root and ~/.cache/rigs-test
// for others. The first test that needs something makes it, others wait.
//
// A test binary that uses Keeper must call Main from its TestMain: the keeper is
// the test binary itself.
package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"rigs/internal/host"
	"rigs/internal/image"
	"rigs/internal/keeper"
	"rigs/internal/keeperapi"
	"rigs/internal/paths"
	"rigs/internal/rig"
	"rigs/internal/template"
)

// keeperArg makes a test binary a keeper.
const keeperArg = "keeper"

// Main runs the tests, or a keeper when the test binary was started as one.
func Main(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == keeperArg {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
		code := keeper.Main(ctx, os.Stdin, os.Stdout)
		stop()
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// CacheDir is the cache of all suites.
func CacheDir() (string, error) {
	if d := os.Getenv("RIGS_TEST_CACHE"); d != "" {
		return filepath.Abs(d)
	}
	if os.Getuid() == 0 {
		return "/var/cache/rigs-test", nil
	}
	d, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache for tests: %w: set RIGS_TEST_CACHE", err)
	}
	return filepath.Join(d, "rigs-test"), nil
}

// Layout returns the paths of a fresh data directory with the shared cache. The directory
// has a short name, for sockets, and is removed at the end.
func Layout(t testing.TB) paths.Layout {
	t.Helper()
	cache, err := CacheDir()
	must(t, err)
	must(t, os.MkdirAll(cache, 0o755))
	l, err := paths.New(TempDir(t))
	must(t, err)
	l, err = l.WithCache(cache)
	must(t, err)
	return l
}

// TempDir makes a directory with a short name that is removed at the end.
func TempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rigs")
	must(t, err)
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// NeedMachines skips a test where no machine can run: on another system, or
// without QEMU.
func NeedMachines(t testing.TB) host.QEMU {
	t.Helper()
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("machines run on linux/amd64 only")
	}
	q, err := host.FindQEMU(t.Context())
	if err != nil {
		t.Skip(err)
	}
	return q
}

var guest struct {
	once sync.Once
	path string
	err  error
}

// Guest returns the guest binary: RIGS_GUEST, or built from this tree into the
// cache.
func Guest(t testing.TB) string {
	t.Helper()
	guest.once.Do(func() { guest.path, guest.err = buildGuest(t.Context()) })
	must(t, guest.err)
	return guest.path
}

func buildGuest(ctx context.Context) (string, error) {
	if p := os.Getenv("RIGS_GUEST"); p != "" {
		return filepath.Abs(p)
	}
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "guest")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	// Each process builds its own and puts it in place in one step; the same
	// sources give the same bytes.
	tmp := filepath.Join(dir, fmt.Sprintf(".rigs-guest.%d", os.Getpid()))
	defer os.Remove(tmp) //nolint:errcheck // gone when all went well
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", tmp, "rigs/cmd/rigs-guest")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build rigs-guest: %w: %s", err, out)
	}
	path := filepath.Join(dir, "rigs-guest")
	return path, os.Rename(tmp, path)
}

// Machine is a terminal's, as small as the template's.
func Machine(t testing.TB, l paths.Layout) keeperapi.Machine {
	t.Helper()
	q := NeedMachines(t)
	khz, err := host.TSCKHz(t.Context(), l)
	must(t, err)
	r := rig.Terminal.Defaults()
	return keeperapi.Machine{
		Surface: rig.Terminal, Accel: "tcg", QEMU: q.Path, QEMUVersion: q.Text,
		MemoryMB: r.MemoryMB, VCPUs: r.VCPUs, DiskMB: r.DiskMB, TSCKHz: khz,
	}
}

// buildTimeout is for an image whose packages come over the network.
const buildTimeout = 15 * time.Minute

// Boot returns what the terminal image boots from, built on first use.
func Boot(t testing.TB, l paths.Layout) (image.Boot, image.Image) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), buildTimeout)
	defer cancel()
	s := image.NewStore(l)
	img, err := s.Resolve(ctx, string(rig.Terminal))
	if errors.Is(err, image.ErrNotBuilt) {
		img, err = s.Build(ctx, string(rig.Terminal), image.BuildOptions{}, logStep(t))
	}
	must(t, err)
	b, err := s.Boot(ctx, img, rig.Terminal, rig.Terminal.Defaults().DiskMB, Guest(t), logStep(t))
	must(t, err)
	return b, img
}

func logStep(t testing.TB) func(rig.Step) {
	last := ""
	return func(s rig.Step) {
		if s.Text != last {
			t.Log(s.Text)
			last = s.Text
		}
	}
}

// templateTimeout is for a busy host that emulates.
const templateTimeout = 5 * time.Minute

// Template returns the directory and key of the terminal's template, made on first use.
func Template(t testing.TB, l paths.Layout) (dir, key string) {
	t.Helper()
	b, img := Boot(t, l)
	in := template.Inputs{Machine: Machine(t, l), Digests: b.Digests, Surface: rig.Terminal, Image: img.Ref()}
	key = template.Key(in)
	ctx, cancel := context.WithTimeout(t.Context(), templateTimeout)
	defer cancel()
	dir, err := template.NewStore(l).Make(ctx, key, in, func(ctx context.Context, dir string) error {
		return Task(ctx, t, keeperapi.Config{
			Mode: keeperapi.ModeTemplate, RigID: "template", Owner: "test/template",
			RuntimeDir: TempDir(t), DiskDir: TempDir(t), TemplateDir: dir, Machine: in.Machine, Boot: b.Files,
		})
	})
	must(t, err)
	return dir, key
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
