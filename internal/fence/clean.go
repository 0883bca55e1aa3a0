package fence

import (
	"bytes"
	"fmt"
	"io"
	"unicode"
	"unicode/utf8"
)

// maxEscape bounds how much of an unfinished escape sequence is held back, in
// bytes. Real ones are shorter.
const maxEscape = 64

// Clean makes guest text safe to print and honest to read. Printable text, tabs
// and line feeds stay as they are. Then:
//
//   - CR LF and a lone CR become a line feed, so that no line overwrites another;
//   - CSI sequences (colours, cursor movement), which display nothing, go;
//   - every other control character, the beginning of any other escape sequence,
//     direction overrides, zero-width and other invisible characters, other line
//     separators, and bytes that are no UTF-8 become visible escapes such as
//     \x00 and \u202e;
//   - joiners and variation selectors stay where scripts and emoji need one.
func Clean(text string) string {
	var c cleaner
	return string(c.finish(c.append(nil, []byte(text))))
}

// CleanWriter cleans what is written to it on its way to another writer. It
// holds back nothing but a character or an escape sequence that is not complete
// yet. It is for one goroutine.
type CleanWriter struct {
	w   io.Writer
	c   cleaner
	buf []byte
}

// NewCleanWriter returns a CleanWriter to w.
func NewCleanWriter(w io.Writer) *CleanWriter { return &CleanWriter{w: w} }

func (w *CleanWriter) Write(p []byte) (int, error) {
	w.buf = w.c.append(w.buf[:0], p)
	if len(w.buf) > 0 {
		if _, err := w.w.Write(w.buf); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// Close writes what was held back. It does not close the other writer.
func (w *CleanWriter) Close() error {
	w.buf = w.c.finish(w.buf[:0])
	if len(w.buf) == 0 {
		return nil
	}
	_, err := w.w.Write(w.buf)
	return err
}

// cleaner is Clean for text that comes in pieces. However it is cut, the result
// is the same.
type cleaner struct {
	held   []byte // an incomplete character or escape sequence
	prev   rune   // the last one that was kept, 0 after anything else
	wasCR  bool
	joined bool // prev was followed by a joiner or a variation selector
}

func (c *cleaner) append(dst, p []byte) []byte { return c.run(dst, p, false) }

// finish treats what was held back as complete.
func (c *cleaner) finish(dst []byte) []byte { return c.run(dst, nil, true) }

func (c *cleaner) run(dst, p []byte, last bool) []byte {
	if len(c.held) > 0 {
		p = append(c.held, p...)
		c.held = nil
	}
	for len(p) > 0 {
		if n := plainRun(p); n > 0 {
			dst = append(dst, p[:n]...)
			c.kept(rune(p[n-1]))
			p = p[n:]
			continue
		}
		n := 0
		switch {
		case p[0] == 0x1b:
			dst, n = c.escape(dst, p, last)
		case p[0] == '\r', p[0] == '\n' && c.wasCR:
			dst, n = c.lineEnd(dst, p[0]), 1
		case !last && !utf8.FullRune(p):
		default:
			dst, n = c.char(dst, p)
		}
		if n == 0 {
			c.held = bytes.Clone(p)
			return dst
		}
		p = p[n:]
	}
	return dst
}

// plainRun counts the bytes at the beginning that need no look: printable
// ASCII and tabs. A line feed is looked at: it may belong to a CR.
func plainRun(p []byte) int {
	for i, b := range p {
		if (b < 0x20 || b > 0x7e) && b != '\t' {
			return i
		}
	}
	return len(p)
}

func (c *cleaner) kept(r rune) { c.prev, c.joined, c.wasCR = r, false, false }

func (c *cleaner) lineEnd(dst []byte, b byte) []byte {
	if b == '\n' { // of a CR that has ended the line already
		c.kept('\n')
		return dst
	}
	c.kept('\n')
	c.wasCR = true
	return append(dst, '\n')
}

// escape takes an escape sequence: n is 0 when more of it must be seen.
func (c *cleaner) escape(dst, p []byte, last bool) (out []byte, n int) {
	c.wasCR = false
	if len(p) == 1 && !last {
		return dst, 0
	}
	if len(p) > 1 && p[1] == '[' {
		i := 2
		for i < len(p) && i < maxEscape && p[i] >= 0x30 && p[i] <= 0x3f { // parameters
			i++
		}
		for i < len(p) && i < maxEscape && p[i] >= 0x20 && p[i] <= 0x2f { // intermediates
			i++
		}
		switch {
		case i == len(p) && i < maxEscape && !last:
			return dst, 0
		case i < len(p) && p[i] >= 0x40 && p[i] <= 0x7e:
			return dst, i + 1
		}
	}
	c.kept(0)
	return append(dst, `\x1b`...), 1
}

// char takes one character that is neither plain nor begins a sequence.
func (c *cleaner) char(dst, p []byte) (out []byte, n int) {
	r, n := utf8.DecodeRune(p)
	switch {
	case r == '\n':
		c.kept('\n')
		return append(dst, '\n'), n
	case r == utf8.RuneError && n == 1:
		c.kept(0)
		return fmt.Appendf(dst, `\x%02x`, p[0]), n
	case joiner(r) && !c.joined && joinable(c.prev, r):
		c.joined, c.wasCR = true, false
		return append(dst, p[:n]...), n
	case joiner(r), blank(r), !unicode.IsPrint(r) && !unicode.Is(unicode.Zs, r):
		c.kept(0)
		return Escape(dst, r), n
	}
	c.kept(r)
	return append(dst, p[:n]...), n
}

// Escape appends the visible escape of a character.
func Escape(dst []byte, r rune) []byte {
	switch {
	case r < 0x80:
		return fmt.Appendf(dst, `\x%02x`, r)
	case r < 0x10000:
		return fmt.Appendf(dst, `\u%04x`, r)
	}
	return fmt.Appendf(dst, `\U%08x`, r)
}

// joiner reports characters that display nothing but change their neighbours:
// zero-width joiner and non-joiner, and the variation selectors. Any number of
// them can follow a character, which makes them a place to hide text in.
func joiner(r rune) bool {
	return r == 0x200c || r == 0x200d || r >= 0xfe00 && r <= 0xfe0f || r >= 0xe0100 && r <= 0xe01ef
}

// joinable reports whether r has a use after prev: emoji, and scripts that
// join; of ASCII only the keycaps' bases take a variation selector.
func joinable(prev, r rune) bool {
	if r >= 0xe0100 {
		return unicode.Is(unicode.Han, prev)
	}
	if prev < 0x80 {
		return (r == 0xfe0e || r == 0xfe0f) && (prev >= '0' && prev <= '9' || prev == '#' || prev == '*')
	}
	return unicode.IsLetter(prev) || unicode.IsMark(prev) || unicode.IsSymbol(prev) || r >= 0xfe00
}

// blank reports printable characters that display nothing: the fillers of
// Hangul and the empty Braille pattern; and marks that join over what is before
// them without being seen.
func blank(r rune) bool {
	switch r {
	case 0x034f, 0x115f, 0x1160, 0x17b4, 0x17b5, 0x180b, 0x180c, 0x180d, 0x180f, 0x2800, 0x3164, 0xffa0:
		return true
	}
	return false
}
