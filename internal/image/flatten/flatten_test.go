package flatten

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// memory is a Spool.
type memory struct{ bytes.Buffer }

func (m *memory) ReadAt(p []byte, off int64) (int, error) {
	return bytes.NewReader(m.Bytes()).ReadAt(p, off)
}

func file(name, content string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Linkname: content}
}

func dir(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: 0o755} }

func symlink(name, target string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: target, Mode: 0o777}
}

func link(name, target string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeLink, Linkname: target}
}

// layer makes a tar stream. A regular file's content stands in its Linkname.
func layer(t *testing.T, entries ...tar.Header) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		content := ""
		if h.Typeflag == tar.TypeReg {
			content, h.Linkname = h.Linkname, ""
			h.Size = int64(len(content))
		}
		if h.ModTime.IsZero() {
			h.ModTime = time.Unix(1700000000, 0)
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatalf("%s: %v", h.Name, err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

func merge(t *testing.T, layers ...[]tar.Header) (*Tree, error) {
	t.Helper()
	tree := NewTree(&memory{})
	for _, l := range layers {
		if err := tree.Add(t.Context(), layer(t, l...)); err != nil {
			return tree, err
		}
	}
	return tree, nil
}

// listing is the tree in one line for each file.
func listing(t *testing.T, tree *Tree) string {
	t.Helper()
	var b bytes.Buffer
	if err := tree.writeTar(t.Context(), &b, nil); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	r := tar.NewReader(&b)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%s %c %o", h.Name, h.Typeflag, h.Mode)
		if h.Linkname != "" {
			fmt.Fprintf(&out, " -> %s", h.Linkname)
		}
		if len(content) > 0 {
			fmt.Fprintf(&out, " %q", content)
		}
		out.WriteByte('\n')
	}
}

func TestLayersAreMerged(t *testing.T) {
	type layers = [][]tar.Header
	cases := map[string]struct {
		layers layers
		want   string
	}{
		"a file above replaces one below": {
			layers{{file("a", "old")}, {file("a", "new")}},
			"./ 5 755\na 0 644 \"new\"\n",
		},
		"a directory above keeps what is below, and gives its own mode": {
			layers{{dir("d"), file("d/a", "a")}, {{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o700}, file("d/b", "b")}},
			"./ 5 755\nd/ 5 700\nd/a 0 644 \"a\"\nd/b 0 644 \"b\"\n",
		},
		"a file replaces a directory": {
			layers{{dir("d"), file("d/a", "a")}, {file("d", "file")}},
			"./ 5 755\nd 0 644 \"file\"\n",
		},
		"a directory replaces a file, and a symbolic link": {
			layers{{file("f", "f"), symlink("l", "f")}, {dir("f"), dir("l"), file("l/x", "x")}},
			"./ 5 755\nf/ 5 755\nl/ 5 755\nl/x 0 644 \"x\"\n",
		},
		"a whiteout removes a file": {
			layers{{file("a", "a"), file("b", "b")}, {file(".wh.a", "")}},
			"./ 5 755\nb 0 644 \"b\"\n",
		},
		"a whiteout removes a tree": {
			layers{{dir("d"), dir("d/e"), file("d/e/f", "f")}, {file(".wh.d", "")}},
			"./ 5 755\n",
		},
		"a whiteout of nothing does nothing": {
			layers{{file("a", "a")}, {file(".wh.zzz", "")}},
			"./ 5 755\na 0 644 \"a\"\n",
		},
		"a whiteout spares its own layer, before it": {
			layers{{dir("d"), file("d/old", "old")}, {file(".wh.d", ""), dir("d"), file("d/new", "new")}},
			"./ 5 755\nd/ 5 755\nd/new 0 644 \"new\"\n",
		},
		"a whiteout spares its own layer, after it": {
			layers{{dir("d"), file("d/old", "old")}, {dir("d"), file("d/new", "new"), file(".wh.d", "")}},
			"./ 5 755\nd/ 5 755\nd/new 0 644 \"new\"\n",
		},
		"an opaque directory hides what is below, wherever its mark stands": {
			layers{{dir("d"), file("d/old", "old"), dir("d/sub"), file("d/sub/old", "old")}, {dir("d"), dir("d/sub"), file("d/sub/new", "new"), file("d/.wh..wh..opq", "")}},
			"./ 5 755\nd/ 5 755\nd/sub/ 5 755\nd/sub/new 0 644 \"new\"\n",
		},
		"a removed file comes back in a higher layer": {
			layers{{file("a", "1")}, {file(".wh.a", "")}, {file("a", "3")}},
			"./ 5 755\na 0 644 \"3\"\n",
		},
		"a builder's private mark is left out": {
			layers{{file(".wh..wh.plnk", "x"), file("a", "a")}},
			"./ 5 755\na 0 644 \"a\"\n",
		},
		"hard links share a file, across layers and after one of them is replaced": {
			layers{{file("a", "1"), link("b", "a")}, {link("c", "./b"), file("a", "2")}},
			"./ 5 755\na 0 644 \"2\"\nb 0 644 \"1\"\nc 1 644 -> b\n",
		},
		"missing parents are made": {
			layers{{file("x/y/z", "z")}},
			"./ 5 755\nx/ 5 755\nx/y/ 5 755\nx/y/z 0 644 \"z\"\n",
		},
		"the root has a mode of its own": {
			layers{{{Name: "./", Typeflag: tar.TypeDir, Mode: 0o711}}},
			"./ 5 711\n",
		},
		"setuid stays": {
			layers{{{Name: "sudo", Typeflag: tar.TypeReg, Mode: 0o4755, Linkname: "x"}}},
			"./ 5 755\nsudo 0 4755 \"x\"\n",
		},
		"a symbolic link may lead anywhere, for it is followed in the guest only": {
			layers{{symlink("l", "../../etc/passwd")}},
			"./ 5 755\nl 2 777 -> ../../etc/passwd\n",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			tree, err := merge(t, c.layers...)
			if err != nil {
				t.Fatal(err)
			}
			if got := listing(t, tree); got != c.want {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
		})
	}
}

func TestHostileEntriesAreRefused(t *testing.T) {
	long := strings.Repeat("x", 256)
	cases := map[string]struct {
		entries []tar.Header
		says    string
	}{
		"out of the tree":                {[]tar.Header{file("../x", "x")}, "leads out"},
		"out of the tree, in the middle": {[]tar.Header{file("a/../../x", "x")}, "leads out"},
		"absolute":                       {[]tar.Header{file("/etc/passwd", "x")}, "absolute"},
		"through a symbolic link":        {[]tar.Header{symlink("l", "/etc"), file("l/passwd", "x")}, `goes through "l"`},
		"through a file":                 {[]tar.Header{file("f", "x"), file("f/x", "x")}, `goes through "f"`},
		"a hard link to nothing":         {[]tar.Header{link("a", "b")}, "does not exist"},
		"a hard link out of the tree":    {[]tar.Header{link("a", "../../etc/shadow")}, "leads out"},
		"a hard link to the host's":      {[]tar.Header{link("a", "/etc/shadow")}, "absolute"},
		"a hard link to a directory":     {[]tar.Header{dir("d"), link("a", "d")}, "directory"},
		"a hard link through a link":     {[]tar.Header{symlink("l", "d"), dir("d"), file("d/f", "f"), link("a", "l/f")}, "does not exist"},
		"a name too long":                {[]tar.Header{file(long, "x")}, "more than 255"},
		"a path too long":                {[]tar.Header{file(strings.Repeat("a/", 2049)+"x", "x")}, "more than 4096"},
		"the overlay's whiteout":         {[]tar.Header{{Name: "w", Typeflag: tar.TypeChar, Mode: 0o600}}, "0/0"},
		"the overlay's attribute": {[]tar.Header{{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o755,
			PAXRecords: map[string]string{"SCHILY.xattr.trusted.overlay.redirect": "/etc"}}}, "overlay"},
		"attributes without end": {[]tar.Header{{Name: "f", Typeflag: tar.TypeReg, Mode: 0o644,
			PAXRecords: map[string]string{"SCHILY.xattr.user.x": strings.Repeat("x", 4096)}}}, "attributes"},
		"an unknown type":       {[]tar.Header{{Name: "f", Typeflag: tar.TypeCont, Mode: 0o644}}, "unknown type"},
		"a whiteout of nothing": {[]tar.Header{file(".wh.", "")}, "whiteout"},
		"a whiteout upwards":    {[]tar.Header{file("d/.wh...", "")}, "whiteout"},
		"a root that is a file": {[]tar.Header{file(".", "x")}, "root"},
		"an owner out of range": {[]tar.Header{{Name: "f", Typeflag: tar.TypeReg, Uid: 1 << 33, Format: tar.FormatPAX}}, "owner"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := merge(t, c.entries)
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "entry ") {
				t.Errorf("error %v; want one that names the entry and says %q", err, c.says)
			}
		})
	}
}

