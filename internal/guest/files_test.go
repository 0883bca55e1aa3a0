//go:build linux

package guest

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"rigs/internal/guestapi"
	"rigs/internal/rig"
)

func filesURL(path string) string { return "/v1/files?path=" + url.QueryEscape(path) }

// archive makes a tar archive.
func archive(t *testing.T, entries ...*tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		body := []byte(nil)
		if h.Typeflag == tar.TypeReg {
			body = []byte("content of " + h.Name)
			h.Size = int64(len(body))
		}
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func reg(name string) *tar.Header { return &tar.Header{Typeflag: tar.TypeReg, Name: name} }
func dir(name string) *tar.Header { return &tar.Header{Typeflag: tar.TypeDir, Name: name} }
func link(name, to string) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}
}
func hard(name, to string) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: to}
}

func (h *host) put(path string, b []byte) error {
	_, err := h.call(http.MethodPut, filesURL(path), bytes.NewReader(b))
	return err
}

// fetch returns what a GET of path carries: name → type and content.
func (h *host) fetch(t *testing.T, path string) map[string]string {
	t.Helper()
	b, err := h.call(http.MethodGet, filesURL(path), nil)
	if err != nil {
		t.Fatalf("GET %q: %v", path, err)
	}
	got := map[string]string{}
	r := tar.NewReader(bytes.NewReader(b))
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return got
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		got[e.Name] = fmt.Sprintf("%c %o %s%s", e.Typeflag, e.Mode, body, e.Linkname)
	}
}

// D8: names that are no text are carried as they are.
var oddNames = []string{
	"new\nline", "tab\tand \"quotes\"", "%2f", "..hidden..", "-x", "a b", "\\", "*", "ünïcödé テスト",
	"\xff\xfe invalid", strings.Repeat("n", 255), strings.Repeat("\xf0", 255),
}

func TestFilesGoInAndOut(t *testing.T) {
	h := start(t)
	in := []*tar.Header{dir("tree/"), {Typeflag: tar.TypeDir, Name: "tree/closed", Mode: 0o500}, reg("tree/closed/file"), dir("tree/empty"), link("tree/link", "../outside"), link("tree/abs", "/etc/passwd")}
	want := map[string]string{
		"tree/": "5 755 ", "tree/closed/": "5 500 ", "tree/closed/file": "0 640 content of tree/closed/file",
		"tree/empty/": "5 755 ", "tree/link": "2 777 ../outside", "tree/abs": "2 777 /etc/passwd",
	}
	in[2].Mode = 0o640
	in = append(in, &tar.Header{Typeflag: tar.TypeReg, Name: "tree/for all", Mode: 0o666}) // whatever the umask
	want["tree/for all"] = "0 666 content of tree/for all"
	for _, n := range oddNames {
		in = append(in, reg("tree/"+n))
		want["tree/"+n] = "0 755 content of tree/" + n
	}
	deep := "tree/" + strings.Repeat("d/", 100)
	in = append(in, reg(deep+"f"))
	want[deep+"f"] = "0 755 content of " + deep + "f"
	for i := range 100 {
		want["tree/"+strings.Repeat("d/", i+1)] = "5 755 "
	}
	at := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	for _, e := range in {
		e.ModTime = at
	}
	if err := h.put("new/place", archive(t, in...)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"new/place/tree", "~/new/place/tree/", h.user.Home + "/new/./place/tree"} {
		got := h.fetch(t, path)
		for n, v := range want {
			if got[n] != v {
				t.Errorf("%.80q: got %.80q, want %.80q", n, got[n], v)
			}
			delete(got, n)
		}
		for n, v := range got {
			t.Errorf("unasked: %.80q: %.80q", n, v)
		}
	}
	base := filepath.Join(h.user.Home, "new/place/tree")
	for _, n := range []string{"closed", "closed/file", "empty", oddNames[0]} {
		fi, err := os.Stat(filepath.Join(base, n))
		if err != nil {
			t.Fatal(err)
		}
		if !fi.ModTime().Equal(at) {
			t.Errorf("%s: time %s", n, fi.ModTime())
		}
		if st := fi.Sys().(*syscall.Stat_t); int(st.Uid) != h.user.UID || int(st.Gid) != h.user.GID {
			t.Errorf("%s belongs to %d:%d", n, st.Uid, st.Gid)
		}
	}
	if err := os.Chmod(filepath.Join(base, "closed"), 0o700); err != nil { // so that it can be removed
		t.Fatal(err)
	}
}

