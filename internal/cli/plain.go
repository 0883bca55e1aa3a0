package cli

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// plain makes text that may have come from a guest safe to print: control
// characters, escape sequences, invisible and direction-changing characters and
// invalid UTF-8 become visible escapes. Terminals act on all of these, and a
// guest that can move the cursor or set a title can lie to the person.
func plain(s string) string {
	ok := true
	for _, r := range s {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			ok = false
			break
		}
	}
	if ok {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		i += n
	}
	return b.String()
}

// plainBlock is plain for text of several lines, such as an error that ends
// with the last lines of a console. Further lines are set off, so that none of
// them can pass for a line of ours.
func plainBlock(s string) string {
	lines := strings.Split(strings.TrimRight(s, "\r\n"), "\n")
	for i, l := range lines {
		l = plain(strings.ReplaceAll(strings.TrimSuffix(l, "\r"), "\t", "    "))
		if i > 0 {
			l = "  | " + l
		}
		lines[i] = l
	}
	return strings.Join(lines, "\n")
}