func TestSizesThatLieAreRefused(t *testing.T) {
	whole := layer(t, file("a", strings.Repeat("a", 5000))).Bytes()
	err := NewTree(&memory{}).Add(t.Context(), bytes.NewReader(whole[:3000]))
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a layer cut short: %v", err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: "huge", Typeflag: tar.TypeReg, Size: MaxBytes + 1}); err != nil {
		t.Fatal(err)
	}
	if err := NewTree(&memory{}).Add(t.Context(), &b); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("a file larger than the limit: %v", err)
	}
	if err := NewTree(&memory{}).Add(t.Context(), strings.NewReader(strings.Repeat("garbage", 1000))); err == nil {
		t.Error("garbage was taken for a layer")
	}
}

func TestAddAndWriteEndWithTheirContext(t *testing.T) {
	tree, err := merge(t, []tar.Header{file("a", "a")})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tree.Add(ctx, layer(t, file("b", "b"))); !errors.Is(err, context.Canceled) {
		t.Errorf("Add: %v", err)
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "fs"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := tree.WriteFS(ctx, f, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("WriteFS: %v", err)
	}
}

func TestReadFileFollowsNoLinks(t *testing.T) {
	tree, err := merge(t, []tar.Header{file("etc/list", "content"), symlink("etc/link", "list"), dir("etc/dir")})
	if err != nil {
		t.Fatal(err)
	}
	if b, err := tree.ReadFile("etc/list", 100); err != nil || string(b) != "content" {
		t.Errorf("ReadFile = %q, %v", b, err)
	}
	for _, name := range []string{"etc/link", "etc/dir", "etc/none", "none/list"} {
		if _, err := tree.ReadFile(name, 100); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("ReadFile(%s): %v", name, err)
		}
	}
	if _, err := tree.ReadFile("etc/list", 3); err == nil {
		t.Error("a file over the limit was read")
	}
	if got := tree.List("etc"); strings.Join(got, " ") != "dir link list" {
		t.Errorf("List = %q", got)
	}
}

