//go:build linux

package terminal

import (
	"strings"
	"testing"
)

func TestReplayLeavesQuestionsOut(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"plain\r\n", "plain\r\n"},
		{"\x1b[1;31mred\x1b[0m", "\x1b[1;31mred\x1b[0m"},
		{"a\x1b[6nb", "ab"},                   // where is the cursor
		{"a\x1b[cb\x1b[>0cc\x1b[=cd", "abcd"}, // what are you
		{"a\x1b[?2026$pb", "ab"},              // do you know this mode
		{"a\x1b[!pb", "a\x1b[!pb"},            // soft reset is no question
		{"a\x1b[>qb\x1b[2 qc", "ab\x1b[2 qc"}, // version; a cursor's shape is none
		{"a\x1b[?ub\x1b[uc", "ab\x1b[uc"},     // keyboard; restore cursor is none
		{"a\x1b[18tb\x1b[8;2;3tc", "ab\x1b[8;2;3tc"},
		{"a\x1b]11;?\x07b\x1b]0;title\x07c", "ab\x1b]0;title\x07c"},
		{"a\x1b]10;?\x1b\\b", "ab"},
		{"a\x1bP$qm\x1b\\b\x1bP+q544e\x1b\\c", "abc"},
		{"a\x05b", "ab"},
		{"unfinished \x1b[12", "unfinished \x1b[12"},
		{"unfinished \x1b]0;t", "unfinished \x1b]0;t"},
		{"\x1b", "\x1b"},
		{"\x1b[\x1b[6n", "\x1b["},
		{"é\xff\x00", "é\xff\x00"},
	} {
		s := scrollback{limit: 1000}
		s.write([]byte(c.in))
		if got := string(s.replay()); got != c.want {
			t.Errorf("%q: got %q, want %q", c.in, got, c.want)
		}
	}
}

func TestScrollbackKeepsWholeLastLines(t *testing.T) {
	for _, size := range []int{1, 3, 10, 99, 100, 101, 5000} {
		s := scrollback{limit: 100}
		all := strings.Repeat("0123456\n", 500)
		for rest := all; rest != ""; {
			n := min(size, len(rest))
			s.write([]byte(rest[:n]))
			rest = rest[n:]
			if len(s.buf) > 2*s.limit {
				t.Fatalf("%d bytes are kept", len(s.buf))
			}
		}
		got := string(s.replay())
		if !strings.HasSuffix(all, got) || !strings.HasPrefix(got, "0123456\n") || len(got) < 90 || len(got) > 100 {
			t.Errorf("in pieces of %d: %q", size, got)
		}
	}
	s := scrollback{limit: 100}
	s.write([]byte("short"))
	if got := string(s.replay()); got != "short" {
		t.Errorf("got %q", got)
	}
}
