package keeper

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"rigs/internal/guestapi"
	"rigs/internal/keeperapi"
	"rigs/internal/rig"
)

func TestAFileIsTextWhereItIsAndNothingIsLostBetweenPieces(t *testing.T) {
	for name, c := range map[string]struct {
		data string
		more bool
		want keeperapi.FileText
	}{
		"text":                    {"héllo\n", false, keeperapi.FileText{Content: "héllo\n", Encoding: "text"}},
		"a piece of it":           {"héllo", true, keeperapi.FileText{Content: "héllo", Encoding: "text", NextOffset: 16}},
		"cut in a letter":         {"hé", true, keeperapi.FileText{Content: "hé", Encoding: "text", NextOffset: 13}},
		"cut in a letter, half":   {"h\xc3", true, keeperapi.FileText{Content: "h", Encoding: "text", NextOffset: 11}},
		"cut in one of four":      {"h\xf0\x9f\xa9", true, keeperapi.FileText{Content: "h", Encoding: "text", NextOffset: 11}},
		"half a letter at an end": {"h\xc3", false, keeperapi.FileText{Encoding: "base64"}},
		"no text":                 {"\xff\xfe\x00", true, keeperapi.FileText{Encoding: "base64", NextOffset: 13}},
		"a NUL":                   {"a\x00", false, keeperapi.FileText{Encoding: "base64"}},
		"nothing":                 {"", false, keeperapi.FileText{Encoding: "text"}},
	} {
		c.want.Path, c.want.Size, c.want.Offset = "/f", 99, 10
		if c.want.Encoding == "base64" {
			c.want.Content = base64.StdEncoding.EncodeToString([]byte(c.data))
		}
		got, err := fileText(guestapi.ReadFile{Path: "f", Offset: 10, Limit: 10}, guestapi.FilePiece{Path: "/f", Size: 99, Offset: 10, Data: []byte(c.data), More: c.more})
		if err != nil || *got != c.want {
			t.Errorf("%s: %+v %v, want %+v", name, got, err, c.want)
		}
	}
}

func TestWhatAGuestCannotHaveIsNotPassedOn(t *testing.T) {
	now := time.Now()
	read := guestapi.ReadFile{Path: "f", Offset: 1, Limit: 3}
	for name, p := range map[string]guestapi.FilePiece{
		"a relative path": {Path: "f", Offset: 1}, "a path with ..": {Path: "/a/../f", Offset: 1}, "another piece": {Path: "/f"}, "more than was asked": {Path: "/f", Offset: 1, Data: []byte("1234")},
		"a negative size": {Path: "/f", Offset: 1, Size: -1},
	} {
		if _, err := fileText(read, p); rig.CodeOf(err) != rig.CodeBackendFailure {
			t.Errorf("a file with %s: %v", name, err)
		}
	}
	good := guestapi.DirEntry{Name: "a", Type: "file", MTime: now}
	if l, err := listing(guestapi.ListDir{Limit: 1}, guestapi.Dir{Path: "/d", Entries: []guestapi.DirEntry{good}}); err != nil || len(l.Entries) != 1 {
		t.Fatalf("%+v %v", l, err)
	}
	change := func(f func(*guestapi.DirEntry)) []guestapi.DirEntry { e := good; f(&e); return []guestapi.DirEntry{e} }
	for name, d := range map[string]guestapi.Dir{
		"a relative path":     {Path: "d"},
		"too many entries":    {Path: "/d", Entries: []guestapi.DirEntry{good, good}},
		"an empty name":       {Path: "/d", Entries: change(func(e *guestapi.DirEntry) { e.Name = "" })},
		"a path for a name":   {Path: "/d", Entries: change(func(e *guestapi.DirEntry) { e.Name = "a/b" })},
		"an endless name":     {Path: "/d", Entries: change(func(e *guestapi.DirEntry) { e.Name = strings.Repeat("n", 5000) })},
		"an unknown type":     {Path: "/d", Entries: change(func(e *guestapi.DirEntry) { e.Type = "door" })},
		"a negative size":     {Path: "/d", Entries: change(func(e *guestapi.DirEntry) { e.Size = -1 })},
		"a mode that is none": {Path: "/d", Entries: change(func(e *guestapi.DirEntry) { e.Mode = 1 << 20 })},
		"a year that is none": {Path: "/d", Entries: change(func(e *guestapi.DirEntry) { e.MTime = now.AddDate(20000, 0, 0) })},
	} {
		if _, err := listing(guestapi.ListDir{Limit: 1}, d); rig.CodeOf(err) != rig.CodeBackendFailure {
			t.Errorf("a directory with %s: %v", name, err)
		}
	}
	ask := guestapi.ScreenRequest{Session: "main"}
	size := guestapi.Size{Cols: 10, Rows: 2}
	if s, err := checkScreen(ask, guestapi.Screen{Session: "main", Size: size}); err != nil || s.Lines == nil {
		t.Fatalf("%+v %v", s, err)
	}
	for name, s := range map[string]guestapi.Screen{
		"another's":                {Session: "other", Size: size},
		"of no size":               {Session: "main"},
		"of a huge size":           {Session: "main", Size: guestapi.Size{Cols: 1 << 20, Rows: 2}},
		"with too many lines":      {Session: "main", Size: size, Lines: []string{"", "", ""}},
		"with its cursor outside":  {Session: "main", Size: size, Cursor: guestapi.Cursor{Col: 10}},
		"with an escape sequence":  {Session: "main", Size: size, Lines: []string{"\x1b[2J"}},
		"with a C1 control":        {Session: "main", Size: size, Lines: []string{"\u009b2J"}},
		"with a line break inside": {Session: "main", Size: size, Lines: []string{"a\nb"}},
	} {
		if _, err := checkScreen(ask, s); rig.CodeOf(err) != rig.CodeBackendFailure {
			t.Errorf("a screen %s: %v", name, err)
		}
	}
}
