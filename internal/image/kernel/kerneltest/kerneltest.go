// Package kerneltest makes small kernel packages for tests: of the form of Debian's, with
// nothing in them that runs.
package kerneltest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/ulikunitz/xz"
)

// Pack compresses data: gzip, xz, zstd, lz4 in the format of kernels, or none.
func Pack(t testing.TB, format string, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	var err error
	switch format {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "xz":
		w, err = xz.NewWriter(&b)
	case "zstd":
		w, err = zstd.NewWriter(&b)
	case "lz4":
		z := lz4.NewWriter(&b)
		err = z.Apply(lz4.LegacyOption(true))
		w = z
	case "none":
		return data
	default:
		t.Fatalf("no format %q", format)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// BzImage wraps a kernel as the build of the kernel does.
func BzImage(t testing.TB, format string, elf []byte) []byte {
	t.Helper()
	payload := Pack(t, format, elf)
	if format != "gzip" {
		payload = binary.LittleEndian.AppendUint32(payload, uint32(len(elf)))
	}
	const sects, offset = 3, 100
	img := make([]byte, (sects+1)*512+offset)
	img[0x1f1] = sects // offsets: Documentation/arch/x86/boot.rst
	copy(img[0x202:], "HdrS")
	binary.LittleEndian.PutUint16(img[0x206:], 0x20f)
	binary.LittleEndian.PutUint32(img[0x248:], offset)
	binary.LittleEndian.PutUint32(img[0x24c:], uint32(len(payload)))
	return append(append(img, payload...), "what follows is not the kernel"...)
}

// Module makes an ELF object that says what it depends on.
func Module(t testing.TB, depends string) []byte {
	t.Helper()
	info := []byte("license=GPL\x00depends=" + depends + "\x00vermagic=6.1\x00")
	names := []byte("\x00.shstrtab\x00.modinfo\x00")
	le := binary.LittleEndian
	var b bytes.Buffer
	put := func(v any) {
		if err := binary.Write(&b, le, v); err != nil {
			t.Fatal(err)
		}
	}
	b.WriteString("\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 9))
	namesAt, infoAt := uint64(64), uint64(64+len(names))
	sections := infoAt + uint64(len(info))
	put([]uint16{1, 62})
	put(uint32(1))
	put([]uint64{0, 0, sections})
	put(uint32(0))
	put([]uint16{64, 0, 0, 64, 3, 1})
	b.Write(names)
	b.Write(info)
	section := func(name, kind uint32, at, size uint64) {
		put([]uint32{name, kind})
		put([]uint64{0, 0, at, size})
		put([]uint32{0, 0})
		put([]uint64{1, 0})
	}
	section(0, 0, 0, 0)
	section(1, 3, namesAt, uint64(len(names)))
	section(11, 1, infoAt, uint64(len(info)))
	return b.Bytes()
}

// File is a file of a package.
type File struct {
	Name string
	Data []byte
}

// Deb makes a Debian package.
func Deb(t testing.TB, format string, files ...File) []byte {
	t.Helper()
	var data bytes.Buffer
	w := tar.NewWriter(&data)
	for _, f := range files {
		if err := w.WriteHeader(&tar.Header{Name: "./" + f.Name, Typeflag: tar.TypeReg, Size: int64(len(f.Data)), Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(f.Data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var ar bytes.Buffer
	ar.WriteString("!<arch>\n")
	member := func(name string, data []byte) {
		fmt.Fprintf(&ar, "%-16s%-12d%-6d%-6d%-8o%-10d`\n", name, 0, 0, 0, 0o100644, len(data))
		ar.Write(data)
		if len(data)%2 == 1 {
			ar.WriteByte('\n')
		}
	}
	suffix := map[string]string{"gzip": ".gz", "xz": ".xz", "zstd": ".zst", "none": ""}[format]
	member("debian-binary", []byte("2.0\n"))
	member("control.tar.xz", []byte("odd"))
	member("data.tar"+suffix, Pack(t, format, data.Bytes()))
	return ar.Bytes()
}

// Package makes a whole kernel package. Its kernel is elf; the modules named in loadable are
// files, which depend on nothing, and those in builtin are built in.
func Package(t testing.TB, release string, elf []byte, loadable, builtin []string) []byte {
	t.Helper()
	dir := "lib/modules/" + release + "/"
	files := []File{{"boot/vmlinuz-" + release, BzImage(t, "lz4", elf)}}
	var list strings.Builder
	for _, b := range builtin {
		fmt.Fprintf(&list, "kernel/%s.ko\n", b)
	}
	files = append(files, File{dir + "modules.builtin", []byte(list.String())})
	for _, l := range loadable {
		files = append(files, File{dir + "kernel/" + l + ".ko", Module(t, "")})
	}
	return Deb(t, "gzip", files...)
}
