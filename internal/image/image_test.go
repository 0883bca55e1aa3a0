package image

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"rigs/internal/image/kernel"
	"rigs/internal/image/kernel/kerneltest"
	"rigs/internal/paths"
	"rigs/internal/rig"
)

const definitionYAML = "description: for tests\nsurfaces: [terminal]\npackages: [bash]\n"

// mill stands in for mmdebstrap: it makes trees and kernel packages without a network.
type mill struct {
	t      *testing.T
	images atomic.Int32 // how often an image was made, and a kernel
	kernel atomic.Int32
	extra  atomic.Value // string: content of a file that makes a build differ
	fail   error
	began  chan struct{} // closed by the first run, which then waits for its context, if set
}

func (m *mill) make(ctx context.Context, r makeRequest) error {
	report(r.progress, rig.Step{Text: "Make"})
	if m.began != nil {
		close(m.began)
		<-ctx.Done()
		return ctx.Err()
	}
	tw := tar.NewWriter(r.out)
	put := func(name, content string, mode int64) error {
		if err := tw.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: mode, Size: int64(len(content)), ModTime: time.Unix(1, 0)}); err != nil {
			return err
		}
		_, err := io.WriteString(tw, content)
		return err
	}
	if r.kernel != "" {
		n := m.kernel.Add(1)
		elf := "\x7fELF\x02\x01\x01" + strings.Repeat("kernel ", 1000) + strings.Repeat("x", int(n))
		deb := kerneltest.Package(m.t, "6.1.0-1-cloud-amd64", []byte(elf), []string{"virtio_blk", "overlay"}, unused("virtio_blk", "overlay"))
		if err := put("./kernel/linux-image-6.1.0-1-cloud-amd64_6.1_amd64.deb", string(deb), 0o644); err != nil {
			return err
		}
	} else {
		m.images.Add(1)
		if err := put("./etc/apt/sources.list", "deb [signed-by=/x] http://mirror.example/debian bookworm main\n", 0o644); err != nil {
			return err
		}
		extra, _ := m.extra.Load().(string)
		for _, f := range [][2]string{{"./etc/extra", extra}, {"./usr/bin/sudo", strings.Repeat("sudo", 50_000)}} {
			if err := put(f[0], f[1], 0o4755); err != nil {
				return err
			}
		}
	}
	if m.fail != nil {
		return m.fail
	}
	return tw.Close()
}

// unused are the wanted modules but those named.
func unused(loadable ...string) []string {
	return slices.DeleteFunc(slices.Clone(kernel.Wanted), func(n string) bool { return slices.Contains(loadable, n) })
}

type bench struct {
	*Store
	mill  *mill
	guest string
	cache string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin")
	dir := t.TempDir()
	b := &bench{mill: &mill{t: t}, guest: filepath.Join(dir, "rigs-guest"), cache: filepath.Join(dir, "cache")}
	if err := os.WriteFile(b.guest, []byte("\x7fELF guest"), 0o755); err != nil {
		t.Fatal(err)
	}
	b.Store = b.another(t)
	return b
}

// another returns a store of the same cache, as another process would have it.
func (b *bench) another(t *testing.T) *Store {
	t.Helper()
	l, err := paths.New(filepath.Dir(b.cache))
	if err != nil {
		t.Fatal(err)
	}
	if l, err = l.WithCache(b.cache); err != nil {
		t.Fatal(err)
	}
	s := NewStore(l)
	s.defs = fstest.MapFS{"terminal.yaml": {Data: []byte(definitionYAML)}, "small.yaml": {Data: []byte(definitionYAML)}}
	s.make = b.mill.make
	return s
}

