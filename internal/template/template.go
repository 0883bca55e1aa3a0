// Package template keeps frozen machines on disk, one directory for each, named by
// a key of everything that the machine depends on.
//
// # What it promises
//
// A template that Lookup returns is complete and has the bytes that it was made
// with: its files are sealed (package seal), and one that was changed is removed and counts as
// missing, to be made again. A key names one set of inputs: another image,
// kernel, guest binary, command line, QEMU, processor or size is another template, so
// that a stale one is never started. Making is done once at a time for each
// key, across processes, and shows only when it is finished: the directory is made under another
// name and renamed. What an interrupted process left behind is removed by the
// next.
//
// # What it trusts
//
// The directory belongs to the server. The process that makes a template may run as
// another user; its files are taken over as far as clones need not write to them.
package template

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"rigs/internal/keeper/vm"
	"rigs/internal/keeperapi"
	"rigs/internal/paths"
	"rigs/internal/rig"
	"rigs/internal/seal"
	"rigs/internal/serverapi"
)

// format changes when what a keeper writes into a template does.
const format = 1

// The files of a template. A keeper in ModeTemplate writes the first three.
const (
	memoryFile   = "memory"
	stateFile    = "state"
	diskFile     = "disk.qcow2"
	manifestFile = "manifest.json"
)

// maxManifest bounds a manifest in bytes.
const maxManifest = 64 << 10

// ErrMissing says that there is no usable template for a key.
var ErrMissing = errors.New("no such template")

var keyPattern = regexp.MustCompile(`^[0-9a-f]{32}$`)

// Inputs is everything that a template depends on. Only Image is for people and
// not part of the key: Digests says what the image is.
type Inputs struct {
	Machine keeperapi.Machine `json:"machine"`
	Digests []string          `json:"digests"` // image, kernel, guest binary: image.Boot.Digests
	Surface rig.Surface       `json:"surface"`
	Engine  rig.Engine        `json:"engine,omitempty"`
	CPU     string            `json:"cpu,omitempty"` // the host's processor, where guests see it (kvm)
	// RunsAs is the user that clones run as, when not the server's own: that user must be
	// able to open the files (see ClonesAs), so servers that share a cache share templates only if they
	// agree on it.
	RunsAs string `json:"runsAs,omitempty"`
	Image  string `json:"image,omitempty"`
}

