package image

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/klauspost/compress/zstd"

	"rigs/internal/image/flatten"
	"rigs/internal/rig"
	"rigs/internal/seal"
)

// Files of a flattened copy.
const (
	rootFSFile = "rootfs." + flatten.FSType
	metaFile   = "image.json"
)

// rootFSMeta is sealed beside a file system and says of which image it is.
type rootFSMeta struct {
	Digest   string   `json:"digest"`
	AptHosts []string `json:"aptHosts"`
}

func (s *Store) rootFSRoot() string { return filepath.Join(s.images, "rootfs") }

func (s *Store) rootFSDir(digest v1.Hash) string { return filepath.Join(s.rootFSRoot(), digest.Hex) }

// verifyRootFS checks a flattened copy and returns the seal.
func (s *Store) verifyRootFS(ctx context.Context, digest v1.Hash) (seal.Seal, error) {
	dir := s.rootFSDir(digest)
	sl, err := seal.Verify(ctx, dir)
	if err != nil {
		return seal.Seal{}, err
	}
	if _, ok := sl.File(rootFSFile); !ok {
		return seal.Seal{}, fmt.Errorf("%w: %s: it holds no %s", seal.ErrBroken, dir, rootFSFile)
	}
	meta, err := readRootFSMeta(dir)
	if err != nil {
		return seal.Seal{}, err
	}
	if meta.Digest != digest.String() {
		return seal.Seal{}, fmt.Errorf("%w: %s: it is a copy of %s", seal.ErrBroken, dir, meta.Digest)
	}
	return sl, nil
}

func readRootFSMeta(dir string) (rootFSMeta, error) {
	data, err := os.ReadFile(filepath.Join(dir, metaFile))
	if err != nil {
		return rootFSMeta{}, err
	}
	var m rootFSMeta
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&m); err != nil {
		return rootFSMeta{}, fmt.Errorf("%w: %s: %w", seal.ErrBroken, filepath.Join(dir, metaFile), err)
	}
	return m, nil
}

// flattenImage makes the flattened copy of an image. It needs the lock.
func (s *Store) flattenImage(ctx context.Context, digest v1.Hash, progress func(rig.Step)) error {
	if err := makeDir(s.rootFSRoot()); err != nil {
		return err
	}
	tmp, err := work(s.rootFSRoot())
	if err != nil {
		return err
	}
	if err := s.flattenInto(ctx, tmp, digest, progress); err != nil {
		return errors.Join(err, os.RemoveAll(tmp))
	}
	return publish(tmp, s.rootFSDir(digest))
}

