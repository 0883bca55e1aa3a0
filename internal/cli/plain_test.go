package cli

import "testing"

func TestPlainShowsWhatATerminalWouldActOn(t *testing.T) {
	for in, want := range map[string]string{
		"plain text, ünïcode 日本 🩻": "plain text, ünïcode 日本 🩻",
		"\x1b[2J\x1b]0;title\a":    `\x1b[2J\x1b]0;title\x07`,
		"a\r\nb\tc":                `a\r\nb\tc`,
		"\xffx":                    `\xffx`,
		"safe\u202egnp.exe":        `safe\u202egnp.exe`,
		"zero\u200bwidth":          `zero\u200bwidth`,
		"\u009b31m":                `\u009b31m`, // CSI as one character
		"\U000e0041":               `\U000e0041`,
		"�":                        "�",
		"del\x7f":                  `del\x7f`,
	} {
		if got := plain(in); got != want {
			t.Errorf("plain(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestFurtherLinesOfAnErrorAreSetOff(t *testing.T) {
	got := plainBlock("the image does not boot: its console ends:\r\n\x1b[1mkernel panic\nrigs: all is well\n")
	want := "the image does not boot: its console ends:\n  | \\x1b[1mkernel panic\n  | rigs: all is well"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
