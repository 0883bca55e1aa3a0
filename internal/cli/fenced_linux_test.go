package cli

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"strings"
	"testing"

	"rigs/internal/guest/stream"
	"rigs/internal/guestapi"
)

const hostile = "\x1b]0;owned\a\x1b[2Jhello\x1b[31m red\u202e\r\nprogress 1\rprogress 2\n"

func TestAGuestsSequencesDoNotReachATerminal(t *testing.T) {
	screen, tty, err := stream.OpenTTY(os.Getuid(), guestapi.Size{Cols: 80, Rows: 24})
	if err != nil {
		t.Fatal(err)
	}
	defer screen.Close()
	defer tty.Close()
	w := guest(tty, "test", false)
	if _, err := io.WriteString(w, hostile); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(screen)
	var got []string
	for range 3 {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, strings.TrimRight(line, "\r\n"))
	}
	if want := `\x1b]0;owned\x07hello red\u202e|progress 1|progress 2`; strings.Join(got, "|") != want {
		t.Errorf("the terminal got %q, want %q", got, want)
	}
}

func TestAPipeGetsWhatTheGuestWrote(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	out := guest(w, "test", false)
	if _, err := io.WriteString(out, hostile); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if got, err := io.ReadAll(r); err != nil || string(got) != hostile {
		t.Errorf("%q, %v", got, err)
	}
}

func TestFencedOutputIsFenced(t *testing.T) {
	var b bytes.Buffer
	out := guest(&b, "standard output of a command in x", true)
	if _, err := io.WriteString(out, hostile); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(b.String(), "\n")
	if len(lines) != 7 || !strings.HasPrefix(lines[0], "<<<UNTRUSTED-RIG-DATA ") || !strings.HasSuffix(lines[0], ` source="standard output of a command in x">>>`) || lines[3] != "progress 1" || !strings.HasPrefix(lines[5], "<<<END-UNTRUSTED-RIG-DATA ") {
		t.Errorf("%q", lines)
	}
	if strings.ContainsAny(b.String(), "\x1b\r\a") {
		t.Errorf("control characters in %q", b.String())
	}
}
