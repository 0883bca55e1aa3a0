package vm

import (
	"log/slog"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTailKeepsTheEnd(t *testing.T) {
	for _, chunk := range []int{1, 3, 7, 100, 1000} {
		tail := NewTail(100)
		all := strings.Repeat("0123456789", 50)
		for s := all; s != ""; {
			n := min(chunk, len(s))
			if m, err := tail.Write([]byte(s[:n])); m != n || err != nil {
				t.Fatal(m, err)
			}
			s = s[n:]
		}
		if got := tail.Lines(10, 1000); got != all[len(all)-100:] {
			t.Errorf("in chunks of %d: %q", chunk, got)
		}
	}
	tail := NewTail(100)
	tail.Write([]byte("one\r\ntwo\n\nthree\n"))
	if got := tail.Lines(2, 1000); got != "two\nthree" {
		t.Errorf("lines: %q", got)
	}
	if got := tail.Lines(2, 4); got != "hree" {
		t.Errorf("cut: %q", got)
	}
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"\x1b[31mred\x1b[0m":      "red",
		"a\x1b]0;title\x07b":      "a0;titleb",
		"bell\x07 nul\x00 \x7f":   "bell nul",
		"tab\tx":                  "tab x",
		"bad \xff\xfe":            "bad ??",
		"\u202eright to left":     "right to left",
		"\u200bzero":              "zero",
		"Schlüssel 日本":            "Schlüssel 日本",
		"\x1b":                    "",
		"\x1b[":                   "",
		"a\n\n \nb  \n":           "a\nb",
		"progress 1\rprogress 2":  "progress 1progress 2",
		"\x9b31mC1 control":       "?31mC1 control",
		"\u009b31mC1 as a letter": "31mC1 as a letter",
	} {
		if got := Clean(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func FuzzClean(f *testing.F) {
	f.Add("a\x1b[31mb\n")
	f.Fuzz(func(t *testing.T, s string) {
		got := Clean(s)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return r < ' ' && r != '\n' || r == 0x7f || r >= 0x80 && r < 0xa0 }) {
			t.Errorf("%q became %q", s, got)
		}
		if again := Clean(got); again != got {
			t.Errorf("%q is not clean: %q", got, again)
		}
	})
}

func TestLineLogStops(t *testing.T) {
	var out strings.Builder
	l := &lineLog{log: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})), left: 3}
	l.Write([]byte("a"))
	l.Write([]byte("b\nc\n" + strings.Repeat("x", 10000)))
	l.Write([]byte("\nd\ne\n"))
	if n := strings.Count(out.String(), "QEMU said"); n != 3 || !strings.Contains(out.String(), "line=ab\n") || strings.Contains(out.String(), "line=d") || len(out.String()) > 2000 {
		t.Errorf("%d lines: %s", n, out.String())
	}
}

func TestWhatTheFilterRefusesIsNoComplaint(t *testing.T) {
	refused := "qemu-system-x86_64: ram_block_discard_range: Failed to fallocate ram:14000000 +400000 (-95)"
	if got := complaints(strings.Join([]string{"qemu-system-x86_64: disk full", refused, refused}, "\n")); got != "qemu-system-x86_64: disk full" {
		t.Errorf("%q", got)
	}
	if got := complaints(refused); got != "" {
		t.Errorf("%q", got)
	}
	if got := complaints(strings.Repeat("line\n", 20) + "the last"); strings.Count(got, "\n") != 7 || !strings.HasSuffix(got, "the last") {
		t.Errorf("%q", got)
	}
}
