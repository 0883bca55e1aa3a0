//go:build linux

package guest

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"rigs/internal/guestapi"
	"rigs/internal/rig"
)

func post[O any](t *testing.T, h *host, path string, in any) (O, error) {
	t.Helper()
	var out O
	b, err := h.call(http.MethodPost, path, in)
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	return out, nil
}

func TestAFileIsWrittenAndReadInPieces(t *testing.T) {
	h := start(t)
	dir := h.sh(t, "mktemp -d")
	dir = strings.TrimSpace(dir)
	name := dir + "/new/deep/file.txt"
	info, err := post[guestapi.FileInfo](t, h, "/v1/write", guestapi.WriteFile{Path: name, Data: []byte("hello ")})
	if err != nil || info.Size != 6 || info.Mode != 0o644 || info.Type != "file" || info.Path != name {
		t.Fatalf("%+v %v", info, err)
	}
	if info, err = post[guestapi.FileInfo](t, h, "/v1/write", guestapi.WriteFile{Path: name, Data: []byte("world"), Append: true, Mode: 0o600}); err != nil || info.Size != 11 || info.Mode != 0o600 {
		t.Fatalf("%+v %v", info, err)
	}
	for _, x := range []struct {
		offset int64
		limit  int
		want   string
		more   bool
	}{{0, 100, "hello world", false}, {0, 11, "hello world", false}, {0, 5, "hello", true}, {6, 100, "world", false}, {11, 5, "", false}, {99, 5, "", false}} {
		p, err := post[guestapi.FilePiece](t, h, "/v1/read", guestapi.ReadFile{Path: name, Offset: x.offset, Limit: x.limit})
		if err != nil || string(p.Data) != x.want || p.More != x.more || p.Size != 11 {
			t.Errorf("%+v: %+v %v", x, p, err)
		}
	}
	// Whole, with the mode that it had, and nothing left beside it.
	if info, err = post[guestapi.FileInfo](t, h, "/v1/write", guestapi.WriteFile{Path: name, Data: []byte("new")}); err != nil || info.Size != 3 || info.Mode != 0o600 {
		t.Fatalf("%+v %v", info, err)
	}
	if ls := h.sh(t, "ls -A "+dir+"/new/deep"); ls != "file.txt\n" {
		t.Errorf("left: %q", ls)
	}
	if who := h.sh(t, "stat -c %u "+name+" "+dir+"/new"); who != strings.Repeat(h.sh(t, "id -u"), 2) {
		t.Errorf("they belong to %q", who)
	}
	// A link stays one.
	h.sh(t, "cd "+dir+" && ln -s new/deep/file.txt there && ln -s nowhere dangling && ln -s loop loop")
	for link, to := range map[string]string{"there": "new/deep/file.txt", "dangling": "nowhere"} {
		if _, err = post[guestapi.FileInfo](t, h, "/v1/write", guestapi.WriteFile{Path: dir + "/" + link, Data: []byte(link)}); err != nil {
			t.Error(err)
		}
		if got := h.sh(t, "cd "+dir+" && cat "+to+" && readlink "+link); got != link+to+"\n" {
			t.Errorf("%s: %q", link, got)
		}
	}
}

func TestFilesThatAreNoneAreRefused(t *testing.T) {
	h := start(t)
	dir := strings.TrimSpace(h.sh(t, "d=$(mktemp -d) && cd $d && mkfifo pipe && mkdir sub && ln -s loop loop && echo x > locked && chmod 444 locked && echo x > secret && chmod 000 secret && echo $d"))
	rest := "/" + strings.Repeat("y", 300)
	for name, want := range map[string]rig.Code{
		dir + "/pipe": rig.CodeConflict, dir + "/sub": rig.CodeConflict, dir + "/gone": rig.CodeNotFound, dir + "/secret": rig.CodeForbidden,
		"/dev/zero": rig.CodeConflict, dir + "/loop": rig.CodeInvalidRequest, dir + rest: rig.CodeInvalidRequest, "": rig.CodeInvalidRequest, "a\x00b": rig.CodeInvalidRequest,
		dir + "/locked/x": rig.CodeConflict,
	} {
		if _, err := post[guestapi.FilePiece](t, h, "/v1/read", guestapi.ReadFile{Path: name, Limit: 10}); rig.CodeOf(err) != want {
			t.Errorf("read %.60q: %v (%s), want %s", name, err, rig.CodeOf(err), want)
		}
	}
	for name, want := range map[string]rig.Code{
		dir + "/pipe": rig.CodeConflict, dir + "/sub": rig.CodeConflict, dir + "/locked": rig.CodeForbidden, dir + "/loop": rig.CodeInvalidRequest,
		"/root/x": rig.CodeForbidden, "/etc/passwd": rig.CodeForbidden, dir + "/new/": rig.CodeInvalidRequest, dir + rest: rig.CodeInvalidRequest, dir + "/locked/x": rig.CodeConflict,
	} {
		for _, add := range []bool{false, true} {
			if _, err := post[guestapi.FileInfo](t, h, "/v1/write", guestapi.WriteFile{Path: name, Data: []byte("y"), Append: add}); rig.CodeOf(err) != want {
				t.Errorf("write %.60q (append %v): %v (%s), want %s", name, add, err, rig.CodeOf(err), want)
			}
		}
	}
	if _, err := post[guestapi.FileInfo](t, h, "/v1/write", guestapi.WriteFile{Path: dir + "/suid", Mode: 0o4755}); rig.CodeOf(err) != rig.CodeInvalidRequest {
		t.Errorf("a set-user-id file: %v", err)
	}
	if ls := h.sh(t, "ls -A "+dir); ls != "locked\nloop\npipe\nsecret\nsub\n" {
		t.Errorf("left: %q", ls)
	}
}

