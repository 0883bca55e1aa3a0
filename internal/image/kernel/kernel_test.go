package kernel

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/u-root/u-root/pkg/cpio"

	"rigs/internal/image/kernel/kerneltest"
)

// large and vmlinux are stand-ins for kernels, the first of more than one block of LZ4.
var (
	large   = append([]byte("\x7fELF\x02\x01\x01"), bytes.Repeat([]byte("the kernel's own code "), 500_000)...)
	vmlinux = large[:200_000]
)

func file(name string, data []byte) kerneltest.File { return kerneltest.File{Name: name, Data: data} }

const modules = "lib/modules/6.1.0-57-cloud-amd64/"

func TestExtract(t *testing.T) {
	wanted := []string{"virtio_net", "crc32c-intel", "ext4", "jbd2"}
	for _, format := range []string{"gzip", "xz", "zstd", "none"} {
		t.Run(format, func(t *testing.T) {
			d := kerneltest.Deb(t, format,
				file("boot/vmlinuz-6.1.0-57-cloud-amd64", kerneltest.BzImage(t, "lz4", vmlinux)),
				file("boot/config-6.1.0-57-cloud-amd64", []byte("CONFIG_EXT4_FS=y")),
				file(modules+"modules.builtin", []byte("kernel/fs/ext4/ext4.ko\nkernel/fs/jbd2/jbd2.ko\n")),
				file(modules+"kernel/drivers/net/virtio_net.ko.xz", kerneltest.Pack(t, "xz", kerneltest.Module(t, "net_failover,virtio"))),
				file(modules+"kernel/drivers/net/net_failover.ko.zst", kerneltest.Pack(t, "zstd", kerneltest.Module(t, "failover"))),
				file(modules+"kernel/net/core/failover.ko.gz", kerneltest.Pack(t, "gzip", kerneltest.Module(t, ""))),
				file(modules+"kernel/drivers/virtio/virtio.ko", kerneltest.Module(t, "")),
				file(modules+"kernel/arch/x86/crypto/crc32c-intel.ko", kerneltest.Module(t, "")),
				file(modules+"kernel/sound/unwanted.ko", []byte("not even an object")),
			)
			k, err := Extract(t.Context(), bytes.NewReader(d), wanted)
			if err != nil {
				t.Fatal(err)
			}
			if k.Release != "6.1.0-57-cloud-amd64" || !bytes.Equal(k.VMLinux, vmlinux) {
				t.Errorf("release %q, kernel of %d bytes", k.Release, len(k.VMLinux))
			}
			var names []string
			for _, m := range k.Modules {
				names = append(names, m.Name)
				if !bytes.HasPrefix(m.Data, []byte("\x7fELF")) {
					t.Errorf("module %s is not unpacked", m.Name)
				}
			}
			if got := strings.Join(names, " "); got != "failover net_failover virtio virtio_net crc32c_intel" {
				t.Errorf("modules %s", got)
			}
		})
	}
}