func TestFilesReplaceFilesAndMergeDirectories(t *testing.T) {
	h := start(t)
	if err := h.put("x", archive(t, dir("d"), reg("d/stays"), reg("d/f"), link("d/l", "stays"), reg("old"), hard("d/h", "old"))); err != nil {
		t.Fatal(err)
	}
	if got := h.fetch(t, "x/d/h"); got["h"] != "0 755 content of old" {
		t.Errorf("the hard link: %v", got)
	}
	// Over a file, over a link (not through it), a link over a file.
	if err := h.put("x", archive(t, dir("d"), reg("d/f"), reg("d/l"), link("old", "d"), reg("./d/e/"+"new"))); err != nil {
		t.Fatal(err)
	}
	got := h.fetch(t, "x")
	for n, v := range map[string]string{
		"x/d/stays": "0 755 content of d/stays", "x/d/l": "0 755 content of d/l", "x/old": "2 777 d",
		"x/d/h": "0 755 content of old", "x/d/e/new": "0 755 content of ./d/e/new",
	} {
		if got[n] != v {
			t.Errorf("%s: got %q, want %q", n, got[n], v)
		}
	}
	code(t, h.put("x", archive(t, reg("d"))), rig.CodeConflict, "")
	code(t, h.put("x", archive(t, dir("d/f"))), rig.CodeConflict, "")
	code(t, h.put("x/d/f", archive(t, reg("f"))), rig.CodeConflict, "")
}

// D2: nothing of an archive leads out of its directory.
func TestHostileArchivesAreRefused(t *testing.T) {
	h := start(t)
	secret := filepath.Join(h.user.Home, "secret")
	for name, entries := range map[string][]*tar.Header{
		"dot-dot":                  {reg("../evil")},
		"dot-dot inside":           {reg("a/../../evil")},
		"dot-dot at the end":       {dir("a/..")},
		"absolute":                 {reg("/tmp/evil")},
		"through a link":           {link("l", ".."), reg("l/evil")},
		"through an absolute link": {link("l", "/tmp"), reg("l/evil")},
		"through two links":        {link("a", "b"), link("b", ".."), reg("a/evil")},
		"a directory by a link":    {link("l", ".."), dir("l/evil")},
		"a hard link outside":      {hard("evil", "../secret")},
		"a hard link by a link":    {link("l", ".."), hard("evil", "l/secret")},
		"an absolute hard link":    {hard("evil", secret)},
		"a device":                 {{Typeflag: tar.TypeChar, Name: "evil", Devmajor: 1, Devminor: 3}},
		"a block device":           {{Typeflag: tar.TypeBlock, Name: "evil"}},
		"a pipe":                   {{Typeflag: tar.TypeFifo, Name: "evil"}},
		"too long":                 {reg(strings.Repeat("a/", guestapi.MaxPath/2) + "evil")},
		"too long a part":          {reg(strings.Repeat("a", 256))},
	} {
		t.Run(name, func(t *testing.T) {
			home := h.user.Home
			if err := os.RemoveAll(home + "/in"); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(secret, []byte("secret"), 0o644); err != nil {
				t.Fatal(err)
			}
			err := h.put("in/here", archive(t, append([]*tar.Header{reg("first")}, entries...)...))
			code(t, err, rig.CodeInvalidRequest, "")
			if last := entries[len(entries)-1].Name; err != nil && !strings.Contains(err.Error(), filepath.Base(last)[:1]) {
				t.Errorf("it does not name the entry: %v", err)
			}
			var found []string
			_ = filepath.WalkDir(home, func(p string, d fs.DirEntry, err error) error {
				if d != nil && d.Name() == "evil" {
					found = append(found, p)
				}
				return err
			})
			if _, err := os.Lstat("/tmp/evil"); err == nil {
				found = append(found, "/tmp/evil")
			}
			if len(found) > 0 {
				t.Errorf("written: %v", found)
			}
		})
	}
}

func TestDamagedArchivesAreRefused(t *testing.T) {
	h := start(t)
	good := archive(t, reg("a"), reg("b"))
	for name, b := range map[string][]byte{
		"no archive":     []byte(strings.Repeat("this is no archive ", 100)),
		"cut in a file":  good[:512+3],
		"cut in a head":  good[:1024+100],
		"a bad checksum": append([]byte("X"), good[1:]...),
	} {
		t.Run(name, func(t *testing.T) {
			code(t, h.put("x", b), rig.CodeInvalidRequest, "")
		})
	}
	t.Run("a body that breaks off between two files", func(t *testing.T) {
		r, w := io.Pipe()
		go func() {
			_, _ = w.Write(good[:1024])
			w.CloseWithError(errors.New("the client fails"))
		}()
		if _, err := h.call(http.MethodPut, filesURL("cut"), r); err == nil {
			t.Error("it was accepted")
		}
	})
	// A refusal reaches a client that has much more to send.
	evil := archive(t, reg("../evil"))
	code(t, h.put("x", append(evil, make([]byte, 50<<20)...)), rig.CodeInvalidRequest, "")
}