// The file system is looked at with e2fsprogs, which share no code with what wrote it.
func TestFileSystemIsSound(t *testing.T) {
	big := strings.Repeat("0123456789abcdef", 200_000)
	entries := []tar.Header{
		dir("usr"), dir("usr/bin"), file("usr/bin/big", big), link("usr/bin/big2", "usr/bin/big"),
		{Name: "usr/bin/sudo", Typeflag: tar.TypeReg, Mode: 0o4755, Linkname: "suid", Uid: 0, Gid: 0},
		{Name: "usr/bin/ping", Typeflag: tar.TypeReg, Mode: 0o755, Linkname: "caps",
			PAXRecords: map[string]string{"SCHILY.xattr.security.capability": "\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "SCHILY.xattr.user.note": "kept", "SCHILY.xattr.trusted.other": "left out"}},
		{Name: "home/rig", Typeflag: tar.TypeDir, Mode: 0o750, Uid: 1000, Gid: 1000},
		{Name: "dev/null", Typeflag: tar.TypeChar, Mode: 0o666, Devmajor: 1, Devminor: 3},
		symlink("lib", "usr/lib"), symlink("long", strings.Repeat("l/", 100)),
	}
	for i := range 3000 { // more than one block of a directory
		entries = append(entries, file(fmt.Sprintf("many/file-with-a-rather-long-name-%04d", i), ""))
	}
	var images [2][]byte
	path := filepath.Join(t.TempDir(), "fs")
	for i := range images {
		tree, err := merge(t, entries)
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		var last int64
		err = tree.WriteFS(t.Context(), f, func(done int64) { last = done })
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		if last != tree.Bytes() {
			t.Errorf("progress ended at %d of %d", last, tree.Bytes())
		}
		if images[i], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(images[0], images[1]) {
		t.Error("the same layers gave other bytes the second time")
	}
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin")
	if _, err := exec.LookPath("debugfs"); err != nil {
		t.Skip("no e2fsprogs to look at the file system with")
	}
	if out, err := exec.Command("e2fsck", "-f", "-n", path).CombinedOutput(); err != nil {
		t.Errorf("e2fsck: %v\n%s", err, out)
	}
	for command, want := range map[string][]string{
		"stat /usr/bin/sudo":    {"Mode:  04755"},
		"stat /usr/bin/big2":    {"Links: 2", fmt.Sprintf("Size: %d", len(big))},
		"stat /home/rig":        {"Mode:  0750", "User:  1000   Group:  1000"},
		"stat /lib":             {`Fast link dest: "usr/lib"`},
		"stat /dev/null":        {"01:03"},
		"ea_list /usr/bin/ping": {"security.capability (20)", "user.note (4)"},
	} {
		out, err := exec.Command("debugfs", "-R", command, path).Output()
		for _, w := range want {
			if err != nil || !strings.Contains(string(out), w) {
				t.Errorf("debugfs %s: %v; want %q in\n%s", command, err, w, out)
			}
		}
		if strings.Contains(string(out), "trusted.other") {
			t.Errorf("debugfs %s: an attribute of another machine was kept", command)
		}
	}
	out, err := exec.Command("debugfs", "-R", "cat /usr/bin/big2", path).Output()
	if err != nil || string(out) != big {
		t.Errorf("the content came back with %d bytes of %d, %v", len(out), len(big), err)
	}
}
