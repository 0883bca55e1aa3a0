package image

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"rigs/internal/image/kernel"
	"rigs/internal/rig"
	"rigs/internal/seal"
)

// Files of a kernel's directory.
const (
	vmlinuxFile  = "vmlinux"
	kernelFile   = "kernel.json"
	currentFile  = "current.json" // beside the kernels: package → directory of its kernel
	maxKernelDeb = 512 << 20
)

// kernelMeta is sealed beside a kernel.
type kernelMeta struct {
	Release string   `json:"release"`
	File    string   `json:"file"`    // the package that it was taken from
	Modules []string `json:"modules"` // canonical names, in the order in which to load them
}

// kernelPackage is the kernel that a surface boots. The cloud kernel has what a
// microVM needs and little else; it has no DRM, so a desktop will need another.
func kernelPackage(surface rig.Surface) (string, error) {
	switch {
	case surface != rig.Terminal && surface != rig.Browser:
		return "", rig.Errorf(rig.CodeUnavailable, "surface %s does not boot from a container image", surface)
	case runtime.GOARCH != "amd64":
		return "", rig.Errorf(rig.CodeUnavailable, "there is no kernel for machines of type %s yet: use an amd64 host", runtime.GOARCH)
	}
	return "linux-image-cloud-amd64", nil
}

// bootKernel is a verified kernel.
type bootKernel struct {
	dir  string
	meta kernelMeta
	seal seal.Seal
}

// loadKernel finds and verifies the kernel of a package. It returns an error that wraps fs.ErrNotExist
// if there is none, and one that wraps seal.ErrBroken if it is damaged.
func (s *Store) loadKernel(ctx context.Context, pkg string) (bootKernel, error) {
	current, err := s.currentKernels()
	if err != nil {
		return bootKernel{}, err
	}
	name, ok := current[pkg]
	if !ok {
		return bootKernel{}, fmt.Errorf("kernel %s: %w", pkg, fs.ErrNotExist)
	}
	k := bootKernel{dir: filepath.Join(s.kernels, name)}
	if k.seal, err = seal.Verify(ctx, k.dir); err != nil {
		return bootKernel{}, err
	}
	data, err := os.ReadFile(filepath.Join(k.dir, kernelFile))
	if err != nil {
		return bootKernel{}, err
	}
	if err := decodeStrict(data, &k.meta); err != nil || kernelDirName(k.seal) != name {
		return bootKernel{}, fmt.Errorf("%w: %s: it is not the kernel that its name says", seal.ErrBroken, k.dir)
	}
	return k, nil
}

func (s *Store) currentKernels() (map[string]string, error) {
	path := filepath.Join(s.kernels, currentFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]string{}, nil
	}
	if err != nil {
		return nil, err
	}
	current := map[string]string{}
	if err := decodeStrict(data, &current); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", seal.ErrBroken, path, err)
	}
	for _, name := range current {
		if !strings.HasPrefix(name, "sha256-") || strings.ContainsRune(name, '/') {
			return nil, fmt.Errorf("%w: %s: %q is not a kernel's name", seal.ErrBroken, path, name)
		}
	}
	return current, nil
}

func decodeStrict(data []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	return dec.Decode(into)
}

func kernelDirName(s seal.Seal) string { return strings.Replace(s.Digest(), ":", "-", 1) }

