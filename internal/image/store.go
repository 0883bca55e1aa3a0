package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"rigs/images"
	"rigs/internal/paths"
	"rigs/internal/rig"
	"rigs/internal/seal"
)

// Image is an image that is built here.
type Image struct {
	Name      string
	Digest    string // of its manifest, with sha256: in front
	CreatedAt time.Time
	SizeBytes int64 // on this disk, flattened copy included
	Surfaces  []rig.Surface
	// AptHosts are the hosts of the image's own package mirrors, which a rig
	// needs for apt-get. Known once the image is flattened.
	AptHosts []string
}

// Ref is the image pinned: NAME@sha256:HEX.
func (i Image) Ref() string { return i.Name + "@" + i.Digest }

// The states of a Listing.
const (
	StateReady   = "ready"
	StateMissing = "missing"
	StateCorrupt = "corrupt"
)

// Listing is an image definition and what was built from it. Its fields are those of
// an entry of GET /v1/images.
type Listing struct {
	Name      string        `json:"name"`
	Digest    string        `json:"digest,omitempty"`
	CreatedAt time.Time     `json:"createdAt,omitzero"`
	SizeBytes int64         `json:"sizeBytes"`
	Surfaces  []rig.Surface `json:"surfaces"`
	Default   bool          `json:"default"`
	State     string        `json:"state"`
	Detail    string        `json:"detail,omitempty"`
}

// Store is the images, kernels and initramfs of one cache directory. Several stores, in
// several processes, may share it.
type Store struct {
	images  string
	kernels string
	oci     ociStore
	defs    fs.FS
	guests  seal.Memo // digests of guest binaries

	// make runs mmdebstrap; a test puts its own in.
	make func(ctx context.Context, r makeRequest) error
}

// NewStore returns the store of a layout. Nothing is created until something is built.
func NewStore(l paths.Layout) *Store {
	return &Store{images: l.Images(), kernels: l.Kernels(), oci: ociStore{l.Images()}, defs: images.FS, make: runMmdebstrap}
}

// Default returns the name of the image that a surface boots when nothing else is asked for, "" if
// there is none.
func (s *Store) Default(surface rig.Surface) (string, error) {
	defs, err := readDefinitions(s.defs)
	if err != nil {
		return "", err
	}
	for _, d := range defs {
		if d.isDefault() && d.name == string(surface) {
			return d.name, nil
		}
	}
	return "", nil
}

