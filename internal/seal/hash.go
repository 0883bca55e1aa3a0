package seal

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"syscall"
	"time"
)

// block is the unit in which a sparse file is hashed.
const block = 64 << 10

type method int

const (
	auto   method = iota // sparse for a file with holes, plain otherwise
	plain                // all bytes
	sparse               // the blocks that are not all zeros
)

// Sum returns the size and hash of one file, without a name.
//
// A file with holes is hashed by the blocks of 64 KiB that hold something other than zeros: for each
// its number (8 bytes, big-endian) and its bytes, at the end the file's size (8 bytes). That says as
// much as the plain hash, costs nothing for the holes of a file of many GB, and does not
// depend on where a copy of the file has its holes.
func Sum(ctx context.Context, path string) (File, error) {
	f, _, err := measure(ctx, path, auto)
	return f, err
}

// measure hashes a file. The stamp is nil if what was hashed cannot be told
// apart from a later state.
func measure(ctx context.Context, path string, how method) (File, *stamp, error) {
	f, before, err := open(path)
	if err != nil {
		return File{}, nil, err
	}
	defer f.Close()
	begin := time.Now()
	if how == auto {
		how = plain
		if allocated(f) < before.Size {
			how = sparse
		}
	}
	res := File{Size: before.Size}
	h := sha256.New()
	if how == sparse {
		if err := hashSparse(ctx, h, f, before.Size); err != nil {
			return File{}, nil, fmt.Errorf("read %s: %w", path, err)
		}
		res.SparseSHA256 = hex.EncodeToString(h.Sum(nil))
	} else {
		if err := hashPlain(ctx, h, f, before.Size); err != nil {
			return File{}, nil, fmt.Errorf("read %s: %w", path, err)
		}
		res.SHA256 = hex.EncodeToString(h.Sum(nil))
	}
	after, err := fstat(f)
	if err != nil {
		return File{}, nil, err
	}
	if after != before {
		return File{}, nil, fmt.Errorf("read %s: it was written to meanwhile", path)
	}
	if !after.settledAt(begin) {
		return res, nil, nil
	}
	return res, &after, nil
}

func hashPlain(ctx context.Context, h hash.Hash, f *os.File, size int64) error {
	buf := make([]byte, 16*block)
	for off := int64(0); off < size; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := f.ReadAt(buf[:min(int64(len(buf)), size-off)], off)
		if err != nil && (!errors.Is(err, io.EOF) || n == 0) {
			return err
		}
		h.Write(buf[:n])
		off += int64(n)
	}
	return nil
}

func hashSparse(ctx context.Context, h hash.Hash, f *os.File, size int64) error {
	buf, zeros := make([]byte, block), make([]byte, block)
	var num [8]byte
	hashed := int64(-1) // number of the last block looked at
	for off := int64(0); off < size; {
		start, end, err := nextData(f, off, size)
		if err != nil {
			return err
		}
		for n := max(start/block, hashed+1); n*block < end; n++ {
			if err := ctx.Err(); err != nil {
				return err
			}
			hashed = n
			b := buf[:min(block, size-n*block)]
			if _, err := f.ReadAt(b, n*block); err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			if bytes.Equal(b, zeros[:len(b)]) {
				continue
			}
			binary.BigEndian.PutUint64(num[:], uint64(n))
			h.Write(num[:])
			h.Write(b)
		}
		off = end
	}
	binary.BigEndian.PutUint64(num[:], uint64(size))
	h.Write(num[:])
	return nil
}

// open opens a regular file, following no symbolic link: what is sealed is the
// file itself. O_NONBLOCK keeps a FIFO in its place from blocking us.
func open(path string) (*os.File, stamp, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, stamp{}, err
	}
	st, err := fstat(f)
	if err != nil {
		f.Close()
		return nil, stamp{}, fmt.Errorf("%s: %w", path, err)
	}
	return f, st, nil
}

func fstat(f *os.File) (stamp, error) {
	fi, err := f.Stat()
	if err != nil {
		return stamp{}, err
	}
	return stampOf(fi)
}

func stat(path string) (stamp, error) {
	fi, err := os.Lstat(path)
	if err != nil {
		return stamp{}, err
	}
	return stampOf(fi)
}

func stampOf(fi os.FileInfo) (stamp, error) {
	if !fi.Mode().IsRegular() {
		return stamp{}, fmt.Errorf("it is not a regular file (%v)", fi.Mode().Type())
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return stamp{}, errors.New("this system does not say when it was changed")
	}
	return stamp{Inode: st.Ino, Size: fi.Size(), MTimeNS: fi.ModTime().UnixNano(), CTimeNS: ctime(st)}, nil
}

// allocated is the number of bytes that a file has on the disk.
func allocated(f *os.File) int64 {
	fi, err := f.Stat()
	if err != nil {
		return 0
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return fi.Size()
	}
	return st.Blocks * 512
}
