package policy

import (
	"slices"

	"rigs/internal/rig"
)

// MaxPatterns bounds a rig's list: matching is linear in it.
const MaxPatterns = 1024

// List is a rig's egress list. It is a value: With and Without return a new
// list and leave the old one as it was, so a reader never sees half a change.
type List []Pattern

// ParseList parses patterns and drops repeated ones.
func ParseList(patterns []string) (List, error) {
	var l List
	for _, s := range patterns {
		p, err := Parse(s)
		if err != nil {
			return nil, err
		}
		if l, err = l.With(p); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// With returns the list with p in it. Adding a pattern that is there changes
// nothing. A full list is an error with code capacity.
func (l List) With(p Pattern) (List, error) {
	if l.index(p) >= 0 {
		return l, nil
	}
	if len(l) >= MaxPatterns {
		return nil, rig.Errorf(rig.CodeCapacity, "egress pattern %q not added: the list already has %d patterns: remove some, or use a wildcard", p, MaxPatterns)
	}
	return append(slices.Clip(l), p), nil
}

// Without returns the list without p, and whether p was in it.
func (l List) Without(p Pattern) (List, bool) {
	i := l.index(p)
	if i < 0 {
		return l, false
	}
	return slices.Delete(slices.Clone(l), i, i+1), true
}

func (l List) index(p Pattern) int {
	s := p.String()
	return slices.IndexFunc(l, func(q Pattern) bool { return q.String() == s })
}

// Strings returns the patterns in their canonical spelling, in the order in
// which they were added.
func (l List) Strings() []string {
	out := make([]string, len(l))
	for i, p := range l {
		out[i] = p.String()
	}
	return out
}

// Match is what a list says about a host and a port.
type Match struct {
	Named    bool // some pattern names the host, on whatever port
	Admitted bool // some pattern admits the host on this port
	Private  bool // one of those admits answers in private ranges too
}

// Match looks up a canonical host. Anything else matches nothing: below a star
// there would be room for text ("evil.example/x.example.com") in which a proxy or a
// resolver sees another host than the one that is admitted.
func (l List) Match(host string, port int) Match {
	var m Match
	for _, p := range l {
		if !p.Names(host) {
			continue
		}
		m.Named = true
		if p.Admits(host, port) {
			m.Admitted = true
			m.Private = m.Private || p.private
		}
	}
	if !m.Named {
		return m
	}
	if name, err := Canonical(host); err != nil || name != host {
		return Match{}
	}
	return m
}

// Admits reports whether the list admits host on port. The host may be spelled
// in any way; one that is not a host name is not admitted.
func (l List) Admits(host string, port int) bool {
	name, err := Canonical(host)
	return err == nil && l.Match(name, port).Admitted
}
