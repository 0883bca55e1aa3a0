package vm

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Tail keeps the last bytes written to it, in memory that does not grow. It is
// safe for several goroutines.
type Tail struct {
	mu   sync.Mutex
	buf  []byte
	next int // where the next byte goes
	full bool
}

// NewTail returns a Tail of n bytes.
func NewTail(n int) *Tail { return &Tail{buf: make([]byte, n)} }

// Write never fails.
func (t *Tail) Write(p []byte) (int, error) {
	n := len(p)
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(p) >= len(t.buf) {
		copy(t.buf, p[len(p)-len(t.buf):])
		t.next, t.full = 0, true
		return n, nil
	}
	for len(p) > 0 {
		c := copy(t.buf[t.next:], p)
		p = p[c:]
		t.next += c
		if t.next == len(t.buf) {
			t.next, t.full = 0, true
		}
	}
	return n, nil
}

// Lines returns at most n lines and limit bytes from the end, as Clean makes
// them.
func (t *Tail) Lines(n, limit int) string {
	t.mu.Lock()
	var b []byte
	if t.full {
		b = append(b, t.buf[t.next:]...)
	}
	b = append(b, t.buf[:t.next]...)
	t.mu.Unlock()
	lines := strings.Split(Clean(string(b)), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	s := strings.Join(lines, "\n")
	if len(s) > limit {
		s = s[len(s)-limit:]
		for len(s) > 0 && !utf8.RuneStart(s[0]) {
			s = s[1:]
		}
	}
	return s
}

// Clean makes the words of a guest fit to show: no escape sequences, no control
// characters but line feeds, no invisible or direction-changing characters,
// valid UTF-8, no empty lines.
func Clean(s string) string {
	var out strings.Builder
	for len(s) > 0 {
		if s[0] == 0x1b {
			s = s[escapeLen(s):]
			continue
		}
		r, n := utf8.DecodeRuneInString(s)
		s = s[n:]
		switch {
		case r == utf8.RuneError && n == 1:
			out.WriteByte('?')
		case r == '\n':
			out.WriteByte('\n')
		case r == '\t':
			out.WriteByte(' ')
		case unicode.IsControl(r), !unicode.IsPrint(r) && r != ' ':
		default:
			out.WriteRune(r)
		}
	}
	var lines []string
	for l := range strings.SplitSeq(out.String(), "\n") {
		if l = strings.TrimRight(l, " "); l != "" {
			lines = append(lines, l)
		}
	}
	return strings.Join(lines, "\n")
}

// escapeLen is the length of the escape sequence that s begins with: ESC and one
// character, or a CSI sequence up to its final byte.
func escapeLen(s string) int {
	if len(s) < 2 || s[1] != '[' {
		return min(2, len(s))
	}
	for i := 2; i < len(s); i++ {
		if s[i] >= 0x40 && s[i] <= 0x7e {
			return i + 1
		}
	}
	return len(s)
}
