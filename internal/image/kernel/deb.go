package kernel

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

const arMagic = "!<arch>\n"

// openDeb returns the tar stream of the files that a Debian package installs
// (deb(5): an ar archive whose member data.tar.* holds them).
func openDeb(r io.Reader) (*tar.Reader, func(), error) {
	br := bufio.NewReaderSize(r, 1<<20)
	magic := make([]byte, len(arMagic))
	if _, err := io.ReadFull(br, magic); err != nil || string(magic) != arMagic {
		return nil, nil, errors.New("it is not a Debian package (no ar archive)")
	}
	for {
		var h [60]byte
		if _, err := io.ReadFull(br, h[:]); err != nil {
			return nil, nil, fmt.Errorf("it holds no data.tar: %w", err)
		}
		name := strings.TrimRight(strings.TrimSpace(string(h[:16])), "/")
		size, err := strconv.ParseInt(strings.TrimSpace(string(h[48:58])), 10, 64)
		if err != nil || size < 0 || h[58] != '`' || h[59] != '\n' {
			return nil, nil, errors.New("the header of a member of its ar archive is malformed")
		}
		if !strings.HasPrefix(name, "data.tar") {
			if _, err := io.CopyN(io.Discard, br, size+size%2); err != nil {
				return nil, nil, fmt.Errorf("it ends in its member %q: %w", name, err)
			}
			continue
		}
		data, done, err := decompress(io.LimitReader(br, size))
		if err != nil {
			return nil, nil, fmt.Errorf("its member %q: %w", name, err)
		}
		return tar.NewReader(data), done, nil
	}
}

// decompress undoes gzip, xz or zstd as the first bytes say; anything else is passed through.
// The returned function frees the decoder.
func decompress(r io.Reader) (io.Reader, func(), error) {
	br := bufio.NewReaderSize(r, 256<<10)
	head, err := br.Peek(6)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	nothing := func() {}
	switch {
	case bytes.HasPrefix(head, []byte("\x1f\x8b")):
		z, err := gzip.NewReader(br)
		return z, nothing, err
	case bytes.HasPrefix(head, []byte("\xfd7zXZ\x00")):
		z, err := xz.NewReader(br)
		return z, nothing, err
	case bytes.HasPrefix(head, []byte("\x28\xb5\x2f\xfd")):
		z, err := zstd.NewReader(br)
		if err != nil {
			return nil, nil, err
		}
		return z, z.Close, nil
	}
	return br, nothing, nil
}

// readAll reads at most limit bytes and refuses more.
func readAll(r io.Reader, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("it is larger than %d MB", limit>>20)
	}
	return b, nil
}
