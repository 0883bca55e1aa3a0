package rigs

import (
	"regexp"
	"slices"

	"rigs/internal/rig"
	"rigs/internal/serverapi"
)

// imageRef is what an image can be asked for by: a name, optionally a digest.
// Paths and what looks like a flag cannot match.
var imageRef = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}(@sha256:[0-9a-f]{64})?$`)

// maxPatterns bounds a rig's egress list.
const maxPatterns = 256

// resolve fills in a specification's defaults and checks every field. It is
// total: what it returns can be opened as far as the request is concerned.
func resolve(s rig.Spec, defaults func(rig.Surface) rig.Resources, p Policy) (rig.Spec, rig.Resources, error) {
	none := rig.Resources{}
	if s.Workspace == "" {
		s.Workspace = serverapi.Default
	}
	if s.Space == "" {
		s.Space = serverapi.Default
	}
	if !rig.ValidName(s.Workspace) {
		return s, none, rig.FieldErrorf("workspace", "workspace %q: not a name: use 1 to 63 of a-z 0-9 . _ -, beginning with a letter or digit", s.Workspace)
	}
	if !rig.ValidName(s.Space) {
		return s, none, rig.FieldErrorf("space", "space %q: not a name: use 1 to 63 of a-z 0-9 . _ -, beginning with a letter or digit", s.Space)
	}
	surface, err := rig.ParseSurface(string(s.Surface))
	if err != nil {
		return s, none, rig.FieldErrorf("surface", "%w", err)
	}
	switch {
	case surface == rig.Browser && s.Engine == "":
		s.Engine = rig.Chromium
	case surface == rig.Browser && !slices.Contains(rig.Engines, s.Engine):
		return s, none, rig.FieldErrorf("engine", "engine %q: must be chromium, firefox or webkit", s.Engine)
	case surface != rig.Browser && s.Engine != "":
		return s, none, rig.FieldErrorf("engine", "engine %q: a %s has no engine: leave it out", s.Engine, surface)
	}
	if s.Image != "" && !imageRef.MatchString(s.Image) {
		return s, none, rig.FieldErrorf("image", "image %q: not an image: give a name from 'rigs image ls', optionally with @sha256:…", s.Image)
	}
	if len(s.Allow) > maxPatterns {
		return s, none, rig.FieldErrorf("allow", "%d egress patterns: the most is %d", len(s.Allow), maxPatterns)
	}
	s.Allow = slices.Clone(s.Allow)
	for i, a := range s.Allow {
		if s.Allow[i], err = p.Canonical(a); err != nil {
			return s, none, rig.FieldErrorf("allow", "%w", err)
		}
	}
	r := defaults(surface)
	for _, f := range []struct {
		name      string
		value     int
		into      *int
		low, high int
	}{
		{"memoryMB", s.MemoryMB, &r.MemoryMB, 128, 65536},
		{"vcpus", s.VCPUs, &r.VCPUs, 1, 64},
		{"ttlSeconds", s.TTLSeconds, &r.TTLSeconds, 10, 604800},
		{"idleSeconds", s.IdleSeconds, &r.IdleSeconds, 10, 604800},
	} {
		if f.value == 0 {
			continue
		}
		if f.value < f.low || f.value > f.high {
			return s, none, rig.FieldErrorf(f.name, "%s is %d: it must be from %d to %d", f.name, f.value, f.low, f.high)
		}
		*f.into = f.value
	}
	return s, r, nil
}

// patterns is the egress list that a rig starts with, but for what its image needs.
func patterns(s rig.Spec, defaults []string) []string {
	out := []string{}
	if !s.NoDefaults {
		out = append(out, defaults...)
	}
	for _, a := range s.Allow {
		if !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}
