//go:build linux

package boot

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// disks are the machine's two.
type disks struct{ image, layer string }

// findDisks tells the disks apart by what they are, not by their names: the
// image is the one that the hypervisor made read-only.
func findDisks() (disks, error) {
	var d disks
	err := waitFor("disks (one read-only, one writable)", func() (bool, error) {
		found, err := filepath.Glob("/sys/block/vd*/ro")
		if err != nil {
			return false, err
		}
		d = disks{}
		for _, file := range found {
			ro, err := os.ReadFile(file)
			if err != nil {
				return false, nil //nolint:nilerr // it is just appearing
			}
			dev := "/dev/" + filepath.Base(filepath.Dir(file))
			if _, err := os.Stat(dev); err != nil {
				return false, nil //nolint:nilerr // it is just appearing
			}
			which := &d.layer
			if strings.TrimSpace(string(ro)) == "1" {
				which = &d.image
			}
			if *which != "" {
				return false, fmt.Errorf("cannot tell the disks apart: %s and %s are alike", *which, dev)
			}
			*which = dev
		}
		return d.image != "" && d.layer != "", nil
	})
	return d, err
}

// ext4ResizeFS is EXT4_IOC_RESIZE_FS, _IOW('f', 16, __u64).
const ext4ResizeFS = 0x40086610

// grow makes the ext4 mounted at dir as large as its device.
func grow(dev, dir string) error {
	f, err := os.Open(dev)
	if err != nil {
		return err
	}
	defer f.Close()
	var size uint64
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), unix.BLKGETSIZE64, uintptr(unsafe.Pointer(&size))); errno != 0 {
		return errno
	}
	// The number of blocks is in the superblock, 1024 bytes in: s_log_block_size
	// at 24, s_blocks_count_lo at 4.
	sb := make([]byte, 1024)
	if _, err := f.ReadAt(sb, 1024); err != nil {
		return err
	}
	block := uint64(1024) << (binary.LittleEndian.Uint32(sb[24:]) & 15)
	have := uint64(binary.LittleEndian.Uint32(sb[4:])) * block
	if size < have+64<<20 {
		return nil // not worth it, or exact
	}
	root, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	blocks := size / block
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, root.Fd(), ext4ResizeFS, uintptr(unsafe.Pointer(&blocks))); errno != 0 {
		return fmt.Errorf("from %d MB to %d MB: %w", have>>20, size>>20, errno)
	}
	return nil
}
