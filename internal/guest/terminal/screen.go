//go:build linux

package terminal

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/vt"

	"rigs/internal/guest/stream"
	"rigs/internal/guestapi"
	"rigs/internal/rig"
)

const (
	// maxCell bounds the text of one cell, in bytes: a letter can have any number of
	// accents.
	maxCell = 32
	// maxScreen bounds the text of a screen, in bytes.
	maxScreen = guestapi.MaxJSON / 2
	// maxCols and maxRows bound what is shown of a terminal, whose size any program
	// in it can set. A cell takes some 150 bytes.
	maxCols, maxRows = 300, 150
	// renderTimeout bounds the making of a screen: a few bytes can ask for a letter
	// 65535 times.
	renderTimeout = 5 * time.Second
	// maxPiece is how much output is taken between two looks at the clock.
	maxPiece = 256
)

// rendering makes one screen at a time be made.
var rendering sync.Mutex

// Screen shows what is visible in a session: what a client that attaches now would
// see, made by a terminal emulator from the output that is kept for such clients. It
// is made when it is asked for, so that a terminal costs nothing that nobody asks
// about.
func (t *Terminals) Screen(name string) (guestapi.Screen, error) {
	if err := check(guestapi.TerminalRequest{Session: name}); err != nil {
		return guestapi.Screen{}, err
	}
	t.mu.Lock()
	s := t.sessions[name]
	t.mu.Unlock()
	if s == nil {
		return guestapi.Screen{}, rig.Errorf(rig.CodeNotFound, "no terminal %s is open: open it in the page, or with 'rigs shell'", name)
	}
	s.mu.Lock()
	past, size := s.past.replay(), stream.GetSize(s.tty)
	s.mu.Unlock()
	out, err := render(past, size)
	out.Session = name
	return out, err
}

// render is what a terminal of that size shows after output.
func render(output []byte, size guestapi.Size) (out guestapi.Screen, err error) {
	// Programs write what they like, and this process must outlive it.
	defer func() {
		if p := recover(); p != nil {
			err = rig.Errorf(rig.CodeInternal, "the screen cannot be shown: the terminal's output is more than the emulator bears: %v", p)
		}
	}()
	size.Cols, size.Rows = min(size.Cols, maxCols), min(size.Rows, maxRows)
	rendering.Lock()
	defer rendering.Unlock()
	e := vt.NewEmulator(size.Cols, size.Rows)
	e.SetScrollbackSize(1)
	answers := make(chan struct{})
	go func() {
		defer close(answers)
		_, _ = io.Copy(io.Discard, e) // what it would answer to a program goes nowhere
	}()
	defer func() {
		_ = e.Close() // ends the reading
		<-answers
	}()
	for end := time.Now().Add(renderTimeout); len(output) > 0; {
		n := piece(output)
		if _, err := e.Write(output[:n]); err != nil {
			return out, fmt.Errorf("the screen cannot be shown: %w", err)
		}
		if output = output[n:]; time.Now().After(end) {
			return out, rig.Errorf(rig.CodeTimeout, "the screen cannot be shown: to follow the terminal's output takes longer than %v", renderTimeout)
		}
	}
	at := e.CursorPosition()
	out = guestapi.Screen{Size: size, Lines: []string{}, Cursor: guestapi.Cursor{
		Col: min(max(at.X, 0), size.Cols-1), Row: min(max(at.Y, 0), size.Rows-1), Hidden: e.CursorHidden(),
	}}
	total, last := 0, 0
	for y := range size.Rows {
		line := text(e, y, size.Cols)
		if total += len(line); total > maxScreen {
			return out, rig.Errorf(rig.CodeTooLarge, "the screen cannot be shown: its text has more than %d bytes", maxScreen)
		}
		if out.Lines = append(out.Lines, line); line != "" {
			last = y + 1
		}
	}
	out.Lines = out.Lines[:last]
	return out, nil
}

// piece is how much of b is written next: up to where a control sequence begins, or a
// word ends, since the emulator takes what is written together for whole letters.
func piece(b []byte) int {
	if i := bytes.IndexByte(b[1:], esc); i >= 0 && i < maxPiece {
		return i + 1
	}
	if len(b) <= maxPiece {
		return len(b)
	}
	if i := bytes.LastIndexAny(b[:maxPiece], " \n"); i >= 0 {
		return i + 1
	}
	n := maxPiece
	for n > maxPiece-utf8.UTFMax && !utf8.RuneStart(b[n]) {
		n--
	}
	return n
}

// text is one line of a screen.
func text(e *vt.Emulator, y, cols int) string {
	var b strings.Builder
	for x := 0; x < cols; {
		c := e.CellAt(x, y)
		if c == nil || c.Content == "" {
			b.WriteByte(' ')
			x++
			continue
		}
		n := 0
		for _, r := range c.Content {
			if unicode.IsPrint(r) && n+len(string(r)) <= maxCell {
				b.WriteRune(r)
				n += len(string(r))
			}
		}
		if n == 0 {
			b.WriteByte(' ')
		}
		x += max(1, c.Width)
	}
	return strings.TrimRight(b.String(), " ")
}
