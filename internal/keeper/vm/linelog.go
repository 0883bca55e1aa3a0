package vm

import (
	"bytes"
	"log/slog"
)

// maxLogged is how many lines of QEMU's are logged: a guest can make it say any
// number.
const maxLogged = 20

// lineLog logs the first lines written to it, cleaned and cut.
type lineLog struct {
	log  *slog.Logger
	left int
	line []byte
}

func (l *lineLog) Write(p []byte) (int, error) {
	n := len(p)
	for l.left > 0 {
		head, rest, ok := bytes.Cut(p, []byte{'\n'})
		if room := 500 - len(l.line); room > 0 {
			l.line = append(l.line, head[:min(room, len(head))]...)
		}
		if !ok {
			break
		}
		l.log.Debug("QEMU said", "line", Clean(string(l.line)))
		l.line, p = l.line[:0], rest
		l.left--
	}
	return n, nil
}
