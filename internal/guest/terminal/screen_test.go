//go:build linux

package terminal

import (
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"rigs/internal/guestapi"
)

func TestAScreenIsWhatATerminalShows(t *testing.T) {
	size := guestapi.Size{Cols: 20, Rows: 5}
	for name, c := range map[string]struct {
		out   string
		lines []string
		at    guestapi.Cursor
	}{
		"nothing":                          {"", []string{}, guestapi.Cursor{}},
		"lines and colours":                {"a\r\n\x1b[31mred\x1b[0m  \r\nc", []string{"a", "red", "c"}, guestapi.Cursor{Col: 1, Row: 2}},
		"it scrolls":                       {"1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n7", []string{"3", "4", "5", "6", "7"}, guestapi.Cursor{Col: 1, Row: 4}},
		"it is cleared":                    {"gone\x1b[2J\x1b[2;3Hhere", []string{"", "  here"}, guestapi.Cursor{Col: 6, Row: 1}},
		"a long line wraps":                {strings.Repeat("x", 25), []string{strings.Repeat("x", 20), "xxxxx"}, guestapi.Cursor{Col: 5, Row: 1}},
		"wide letters":                     {"テスト|", []string{"テスト|"}, guestapi.Cursor{Col: 7}},
		"a full screen program, and back":  {"sh$ \x1b[?1049h\x1b[Heditor\x1b[?1049l", []string{"sh$"}, guestapi.Cursor{Col: 4}},
		"inside of a full screen program":  {"sh$ \x1b[?1049h\x1b[Heditor\x1b[?25l", []string{"editor"}, guestapi.Cursor{Col: 6, Hidden: true}},
		"a title and a link are not shown": {"\x1b]0;title\x07a\x1b]8;;http://x\x07b\x1b]8;;\x07", []string{"ab"}, guestapi.Cursor{Col: 2}},
		"a question is not answered":       {"a\x1b[6n\x1b[cb", []string{"ab"}, guestapi.Cursor{Col: 2}},
		"an unfinished sequence":           {"a\x1b[3", []string{"a"}, guestapi.Cursor{Col: 1}},
	} {
		s, err := render([]byte(c.out), size)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d := cmp.Diff(guestapi.Screen{Size: size, Lines: c.lines, Cursor: c.at}, s); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestWhateverIsWrittenAScreenIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		out  string
		size guestapi.Size
	}{
		"any bytes":            {allBytes(), guestapi.Size{Cols: 80, Rows: 24}},
		"a huge terminal":      {"x", guestapi.Size{Cols: 65535, Rows: 65535}},
		"a tower of accents":   {"a" + strings.Repeat("\u0301", 10_000), guestapi.Size{Cols: 10, Rows: 3}},
		"a letter many times":  {"a" + strings.Repeat("\x1b[65535b", 1000), guestapi.Size{Cols: 80, Rows: 24}},
		"an endless title":     {"\x1b]0;" + strings.Repeat("t", guestapi.MaxScrollback), guestapi.Size{Cols: 80, Rows: 24}},
		"far away":             {"\x1b[99999;99999Hx\x1b[99999L\x1b[99999M\x1b[99999@\x1b[99999P\x1b[99999S\x1b[99999T\x1b[99999I", guestapi.Size{Cols: 1, Rows: 1}},
		"margins upside down":  {"\x1b[9;2r\x1b[3;3r\x1b[0;99999r\n\n\n\x1bM\x1bM", guestapi.Size{Cols: 3, Rows: 3}},
		"a terminal of nobody": {"x\ty", guestapi.Size{Cols: 1, Rows: 1}},
	} {
		s, err := render([]byte(c.out), c.size)
		if err != nil {
			t.Logf("%s: %v", name, err) // it is refused, which is well
			continue
		}
		if s.Size.Cols > maxCols || s.Size.Rows > maxRows || len(s.Lines) > s.Size.Rows || s.Cursor.Col >= s.Size.Cols || s.Cursor.Row >= s.Size.Rows || s.Cursor.Col < 0 || s.Cursor.Row < 0 {
			t.Errorf("%s: %d×%d, %d lines, %+v", name, s.Size.Cols, s.Size.Rows, len(s.Lines), s.Cursor)
		}
		for _, l := range s.Lines {
			if strings.ContainsFunc(l, func(r rune) bool { return !unicode.IsPrint(r) }) || len(l) > maxCell*maxCols {
				t.Errorf("%s: %q", name, l)
			}
		}
	}
}

func allBytes() string {
	var b strings.Builder
	for i := range 256 {
		for j := range 256 {
			b.Write([]byte{esc, byte(i), byte(j), byte(i)})
		}
	}
	return b.String()
}

func FuzzScreen(f *testing.F) {
	f.Add([]byte("a\x1b[31mb\x1b]0;t\x07\x1bP$q\x1b\\é\r\n\x1b[2J\x1b[?1049h"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := render(b, guestapi.Size{Cols: 20, Rows: 5})
		if err == nil && len(s.Lines) > 5 {
			t.Errorf("%d lines", len(s.Lines))
		}
	})
}
