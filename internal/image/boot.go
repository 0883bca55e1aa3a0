package image

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"rigs/internal/image/flatten"
	"rigs/internal/image/kernel"
	"rigs/internal/keeperapi"
	"rigs/internal/rig"
	"rigs/internal/seal"
)

// Boot is what a machine boots from: verified files, and the digests of all that they were
// made of, in a fixed order.
type Boot struct {
	Files   keeperapi.BootFiles
	Digests []string
}

// initrdKeep is how long an initramfs that nobody asks for is kept.
const initrdKeep = 7 * 24 * time.Hour

// Boot returns the files to boot an image with, for a machine whose writable layer has
// diskMB. What is missing is made first: the flattened copy, the kernel, the
// initramfs with the guest binary, the empty file system. Everything is
// verified each time; what is damaged is refused with the code "integrity".
func (s *Store) Boot(ctx context.Context, img Image, surface rig.Surface, diskMB int, guestBinary string, progress func(rig.Step)) (Boot, error) {
	digest, err := v1.NewHash(img.Digest)
	if err != nil || digest.Algorithm != "sha256" {
		return Boot{}, rig.Errorf(rig.CodeIntegrity, "image %s is refused: it is not pinned by a sha256 digest", img.Name)
	}
	pkg, err := kernelPackage(surface)
	if err != nil {
		return Boot{}, err
	}
	root, err := s.ensureRootFS(ctx, img.Name, digest, progress)
	if err != nil {
		return Boot{}, err
	}
	k, err := s.loadKernel(ctx, pkg)
	if errors.Is(err, fs.ErrNotExist) && !errors.Is(err, seal.ErrBroken) {
		if err := s.ensureKernel(ctx, pkg, false, progress); err != nil {
			return Boot{}, failed("fetch the kernel", err)
		}
		k, err = s.loadKernel(ctx, pkg)
	}
	if err != nil {
		if ctx.Err() != nil {
			return Boot{}, ctx.Err()
		}
		return Boot{}, refused("kernel "+pkg, img.Name, err)
	}
	initrd, err := s.ensureInitrd(ctx, k, guestBinary, progress)
	if err != nil {
		return Boot{}, failed("make the initramfs", err)
	}
	blank, err := s.ensureBlank(ctx, diskMB, progress)
	if err != nil {
		return Boot{}, failed("make the empty file system", err)
	}
	return Boot{
		Files: keeperapi.BootFiles{
			Kernel: filepath.Join(k.dir, vmlinuxFile), Initrd: filepath.Join(initrd.dir, initrdFile),
			RootFS: filepath.Join(s.rootFSDir(digest), rootFSFile), RootFSType: flatten.FSType,
			Blank: filepath.Join(blank.dir, blankFile),
		},
		Digests: []string{digest.String(), root.Digest(), k.seal.Digest(), initrd.seal.Digest(), blank.seal.Digest()},
	}, nil
}

// ensureRootFS verifies the flattened copy of an image, or makes it if there is none.
func (s *Store) ensureRootFS(ctx context.Context, name string, digest v1.Hash, progress func(rig.Step)) (seal.Seal, error) {
	what := "image " + name
	exists := func() bool {
		_, err := os.Lstat(s.rootFSDir(digest))
		return err == nil
	}
	if !exists() {
		release, err := lock(ctx, s.images, progress)
		if err != nil {
			return seal.Seal{}, failed("flatten "+what, err)
		}
		defer release()
		if !exists() {
			idx, err := s.oci.index()
			if err != nil {
				return seal.Seal{}, err
			}
			if !strings.Contains(digestsOf(idx), digest.String()) {
				return seal.Seal{}, rig.Errorf(rig.CodeNotFound, "%s@%s: %w", what, digest, ErrNotBuilt)
			}
			if err := s.flattenImage(ctx, digest, progress); err != nil {
				err = failed("flatten "+what, err)
				if rig.CodeOf(err) == rig.CodeIntegrity {
					err = refused(what, name, err)
				}
				return seal.Seal{}, err
			}
		}
	}
	sl, err := s.verifyRootFS(ctx, digest)
	if err != nil && ctx.Err() == nil {
		return seal.Seal{}, refused(what, name, err)
	}
	return sl, err
}

func digestsOf(idx v1.IndexManifest) string {
	var b strings.Builder
	for _, d := range idx.Manifests {
		fmt.Fprintln(&b, d.Digest)
	}
	return b.String()
}

// Names of what is made for a boot.
const (
	initrdFile = "initrd"
	blankFile  = "blank.ext4"
)

