package debian

import (
	"regexp"
	"strconv"
	"strings"

	"rigs/internal/rig"
)

var (
	newlyInstalled = regexp.MustCompile(`^\d+ upgraded, (\d+) newly installed`)
	fetching       = regexp.MustCompile(`^Get:(\d+) \S+ \S+ \S+ (\S+) \S+ \S+ \[`)
	unpacking      = regexp.MustCompile(`^Unpacking ([a-z0-9][a-z0-9+.-]*)`)
	settingUp      = regexp.MustCompile(`^Setting up ([a-z0-9][a-z0-9+.-]*)`)
)

// meter turns what mmdebstrap, apt and dpkg say into steps for a person. It counts
// what it sees and trusts no number but apt's count of new packages.
type meter struct {
	stage string // said once, in front of what is counted
	total int64
	done  int64 // unpacked and set up, each for half
	last  rig.Step
}

// stages are mmdebstrap's own messages and what they mean.
var stages = []struct{ prefix, text string }{
	{"I: running apt-get update", "Read the package lists"},
	{"I: downloading packages with apt", "Choose the packages of the base system"},
	{"I: extracting archives", "Unpack the base system"},
	{"I: installing essential packages", "Install the base system"},
	{"I: installing remaining packages", "Choose the other packages"},
	{"I: running --customize-hook", "Set up the system"},
	{"I: cleaning package lists", "Clean up"},
	{"I: creating tarball", "Store the system"},
}

// line takes one line of output and returns the step that it begins or advances.
func (m *meter) line(s string) (rig.Step, bool) {
	s = strings.TrimRight(s, "\r\n ")
	for _, st := range stages {
		if strings.HasPrefix(s, st.prefix) {
			m.stage, m.done = st.text, 0
			return m.step(rig.Step{Text: st.text})
		}
	}
	if f := newlyInstalled.FindStringSubmatch(s); f != nil {
		m.total, m.done = number(f[1]), 0
		return rig.Step{}, false
	}
	if m.total == 0 {
		return rig.Step{}, false // such as Get: lines of apt-get update
	}
	if f := fetching.FindStringSubmatch(s); f != nil {
		return m.step(rig.Step{Text: "Download " + f[2], Done: min(number(f[1]), m.total), Total: m.total, Unit: "packages"})
	}
	verb, f := "Unpack ", unpacking.FindStringSubmatch(s)
	if f == nil {
		verb, f = "Install ", settingUp.FindStringSubmatch(s)
	}
	if f == nil {
		return rig.Step{}, false
	}
	m.done++
	return m.step(rig.Step{Text: verb + f[1], Done: min((m.done+1)/2, m.total), Total: m.total, Unit: "packages"})
}

func (m *meter) step(s rig.Step) (rig.Step, bool) {
	if s == m.last {
		return s, false
	}
	m.last = s
	return s, true
}

func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil {
		return 0
	}
	return n
}