func TestFilesHaveTheUsersRights(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to have files that are not the user's")
	}
	h := start(t)
	mine := filepath.Join(h.user.Home, "roots")
	if err := os.Mkdir(mine, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"open": 0o644, "shut": 0o600} {
		if err := os.WriteFile(filepath.Join(mine, name), []byte(name), mode); err != nil {
			t.Fatal(err)
		}
	}
	if got := h.fetch(t, mine+"/open"); got["open"] != "0 644 open" {
		t.Errorf("%v", got)
	}
	_, err := h.call(http.MethodGet, filesURL(mine+"/shut"), nil)
	code(t, err, rig.CodeForbidden, "")
	if err != nil && (!strings.Contains(err.Error(), mine+"/shut") || !strings.Contains(err.Error(), "permission denied")) {
		t.Errorf("got %v", err)
	}
	got := h.fetch(t, mine)
	if top := filepath.Base(mine); got[top+"/open"] != "0 644 open" || got[top+"/shut"] != "" {
		t.Errorf("%v", got)
	}
	for _, path := range []string{mine, mine + "/new", "/etc", "/root/x"} {
		err := h.put(path, archive(t, reg("evil")))
		code(t, err, rig.CodeForbidden, "")
		if err != nil && (!strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "permission denied")) {
			t.Errorf("got %v", err)
		}
	}
	if _, err := os.Stat("/etc/evil"); err == nil {
		t.Error("written as root")
	}
	_, err = h.call(http.MethodGet, "/v1/stat?path="+url.QueryEscape("/root/.ssh"), nil)
	code(t, err, rig.CodeForbidden, "")
	// The threads that acted for the user were thrown away: root is root again.
	for range 50 {
		if r, err := h.run(t, guestapi.ExecRequest{Argv: []string{"cat", mine + "/shut"}, Root: true, Cwd: "/"}, ""); err != nil || r.out != "shut" {
			t.Fatalf("%+v, %v", r, err)
		}
		if err := h.put("x", archive(t, reg("y"))); err != nil {
			t.Fatal(err)
		}
		if _, err := os.ReadFile(mine + "/shut"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFilesSaysWhatCannotBeSent(t *testing.T) {
	h := start(t)
	home := h.user.Home
	if err := syscall.Mkfifo(home+"/pipe", 0o666); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", home+"/socket")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for path, want := range map[string]struct {
		code  rig.Code
		field string
		text  string
	}{
		"":                         {rig.CodeInvalidRequest, "path", "no path"},
		"/":                        {rig.CodeInvalidRequest, "path", "whole"},
		"missing":                  {rig.CodeNotFound, "", home + "/missing"},
		"pipe":                     {rig.CodeInvalidRequest, "path", "named pipe"},
		"socket":                   {rig.CodeInvalidRequest, "path", "socket"},
		"/dev/null":                {rig.CodeInvalidRequest, "path", "device"},
		"a\x00b":                   {rig.CodeInvalidRequest, "path", "NUL"},
		strings.Repeat("x/", 3000): {rig.CodeInvalidRequest, "path", "longer"},
	} {
		_, err := h.call(http.MethodGet, filesURL(path), nil)
		code(t, err, want.code, want.field)
		if err != nil && !strings.Contains(err.Error(), want.text) {
			t.Errorf("%.40q: %v", path, err)
		}
	}
	_, err = h.call(http.MethodGet, "/v1/files?path=%zz", nil)
	code(t, err, rig.CodeInvalidRequest, "path")
	// In a tree they are left out.
	if got := h.fetch(t, home); len(got) != 1 {
		t.Errorf("%v", got)
	}
	// A link that is asked for is followed, and has the name that was asked for.
	if err := errors.Join(os.WriteFile(home+"/f", []byte("f"), 0o644), os.Symlink("f", home+"/l"), os.Symlink("gone", home+"/broken")); err != nil {
		t.Fatal(err)
	}
	if got := h.fetch(t, "l"); got["l"] != "0 644 f" {
		t.Errorf("%v", got)
	}
	_, err = h.call(http.MethodGet, filesURL("broken"), nil)
	code(t, err, rig.CodeNotFound, "")
	// Files of the kernel claim to be empty and are not.
	if got := h.fetch(t, "/proc/version"); !strings.Contains(got["version"], "Linux") {
		t.Errorf("%v", got)
	}
}

func TestStat(t *testing.T) {
	h := start(t)
	home := h.user.Home
	at := time.Date(2002, 3, 4, 5, 6, 7, 0, time.UTC)
	if err := errors.Join(os.WriteFile(home+"/f", []byte("1234"), 0o640), os.Chmod(home+"/f", 0o640), os.Chtimes(home+"/f", at, at), os.Symlink("f", home+"/l")); err != nil {
		t.Fatal(err)
	}
	stat := func(path string) guestapi.FileInfo {
		return get[guestapi.FileInfo](t, h, "/v1/stat?path="+url.QueryEscape(path))
	}
	if got, want := stat("./f"), (guestapi.FileInfo{Path: home + "/f", Type: "file", Size: 4, Mode: 0o640, MTime: at}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := stat("~"); got.Type != "dir" || got.Path != home {
		t.Errorf("got %+v", got)
	}
	if got := stat("l"); got.Type != "symlink" || got.Target != "f" {
		t.Errorf("got %+v", got)
	}
	if got := stat("/dev/null"); got.Type != "other" {
		t.Errorf("got %+v", got)
	}
	_, err := h.call(http.MethodGet, "/v1/stat?path=none", nil)
	code(t, err, rig.CodeNotFound, "")
}

// 100 MB are streamed, not held.
func TestLargeFilesStream(t *testing.T) {
	h := start(t)
	const size = 100 << 20
	r, w := io.Pipe()
	go func() {
		tw := tar.NewWriter(w)
		err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "big", Size: size, Mode: 0o644})
		if err == nil {
			_, err = io.CopyN(tw, zeros{}, size)
		}
		w.CloseWithError(errors.Join(err, tw.Close()))
	}()
	if _, err := h.call(http.MethodPut, filesURL("."), r); err != nil {
		t.Fatal(err)
	}
	fi, err := os.Stat(h.user.Home + "/big")
	if err != nil || fi.Size() != size {
		t.Fatalf("%v, %v", fi, err)
	}
	res, err := h.http.Get("http://guest" + filesURL("big"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	tr := tar.NewReader(res.Body)
	if e, err := tr.Next(); err != nil || e.Size != size {
		t.Fatalf("%+v, %v", e, err)
	}
	if n, err := io.Copy(io.Discard, tr); err != nil || n != size {
		t.Errorf("%d bytes, %v", n, err)
	}
	if _, err := tr.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

func TestManySmallFiles(t *testing.T) {
	h := start(t)
	var in []*tar.Header
	for i := range 2000 {
		in = append(in, reg(fmt.Sprintf("many/%d/%d", i%20, i)))
	}
	if err := h.put(".", archive(t, in...)); err != nil {
		t.Fatal(err)
	}
	if got := h.fetch(t, "many"); len(got) != 2000+20+1 {
		t.Errorf("%d entries came back", len(got))
	}
}

// An archive that cannot be finished is broken off, not ended as if complete.
func TestShrinkingFileBreaksTheArchiveOff(t *testing.T) {
	h := start(t)
	big := h.user.Home + "/big"
	if err := errors.Join(os.WriteFile(big, nil, 0o644), os.Truncate(big, 64<<20)); err != nil {
		t.Fatal(err)
	}
	res, err := h.http.Get("http://guest" + filesURL("big"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	// It is stuck in the middle, as nobody has read it yet.
	if err := os.Truncate(big, 1000); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, res.Body); err == nil {
		t.Error("the archive ends as if nothing were wrong")
	}
}

func TestWhatCannotBeReadInATreeIsNamedAndTheRestIsSent(t *testing.T) {
	h := start(t)
	if err := h.put("~/mixed", archive(t, reg("a"), reg("secret"), dir("closed/"), reg("closed/x"), reg("z"))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"secret", "closed"} {
		if err := os.Chmod(filepath.Join(h.user.Home, "mixed", name), 0); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(h.user.Home, "mixed", "closed"), 0o755) }) // so that it can be removed
	b, err := h.call(http.MethodGet, filesURL("~/mixed"), nil)
	if err != nil {
		t.Fatal(err)
	}
	sent, skipped := []string{}, map[string]string{}
	for r := tar.NewReader(bytes.NewReader(b)); ; {
		hd, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if hd.Typeflag == tar.TypeXGlobalHeader {
			skipped[hd.PAXRecords[guestapi.SkippedName]] = hd.PAXRecords[guestapi.SkippedReason]
			continue
		}
		sent = append(sent, hd.Name)
	}
	if want := []string{"mixed/", "mixed/a", "mixed/z"}; !slices.Equal(sent, want) {
		t.Errorf("sent %q, want %q", sent, want)
	}
	if want := map[string]string{"mixed/secret": "permission denied", "mixed/closed": "permission denied"}; !maps.Equal(skipped, want) {
		t.Errorf("skipped %q, want %q", skipped, want)
	}
	_, err = h.call(http.MethodGet, filesURL("~/mixed/secret"), nil)
	code(t, err, rig.CodeForbidden, "")
}