func TestExtractRefusesWhatIsNoKernelPackage(t *testing.T) {
	boot := file("boot/vmlinuz-6.1", kerneltest.BzImage(t, "lz4", vmlinux))
	builtin := file(modules+"modules.builtin", nil)
	whole := kerneltest.Deb(t, "xz", boot, builtin)
	cases := map[string]struct {
		data []byte
		says string
	}{
		"nothing":                  {nil, "not a Debian package"},
		"another file":             {[]byte("PK\x03\x04 some archive"), "not a Debian package"},
		"a package cut short":      {whole[:len(whole)/2], "EOF"},
		"a package of other files": {kerneltest.Deb(t, "gzip", file("usr/bin/true", []byte("x"))), "not a kernel package"},
		"no list of built-ins":     {kerneltest.Deb(t, "gzip", boot), "not a kernel package"},
		"a member header damaged":  {bytes.Replace(whole, []byte("`\n"), []byte("  "), 1), "malformed"},
		"a kernel damaged":         {kerneltest.Deb(t, "gzip", file("boot/vmlinuz-6.1", []byte("x")), builtin), "bzImage"},
		"a module missing":         {whole, "no module virtio_net"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Extract(t.Context(), bytes.NewReader(c.data), []string{"virtio_net"})
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v; want one that says %q", err, c.says)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Extract(ctx, bytes.NewReader(whole), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

func TestKernelsOfEveryCompressionAreUnpacked(t *testing.T) {
	for _, format := range []string{"gzip", "xz", "zstd", "lz4"} {
		want := vmlinux
		if format == "lz4" {
			want = large
		}
		got, err := extractVMLinux(kerneltest.BzImage(t, format, want))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, %v", format, len(got), err)
		}
	}
}

func TestDamagedKernelsAreRefused(t *testing.T) {
	change := func(format string, f func([]byte)) []byte {
		img := kerneltest.BzImage(t, format, vmlinux)
		f(img)
		return img
	}
	le := binary.LittleEndian
	cases := map[string][]byte{
		"cut short":            kerneltest.BzImage(t, "lz4", vmlinux)[:2000],
		"no header":            make([]byte, 4096),
		"an old protocol":      change("lz4", func(b []byte) { le.PutUint16(b[offVersion:], 0x207) }),
		"a payload outside":    change("lz4", func(b []byte) { le.PutUint32(b[offPayloadLength:], 1<<31) }),
		"an offset outside":    change("lz4", func(b []byte) { le.PutUint32(b[offPayloadOffset:], 1<<31) }),
		"no payload":           change("lz4", func(b []byte) { le.PutUint32(b[offPayloadLength:], 0) }),
		"unknown compression":  kerneltest.BzImage(t, "none", vmlinux),
		"not an ELF":           kerneltest.BzImage(t, "zstd", []byte(strings.Repeat("no kernel ", 100))),
		"a damaged payload":    change("zstd", func(b []byte) { b[2190] ^= 0xff }),
		"a size that lies":     change("xz", func(b []byte) { le.PutUint32(b[len(b)-34:], 1000) }),
		"a size beyond reason": change("xz", func(b []byte) { le.PutUint32(b[len(b)-34:], 1<<31) }),
	}
	for name, img := range cases {
		if _, err := extractVMLinux(img); err == nil {
			t.Errorf("%s: unpacked", name)
		}
	}
}

func TestLoadOrder(t *testing.T) {
	depends := map[string][]string{
		"a": nil, "b": {"a"}, "c": {"b", "a"}, "x_y": {"c-d"}, "c_d": nil, "loop1": {"loop2"}, "loop2": {"loop1"}, "lost": {"nowhere"},
		"virtio": {"virtio_ring"}, "virtio_ring": nil,
	}
	find := func(name string) ([]string, bool, error) {
		d, ok := depends[name]
		return d, ok, nil
	}
	cases := map[string]struct {
		wanted, built []string
		want          string // or, with "error: " in front, what the error says
	}{
		"in the order asked for":                  {[]string{"c_d", "a"}, nil, "c_d a"},
		"dependencies first, once":                {[]string{"c", "b"}, nil, "a b c"},
		"dashes are underscores":                  {[]string{"x-y"}, nil, "c_d x_y"},
		"built in, left out":                      {[]string{"c", "nowhere"}, []string{"a", "nowhere"}, "b c"},
		"a dependency that is built in":           {[]string{"lost"}, []string{"nowhere"}, "lost"},
		"what newer kernels lack":                 {[]string{"libcrc32c", "a"}, nil, "a"},
		"wanted but absent":                       {[]string{"virtio_gpu"}, nil, "error: no module virtio_gpu"},
		"needed but absent":                       {[]string{"lost"}, nil, "error: no module nowhere, which lost needs"},
		"a circle":                                {[]string{"loop1"}, nil, "error: depends on itself"},
		"twice in the list":                       {[]string{"b", "a", "b"}, nil, "a b"},
		"the dependency of one asked for earlier": {[]string{"virtio_ring", "virtio"}, nil, "virtio_ring virtio"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			built := map[string]bool{}
			for _, b := range c.built {
				built[b] = true
			}
			got, err := loadOrder(c.wanted, built, find)
			if says, fails := strings.CutPrefix(c.want, "error: "); fails {
				if err == nil || !strings.Contains(err.Error(), says) {
					t.Errorf("error %v; want %q", err, says)
				}
				return
			}
			if err != nil || strings.Join(got, " ") != c.want {
				t.Errorf("order %v, %v; want %s", got, err, c.want)
			}
		})
	}
}

func TestModuleDependsRefusesOtherFiles(t *testing.T) {
	if _, err := moduleDepends([]byte("text")); err == nil {
		t.Error("text was taken for a module")
	}
	if d, err := moduleDepends(kerneltest.Module(t, "a,b")); err != nil || !slices.Equal(d, []string{"a", "b"}) {
		t.Errorf("depends %v, %v", d, err)
	}
	if d, err := moduleDepends(kerneltest.Module(t, "")); err != nil || len(d) != 0 {
		t.Errorf("depends %v, %v", d, err)
	}
}

func TestInitramfs(t *testing.T) {
	guest := []byte("\x7fELF guest")
	mods := []Module{{"virtio", []byte("one")}, {"overlay", []byte("two")}}
	var a, b bytes.Buffer
	for _, w := range []io.Writer{&a, &b} {
		if err := WriteInitramfs(w, guest, mods); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Error("the same input gave other bytes")
	}
	recs, err := cpio.ReadAllRecords(cpio.Newc.Reader(bytes.NewReader(a.Bytes())))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	inodes := map[uint64]string{}
	for _, r := range recs {
		line := fmt.Sprintf("%s %o", r.Name, r.Mode)
		if r.Mode&cpio.S_IFMT == cpio.S_IFREG {
			content := make([]byte, r.FileSize)
			if _, err := r.ReadAt(content, 0); err != nil && !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			line += fmt.Sprintf(" %q", content)
		}
		if r.Mode&cpio.S_IFMT == cpio.S_IFCHR {
			line += fmt.Sprintf(" %d:%d", r.Rmajor, r.Rminor)
		}
		got = append(got, line)
		if other, taken := inodes[r.Ino]; taken {
			t.Errorf("%s and %s have one inode, so the kernel takes them for links", other, r.Name)
		}
		inodes[r.Ino] = r.Name
	}
	want := []string{
		". 40755", "dev 40755", "lower 40755", "proc 40755", "root 40755", "sys 40755", "upper 40755",
		"dev/console 20600 5:1", `init 100755 "\x7fELF guest"`, "modules 40755",
		`modules/virtio.ko 100644 "one"`, `modules/overlay.ko 100644 "two"`, `modules/order 100644 "virtio.ko\noverlay.ko\n"`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
