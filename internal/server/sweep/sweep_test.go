package sweep

import (
	"strings"
	"testing"
)

func TestOnlyTheMarkItselfMatches(t *testing.T) {
	for _, x := range []struct {
		environ, id string
		rig         string
		ok          bool
	}{
		{"RIGS_OWNER=me/abc", "", "abc", true},
		{"A=1\x00RIGS_OWNER=me/abc\x00B=2\x00", "abc", "abc", true},
		{"RIGS_OWNER=me/abc", "abd", "abc", false},
		{"RIGS_OWNER=me/abc", "ab", "abc", false},
		{"RIGS_OWNER=me2/abc", "", "abc", false},
		{"RIGS_OWNER=m/abc", "", "abc", false},
		{"RIGS_OWNER=me", "", "", false},
		{"XRIGS_OWNER=me/abc", "", "", false},
		{"A=RIGS_OWNER=me/abc", "", "", false},
		{"A=\nRIGS_OWNER=me/abc", "", "", false},
		{"RIGS_OWNER=you/abc\x00RIGS_OWNER=me/abc", "", "abc", false}, // the first counts
		{"", "", "", false},
	} {
		rig, ok := matches(x.environ, "me", x.id)
		if ok != x.ok || ok && rig != x.rig {
			t.Errorf("%q for %q: %q %v", strings.ReplaceAll(x.environ, "\x00", " "), x.id, rig, ok)
		}
	}
}