// sealedDir is a verified directory.
type sealedDir struct {
	dir  string
	seal seal.Seal
}

// ensureSealed verifies a directory with one file, or has fill make it. Unlike an image
// or a kernel, it is made again when it is damaged, as all that it is made of is here and verified.
func (s *Store) ensureSealed(ctx context.Context, root, name, file string, progress func(rig.Step), fill func(path string) error) (sealedDir, error) {
	d := sealedDir{dir: filepath.Join(root, name)}
	verify := func() error {
		sl, err := seal.Verify(ctx, d.dir)
		if err != nil {
			return err
		}
		if _, ok := sl.File(file); !ok {
			return fmt.Errorf("%w: %s: it holds no %s", seal.ErrBroken, d.dir, file)
		}
		d.seal = sl
		return nil
	}
	err := verify()
	if err == nil || !errors.Is(err, seal.ErrBroken) {
		return d, err
	}
	release, err := lock(ctx, root, progress)
	if err != nil {
		return d, err
	}
	defer release()
	if err := verify(); err == nil || !errors.Is(err, seal.ErrBroken) {
		return d, err // another process has made it
	}
	tmp, err := work(root)
	if err != nil {
		return d, err
	}
	err = fill(filepath.Join(tmp, file))
	if err == nil {
		_, err = seal.Write(ctx, tmp, file)
	}
	if err != nil {
		return d, errors.Join(err, os.RemoveAll(tmp))
	}
	if err := publish(tmp, d.dir); err != nil {
		return d, err
	}
	return d, verify()
}

// ensureInitrd makes the initramfs of a kernel and a guest binary.
func (s *Store) ensureInitrd(ctx context.Context, k bootKernel, guestBinary string, progress func(rig.Step)) (sealedDir, error) {
	guest, err := s.guests.Sum(ctx, guestBinary)
	if err != nil {
		return sealedDir{}, rig.Errorf(rig.CodeUnavailable, "the guest binary cannot be read: %w: build it, and put it beside rigs or name it with RIGS_GUEST", err)
	}
	if guest.SHA256 == "" {
		guest.SHA256 = guest.SparseSHA256
	}
	key := sha256.Sum256([]byte(k.seal.Digest() + " " + guest.SHA256))
	name := "initrd-" + hex.EncodeToString(key[:16])
	d, err := s.ensureSealed(ctx, s.kernels, name, initrdFile, progress, func(path string) error {
		report(progress, rig.Step{Text: "Make the initramfs"})
		if err := s.pruneInitrds(); err != nil {
			return err
		}
		return writeInitrd(path, k, guestBinary)
	})
	if err != nil {
		return d, err
	}
	return d, touch(d.dir)
}

func writeInitrd(path string, k bootKernel, guestBinary string) error {
	guest, err := os.ReadFile(guestBinary)
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(guest, []byte("\x7fELF")) {
		return fmt.Errorf("%s is not a Linux program: build the guest binary for linux", guestBinary)
	}
	modules := make([]kernel.Module, 0, len(k.meta.Modules))
	for _, m := range k.meta.Modules {
		data, err := os.ReadFile(filepath.Join(k.dir, m+".ko"))
		if err != nil {
			return err
		}
		modules = append(modules, kernel.Module{Name: m, Data: data})
	}
	return writeFile(path, func(f *os.File) error {
		w := bufio.NewWriterSize(f, 1<<20)
		if err := kernel.WriteInitramfs(w, guest, modules); err != nil {
			return err
		}
		return w.Flush()
	})
}

// touch notes that an initramfs is in use, once a day.
func touch(dir string) error {
	fi, err := os.Stat(dir)
	if err != nil {
		return err
	}
	now := time.Now()
	if now.Sub(fi.ModTime()) < 24*time.Hour {
		return nil
	}
	err = os.Chtimes(dir, now, now)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, errReadOnly) {
		return nil // a cache that others keep
	}
	return err
}

// pruneInitrds removes those that nobody has asked for in a while. It needs the lock.
func (s *Store) pruneInitrds() error {
	dirs, err := filepath.Glob(filepath.Join(s.kernels, "initrd-*"))
	if err != nil {
		return err
	}
	for _, d := range dirs {
		fi, err := os.Stat(d)
		if err != nil {
			return err
		}
		if time.Since(fi.ModTime()) > initrdKeep {
			if err := os.RemoveAll(d); err != nil {
				return err
			}
		}
	}
	return nil
}