func (b *bench) build(t *testing.T, opt BuildOptions) Image {
	t.Helper()
	img, err := b.Build(t.Context(), "terminal", opt, nil)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func (b *bench) boot(img Image) (Boot, error) {
	return b.Boot(context.Background(), img, rig.Terminal, 64, b.guest, nil)
}

func (b *bench) listing(t *testing.T, name string) Listing {
	t.Helper()
	list, err := b.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(list, func(l Listing) bool { return l.Name == name })
	if i < 0 {
		t.Fatalf("no %s in %+v", name, list)
	}
	return list[i]
}

// leftovers are what a failed or finished change must not leave.
func (b *bench) leftovers(t *testing.T) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(b.cache, func(path string, _ fs.DirEntry, err error) error {
		if strings.HasPrefix(filepath.Base(path), "tmp-") || strings.HasSuffix(path, ".tmp") || filepath.Base(path) == "spool" {
			found = append(found, path)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return found
}

func TestBuildThenBoot(t *testing.T) {
	b := newBench(t)
	if l := b.listing(t, "terminal"); l.State != StateMissing || !l.Default || l.Digest != "" || !strings.Contains(l.Detail, "rigs image build terminal") {
		t.Errorf("before: %+v", l)
	}
	if l := b.listing(t, "small"); l.Default {
		t.Error("an image that is not named after its surface is the default")
	}
	var steps []string
	img, err := b.Build(t.Context(), "terminal", BuildOptions{}, func(s rig.Step) { steps = append(steps, s.Text) })
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Make", "Write the file system", "Fetch the kernel", "Unpack the kernel"} {
		if !slices.Contains(steps, want) {
			t.Errorf("steps %q do not say %q", steps, want)
		}
	}
	if !slices.Equal(img.AptHosts, []string{"mirror.example"}) || !slices.Equal(img.Surfaces, []rig.Surface{rig.Terminal}) || img.SizeBytes == 0 || time.Since(img.CreatedAt) > time.Hour {
		t.Errorf("image %+v", img)
	}
	if l := b.listing(t, "terminal"); l.State != StateReady || l.Digest != img.Digest || l.SizeBytes != img.SizeBytes || l.Detail != "" {
		t.Errorf("after: %+v", l)
	}
	first, err := b.boot(img)
	if err != nil {
		t.Fatal(err)
	}
	files := first.Files
	for _, f := range []string{files.Kernel, files.Initrd, files.RootFS, files.Blank} {
		fi, err := os.Stat(f)
		if err != nil || fi.Mode().Perm() != 0o644 {
			t.Errorf("%s: %v, %v: the machine's user must be able to read it", f, fi, err)
		}
		for dir := filepath.Dir(f); dir != b.cache; dir = filepath.Dir(dir) {
			if fi, err := os.Stat(dir); err != nil || fi.Mode().Perm() != 0o755 {
				t.Errorf("%s: %v, %v: the machine's user must be able to enter it", dir, fi, err)
			}
		}
	}
	if fi, err := os.Stat(files.Blank); err != nil || fi.Size() != 64<<20 || fi.Sys().(*syscall.Stat_t).Blocks*512 > 2<<20 {
		t.Errorf("the empty file system: %+v, %v; want 64 MB that take little", fi, err)
	}
	if files.RootFSType != "ext4" || len(first.Digests) != 5 {
		t.Errorf("boot %+v", first)
	}
	again, err := b.another(t).Boot(t.Context(), img, rig.Terminal, 64, b.guest, nil)
	if err != nil || !slices.Equal(first.Digests, again.Digests) || first.Files != again.Files {
		t.Errorf("the second boot: %+v, %v; want the same as the first %+v", again, err, first)
	}
	if n := b.mill.images.Load(); n != 1 {
		t.Errorf("the image was made %d times", n)
	}
	if left := b.leftovers(t); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

func TestDigestsFollowWhatTheyStandFor(t *testing.T) {
	b := newBench(t)
	img := b.build(t, BuildOptions{})
	boot := func(mb int) []string {
		t.Helper()
		r, err := b.Boot(t.Context(), img, rig.Terminal, mb, b.guest, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r.Digests
	}
	before := boot(64)
	if err := os.WriteFile(b.guest, []byte("\x7fELF new guest"), 0o755); err != nil {
		t.Fatal(err)
	}
	if after := boot(64); slices.Equal(before, after) {
		t.Error("another guest binary, the same digests")
	}
	if a, z := boot(64), boot(128); slices.Equal(a, z) {
		t.Error("another disk, the same digests")
	}
}

// The image is an OCI layout that other tools read.
func TestStoreIsAnOCILayout(t *testing.T) {
	b := newBench(t)
	img := b.build(t, BuildOptions{})
	idx, err := layout.ImageIndexFromPath(b.images)
	if err != nil {
		t.Fatal(err)
	}
	h, err := v1.NewHash(img.Digest)
	if err != nil {
		t.Fatal(err)
	}
	oci, err := idx.Image(h)
	if err != nil {
		t.Fatal(err)
	}
	m, err := oci.Manifest()
	if err != nil || len(m.Layers) != 1 {
		t.Fatalf("manifest %+v, %v", m, err)
	}
	layers, err := oci.Layers()
	if err != nil {
		t.Fatal(err)
	}
	r, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	diff, _, err := v1.SHA256(r)
	if want, werr := layers[0].DiffID(); err != nil || werr != nil || diff != want {
		t.Errorf("the layer unpacks to %s, %v; want %s, %v", diff, err, want, werr)
	}
	cfg, err := oci.ConfigFile()
	if err != nil || cfg.OS != "linux" || cfg.Architecture == "" || len(cfg.History) != 1 {
		t.Errorf("configuration %+v, %v", cfg, err)
	}
}

func TestBuildIsRepeatable(t *testing.T) {
	a, b := newBench(t), newBench(t)
	if x, y := a.build(t, BuildOptions{}), b.build(t, BuildOptions{}); x.Digest != y.Digest {
		t.Errorf("the same packages on the same day gave %s and %s", x.Digest, y.Digest)
	}
}

func TestBuildMakesOnlyWhatItMust(t *testing.T) {
	b := newBench(t)
	b.build(t, BuildOptions{})
	b.build(t, BuildOptions{})
	if n, k := b.mill.images.Load(), b.mill.kernel.Load(); n != 1 || k != 1 {
		t.Errorf("made %d images and %d kernels, want one each", n, k)
	}
	b.build(t, BuildOptions{NoCache: true})
	if n, k := b.mill.images.Load(), b.mill.kernel.Load(); n != 2 || k != 2 {
		t.Errorf("without cache: %d images and %d kernels, want two each", n, k)
	}
	b.defs = fstest.MapFS{"terminal.yaml": {Data: []byte(definitionYAML + "# changed\n")}}
	if l := b.listing(t, "terminal"); l.State != StateReady || !strings.Contains(l.Detail, "has changed") {
		t.Errorf("with a changed definition: %+v", l)
	}
	b.build(t, BuildOptions{})
	if n := b.mill.images.Load(); n != 3 {
		t.Errorf("a changed definition was not built: %d images", n)
	}
}

func TestTwoProcessesBuildOnce(t *testing.T) {
	b := newBench(t)
	var wg sync.WaitGroup
	var digests [3]string
	for i := range digests {
		s := b.another(t)
		wg.Go(func() {
			img, err := s.Build(context.Background(), "terminal", BuildOptions{}, nil)
			if err != nil {
				t.Error(err)
			}
			digests[i] = img.Digest
		})
	}
	wg.Wait()
	if n, k := b.mill.images.Load(), b.mill.kernel.Load(); n != 1 || k != 1 || digests[0] != digests[1] || digests[1] != digests[2] {
		t.Errorf("made %d images and %d kernels: %v", n, k, digests)
	}
}

// flip changes one byte in the middle of a file and nothing else about it that a program can put back.
func flip(t *testing.T, path string) {
	t.Helper()
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var c [1]byte
	if _, err := f.ReadAt(c[:], fi.Size()/2); err != nil {
		t.Fatal(err)
	}
	c[0] ^= 0x10
	if _, err := f.WriteAt(c[:], fi.Size()/2); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, fi.ModTime(), fi.ModTime()); err != nil {
		t.Fatal(err)
	}
}

func TestDamageIsRefusedAndMadeGood(t *testing.T) {
	cases := map[string]struct {
		file   func(b *bench, img Image, boot Boot) string
		listed bool // the listing says so too
	}{
		"a byte of the file system": {func(_ *bench, _ Image, boot Boot) string { return boot.Files.RootFS }, true},
		"what the copy is of": {func(_ *bench, _ Image, boot Boot) string {
			return filepath.Join(filepath.Dir(boot.Files.RootFS), metaFile)
		}, true},
		"the copy's seal": {func(_ *bench, _ Image, boot Boot) string {
			return filepath.Join(filepath.Dir(boot.Files.RootFS), "seal.json")
		}, true},
		"a byte of the kernel": {func(_ *bench, _ Image, boot Boot) string { return boot.Files.Kernel }, false},
		"a byte of a module": {func(_ *bench, _ Image, boot Boot) string {
			return filepath.Join(filepath.Dir(boot.Files.Kernel), "overlay.ko")
		}, false},
		"the list of modules": {func(_ *bench, _ Image, boot Boot) string {
			return filepath.Join(filepath.Dir(boot.Files.Kernel), kernelFile)
		}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			img := b.build(t, BuildOptions{})
			boot, err := b.boot(img)
			if err != nil {
				t.Fatal(err)
			}
			path := c.file(b, img, boot)
			flip(t, path)
			for range 2 { // the second time nothing is new, and it is refused all the same
				_, err = b.boot(img)
				if rig.CodeOf(err) != rig.CodeIntegrity || !strings.Contains(err.Error(), filepath.Dir(path)) || !strings.Contains(err.Error(), "rigs image build terminal") {
					t.Fatalf("boot: %v; want integrity, where and what helps", err)
				}
			}
			if l := b.listing(t, "terminal"); c.listed && (l.State != StateCorrupt || l.Detail == "") {
				t.Errorf("listed as %+v", l)
			}
			img = b.build(t, BuildOptions{})
			if _, err := b.boot(img); err != nil {
				t.Errorf("after a build: %v", err)
			}
			if n := b.mill.images.Load(); n != 1 {
				t.Errorf("the packages were installed again (%d), though the layer is sound", n)
			}
		})
	}
}

func TestDamagedBlobsAreRefusedAndBuiltAgain(t *testing.T) {
	blob := func(t *testing.T, b *bench, img Image, pick func(m *v1.Manifest, digest v1.Hash) v1.Hash) string {
		h, err := v1.NewHash(img.Digest)
		if err != nil {
			t.Fatal(err)
		}
		m, err := b.oci.manifest(h)
		if err != nil {
			t.Fatal(err)
		}
		return b.oci.blob(pick(m, h))
	}
	cases := map[string]func(m *v1.Manifest, digest v1.Hash) v1.Hash{
		"manifest":      func(_ *v1.Manifest, d v1.Hash) v1.Hash { return d },
		"configuration": func(m *v1.Manifest, _ v1.Hash) v1.Hash { return m.Config.Digest },
		"layer":         func(m *v1.Manifest, _ v1.Hash) v1.Hash { return m.Layers[0].Digest },
	}
	for name, pick := range cases {
		for _, how := range []string{"changed", "gone"} {
			t.Run(name+" "+how, func(t *testing.T) {
				b := newBench(t)
				img := b.build(t, BuildOptions{})
				path := blob(t, b, img, pick)
				if how == "gone" {
					if err := os.Remove(path); err != nil {
						t.Fatal(err)
					}
				} else {
					flip(t, path)
				}
				// The flattened copy is made of the blobs, so without it they are needed.
				if err := os.RemoveAll(filepath.Join(b.images, "rootfs")); err != nil {
					t.Fatal(err)
				}
				if _, err := b.boot(img); err == nil {
					t.Error("booted from damaged blobs")
				} else if rig.CodeOf(err) != rig.CodeIntegrity {
					t.Errorf("boot: %s %v", rig.CodeOf(err), err)
				}
				if left := b.leftovers(t); left != nil {
					t.Errorf("left behind: %v", left)
				}
				img = b.build(t, BuildOptions{})
				if _, err := b.boot(img); err != nil {
					t.Errorf("after a build: %v", err)
				}
				if l := b.listing(t, "terminal"); l.State != StateReady {
					t.Errorf("listed as %+v", l)
				}
			})
		}
	}
}

// What is made here of verified parts is simply made again.
func TestDamagedInitramfsAndBlankAreMadeAgain(t *testing.T) {
	b := newBench(t)
	img := b.build(t, BuildOptions{})
	want, err := b.boot(img)
	if err != nil {
		t.Fatal(err)
	}
	sound := map[string]string{}
	for _, path := range []string{want.Files.Initrd, want.Files.Blank} {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		sound[path] = string(data)
	}
	for path, content := range sound {
		flip(t, path)
		got, err := b.boot(img)
		if err != nil || !slices.Equal(got.Digests, want.Digests) {
			t.Errorf("%s: %+v, %v", filepath.Base(path), got, err)
		}
		if data, err := os.ReadFile(path); err != nil || string(data) != content {
			t.Errorf("%s was not made again: %v", filepath.Base(path), err)
		}
	}
}

// A copy of another image under this image's name is sound in itself.
func TestACopyOfAnotherImageIsRefused(t *testing.T) {
	b := newBench(t)
	old := b.build(t, BuildOptions{})
	b.mill.extra.Store("other")
	img := b.build(t, BuildOptions{NoCache: true})
	root := filepath.Join(b.images, "rootfs")
	hex := func(i Image) string { return filepath.Join(root, strings.TrimPrefix(i.Digest, "sha256:")) }
	if err := os.RemoveAll(hex(img)); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(hex(old), hex(img)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.boot(img); rig.CodeOf(err) != rig.CodeIntegrity {
		t.Errorf("boot: %v", err)
	}
}

func TestUnpinnedImagesAreRefused(t *testing.T) {
	b := newBench(t)
	img := b.build(t, BuildOptions{})
	for _, digest := range []string{"", "latest", "sha256:abc", "md5:0123456789abcdef0123456789abcdef"} {
		img.Digest = digest
		if _, err := b.boot(img); rig.CodeOf(err) != rig.CodeIntegrity {
			t.Errorf("digest %q: %v", digest, err)
		}
	}
	img.Digest = "sha256:" + strings.Repeat("0", 64)
	if _, err := b.boot(img); !errors.Is(err, ErrNotBuilt) {
		t.Errorf("an unknown digest: %v", err)
	}
}

func TestResolve(t *testing.T) {
	b := newBench(t)
	img := b.build(t, BuildOptions{})
	for _, ref := range []string{"terminal", img.Ref()} {
		if got, err := b.Resolve(t.Context(), ref); err != nil || got.Ref() != img.Ref() {
			t.Errorf("Resolve(%s) = %+v, %v", ref, got, err)
		}
	}
	zeros := "@sha256:" + strings.Repeat("0", 64)
	cases := map[string]struct {
		code     rig.Code
		notBuilt bool
	}{
		"":                    {rig.CodeInvalidRequest, false},
		"../terminal":         {rig.CodeInvalidRequest, false},
		"--help":              {rig.CodeInvalidRequest, false},
		"terminal@":           {rig.CodeInvalidRequest, false},
		"terminal@latest":     {rig.CodeInvalidRequest, false},
		"terminal@sha256:xyz": {rig.CodeInvalidRequest, false},
		"terminal@sha512:" + strings.Repeat("0", 128): {rig.CodeInvalidRequest, false},
		"nosuch":           {rig.CodeNotFound, false},
		"nosuch" + zeros:   {rig.CodeNotFound, false},
		"small":            {rig.CodeUnavailable, true},
		"terminal" + zeros: {rig.CodeNotFound, true},
	}
	for ref, c := range cases {
		_, err := b.Resolve(t.Context(), ref)
		if err == nil || rig.CodeOf(err) != c.code || errors.Is(err, ErrNotBuilt) != c.notBuilt {
			t.Errorf("Resolve(%q): %s %v", ref, rig.CodeOf(err), err)
		}
	}
}

func TestTheImageBeforeStaysAndThoseBeforeItGo(t *testing.T) {
	b := newBench(t)
	var imgs []Image
	for i := range 3 {
		b.mill.extra.Store(fmt.Sprint("build ", i))
		imgs = append(imgs, b.build(t, BuildOptions{NoCache: true}))
	}
	for i, img := range imgs {
		_, err := b.Resolve(t.Context(), img.Ref())
		_, berr := b.boot(img)
		if gone := i == 0; errors.Is(err, ErrNotBuilt) != gone || (berr != nil) != gone {
			t.Errorf("build %d: %v, %v", i, err, berr)
		}
	}
	count := func(pattern string) int {
		m, err := filepath.Glob(filepath.Join(b.cache, pattern))
		if err != nil {
			t.Fatal(err)
		}
		return len(m)
	}
	if n := count("images/blobs/sha256/*"); n != 6 {
		t.Errorf("%d blobs, want those of two images", n)
	}
	if n := count("images/rootfs/*"); n != 2 {
		t.Errorf("%d flattened copies, want two", n)
	}
	if n := count("kernels/sha256-*"); n != 2 {
		t.Errorf("%d kernels, want this one and the one before", n)
	}
	if err := b.Remove(t.Context(), "terminal"); err != nil {
		t.Fatal(err)
	}
	if n, m := count("images/blobs/sha256/*"), count("images/rootfs/*"); n != 0 || m != 0 {
		t.Errorf("after removal: %d blobs, %d copies", n, m)
	}
	if err := b.Remove(t.Context(), "terminal"); rig.CodeOf(err) != rig.CodeNotFound || !errors.Is(err, ErrNotBuilt) {
		t.Errorf("removed twice: %v", err)
	}
	if err := b.Remove(t.Context(), "nosuch"); rig.CodeOf(err) != rig.CodeNotFound {
		t.Errorf("removing an unknown one: %v", err)
	}
	if l := b.listing(t, "terminal"); l.State != StateMissing {
		t.Errorf("listed as %+v", l)
	}
}

// A build that gives the same bytes replaces nothing, so it must not push out what was before.
func TestTheSameBuildAgainReplacesNothing(t *testing.T) {
	b := newBench(t)
	b.mill.extra.Store("first")
	first := b.build(t, BuildOptions{})
	b.mill.extra.Store("second")
	second := b.build(t, BuildOptions{NoCache: true})
	if again := b.build(t, BuildOptions{NoCache: true}); again.Digest != second.Digest {
		t.Fatalf("the same build gave %s and %s", second.Digest, again.Digest)
	}
	for _, img := range []Image{first, second} {
		if _, err := b.Resolve(t.Context(), img.Ref()); err != nil {
			t.Error(err)
		}
	}
	b.mill.extra.Store("first") // and back
	b.build(t, BuildOptions{NoCache: true})
	for _, img := range []Image{first, second} {
		if _, err := b.Resolve(t.Context(), img.Ref()); err != nil {
			t.Error(err)
		}
	}
	if got, err := b.Resolve(t.Context(), "terminal"); err != nil || got.Digest != first.Digest {
		t.Errorf("terminal is %s, %v; want %s", got.Digest, err, first.Digest)
	}
}

func TestFailedBuildsLeaveNothing(t *testing.T) {
	cases := map[string]struct {
		fail error
		code rig.Code
	}{
		"a full disk": {fmt.Errorf("write: %w", syscall.ENOSPC), rig.CodeCapacity},
		"no network":  {rig.Errorf(rig.CodeUnavailable, "no network"), rig.CodeUnavailable},
		"other":       {errors.New("odd"), rig.CodeInternal},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.mill.fail = c.fail
			_, err := b.Build(t.Context(), "terminal", BuildOptions{}, nil)
			if rig.CodeOf(err) != c.code || !errors.Is(err, c.fail) || !strings.Contains(err.Error(), "build image terminal") {
				t.Errorf("%s: %v", rig.CodeOf(err), err)
			}
			if left := b.leftovers(t); left != nil {
				t.Errorf("left behind: %v", left)
			}
			if l := b.listing(t, "terminal"); l.State != StateMissing {
				t.Errorf("listed as %+v", l)
			}
			b.mill.fail = nil
			b.build(t, BuildOptions{})
			b.mill.fail = c.fail
			if _, err := b.Build(t.Context(), "terminal", BuildOptions{NoCache: true}, nil); err == nil {
				t.Fatal("built")
			}
			if l := b.listing(t, "terminal"); l.State != StateReady {
				t.Errorf("a failed build took the image that was there: %+v", l)
			}
		})
	}
}

func TestACanceledBuildLeavesNothing(t *testing.T) {
	b := newBench(t)
	b.mill.began = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-b.mill.began
		cancel()
	}()
	if _, err := b.Build(ctx, "terminal", BuildOptions{}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if left := b.leftovers(t); left != nil {
		t.Errorf("left behind: %v", left)
	}
	b.mill.began = nil
	b.build(t, BuildOptions{})
}

func TestWaitingForAnotherBuildEndsWithItsContext(t *testing.T) {
	b := newBench(t)
	release, err := lock(t.Context(), b.images, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	ctx, cancel := context.WithCancel(t.Context())
	var said string
	_, err = b.another(t).Build(ctx, "terminal", BuildOptions{}, func(s rig.Step) {
		said = s.Text
		cancel()
	})
	if !errors.Is(err, context.Canceled) || !strings.Contains(said, "Wait for another") {
		t.Errorf("%v, said %q", err, said)
	}
}

func TestWhatACrashLeftIsRemoved(t *testing.T) {
	b := newBench(t)
	for _, dir := range []string{b.images, b.kernels, filepath.Join(b.images, "rootfs")} {
		if err := os.MkdirAll(filepath.Join(dir, "tmp-123", "sub"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	b.build(t, BuildOptions{})
	if left := b.leftovers(t); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

func TestBootOfOtherSurfacesAndBadInput(t *testing.T) {
	b := newBench(t)
	img := b.build(t, BuildOptions{})
	boot := func(s rig.Surface, mb int, guest string) error {
		_, err := b.Boot(t.Context(), img, s, mb, guest, nil)
		return err
	}
	if err := boot(rig.Desktop, 256, b.guest); rig.CodeOf(err) != rig.CodeUnavailable {
		t.Errorf("a desktop: %v", err)
	}
	for _, mb := range []int{0, -1, 63, 1<<20 + 1} {
		if err := boot(rig.Terminal, mb, b.guest); rig.CodeOf(err) != rig.CodeInvalidRequest {
			t.Errorf("a disk of %d MB: %v", mb, err)
		}
	}
	if err := boot(rig.Terminal, 64, b.guest+"x"); rig.CodeOf(err) != rig.CodeUnavailable || !strings.Contains(err.Error(), "RIGS_GUEST") {
		t.Errorf("no guest binary: %v", err)
	}
	script := filepath.Join(t.TempDir(), "guest")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := boot(rig.Terminal, 256, script); err == nil || !strings.Contains(err.Error(), "not a Linux program") {
		t.Errorf("a script for a guest binary: %v", err)
	}
	if left := b.leftovers(t); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

func TestBuildOfAnUnknownImage(t *testing.T) {
	b := newBench(t)
	_, err := b.Build(t.Context(), "nosuch", BuildOptions{}, nil)
	if rig.CodeOf(err) != rig.CodeNotFound || !strings.Contains(err.Error(), "terminal") {
		t.Errorf("%v; want one that lists what there is", err)
	}
	if _, err := os.Stat(b.cache); err == nil {
		t.Error("a refused build made the cache")
	}
}

func TestADamagedIndexIsAnErrorThatNamesIt(t *testing.T) {
	b := newBench(t)
	b.build(t, BuildOptions{})
	if err := os.WriteFile(filepath.Join(b.images, "index.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Resolve(t.Context(), "terminal"); err == nil || !strings.Contains(err.Error(), "index.json") {
		t.Errorf("%v", err)
	}
}

func TestDefinitionsAreStrict(t *testing.T) {
	for name, yaml := range map[string]string{
		"unknown key":     definitionYAML + "packges: [git]\n",
		"unknown surface": "surfaces: [terminl]\npackages: [bash]\n",
		"no packages":     "surfaces: [terminal]\n",
		"no surfaces":     "packages: [bash]\n",
		"not a mapping":   "- bash\n",
		"empty":           "",
		"key twice":       definitionYAML + "packages: [git]\n",
	} {
		if _, err := parseDefinition("x", []byte(yaml)); err == nil || !strings.Contains(err.Error(), "image definition x") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := parseDefinition("-x", []byte(definitionYAML)); err == nil {
		t.Error("a name like a flag was taken")
	}
}

func TestOurOwnDefinitionsAreSound(t *testing.T) {
	l, err := paths.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := NewStore(l)
	list, err := s.List(t.Context())
	if err != nil || len(list) == 0 {
		t.Fatalf("%v, %v", list, err)
	}
	name, err := s.Default(rig.Terminal)
	if err != nil || name != "terminal" {
		t.Errorf("a terminal boots %q, %v", name, err)
	}
	if data, err := json.Marshal(list[0]); err != nil || strings.Contains(string(data), "createdAt") {
		t.Errorf("an image that is not built has a time: %s, %v", data, err)
	}
}

func TestHostsOfSources(t *testing.T) {
	const sources = `# deb http://commented.example/debian bookworm main
deb [signed-by=/usr/share/keyrings/x.gpg] http://One.example:8080/debian/ bookworm main
deb https://two.example/debian-security bookworm-security main # http://three.example/
deb cdrom:[Debian]/ bookworm main
Types: deb
URIs: http://four.example/debian http://five.example/
`
	want := []string{"one.example", "two.example", "four.example", "five.example"}
	if got := hostsOf(sources); !slices.Equal(got, want) {
		t.Errorf("hosts %v, want %v", got, want)
	}
}