// List returns every image that has a definition or was built, sorted by name.
func (s *Store) List(ctx context.Context) ([]Listing, error) {
	defs, err := readDefinitions(s.defs)
	if err != nil {
		return nil, err
	}
	idx, err := s.oci.index()
	if err != nil {
		return nil, err
	}
	list := make([]Listing, 0, len(defs))
	seen := map[string]bool{}
	for _, d := range defs {
		seen[d.name] = true
		l := Listing{Name: d.name, Surfaces: d.Surfaces, Default: d.isDefault(), State: StateMissing, Detail: "build it with 'rigs image build " + d.name + "'"}
		if desc := named(idx, d.name); desc != nil {
			if err := s.describe(ctx, &l, *desc, d.digest); err != nil {
				return nil, err
			}
		}
		list = append(list, l)
	}
	for _, desc := range idx.Manifests {
		if name := desc.Annotations[annotName]; name != "" && !seen[name] {
			l := Listing{Name: name, Surfaces: []rig.Surface{}}
			if err := s.describe(ctx, &l, desc, ""); err != nil {
				return nil, err
			}
			list = append(list, l)
		}
	}
	slices.SortFunc(list, func(a, b Listing) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// describe fills in what was built. Damage is a state, not an error.
func (s *Store) describe(ctx context.Context, l *Listing, desc v1.Descriptor, definition string) error {
	l.Digest, l.State, l.Detail = desc.Digest.String(), StateReady, ""
	l.CreatedAt = created(desc)
	m, err := s.oci.manifest(desc.Digest)
	var cfg *v1.ConfigFile
	if err == nil {
		cfg, err = s.oci.config(m)
	}
	if err == nil {
		err = s.oci.complete(m)
	}
	if err == nil {
		l.SizeBytes = s.size(m, desc.Digest)
		if _, serr := os.Stat(s.rootFSDir(desc.Digest)); serr == nil {
			_, err = s.verifyRootFS(ctx, desc.Digest)
		}
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		l.State, l.Detail = StateCorrupt, fmt.Sprintf("%v: make it again with 'rigs image build %s'", err, l.Name)
	case definition != "" && cfg.Config.Labels[labelDefinition] != definition:
		l.Detail = "its definition has changed since: 'rigs image build " + l.Name + "' brings it up to date"
	}
	return nil
}

// size is what an image takes on the disk.
func (s *Store) size(m *v1.Manifest, digest v1.Hash) int64 {
	n := m.Config.Size
	for _, l := range m.Layers {
		n += l.Size
	}
	if fi, err := os.Stat(filepath.Join(s.rootFSDir(digest), rootFSFile)); err == nil {
		n += fi.Size()
	}
	return n
}

// Resolve finds the image that a reference names: NAME, or NAME@sha256:HEX for
// exactly that one. Nothing is fetched or built: an image that is not here is an
// error that wraps ErrNotBuilt.
func (s *Store) Resolve(_ context.Context, ref string) (Image, error) {
	name, pin, err := parseRef(ref)
	if err != nil || !rig.ValidName(name) {
		return Image{}, rig.FieldErrorf("image", "image %q: it must be a name from 'rigs image ls', or NAME@sha256: and 64 hex digits", ref)
	}
	idx, err := s.oci.index()
	if err != nil {
		return Image{}, err
	}
	desc := named(idx, name)
	if pin.Hex != "" && (desc == nil || desc.Digest != pin) {
		desc = nil
		for i, d := range idx.Manifests {
			if d.Digest == pin && d.Annotations[annotReplaced] == name {
				desc = &idx.Manifests[i]
			}
		}
	}
	if desc == nil {
		return Image{}, s.notBuilt(name, ref, named(idx, name))
	}
	m, err := s.oci.manifest(desc.Digest)
	if err != nil {
		return Image{}, refused("image "+name, name, err)
	}
	img := Image{Name: name, Digest: desc.Digest.String(), CreatedAt: created(*desc), SizeBytes: s.size(m, desc.Digest)}
	if d, err := s.definition(name); err == nil {
		img.Surfaces = d.Surfaces
	}
	if meta, err := readRootFSMeta(s.rootFSDir(desc.Digest)); err == nil {
		img.AptHosts = meta.AptHosts
	}
	return img, nil
}

func (s *Store) notBuilt(name, ref string, other *v1.Descriptor) error {
	if other != nil {
		return rig.Errorf(rig.CodeNotFound, "image %s: %w: what is built as %s is %s", ref, ErrNotBuilt, name, other.Digest)
	}
	if _, err := s.definition(name); err != nil {
		return err
	}
	return rig.Errorf(rig.CodeUnavailable, "image %s: %w: build it with 'rigs image build %s'", name, ErrNotBuilt, name)
}

func (s *Store) definition(name string) (definition, error) {
	defs, err := readDefinitions(s.defs)
	if err != nil {
		return definition{}, err
	}
	known := make([]string, 0, len(defs))
	for _, d := range defs {
		if d.name == name {
			return d, nil
		}
		known = append(known, d.name)
	}
	return definition{}, rig.Errorf(rig.CodeNotFound, "there is no image %q: it is one of %s", name, strings.Join(known, ", "))
}

// Remove removes an image and what it had replaced.
func (s *Store) Remove(ctx context.Context, name string) error {
	release, err := lock(ctx, s.images, nil)
	if err != nil {
		return failed("remove image "+name, err)
	}
	defer release()
	found, err := s.oci.remove(name)
	if err != nil {
		return failed("remove image "+name, err)
	}
	if !found {
		if _, err := s.definition(name); err != nil {
			return err
		}
		return rig.Errorf(rig.CodeNotFound, "image %s: %w: there is nothing to remove", name, ErrNotBuilt)
	}
	if err := s.prune(); err != nil {
		return failed("remove image "+name, err)
	}
	return nil
}

// prune removes blobs and flattened copies that no name leads to. It needs the lock.
func (s *Store) prune() error {
	digests, err := s.oci.prune()
	if err != nil {
		return err
	}
	copies, err := os.ReadDir(s.rootFSRoot())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, c := range copies {
		if !slices.ContainsFunc(digests, func(h v1.Hash) bool { return h.Hex == c.Name() }) {
			if err := os.RemoveAll(filepath.Join(s.rootFSRoot(), c.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// named returns the descriptor that has a name.
func named(idx v1.IndexManifest, name string) *v1.Descriptor {
	for i, d := range idx.Manifests {
		if d.Annotations[annotName] == name {
			return &idx.Manifests[i]
		}
	}
	return nil
}

// created is when a build made it. A malformed time is no reason to refuse an image.
func created(d v1.Descriptor) time.Time {
	t, err := time.Parse(time.RFC3339, d.Annotations[annotCreated])
	if err != nil {
		return time.Time{}
	}
	return t
}
