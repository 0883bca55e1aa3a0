package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"

	"rigs/internal/image/debian"
	"rigs/internal/rig"
)

// BuildOptions say how to build.
type BuildOptions struct {
	// NoCache builds even if the image is there and its definition has not changed, and
	// fetches the kernel anew: that is how updates of their packages are had.
	NoCache bool
}

// makeRequest is what is asked of mmdebstrap.
type makeRequest struct {
	packages []string
	kernel   string
	epoch    time.Time
	out      io.Writer
	progress func(rig.Step)
}

func runMmdebstrap(ctx context.Context, r makeRequest) error {
	src, err := debian.HostSources(ctx)
	if err != nil {
		return err
	}
	return debian.Run(ctx, debian.Request{Sources: src, Packages: r.packages, Kernel: r.kernel, Epoch: r.epoch}, r.out, r.progress)
}

// Build makes an image from its definition, and the kernel that it boots with. What is
// there, sound and up to date is not made again; what is damaged is.
func (s *Store) Build(ctx context.Context, name string, opt BuildOptions, progress func(rig.Step)) (Image, error) {
	d, err := s.definition(name)
	if err != nil {
		return Image{}, err
	}
	if err := s.build(ctx, d, opt, progress); err != nil {
		return Image{}, failed("build image "+name, err)
	}
	for _, surface := range d.Surfaces {
		pkg, err := kernelPackage(surface)
		if err != nil {
			return Image{}, err
		}
		if err := s.ensureKernel(ctx, pkg, opt.NoCache, progress); err != nil {
			return Image{}, failed("fetch the kernel", err)
		}
	}
	return s.Resolve(ctx, name)
}

func (s *Store) build(ctx context.Context, d definition, opt BuildOptions, progress func(rig.Step)) error {
	release, err := lock(ctx, s.images, progress)
	if err != nil {
		return err
	}
	defer release()
	if !opt.NoCache {
		// Another process may have built it while this one waited.
		if ok, err := s.upToDate(ctx, d, progress); ok || err != nil {
			return err
		}
	}
	tmp, err := work(s.images)
	if err != nil {
		return err
	}
	img, err := s.makeImage(ctx, d, tmp, progress)
	if err == nil {
		err = s.oci.put(img, d.name, time.Now())
	}
	if err = errors.Join(err, os.RemoveAll(tmp)); err != nil {
		return err
	}
	digest, err := img.Digest()
	if err != nil {
		return err
	}
	if err := s.flattenImage(ctx, digest, progress); err != nil {
		return err
	}
	return s.prune()
}

// upToDate reports whether an image is there as its definition says, and makes its flattened
// copy again if that is what is damaged. It needs the lock.
func (s *Store) upToDate(ctx context.Context, d definition, progress func(rig.Step)) (bool, error) {
	idx, err := s.oci.index()
	if err != nil {
		return false, err
	}
	desc := named(idx, d.name)
	if desc == nil {
		return false, nil
	}
	m, err := s.oci.manifest(desc.Digest)
	if err != nil {
		return false, nil //nolint:nilerr // damaged, so it is built
	}
	cfg, err := s.oci.config(m)
	if err != nil || s.oci.complete(m) != nil || cfg.Config.Labels[labelDefinition] != d.digest {
		return false, nil //nolint:nilerr // damaged or outdated, so it is built
	}
	if _, err := s.verifyRootFS(ctx, desc.Digest); err == nil {
		return true, nil
	}
	if err := s.flattenImage(ctx, desc.Digest, progress); err != nil {
		if ctx.Err() != nil || rig.CodeOf(failed("", err)) == rig.CodeCapacity {
			return false, err
		}
		return false, nil // its layers are damaged too
	}
	return true, nil
}

// makeImage runs mmdebstrap and makes an image with one layer of what it writes. The
// layer's blob is put in its place, so that it is written once.
func (s *Store) makeImage(ctx context.Context, d definition, tmp string, progress func(rig.Step)) (v1.Image, error) {
	// The day is as fine as a date needs to be: two builds of a day with the same packages are the
	// same image. It must not be older than the packages' files, or Python would not believe
	// that its compiled modules are those of its sources.
	epoch := time.Now().UTC().Truncate(24 * time.Hour)
	path := filepath.Join(tmp, "layer")
	l := &layer{}
	err := writeFile(path, func(f *os.File) error {
		blob, diff := sha256.New(), sha256.New()
		counted := &counter{w: io.MultiWriter(f, blob)}
		z, err := zstd.NewWriter(counted)
		if err != nil {
			return err
		}
		err = s.make(ctx, makeRequest{packages: d.Packages, epoch: epoch, out: io.MultiWriter(z, diff), progress: progress})
		if err = errors.Join(err, z.Close()); err != nil {
			return err
		}
		l.digest = v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(blob.Sum(nil))}
		l.diffID = v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(diff.Sum(nil))}
		l.size = counted.n
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := makeDir(s.oci.blobs()); err != nil {
		return nil, err
	}
	l.path = s.oci.blob(l.digest)
	if err := os.Rename(path, l.path); err != nil {
		return nil, err
	}
	img, err := mutate.Append(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON),
		mutate.Addendum{Layer: l, History: v1.History{Created: v1.Time{Time: epoch}, CreatedBy: "mmdebstrap"}})
	if err != nil {
		return nil, err
	}
	cfg, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	cfg = cfg.DeepCopy()
	cfg.Created = v1.Time{Time: epoch}
	cfg.OS, cfg.Architecture = "linux", runtime.GOARCH
	cfg.Config.Labels = map[string]string{labelDefinition: d.digest, "org.opencontainers.image.title": d.name, "org.opencontainers.image.description": d.Description}
	cfg.Config.Cmd = []string{"/bin/bash"}
	return mutate.ConfigFile(img, cfg)
}

// layer is a blob of the store as a layer.
type layer struct {
	digest, diffID v1.Hash
	size           int64
	path           string
}

func (l *layer) Digest() (v1.Hash, error)             { return l.digest, nil }
func (l *layer) DiffID() (v1.Hash, error)             { return l.diffID, nil }
func (l *layer) Size() (int64, error)                 { return l.size, nil }
func (l *layer) MediaType() (types.MediaType, error)  { return types.OCILayerZStd, nil }
func (l *layer) Compressed() (io.ReadCloser, error)   { return os.Open(l.path) }
func (l *layer) Uncompressed() (io.ReadCloser, error) { return nil, errors.New("not needed") }

// counter counts what is written through it.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