// Case D8: names as they can be.
func TestADirectoryIsListedWhateverItsNamesAre(t *testing.T) {
	h := start(t)
	dir := t.TempDir()
	long := strings.Repeat("n", 255)
	names := []string{"a b", "line\nbreak", "%2f", "bad\xff\xfe", "é", long, ".hidden"}
	for _, n := range names {
		if err := os.WriteFile(filepath.Join(dir, n), []byte("123"), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "a b"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("to\xff", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	for d := dir; d != "/tmp" && d != "/"; d = filepath.Dir(d) { // the user must pass through
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	got, err := post[guestapi.Dir](t, h, "/v1/list", guestapi.ListDir{Path: dir, Limit: 100})
	if err != nil || got.More || got.Path != dir || len(got.Entries) != len(names)+3 {
		t.Fatalf("%+v %v", got, err)
	}
	seen := map[string]guestapi.DirEntry{}
	for i, e := range got.Entries {
		name := e.Name
		if e.Raw != nil {
			name = string(e.Raw)
		}
		seen[name] = e
		if i > 0 && got.Entries[i-1].Name > e.Name && e.Raw == nil && got.Entries[i-1].Raw == nil {
			t.Errorf("%q is after %q", e.Name, got.Entries[i-1].Name)
		}
	}
	for _, n := range names {
		if e := seen[n]; e.Type != "file" || e.Size != 3 {
			t.Errorf("%q: %+v", n, e)
		}
	}
	if e := seen["bad\xff\xfe"]; e.Name != `bad\xff\xfe` {
		t.Errorf("%+v", e)
	}
	if e := seen["link"]; e.Type != "symlink" || e.Target != `to\xff` {
		t.Errorf("%+v", e)
	}
	if seen["pipe"].Type != "other" || seen["sub"].Type != "dir" || seen["a b"].Mode != 0o640 {
		t.Errorf("%+v", seen)
	}
	if got, err = post[guestapi.Dir](t, h, "/v1/list", guestapi.ListDir{Path: dir, Limit: 2}); err != nil || !got.More || len(got.Entries) != 2 {
		t.Errorf("%+v %v", got, err)
	}
	for path, want := range map[string]rig.Code{dir + "/pipe": rig.CodeConflict, dir + "/gone": rig.CodeNotFound} {
		if _, err := post[guestapi.Dir](t, h, "/v1/list", guestapi.ListDir{Path: path, Limit: 2}); rig.CodeOf(err) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestTheScreenIsThatOfTheOpenTerminal(t *testing.T) {
	h := start(t)
	if _, err := post[guestapi.Screen](t, h, "/v1/screen", guestapi.ScreenRequest{Session: "main"}); rig.CodeOf(err) != rig.CodeNotFound {
		t.Errorf("before there is one: %v", err)
	}
	v := h.attach(t, guestapi.TerminalRequest{Session: "main", Size: guestapi.Size{Cols: 40, Rows: 7}})
	v.typeIn("printf '\\033[2J\\033[H\\033[35mcolou%s\\033[0m' red; stty size\n")
	v.see("7 40")
	eventually(t, "the screen shows it", func() bool {
		s, err := post[guestapi.Screen](t, h, "/v1/screen", guestapi.ScreenRequest{Session: "main"})
		return err == nil && s.Size == (guestapi.Size{Cols: 40, Rows: 7}) && len(s.Lines) > 0 && s.Lines[0] == "coloured7 40"
	})
	v.typeIn("exit\n")
	v.end()
}
