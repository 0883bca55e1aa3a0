package image

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"rigs/internal/rig"
)

// errReadOnly is what a read-only file system answers.
const errReadOnly = syscall.EROFS

// Sizes of a writable layer, those of rig.Resources.
const (
	minDiskMB = 64
	maxDiskMB = 1 << 20
)

// ensureBlank makes the empty ext4 that a writable layer of that size begins with. The file has
// holes for nearly all of it: 8 GB take 200 KB.
func (s *Store) ensureBlank(ctx context.Context, diskMB int, progress func(rig.Step)) (sealedDir, error) {
	if diskMB < minDiskMB || diskMB > maxDiskMB {
		return sealedDir{}, rig.FieldErrorf("diskMB", "a disk of %d MB: it must have between %d and %d", diskMB, minDiskMB, maxDiskMB)
	}
	root := filepath.Join(s.images, "blank")
	return s.ensureSealed(ctx, root, strconv.Itoa(diskMB), blankFile, progress, func(path string) error {
		report(progress, rig.Step{Text: "Make the empty file system"})
		return makeBlank(ctx, path, diskMB)
	})
}

// blankFeatures are named one by one: the host's mke2fs.conf has no say, and kernel 6.1 knows them all.
const blankFeatures = "none,dir_index,dir_nlink,ext_attr,extent,extra_isize,filetype,flex_bg,huge_file,large_file,metadata_csum,sparse_super,64bit"

// makeBlank runs mke2fs. No journal: the disk is thrown away after a crash. The inode tables
// are marked as zeroed, as they are in a new file, or the guest's kernel
// would write them out, in the background, at 16 MB for each GB. Fixed identifiers and time make the
// result the same each time; a rig's disk is told from another's by being in another machine.
func makeBlank(ctx context.Context, path string, diskMB int) error {
	bin, err := findMke2fs()
	if err != nil {
		return err
	}
	err = writeFile(path, func(f *os.File) error { return f.Truncate(int64(diskMB) << 20) })
	if err != nil {
		return err
	}
	const id = "72696773-0000-4000-8000-000000000001"
	cmd := exec.CommandContext(ctx, bin, "-q", "-F", "-t", "ext4", "-b", "4096", "-m", "0", "-U", id,
		"-I", "256", "-i", "16384", "-O", blankFeatures, "-E", "lazy_itable_init=0,root_owner=0:0,hash_seed="+id, path)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "MKE2FS_CONFIG=/dev/null", "E2FSPROGS_FAKE_TIME=1", "SOURCE_DATE_EPOCH=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("mke2fs: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// findMke2fs looks where an ordinary user's PATH does not.
func findMke2fs() (string, error) {
	if p, err := exec.LookPath("mke2fs"); err == nil {
		return p, nil
	}
	for _, p := range []string{"/sbin/mke2fs", "/usr/sbin/mke2fs", "/usr/local/sbin/mke2fs"} {
		if _, err := exec.LookPath(p); err == nil {
			return p, nil
		}
	}
	return "", rig.Errorf(rig.CodeUnavailable, "mke2fs is missing: sudo apt install e2fsprogs")
}