// ensureKernel fetches the kernel of a package if there is no sound one, or anyway if fresh.
func (s *Store) ensureKernel(ctx context.Context, pkg string, fresh bool, progress func(rig.Step)) error {
	if !fresh {
		if _, err := s.loadKernel(ctx, pkg); err == nil {
			return nil
		}
	}
	release, err := lock(ctx, s.kernels, progress)
	if err != nil {
		return err
	}
	defer release()
	if !fresh {
		if _, err := s.loadKernel(ctx, pkg); err == nil {
			return nil // another process has fetched it
		}
	}
	tmp, err := work(s.kernels)
	if err != nil {
		return err
	}
	name, err := s.fetchKernel(ctx, pkg, tmp, progress)
	if err != nil {
		return errors.Join(err, os.RemoveAll(tmp))
	}
	if err := publish(tmp, filepath.Join(s.kernels, name)); err != nil {
		return err
	}
	current, err := s.currentKernels()
	if err != nil {
		current = map[string]string{} // damaged; the others are fetched when they are needed
	}
	old := current[pkg]
	current[pkg] = name
	data, err := json.MarshalIndent(current, "", "  ")
	if err != nil {
		return err
	}
	if err := replaceFile(filepath.Join(s.kernels, currentFile), data); err != nil {
		return err
	}
	return s.pruneKernels(current, old)
}

// pruneKernels keeps the kernels in use and the one that was just replaced, which templates may still use.
func (s *Store) pruneKernels(current map[string]string, replaced string) error {
	entries, err := os.ReadDir(s.kernels)
	if err != nil {
		return err
	}
	keep := append(slices.Collect(maps.Values(current)), replaced)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "sha256-") && !slices.Contains(keep, e.Name()) {
			if err := os.RemoveAll(filepath.Join(s.kernels, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// fetchKernel fills dir with a kernel, seals it and returns the name that dir is to have.
func (s *Store) fetchKernel(ctx context.Context, pkg, dir string, progress func(rig.Step)) (string, error) {
	report(progress, rig.Step{Text: "Fetch the kernel"})
	pr, pw := io.Pipe()
	made := make(chan error, 1)
	go func() {
		err := s.make(ctx, makeRequest{kernel: pkg, out: pw, progress: progress})
		pw.CloseWithError(err)
		made <- err
	}()
	deb, file, err := findDeb(pr)
	if err == nil { // let mmdebstrap finish and clean up
		_, err = io.Copy(io.Discard, pr)
	}
	pr.CloseWithError(err)
	if merr := <-made; merr != nil {
		return "", merr
	}
	if err != nil {
		return "", fmt.Errorf("read the kernel's package: %w", err)
	}
	report(progress, rig.Step{Text: "Unpack the kernel"})
	k, err := kernel.Extract(ctx, bytes.NewReader(deb), kernel.Wanted)
	if err != nil {
		return "", fmt.Errorf("unpack %s: %w", file, err)
	}
	return storeKernel(ctx, dir, file, k)
}

// findDeb reads a tar stream up to a package in /kernel.
func findDeb(r io.Reader) (data []byte, name string, err error) {
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if err != nil {
			return nil, "", err
		}
		if filepath.Base(filepath.Dir(h.Name)) != "kernel" || !strings.HasSuffix(h.Name, ".deb") {
			continue
		}
		if h.Size > maxKernelDeb {
			return nil, "", fmt.Errorf("it has %d MB", h.Size>>20)
		}
		data := make([]byte, h.Size)
		_, err = io.ReadFull(tr, data)
		return data, filepath.Base(h.Name), err
	}
}

func storeKernel(ctx context.Context, dir, file string, k kernel.Kernel) (string, error) {
	meta := kernelMeta{Release: k.Release, File: file, Modules: []string{}}
	files := []string{vmlinuxFile, kernelFile}
	write := func(name string, data []byte) error {
		return writeFile(filepath.Join(dir, name), func(f *os.File) error {
			_, err := f.Write(data)
			return err
		})
	}
	if err := write(vmlinuxFile, k.VMLinux); err != nil {
		return "", err
	}
	for _, m := range k.Modules {
		meta.Modules = append(meta.Modules, m.Name)
		files = append(files, m.Name+".ko")
		if err := write(m.Name+".ko", m.Data); err != nil {
			return "", err
		}
	}
	data, err := json.MarshalIndent(meta, "", "  ")
	if err != nil {
		return "", err
	}
	if err := write(kernelFile, data); err != nil {
		return "", err
	}
	sl, err := seal.Write(ctx, dir, files...)
	if err != nil {
		return "", err
	}
	return kernelDirName(sl), nil
}
