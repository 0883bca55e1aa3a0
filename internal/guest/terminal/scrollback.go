//go:build linux

package terminal

import "bytes"

// scrollback keeps the last bytes that were written to it.
type scrollback struct {
	limit int
	buf   []byte // up to twice limit, so that it moves seldom
	cut   bool   // something was dropped
}

func (s *scrollback) write(b []byte) {
	if len(b) >= s.limit {
		s.cut = s.cut || len(b) > s.limit || len(s.buf) > 0
		s.buf = append(s.buf[:0], b[len(b)-s.limit:]...)
		return
	}
	if len(s.buf)+len(b) > 2*s.limit {
		n := copy(s.buf, s.buf[len(s.buf)-s.limit:])
		s.buf = s.buf[:n]
		s.cut = true
	}
	s.buf = append(s.buf, b...)
}

// replay is what a new client is sent: whole lines, when the beginning was
// dropped, and without the questions that programs asked of the terminal. A
// terminal would answer them again, and the answers would be typed into the
// shell.
func (s *scrollback) replay() []byte {
	b := s.buf
	cut := s.cut
	if len(b) > s.limit {
		b, cut = b[len(b)-s.limit:], true
	}
	if cut {
		if i := bytes.IndexByte(b, '\n'); i >= 0 {
			b = b[i+1:]
		}
	}
	return withoutQueries(b)
}

const esc = 0x1b

// withoutQueries copies b without the control sequences that ask for an answer
// (ECMA-48 and xterm's control sequences; DA, DSR, DECRQM, window reports,
// XTVERSION, keyboard protocol, OSC with "?", DECRQSS and XTGETTCAP) and ENQ.
func withoutQueries(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); {
		if b[i] == 0x05 {
			i++
			continue
		}
		if b[i] != esc || i+1 == len(b) {
			out = append(out, b[i])
			i++
			continue
		}
		n, query := sequence(b[i:])
		if !query {
			out = append(out, b[i:i+n]...)
		}
		i += n
	}
	return out
}

// sequence measures the control sequence that b begins with, and says whether
// it is a query.
func sequence(b []byte) (n int, query bool) {
	switch b[1] {
	case '[':
		return csi(b)
	case ']', 'P':
		return controlString(b)
	}
	return 2, false
}

func csi(b []byte) (int, bool) {
	i := 2
	for i < len(b) && b[i] >= 0x30 && b[i] <= 0x3f {
		i++
	}
	params := b[2:i]
	from := i
	for i < len(b) && b[i] >= 0x20 && b[i] <= 0x2f {
		i++
	}
	inter := b[from:i]
	if i == len(b) || b[i] < 0x40 || b[i] > 0x7e {
		return i, false // unfinished or broken
	}
	query := false
	switch b[i] {
	case 'c', 'n', 'x':
		query = len(inter) == 0
	case 'p':
		query = string(inter) == "$"
	case 'q':
		query = len(inter) == 0 && bytes.HasPrefix(params, []byte(">"))
	case 'u':
		query = bytes.HasPrefix(params, []byte("?"))
	case 't':
		first, _, _ := bytes.Cut(params, []byte(";"))
		query = len(inter) == 0 && len(first) == 2 && (first[0] == '1' || string(first) == "20" || string(first) == "21")
	}
	return i + 1, query
}

// controlString measures an OSC or DCS string, which BEL or ESC \ ends.
func controlString(b []byte) (int, bool) {
	for i := 2; i < len(b); i++ {
		var n int
		switch {
		case b[i] == 0x07:
			n = 1
		case b[i] == esc && i+1 < len(b) && b[i+1] == '\\':
			n = 2
		default:
			continue
		}
		text := b[2:i]
		if b[1] == ']' {
			return i + n, bytes.HasSuffix(text, []byte(";?"))
		}
		return i + n, bytes.HasPrefix(text, []byte("$q")) || bytes.HasPrefix(text, []byte("+q"))
	}
	return len(b), false
}
