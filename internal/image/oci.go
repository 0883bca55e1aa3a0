package image

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"rigs/internal/seal"
)

// Annotations of index.json. The first two are the image specification's.
const (
	annotName     = "org.opencontainers.image.ref.name"
	annotCreated  = "org.opencontainers.image.created"
	annotReplaced = "dev.rigs.replaced" // the name that the image had before another took it
)

// labelDefinition is the label in an image's configuration that says what it was built from.
const labelDefinition = "dev.rigs.definition"

// maxManifest bounds a manifest and a configuration.
const maxManifest = 4 << 20

// ociStore is the OCI layout in a directory. Methods that write need the lock.
type ociStore struct{ dir string }

func (o ociStore) blobs() string { return filepath.Join(o.dir, "blobs", "sha256") }

func (o ociStore) blob(h v1.Hash) string { return filepath.Join(o.blobs(), h.Hex) }

// index reads index.json. A layout that does not exist is empty.
func (o ociStore) index() (v1.IndexManifest, error) {
	empty := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex}
	path := filepath.Join(o.dir, "index.json")
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return empty, nil
	}
	if err != nil {
		return empty, err
	}
	m, err := v1.ParseIndexManifest(bytes.NewReader(data))
	if err != nil {
		return empty, fmt.Errorf("%s: %w: move the directory away and build the images again", path, err)
	}
	return *m, nil
}

// put makes img the image of that name. What had the name stays, as the one that was replaced;
// what that had replaced goes.
func (o ociStore) put(img v1.Image, name string, at time.Time) error {
	path, err := layout.FromPath(o.dir)
	if errors.Is(err, fs.ErrNotExist) {
		path, err = layout.Path(o.dir), writeLayout(o.dir)
	}
	if err != nil {
		return err
	}
	digest, err := img.Digest()
	if err != nil {
		return err
	}
	raw, err := img.RawManifest()
	if err != nil {
		return err
	}
	config, err := img.ConfigName()
	if err != nil {
		return err
	}
	for _, h := range []v1.Hash{digest, config} {
		// A blob that is there is taken for what its name says; a damaged one must not be.
		if _, err := o.small(h); errors.Is(err, seal.ErrBroken) {
			if err := os.RemoveAll(o.blob(h)); err != nil {
				return err
			}
		}
	}
	if err := path.WriteImage(img); err != nil {
		return err
	}
	mt, err := img.MediaType()
	if err != nil {
		return err
	}
	idx, err := o.index()
	if err != nil {
		return err
	}
	again := named(idx, name) != nil && named(idx, name).Digest == digest // then nothing is replaced
	var keep []v1.Descriptor
	for _, d := range idx.Manifests {
		current, replaced := d.Annotations[annotName] == name, d.Annotations[annotReplaced] == name
		switch {
		case current && again, replaced && (!again || d.Digest == digest):
			continue
		case current:
			d.Annotations = map[string]string{annotReplaced: name, annotCreated: d.Annotations[annotCreated]}
		}
		keep = append(keep, d)
	}
	keep = append(keep, v1.Descriptor{
		MediaType: mt, Size: int64(len(raw)), Digest: digest,
		Annotations: map[string]string{annotName: name, annotCreated: at.UTC().Format(time.RFC3339)},
	})
	idx.Manifests = keep
	return o.write(idx)
}

func writeLayout(dir string) error {
	if err := makeDir(filepath.Join(dir, "blobs", "sha256")); err != nil {
		return err
	}
	return replaceFile(filepath.Join(dir, "oci-layout"), []byte(`{"imageLayoutVersion": "1.0.0"}`))
}

// remove takes a name out of the index, with what it had replaced.
func (o ociStore) remove(name string) (found bool, err error) {
	idx, err := o.index()
	if err != nil {
		return false, err
	}
	n := len(idx.Manifests)
	idx.Manifests = slices.DeleteFunc(idx.Manifests, func(d v1.Descriptor) bool {
		return d.Annotations[annotName] == name || d.Annotations[annotReplaced] == name
	})
	if len(idx.Manifests) == n {
		return false, nil
	}
	return true, o.write(idx)
}

func (o ociStore) write(idx v1.IndexManifest) error {
	data, err := json.MarshalIndent(idx, "", "  ")
	if err != nil {
		return err
	}
	return replaceFile(filepath.Join(o.dir, "index.json"), append(data, '\n'))
}

// prune removes the blobs that no manifest of the index leads to, and returns the digests that stay.
func (o ociStore) prune() ([]v1.Hash, error) {
	idx, err := o.index()
	if err != nil {
		return nil, err
	}
	keep := map[string]bool{}
	var digests []v1.Hash
	for _, d := range idx.Manifests {
		digests = append(digests, d.Digest)
		keep[d.Digest.Hex] = true
		m, err := o.manifest(d.Digest)
		if err != nil {
			continue // damaged: its blobs are of no use, and Build makes it again
		}
		keep[m.Config.Digest.Hex] = true
		for _, l := range m.Layers {
			keep[l.Digest.Hex] = true
		}
	}
	files, err := os.ReadDir(o.blobs())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, f := range files {
		if !keep[f.Name()] {
			if err := os.RemoveAll(filepath.Join(o.blobs(), f.Name())); err != nil {
				return nil, err
			}
		}
	}
	return digests, nil
}

// manifest reads a manifest and checks it against its digest.
func (o ociStore) manifest(digest v1.Hash) (*v1.Manifest, error) {
	data, err := o.small(digest)
	if err != nil {
		return nil, err
	}
	return v1.ParseManifest(bytes.NewReader(data))
}

// config reads an image's configuration and checks it against its digest.
func (o ociStore) config(m *v1.Manifest) (*v1.ConfigFile, error) {
	data, err := o.small(m.Config.Digest)
	if err != nil {
		return nil, err
	}
	return v1.ParseConfigFile(bytes.NewReader(data))
}

// small reads a blob that must fit into memory, and checks it.
func (o ociStore) small(h v1.Hash) ([]byte, error) {
	if h.Algorithm != "sha256" {
		return nil, fmt.Errorf("blob %s: only sha256 is trusted", h)
	}
	f, err := o.open(h)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(data); len(data) > maxManifest || hex.EncodeToString(sum[:]) != h.Hex {
		return nil, fmt.Errorf("%w: %s: its content does not match its digest", seal.ErrBroken, f.Name())
	}
	return data, nil
}

// open opens a blob, which something leads to, so that its absence is damage.
func (o ociStore) open(h v1.Hash) (*os.File, error) {
	f, err := os.Open(o.blob(h))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", seal.ErrBroken, err)
	}
	return f, err
}

// complete reports the first blob of an image that is missing or has another size.
// Contents are checked when they are read.
func (o ociStore) complete(m *v1.Manifest) error {
	for _, d := range append([]v1.Descriptor{m.Config}, m.Layers...) {
		fi, err := os.Stat(o.blob(d.Digest))
		if err != nil {
			return err
		}
		if fi.Size() != d.Size {
			return fmt.Errorf("%s: it has %d bytes, not %d", o.blob(d.Digest), fi.Size(), d.Size)
		}
	}
	return nil
}

// parseRef takes NAME or NAME@sha256:HEX apart.
func parseRef(ref string) (name string, digest v1.Hash, err error) {
	name, pin, pinned := strings.Cut(ref, "@")
	if !pinned {
		return name, v1.Hash{}, nil
	}
	digest, err = v1.NewHash(pin)
	if err == nil && digest.Algorithm != "sha256" {
		err = errors.New("only sha256 is trusted")
	}
	return name, digest, err
}
