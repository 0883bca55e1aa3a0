package fence

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// marker is what every line of a fence has in it, in the letters that folding
// leaves.
const marker = "untrustedrigdata"

// other stands for a character that could be drawn like any letter.
const other = '?'

// watcher looks for the marker in text that comes in pieces, whatever stands
// between its letters and whatever they are written with. It sees the text as
// two rows of folded letters: one in which digits and foreign characters may
// stand for letters, and one in which they are only in between.
type watcher struct{ drawn, bare row }

// row is the last letters of a row.
type row struct {
	at  int
	buf [len(marker)]byte
}

// push adds a letter and reports whether the row now ends with the marker. At
// least half of the letters must be sure, or any foreign text would do.
func (r *row) push(b byte) bool {
	r.buf[r.at] = b
	r.at = (r.at + 1) % len(r.buf)
	if b != marker[len(marker)-1] && b != other {
		return false
	}
	sure := 0
	for i := range len(marker) {
		switch r.buf[(r.at+i)%len(r.buf)] {
		case marker[i]:
			sure++
		case other:
		default:
			return false
		}
	}
	return sure*4 >= len(marker)*3
}

// see takes text and reports whether the marker was completed in it.
func (w *watcher) see(text []byte) bool {
	found := false
	for len(text) > 0 {
		r, n := rune(text[0]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRune(text)
		}
		text = text[n:]
		drawn, bare := fold(r)
		if drawn != 0 && w.drawn.push(drawn) {
			found = true
		}
		if bare != 0 && w.bare.push(bare) {
			found = true
		}
	}
	return found
}

// fold returns the letter that r looks like: with digits and strokes read as
// letters and the unknown as other, and with neither. 0 is none.
func fold(r rune) (drawn, bare byte) {
	if r < utf8.RuneSelf {
		return folded[r][0], folded[r][1]
	}
	if l := enclosed(r); l != 0 {
		return foldASCII(l)
	}
	if l, ok := alike[unicode.ToLower(r)]; ok {
		return l, l
	}
	if unicode.IsMark(r) || unicode.IsSpace(r) || unicode.IsPunct(r) || joiner(r) {
		return 0, 0
	}
	d := norm.NFKD.String(string(r))
	if c, n := utf8.DecodeRuneInString(d); c < utf8.RuneSelf && c != r && n > 0 {
		if drawn, bare = foldASCII(byte(c)); bare != 0 {
			return drawn, bare
		}
		return drawn, 0
	} else if l, ok := alike[unicode.ToLower(c)]; ok {
		return l, l
	}
	return other, 0
}

// folded is foldASCII of each character, for it is asked for every byte.
var folded = func() (t [utf8.RuneSelf][2]byte) {
	for b := range t {
		t[b][0], t[b][1] = foldASCII(byte(b))
	}
	return t
}()

func foldASCII(b byte) (drawn, bare byte) {
	switch {
	case b >= 'A' && b <= 'Z':
		b += 'a' - 'A'
	case b >= 'a' && b <= 'z':
	case b == '1' || b == '|' || b == '!':
		return 'i', 0
	case b == '4' || b == '@':
		return 'a', 0
	case b == '3':
		return 'e', 0
	case b == '5' || b == '$':
		return 's', 0
	case b == '6' || b == '9':
		return 'g', 0
	case b == '7' || b == '+':
		return 't', 0
	default:
		return 0, 0
	}
	if b == 'l' || b == 'j' {
		b = 'i'
	}
	return b, b
}

// enclosed returns the letter in the regional indicators and in the negative
// circled and squared letters, which Unicode does not decompose.
func enclosed(r rune) byte {
	for _, first := range []rune{0x1f150, 0x1f170, 0x1f1e6} {
		if r >= first && r < first+26 {
			return 'a' + byte(r-first)
		}
	}
	return 0
}

// alike are letters of other scripts, in lower case, that are drawn like those
// of the marker and do not decompose to them. From Unicode's confusables
// (UTS #39), of which only these letters matter here.
var alike = letters(map[byte]string{
	'u': "υսᴜʋцџꭎꭒ𑣘ᥙ",
	'n': "ηոռпπɴᥒνиղ",
	't': "τтᴛțꚍҭꭲᎢ",
	'r': "гᴦʀɼɾꭇꭈꮁᎡᏒяѓ",
	's': "ѕꜱʂƽꮪᏕႽટ",
	'e': "еєεҽᴇɛꬲℯᎬәɘ",
	'd': "ԁꓒᴅɗɖᏧᎠժđð",
	'i': "іιɪӏıɩ׀ןᎥᏆӀǀꙇⅼ𑣃ı",
	'g': "ɡցɢԍᏀᏳǥɠ",
})

func letters(m map[byte]string) map[rune]byte {
	out := map[rune]byte{}
	for l, rs := range m {
		for _, r := range rs {
			out[unicode.ToLower(r)] = l
		}
	}
	return out
}
