package policy

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/publicsuffix"

	"rigs/internal/rig"
)

// defaultPorts are admitted by a pattern that names none.
var defaultPorts = []int{80, 443}

// Bounds of one pattern.
const (
	maxPattern = 512
	maxPorts   = 16
)

// Pattern is one entry of an egress list. The zero value admits nothing.
type Pattern struct {
	before  string // labels before the star, canonical; "" when the star comes first
	after   string // labels after the star, or the whole name of an exact pattern
	star    bool
	ports   []int // sorted; nil: defaultPorts
	private bool
	broad   bool
}

// Parse reads one pattern, strictly: there is one spelling for everything but
// the case and form of the name. The error is a *rig.Problem with code
// invalidRequest that says what to write instead.
func Parse(s string) (Pattern, error) {
	if len(s) > maxPattern {
		return Pattern{}, rig.FieldErrorf("pattern", "egress pattern is longer than %d bytes: a host name has at most 253", maxPattern)
	}
	refuse := func(format string, args ...any) (Pattern, error) {
		return Pattern{}, rig.FieldErrorf("pattern", "egress pattern %q refused: "+format, append([]any{s}, args...)...)
	}
	var p Pattern
	words := strings.Split(s, " ")
	for _, w := range words[1:] {
		switch {
		case w == "private" && !p.private && !p.broad:
			p.private = true
		case w == "broad" && !p.broad:
			p.broad = true
		default:
			return refuse("%q after the host is not understood: only the words private and broad may follow, once, in this order, after one space each", w)
		}
	}
	if words[0] == "" {
		return refuse("it has no host: write it like example.com or *.example.com:443")
	}
	if why := looksLikeAddress(words[0]); why != "" {
		return refuse("%s", why)
	}
	host, ports, found := strings.Cut(words[0], ":")
	if found {
		var why string
		if p.ports, why = parsePorts(ports); why != "" {
			return refuse("%s: write them like :443 or :22,443", why)
		}
	}
	if !strings.Contains(host, "*") {
		name, err := Canonical(host)
		if err != nil {
			return refuse("%w", err)
		}
		if p.broad {
			return refuse("broad is only for a pattern with a star: leave it away")
		}
		p.after = name
		return p, nil
	}
	return p.parseStar(strings.TrimSuffix(host, "."), refuse)
}

// parseStar fills in a host with a star.
func (p Pattern) parseStar(host string, refuse func(string, ...any) (Pattern, error)) (Pattern, error) {
	p.star = true
	labels := strings.Split(host, ".")
	at := slices.Index(labels, "*")
	if at < 0 || strings.Count(host, "*") != 1 {
		return refuse("a star stands for whole labels, once: write it like *.example.com or a.*.example.com")
	}
	if len(labels) == 1 {
		return refuse("it would admit every host: name the hosts that are needed")
	}
	if at == len(labels)-1 {
		return refuse("a star at the end would admit domains of strangers: write it like *.example.com")
	}
	var err error
	if at > 0 {
		if p.before, err = Canonical(strings.Join(labels[:at], ".")); err != nil {
			return refuse("%w", err)
		}
	}
	if p.after, err = Canonical(strings.Join(labels[at+1:], ".")); err != nil {
		return refuse("%w", err)
	}
	if len(p.before)+len(p.after)+3 > maxName {
		return refuse("its host is longer than 253 characters")
	}
	// A public suffix (com, co.uk, github.io) is where different owners register
	// their names, so one entry would admit all of them. An unknown top-level
	// domain is one too, by the list's default rule.
	if suffix, _ := publicsuffix.PublicSuffix(p.after); suffix == p.after {
		if !p.broad {
			return refuse("the names below %s belong to many owners, so it admits more than it seems to: name the hosts that are needed, or add the word broad to force it", p.after)
		}
	} else if p.broad {
		return refuse("broad is only for a star below a public suffix, which %s is not: leave it away", p.after)
	}
	return p, nil
}

// looksLikeAddress recognizes addresses and networks, which would otherwise be
// reported as strange host names or ports.
func looksLikeAddress(s string) string {
	const help = "a rig reaches names, not addresses: give the host a name in DNS and admit that"
	if strings.Contains(s, "/") {
		return "it looks like a network or a URL: write only the host, like example.com"
	}
	if strings.HasPrefix(s, "[") || strings.Count(s, ":") > 1 {
		return help
	}
	host, _, _ := strings.Cut(s, ":")
	if _, err := netip.ParseAddr(host); err == nil {
		return help
	}
	return ""
}

func parsePorts(s string) (ports []int, why string) {
	for f := range strings.SplitSeq(s, ",") {
		n, err := strconv.ParseUint(f, 10, 16)
		if err != nil || n == 0 || strconv.FormatUint(n, 10) != f {
			return nil, "ports are numbers from 1 to 65535"
		}
		if slices.Contains(ports, int(n)) {
			return nil, "a port is listed twice"
		}
		if len(ports) == maxPorts {
			return nil, "it lists more than 16 ports"
		}
		ports = append(ports, int(n))
	}
	slices.Sort(ports)
	if slices.Equal(ports, defaultPorts) {
		ports = nil
	}
	return ports, ""
}

// String is the one canonical spelling; two patterns are the same entry of a
// list when their strings are equal.
func (p Pattern) String() string {
	var b strings.Builder
	if p.before != "" {
		b.WriteString(p.before + ".")
	}
	if p.star {
		b.WriteString("*.")
	}
	b.WriteString(p.after)
	for i, n := range p.ports {
		if i == 0 {
			b.WriteByte(':')
		} else {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(n))
	}
	if p.private {
		b.WriteString(" private")
	}
	if p.broad {
		b.WriteString(" broad")
	}
	return b.String()
}

// Exact is the one host that the pattern names, with its ports; "" when it names
// more.
func (p Pattern) Exact() (host string, ports []int) {
	if p.star {
		return "", nil
	}
	if p.ports == nil {
		return p.after, slices.Clone(defaultPorts)
	}
	return p.after, slices.Clone(p.ports)
}

// Private reports whether the pattern admits answers in private ranges.
func (p Pattern) Private() bool { return p.private }

// Names reports whether the pattern's host matches, whatever the port. host must
// be canonical.
func (p Pattern) Names(host string) bool {
	if !p.star {
		return p.after != "" && host == p.after
	}
	rest, ok := strings.CutSuffix(host, "."+p.after)
	if !ok || rest == "" {
		return false
	}
	if p.before == "" {
		return true
	}
	label, ok := strings.CutPrefix(rest, p.before+".")
	return ok && label != "" && !strings.Contains(label, ".")
}

// Admits reports whether the pattern admits host on port. host must be
// canonical.
func (p Pattern) Admits(host string, port int) bool {
	ports := p.ports
	if ports == nil {
		ports = defaultPorts
	}
	return slices.Contains(ports, port) && p.Names(host)
}
