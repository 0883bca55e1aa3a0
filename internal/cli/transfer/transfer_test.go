package transfer

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rigs/internal/guestapi"
)

type entry struct {
	name, link, body string
	typ              byte
	mode             int64
}

func stream(t *testing.T, entries ...entry) io.Reader {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		if e.typ == 0 {
			e.typ = tar.TypeReg
		}
		if e.mode == 0 {
			e.mode = 0o644
		}
		h := &tar.Header{Name: e.name, Linkname: e.link, Typeflag: e.typ, Mode: e.mode, Size: int64(len(e.body)), Format: tar.FormatPAX, ModTime: time.Unix(1_700_000_000, 0)}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

// target is a directory to extract into, beside one that must not change.
func target(t *testing.T) (root *os.Root, dir, outside string) {
	t.Helper()
	base := t.TempDir()
	dir, outside = filepath.Join(base, "target"), filepath.Join(base, "outside")
	for _, d := range []string{dir, outside} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(outside, "precious"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root, dir, outside
}

// tree maps every name below dir to what it is.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		switch {
		case d.IsDir():
			got[rel] = "dir"
		case d.Type()&fs.ModeSymlink != 0:
			to, _ := os.Readlink(p)
			got[rel] = "-> " + to
		default:
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			got[rel] = "file " + string(b)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// Case D2: what would reach outside, or be more than a file, is refused by
// name; the rest is written; nothing outside changes.
func TestHostileEntriesAreRefusedByName(t *testing.T) {
	good := entry{name: "good", body: "ok"}
	for name, tc := range map[string]struct {
		entries []entry
		refused []string // names
		want    map[string]string
	}{
		"upwards":            {[]entry{{name: "../evil", body: "x"}, {name: "a/../../evil", body: "x"}}, []string{"../evil", "a/../../evil"}, nil},
		"upwards and back":   {[]entry{{name: "a/../b", body: "x"}}, []string{"a/../b"}, nil},
		"absolute":           {[]entry{{name: "/tmp/evil", body: "x"}}, []string{"/tmp/evil"}, nil},
		"link out, absolute": {[]entry{{name: "l", link: "/etc", typ: tar.TypeSymlink}}, []string{"l"}, nil},
		"link out, relative": {[]entry{{name: "d/l", link: "../../outside", typ: tar.TypeSymlink}}, []string{"d/l"}, map[string]string{"d": "dir"}},
		"link out and back":  {[]entry{{name: "l", link: "../target/x", typ: tar.TypeSymlink}}, []string{"l"}, nil},
		"link up from a part that could be a link": {
			[]entry{{name: "here", link: ".", typ: tar.TypeSymlink}, {name: "l", link: "here/../outside/precious", typ: tar.TypeSymlink}},
			[]string{"l"}, map[string]string{"here": "-> ."},
		},
		"link with no target":  {[]entry{{name: "l", typ: tar.TypeSymlink}}, []string{"l"}, nil},
		"file through a link":  {[]entry{{name: "d/", typ: tar.TypeDir, mode: 0o755}, {name: "l", link: "d", typ: tar.TypeSymlink}, {name: "l/f", body: "x"}}, []string{"l/f"}, map[string]string{"d": "dir", "l": "-> d"}},
		"dir over a link":      {[]entry{{name: "d/", typ: tar.TypeDir, mode: 0o755}, {name: "l", link: "d", typ: tar.TypeSymlink}, {name: "l/", typ: tar.TypeDir}}, []string{"l/"}, map[string]string{"d": "dir", "l": "-> d"}},
		"hard link outside":    {[]entry{{name: "h", link: "../outside/precious", typ: tar.TypeLink}}, []string{"h"}, nil},
		"hard link, absolute":  {[]entry{{name: "h", link: "/etc/passwd", typ: tar.TypeLink}}, []string{"h"}, nil},
		"hard link to earlier": {[]entry{{name: "h", link: "was-here", typ: tar.TypeLink}}, []string{"h"}, nil},
		"hard link to a link":  {[]entry{{name: "l", link: "good", typ: tar.TypeSymlink}, {name: "h", link: "l", typ: tar.TypeLink}}, []string{"h"}, map[string]string{"l": "-> good"}},
		"devices and pipes": {
			[]entry{{name: "c", typ: tar.TypeChar}, {name: "b", typ: tar.TypeBlock}, {name: "p", typ: tar.TypeFifo}},
			[]string{"c", "b", "p"}, nil,
		},
		"file over a directory": {[]entry{{name: "d/", typ: tar.TypeDir, mode: 0o755}, {name: "d", body: "x"}}, []string{"d"}, map[string]string{"d": "dir"}},
		"file under a file":     {[]entry{{name: "f", body: "x"}, {name: "f/g", body: "y"}}, []string{"f/g"}, map[string]string{"f": "file x"}},
		"the target itself":     {[]entry{{name: ".", link: "x", typ: tar.TypeSymlink}}, []string{"."}, nil},
		"a name too long":       {[]entry{{name: strings.Repeat("n", 256), body: "x"}}, []string{strings.Repeat("n", 256)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			root, dir, outside := target(t)
			if err := os.WriteFile(filepath.Join(dir, "was-here"), []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
			err := Extract(t.Context(), root, stream(t, slices.Concat([]entry{good}, tc.entries, []entry{{name: "last", body: "too"}})...), Options{})
			var refused *Refused
			if !errors.As(err, &refused) {
				t.Fatalf("error %v, want a *Refused", err)
			}
			if len(refused.Names) != len(tc.refused) {
				t.Errorf("refused %q, want %q", refused.Names, tc.refused)
			}
			for _, n := range tc.refused {
				if !strings.Contains(err.Error(), `"`+n+`"`) {
					t.Errorf("%q is not named in: %v", n, err)
				}
			}
			want := map[string]string{"was-here": "file old", "good": "file ok", "last": "file too"}
			maps.Copy(want, tc.want)
			if d := cmp.Diff(want, tree(t, dir)); d != "" {
				t.Errorf("target (-want +got):\n%s", d)
			}
			if d := cmp.Diff(map[string]string{"precious": "file mine"}, tree(t, outside)); d != "" {
				t.Errorf("outside (-want +got):\n%s", d)
			}
		})
	}
}

// A link that the user's own directory held before is not written through
// either, and a file is replaced by name, not through the link in its place.
func TestLinksOfTheTargetAreNotFollowed(t *testing.T) {
	root, dir, outside := target(t)
	if err := os.Symlink(outside, filepath.Join(dir, "d")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(outside, "precious"), filepath.Join(dir, "f")); err != nil {
		t.Fatal(err)
	}
	err := Extract(t.Context(), root, stream(t, entry{name: "d/x", body: "evil"}, entry{name: "f", body: "new"}), Options{})
	var refused *Refused
	if !errors.As(err, &refused) || len(refused.Names) != 1 {
		t.Fatalf("error %v, want d/x refused", err)
	}
	if d := cmp.Diff(map[string]string{"d": "-> " + outside, "f": "file new"}, tree(t, dir)); d != "" {
		t.Errorf("target (-want +got):\n%s", d)
	}
	if d := cmp.Diff(map[string]string{"precious": "file mine"}, tree(t, outside)); d != "" {
		t.Errorf("outside (-want +got):\n%s", d)
	}
}

func TestModesKeepNoSpecialBits(t *testing.T) {
	root, dir, _ := target(t)
	err := Extract(t.Context(), root, stream(t,
		entry{name: "d/", typ: tar.TypeDir, mode: 0o7555}, entry{name: "d/f", body: "x", mode: 0o6755}, entry{name: "locked/", typ: tar.TypeDir, mode: 0o1}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{"d": fs.ModeDir | 0o755, "d/f": 0o755, "locked": fs.ModeDir | 0o701} {
		fi, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if fi.Mode() != want {
			t.Errorf("%s has mode %v, want %v", name, fi.Mode(), want)
		}
	}
}

func TestBoundsEndAnExtraction(t *testing.T) {
	for name, opt := range map[string]Options{
		"bytes":   {MaxBytes: 5},
		"entries": {MaxEntries: 2},
	} {
		t.Run(name, func(t *testing.T) {
			root, _, _ := target(t)
			err := Extract(t.Context(), root, stream(t, entry{name: "a", body: "123"}, entry{name: "b", body: "4"}, entry{name: "c", body: "567"}), opt)
			if !errors.Is(err, ErrTooLarge) {
				t.Fatalf("error %v, want ErrTooLarge", err)
			}
			if _, err := root.Lstat("c"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the entry over the bound is there: %v", err)
			}
		})
	}
}

func TestTruncatedStreamIsAnError(t *testing.T) {
	root, _, _ := target(t)
	b, err := io.ReadAll(stream(t, entry{name: "a", body: strings.Repeat("x", 4096)}))
	if err != nil {
		t.Fatal(err)
	}
	if err := Extract(t.Context(), root, bytes.NewReader(b[:2048]), Options{}); err == nil {
		t.Fatal("no error for half a file")
	}
	if _, err := root.Lstat("a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("half a file was left behind: %v", err)
	}
}

// Case D8: names that are legal on this host are carried as they are.
func TestOddNamesAreCarried(t *testing.T) {
	src := t.TempDir()
	names := []string{"new\nline", "%2f", "-rf", "a:b", "tab\tname", strings.Repeat("n", 255), "\xff\xfe", "…", " ", "\x1b[31mred"}
	want := map[string]string{}
	for _, n := range names {
		err := os.WriteFile(filepath.Join(src, n), []byte(n), 0o600)
		if errors.Is(err, syscall.EILSEQ) || errors.Is(err, syscall.EINVAL) {
			continue // this file system does not have such names
		}
		if err != nil {
			t.Fatal(err)
		}
		want[filepath.Join("top", n)] = "file " + n
	}
	want["top"] = "dir"
	root, dir, _ := target(t)
	roundTrip(t, root, src, "top")
	if d := cmp.Diff(want, tree(t, dir)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func roundTrip(t *testing.T, root *os.Root, src, name string) {
	t.Helper()
	var b bytes.Buffer
	if err := Pack(t.Context(), &b, src, name, nil); err != nil {
		t.Fatal(err)
	}
	if err := Extract(t.Context(), root, &b, Options{}); err != nil {
		t.Fatal(err)
	}
}

func TestPackKeepsWhatATreeIs(t *testing.T) {
	src := t.TempDir()
	old := time.Unix(1_600_000_000, 0)
	for _, f := range []func() error{
		func() error { return os.MkdirAll(filepath.Join(src, "d/empty"), 0o755) },
		func() error { return os.WriteFile(filepath.Join(src, "d/run"), []byte("#!"), 0o755) },
		func() error { return os.Symlink("run", filepath.Join(src, "d/link")) },
		func() error { return os.Chtimes(filepath.Join(src, "d/run"), old, old) },
	} {
		if err := f(); err != nil {
			t.Fatal(err)
		}
	}
	root, dir, _ := target(t)
	roundTrip(t, root, src, ".")
	want := map[string]string{"d": "dir", "d/empty": "dir", "d/run": "file #!", "d/link": "-> run"}
	if d := cmp.Diff(want, tree(t, dir)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	fi, err := os.Stat(filepath.Join(dir, "d/run"))
	if err != nil {
		t.Fatal(err)
	}
	if fi.Mode() != 0o755 || !fi.ModTime().Equal(old) {
		t.Errorf("d/run has mode %v and time %v", fi.Mode(), fi.ModTime())
	}
}

func TestPackNamesWhatItLeavesOut(t *testing.T) {
	src := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(src, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(src, "file"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	err := Pack(t.Context(), &b, src, ".", nil)
	var refused *Refused
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "pipe") {
		t.Fatalf("error %v, want the pipe refused", err)
	}
	root, dir, _ := target(t)
	if err := Extract(t.Context(), root, &b, Options{}); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]string{"file": "file x"}, tree(t, dir)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestRenameGivesTheTopAnotherName(t *testing.T) {
	for name, tc := range map[string]struct {
		rename func(string) string
		want   map[string]string
	}{
		"other name": {func(string) string { return "new" }, map[string]string{"new": "dir", "new/f": "file x", "new/h": "file x"}},
		"dropped":    {func(string) string { return "" }, map[string]string{"f": "file x", "h": "file x"}},
	} {
		t.Run(name, func(t *testing.T) {
			root, dir, _ := target(t)
			err := Extract(t.Context(), root, stream(t, entry{name: "old/", typ: tar.TypeDir, mode: 0o755}, entry{name: "old/f", body: "x"}, entry{name: "old/h", link: "old/f", typ: tar.TypeLink}), Options{Rename: tc.rename})
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, tree(t, dir)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// What was beside a copy before is as much outside of it as anything else.
func TestLinksStayInTheirCopy(t *testing.T) {
	root, dir, _ := target(t)
	if err := os.WriteFile(filepath.Join(dir, "was-here"), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := func(name, to string) entry { return entry{name: name, link: to, typ: tar.TypeSymlink} }
	err := Extract(t.Context(), root, stream(t, entry{name: "top/d/", typ: tar.TypeDir, mode: 0o755},
		link("top/d/up", "../f"), link("top/in", "d/up"), entry{name: "top/f", body: "x"},
		link("top/beside", "../was-here"), link("top/d/beside", "../../was-here"), link("top/round", "../copy/f"), link("top", "was-here")),
		Options{Rename: func(string) string { return "copy" }})
	var refused *Refused
	if !errors.As(err, &refused) || len(refused.Names) != 4 {
		t.Fatalf("got %v, want 4 refused", err)
	}
	want := map[string]string{"was-here": "file old", "copy": "dir", "copy/d": "dir", "copy/d/up": "-> ../f", "copy/in": "-> d/up", "copy/f": "file x"}
	if d := cmp.Diff(want, tree(t, dir)); d != "" {
		t.Error(d)
	}
}

func TestCancelEndsACopy(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	root, _, _ := target(t)
	if err := Extract(ctx, root, stream(t, entry{name: "a", body: "x"}), Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Extract: %v, want context.Canceled", err)
	}
	if err := Pack(ctx, io.Discard, root.Name(), "x", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Pack: %v, want context.Canceled", err)
	}
}

func FuzzExtractStaysInside(f *testing.F) {
	f.Add("a/b", "../x", byte(tar.TypeSymlink), "a/b/c")
	f.Add("l", "..", byte(tar.TypeSymlink), "l/../outside/x")
	f.Add("h", "l", byte(tar.TypeLink), "h")
	f.Fuzz(func(t *testing.T, name, link string, typ byte, second string) {
		root, _, outside := target(t)
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, h := range []*tar.Header{{Name: name, Linkname: link, Typeflag: typ, Mode: 0o644}, {Name: second, Typeflag: tar.TypeReg, Mode: 0o644, Size: 1}} {
			if w.WriteHeader(h) != nil {
				t.Skip()
			}
			if h.Size == 1 {
				_, _ = w.Write([]byte("x"))
			}
		}
		if w.Close() != nil {
			t.Skip()
		}
		_ = Extract(t.Context(), root, &b, Options{})
		if d := cmp.Diff(map[string]string{"precious": "file mine"}, tree(t, outside)); d != "" {
			t.Errorf("outside changed:\n%s", d)
		}
	})
}

func TestWhatTheRigCouldNotReadIsNamed(t *testing.T) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range []*tar.Header{
		{Typeflag: tar.TypeXGlobalHeader, Name: "skipped", PAXRecords: map[string]string{guestapi.SkippedName: "d/\x1b[31msecret", guestapi.SkippedReason: "permission denied\x07"}},
		{Typeflag: tar.TypeXGlobalHeader, Name: "comment", PAXRecords: map[string]string{"comment": "of another program"}},
		{Typeflag: tar.TypeReg, Name: "d/b", Mode: 0o644},
	} {
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	root, dir, _ := target(t)
	err := Extract(t.Context(), root, &b, Options{})
	var refused *Refused
	if !errors.As(err, &refused) || len(refused.Names) != 1 || refused.Names[0] != `"d/?[31msecret": permission denied?` {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "d", "b")); err != nil {
		t.Errorf("the rest was not copied: %v", err)
	}
}