// Key is the name of the template for in.
func Key(in Inputs) string {
	shape, err := vm.Shape(in.Machine)
	if err != nil {
		shape = []string{err.Error()} // such a machine is refused when it is started
	}
	in.Image = ""
	in.Machine.QEMU = "" // its path says nothing; its version counts
	if in.Machine.Accel != "kvm" {
		in.CPU = ""
	}
	b, err := json.Marshal(struct {
		Format int
		Shape  []string
		Inputs Inputs
	}{format, shape, in})
	if err != nil {
		panic(err) // strings and numbers only
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// manifest is what is known of a template, for people.
type manifest struct {
	Inputs    Inputs    `json:"inputs"`
	CreatedAt time.Time `json:"createdAt"`
}

// Store is the templates of a cache directory.
type Store struct {
	l        paths.Layout
	uid, gid int // of clones, when they are another user's
}

// NewStore returns the store of a layout. Nothing is created before it is needed.
func NewStore(l paths.Layout) *Store { return &Store{l: l, uid: -1, gid: -1} }

// ClonesAs says that clones run as another user, or with uid 0 as users of a group, which
// matters to a store of root's: a QEMU older than 8.2 opens the memory file for
// writing, although it maps it privately, so that file must be theirs. A write to it is noticed
// by the seal before the next clone.
func (s *Store) ClonesAs(uid, gid int) *Store {
	return &Store{l: s.l, uid: uid, gid: gid}
}

// Lookup returns the directory of a template after it has verified it.
func (s *Store) Lookup(ctx context.Context, key string) (dir string, err error) {
	if !keyPattern.MatchString(key) {
		return "", fmt.Errorf("%w: %.80q is not a key", ErrMissing, key)
	}
	dir = s.l.Template(key)
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%w: %s", ErrMissing, key)
	}
	err = verify(ctx, dir)
	switch {
	case err == nil:
		now := time.Now()
		_ = os.Chtimes(dir, now, now) // when it was used last, for prune; where we may not say so it is only older
		return dir, nil
	case errors.Is(err, seal.ErrBroken):
		if rerr := os.RemoveAll(dir); rerr != nil {
			return "", rig.Errorf(rig.CodeIntegrity, "template %s: %w: and it cannot be removed: %w", key, err, rerr)
		}
		return "", fmt.Errorf("%w: it was damaged and is removed: %w", ErrMissing, err)
	}
	return "", fmt.Errorf("template %s: %w", key, err)
}

func verify(ctx context.Context, dir string) error {
	sealed, err := seal.Verify(ctx, dir)
	if err != nil {
		return err
	}
	for _, name := range []string{memoryFile, stateFile, diskFile, manifestFile} {
		if _, ok := sealed.File(name); !ok {
			return fmt.Errorf("%w: %s: %s is not in it", seal.ErrBroken, dir, name)
		}
	}
	return nil
}

// Make returns the template for key, made by the function make if it is missing. make is given an
// empty directory to put the files into. Others who want the same template wait.
func (s *Store) Make(ctx context.Context, key string, in Inputs, make func(ctx context.Context, dir string) error) (dir string, err error) {
	if !keyPattern.MatchString(key) {
		return "", rig.Errorf(rig.CodeInternal, "template: %.80q is not a key", key)
	}
	if err := os.MkdirAll(s.l.Templates(), 0o755); err != nil {
		return "", rig.Errorf(rig.CodeUnavailable, "make a template: %w: set RIGS_CACHE to a directory that can be written", err)
	}
	unlock, err := lock(ctx, filepath.Join(s.l.Templates(), "."+key+".lock"))
	if err != nil {
		return "", fmt.Errorf("make a template: %w", err)
	}
	defer unlock()
	dir, err = s.Lookup(ctx, key)
	if err == nil || !errors.Is(err, ErrMissing) {
		return dir, err
	}
	s.sweep(key)
	tmp := filepath.Join(s.l.Templates(), "."+key+".new")
	if err := os.Mkdir(tmp, 0o700); err != nil {
		return "", rig.Errorf(rig.CodeUnavailable, "make a template: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(tmp))
		}
	}()
	if err := make(ctx, tmp); err != nil {
		return "", err
	}
	if err := s.finish(ctx, tmp, in); err != nil {
		return "", rig.Errorf(rig.CodeInternal, "make a template: %w", err)
	}
	dir = s.l.Template(key)
	if err := os.Rename(tmp, dir); err != nil {
		return "", rig.Errorf(rig.CodeInternal, "make a template: %w", err)
	}
	return dir, s.prune()
}

// keepTemplates is how many templates stay: each has about 100 MB, and each new image, guest binary
// or QEMU leads to another.
const keepTemplates = 12

// prune removes the templates beyond keepTemplates that were used longest ago. A
// machine that was cloned from one goes on: it has the files open.
func (s *Store) prune() error {
	entries, err := s.entries()
	if err != nil {
		return err
	}
	used := map[string]time.Time{}
	var keys []string
	for _, e := range entries {
		if fi, err := e.Info(); err == nil && keyPattern.MatchString(e.Name()) {
			keys = append(keys, e.Name())
			used[e.Name()] = fi.ModTime()
		}
	}
	slices.SortFunc(keys, func(a, b string) int { return used[b].Compare(used[a]) })
	for _, key := range keys[min(len(keys), keepTemplates):] {
		if err := os.RemoveAll(s.l.Template(key)); err != nil {
			return fmt.Errorf("remove an old template: %w", err)
		}
	}
	return nil
}

// finish writes the manifest, makes the files ours and read-only, and seals them.
func (s *Store) finish(ctx context.Context, dir string, in Inputs) error {
	b, err := json.MarshalIndent(manifest{in, time.Now().UTC()}, "", "  ")
	if err != nil {
		return err
	}
	path := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(path(manifestFile), append(b, '\n'), 0o600); err != nil {
		return err
	}
	v, err := vm.ParseVersion(in.Machine.QEMUVersion)
	if err != nil {
		return err
	}
	for _, name := range []string{memoryFile, stateFile, diskFile, manifestFile} {
		uid, gid, mode := 0, 0, fs.FileMode(0o444)
		if name == memoryFile && !v.ReadOnlyTemplates() {
			uid, gid, mode = s.uid, s.gid, 0o600 // see ClonesAs
			if uid == 0 {
				mode = 0o660
			}
		}
		if err := own(path(name), uid, gid); err != nil {
			return err
		}
		if err := os.Chmod(path(name), mode); err != nil {
			return err
		}
	}
	if err := own(dir, 0, 0); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	_, err = seal.Write(ctx, dir, memoryFile, stateFile, diskFile, manifestFile)
	return err
}

// own gives a file to a user, if we are root; to none in particular if that is -1.
func own(path string, uid, gid int) error {
	if os.Getuid() != 0 {
		return nil
	}
	return os.Lchown(path, uid, gid)
}

// sweep removes what an interrupted Make of this key left. The key's lock is
// held, so nobody is at it.
func (s *Store) sweep(key string) {
	_ = os.RemoveAll(filepath.Join(s.l.Templates(), "."+key+".new")) // Mkdir then says what is wrong
}

// Sweep removes what interrupted processes left behind, of every key that
// nobody is making.
func (s *Store) Sweep(ctx context.Context) error {
	entries, err := s.entries()
	if err != nil {
		return err
	}
	for _, e := range entries {
		key, ok := strings.CutSuffix(strings.TrimPrefix(e.Name(), "."), ".new")
		if !ok || !keyPattern.MatchString(key) {
			continue
		}
		unlock, err := tryLock(filepath.Join(s.l.Templates(), "."+key+".lock"))
		if errors.Is(err, errBusy) {
			continue
		}
		if err != nil {
			return err
		}
		s.sweep(key)
		unlock()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// List returns the templates, newest first. Files that a glance shows to be
// wrong make a template corrupt; Lookup looks closer.
func (s *Store) List(context.Context) ([]serverapi.Template, error) {
	entries, err := s.entries()
	if err != nil {
		return nil, err
	}
	res := []serverapi.Template{}
	for _, e := range entries {
		if e.IsDir() && keyPattern.MatchString(e.Name()) {
			res = append(res, s.describe(e.Name()))
		}
	}
	slices.SortFunc(res, func(a, b serverapi.Template) int { return b.CreatedAt.Compare(a.CreatedAt) })
	return res, nil
}

func (s *Store) entries() ([]fs.DirEntry, error) {
	entries, err := os.ReadDir(s.l.Templates())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("templates: %w", err)
	}
	return entries, nil
}

func (s *Store) describe(key string) serverapi.Template {
	t := serverapi.Template{Key: key, State: "corrupt"}
	dir := s.l.Template(key)
	t.SizeBytes = diskUse(dir)
	m, err := readManifest(filepath.Join(dir, manifestFile))
	if err != nil {
		t.Detail = err.Error()
		return t
	}
	in := m.Inputs
	t.Surface, t.Engine, t.Image, t.CreatedAt = in.Surface, in.Engine, in.Image, m.CreatedAt
	t.MemoryMB, t.VCPUs, t.Accel = in.Machine.MemoryMB, in.Machine.VCPUs, in.Machine.Accel
	if Key(in) != key {
		t.State, t.Detail = "stale", "it was made by another version of Rigs and is not used any more"
		return t
	}
	if _, err := seal.Read(dir); err != nil {
		t.Detail = err.Error()
		return t
	}
	t.State = "ready"
	return t
}

func readManifest(path string) (manifest, error) {
	var m manifest
	f, err := os.Open(path)
	if err != nil {
		return m, err
	}
	defer f.Close()
	return m, readJSON(f, maxManifest, &m)
}

// Remove removes a template. Rigs cloned from it go on: they have its files
// open, except that their disk is looked up by name only once, when they start.
func (s *Store) Remove(ctx context.Context, key string) error {
	if !keyPattern.MatchString(key) {
		return rig.Errorf(rig.CodeNotFound, "no template %.80q: 'rigs template ls' lists them", key)
	}
	dir := s.l.Template(key)
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return rig.Errorf(rig.CodeNotFound, "no template %s: 'rigs template ls' lists them", key)
	}
	unlock, err := lock(ctx, filepath.Join(s.l.Templates(), "."+key+".lock"))
	if err != nil {
		return fmt.Errorf("remove template %s: %w", key, err)
	}
	defer unlock()
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove template %s: %w", key, err)
	}
	return nil
}
