package policy

import (
	_ "embed" // the baseline
	"fmt"
	"slices"
	"strings"

	"rigs/internal/rig"
)

//go:embed baseline.txt
var baselineText string

// Entry is one line of the developer baseline.
type Entry struct {
	Pattern Pattern
	Reason  string
}

var baseline = mustParseBaseline(baselineText)

// Baseline returns the developer baseline: what a terminal needs for everyday
// work, each pattern with its reason.
func Baseline() []Entry { return slices.Clone(baseline) }

// Defaults returns the patterns that a surface's rig starts with. A browser's
// home page and the forge of a terminal's worktree are added by whoever knows
// them; every other surface starts with nothing.
func Defaults(s rig.Surface) []string {
	if s != rig.Terminal {
		return nil
	}
	out := make([]string, len(baseline))
	for i, e := range baseline {
		out[i] = e.Pattern.String()
	}
	return out
}

// parseBaseline reads lines of PATTERN, two or more spaces, REASON. Empty lines
// and lines that start with # are skipped. "**.HOST" stands for the two patterns
// HOST and *.HOST.
func parseBaseline(text string) ([]Entry, error) {
	var entries []Entry
	for i, line := range strings.Split(text, "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		pattern, reason, ok := strings.Cut(line, "  ")
		reason = strings.TrimSpace(reason)
		if !ok || reason == "" {
			return nil, fmt.Errorf("baseline line %d: a pattern needs a reason, two spaces after it", i+1)
		}
		patterns := []string{pattern}
		if host, both := strings.CutPrefix(pattern, "**."); both {
			patterns = []string{host, "*." + host}
		}
		for _, s := range patterns {
			p, err := Parse(s)
			if err != nil {
				return nil, fmt.Errorf("baseline line %d: %w", i+1, err)
			}
			entries = append(entries, Entry{p, reason})
		}
	}
	return entries, nil
}

// mustParseBaseline panics on an error in a file that is part of the program.
func mustParseBaseline(text string) []Entry {
	entries, err := parseBaseline(text)
	if err != nil {
		panic("policy: " + err.Error())
	}
	return entries
}