func (s *Store) flattenInto(ctx context.Context, dir string, digest v1.Hash, progress func(rig.Step)) error {
	m, err := s.oci.manifest(digest)
	if err != nil {
		return err
	}
	cfg, err := s.oci.config(m)
	if err != nil {
		return err
	}
	if len(cfg.RootFS.DiffIDs) != len(m.Layers) {
		return errors.New("its configuration lists another number of layers than its manifest")
	}
	spoolPath := filepath.Join(dir, "spool")
	spool, err := os.OpenFile(spoolPath, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer spool.Close()
	if err := os.Remove(spoolPath); err != nil { // it lives as long as it is open
		return err
	}
	buf := bufio.NewWriterSize(spool, 1<<20)
	tree := flatten.NewTree(struct {
		io.Writer
		io.ReaderAt
	}{buf, spool})
	for i, l := range m.Layers {
		report(progress, rig.Step{Text: "Unpack the image's layers", Done: int64(i), Total: int64(len(m.Layers)), Unit: "steps"})
		if err := s.addLayer(ctx, tree, l, cfg.RootFS.DiffIDs[i]); err != nil {
			return err
		}
	}
	if err := buf.Flush(); err != nil {
		return err
	}
	step := rig.Step{Text: "Write the file system", Total: tree.Bytes(), Unit: "bytes"}
	report(progress, step)
	var told int64
	err = writeFile(filepath.Join(dir, rootFSFile), func(f *os.File) error {
		return tree.WriteFS(ctx, f, func(done int64) {
			if done-told >= 16<<20 {
				told = done
				step.Done = done
				report(progress, step)
			}
		})
	})
	if err != nil {
		return err
	}
	hosts, err := aptHosts(tree)
	if err != nil {
		return err
	}
	meta, err := json.Marshal(rootFSMeta{Digest: digest.String(), AptHosts: hosts})
	if err != nil {
		return err
	}
	if err := replaceFile(filepath.Join(dir, metaFile), meta); err != nil {
		return err
	}
	_, err = seal.Write(ctx, dir, rootFSFile, metaFile)
	return err
}

// addLayer reads a layer and checks it against both its digests: that of the blob and that of the
// tar stream inside.
func (s *Store) addLayer(ctx context.Context, tree *flatten.Tree, l v1.Descriptor, diffID v1.Hash) error {
	f, err := s.oci.open(l.Digest)
	if err != nil {
		return err
	}
	defer f.Close()
	blob := newDigestReader(f)
	r, done, err := decompress(blob, string(l.MediaType))
	if err != nil {
		return fmt.Errorf("layer %s: %w", l.Digest, err)
	}
	defer done()
	diff := newDigestReader(r)
	err = tree.Add(ctx, diff)
	if err == nil { // what follows the archive's end counts too
		_, err = io.Copy(io.Discard, diff)
	}
	if err == nil {
		_, err = io.Copy(io.Discard, blob)
	}
	// Damage explains whatever it led to, so it is looked for first.
	if cerr := ctx.Err(); cerr != nil {
		return cerr
	}
	if _, rerr := io.Copy(io.Discard, blob); rerr == nil && !blob.is(l.Digest) {
		return fmt.Errorf("%w: %s: its content does not match its digest", seal.ErrBroken, f.Name())
	}
	if err != nil {
		return err
	}
	if !diff.is(diffID) {
		return fmt.Errorf("%w: %s: it does not unpack to what the image's configuration says", seal.ErrBroken, f.Name())
	}
	return nil
}

// decompress reads a layer by its media type.
func decompress(r io.Reader, mediaType string) (io.Reader, func(), error) {
	switch {
	case strings.HasSuffix(mediaType, "+zstd"):
		z, err := zstd.NewReader(r, zstd.WithDecoderMaxMemory(256<<20))
		if err != nil {
			return nil, nil, err
		}
		return z, z.Close, nil
	case strings.HasSuffix(mediaType, "+gzip"), strings.HasSuffix(mediaType, ".gzip"):
		z, err := gzip.NewReader(r)
		return z, func() {}, err
	case strings.HasSuffix(mediaType, ".tar"):
		return r, func() {}, nil
	}
	return nil, nil, fmt.Errorf("media type %q is not one of a layer", mediaType)
}

// digestReader hashes what is read through it.
type digestReader struct {
	r io.Reader
	h hash.Hash
}

func newDigestReader(r io.Reader) *digestReader { return &digestReader{r, sha256.New()} }

func (d *digestReader) Read(p []byte) (int, error) {
	n, err := d.r.Read(p)
	d.h.Write(p[:n])
	return n, err
}

func (d *digestReader) is(h v1.Hash) bool {
	return h.Algorithm == "sha256" && hex.EncodeToString(d.h.Sum(nil)) == h.Hex
}

// aptHosts reads the hosts of an image's package mirrors out of its sources.list and
// *.sources (sources.list(5)). An image without apt has none.
func aptHosts(tree *flatten.Tree) ([]string, error) {
	files := []string{"etc/apt/sources.list"}
	for _, f := range tree.List("etc/apt/sources.list.d") {
		files = append(files, "etc/apt/sources.list.d/"+f)
	}
	hosts := []string{}
	for _, f := range files {
		data, err := tree.ReadFile(f, 64<<10)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		hosts = append(hosts, hostsOf(string(data))...)
	}
	slices.Sort(hosts)
	return slices.Compact(hosts), nil
}

func hostsOf(sources string) []string {
	var hosts []string
	for line := range strings.Lines(sources) {
		line, _, _ = strings.Cut(line, "#")
		for _, word := range strings.Fields(line) {
			u, err := url.Parse(word)
			if err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" {
				hosts = append(hosts, strings.ToLower(u.Hostname()))
			}
		}
	}
	return hosts
}
