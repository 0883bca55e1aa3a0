package rigs

import (
	"strings"

	"rigs/internal/rig"
	"rigs/internal/serverapi"
)

// minPrefix is the shortest prefix of an id that names a rig.
const minPrefix = 3

// ref is a parsed way to name a rig: by prefix of its id, or by place.
type ref struct {
	prefix string
	space  string
	// surface and engine are set with space.
	surface rig.Surface
	engine  rig.Engine
}

func parseRef(s string) (ref, error) {
	space, rest, ok := strings.Cut(s, "/")
	if !ok {
		if len(s) < minPrefix || len(s) > rig.IDLen || strings.Trim(s, "0123456789abcdefghijklmnopqrstuvwxyz") != "" {
			return ref{}, rig.FieldErrorf("rig", "%q does not name a rig: give its id, at least %d characters of it, or SPACE/SURFACE[:ENGINE]", s, minPrefix)
		}
		return ref{prefix: s}, nil
	}
	name, engine, _ := strings.Cut(rest, ":")
	surface, err := rig.ParseSurface(name)
	if err != nil {
		return ref{}, rig.FieldErrorf("rig", "%q: %w", s, err)
	}
	if !rig.ValidName(space) {
		return ref{}, rig.FieldErrorf("rig", "%q: %q is not the name of a space", s, space)
	}
	return ref{space: space, surface: surface, engine: rig.Engine(engine)}, nil
}

// match picks the rig that rf names among those given, oldest first. By place,
// the oldest live one is the space's own; the others were opened with Spec.New
// and have their ids. Where none is live, a failed one is named, so that who
// acts on it learns why.
func match(all []rig.Rig, rf ref, workspace string) (string, error) {
	if workspace == "" {
		workspace = serverapi.Default
	}
	if rf.prefix != "" {
		var hits []string
		for i := range all {
			if all[i].ID == rf.prefix {
				return rf.prefix, nil
			}
			if strings.HasPrefix(all[i].ID, rf.prefix) {
				hits = append(hits, all[i].ID)
			}
		}
		switch len(hits) {
		case 0:
			return "", rig.Errorf(rig.CodeNotFound, "no rig %s: see 'rigs ls'", rf.prefix)
		case 1:
			return hits[0], nil
		}
		return "", rig.Errorf(rig.CodeAmbiguous, "%s is the beginning of %s: give more of the id", rf.prefix, strings.Join(hits, " and "))
	}
	var hit *rig.Rig
	for i := range all {
		r := &all[i]
		if r.Workspace != workspace || r.Space != rf.space || r.Surface != rf.surface || rf.engine != "" && rf.engine != r.Engine {
			continue
		}
		switch {
		case hit == nil, !hit.Phase.Live(): // a failed one only where there is nothing better, and then the newest
			if hit == nil || r.Phase.Live() || r.Phase == rig.Failed {
				hit = r
			}
		case r.Phase.Live() && hit.Engine != r.Engine:
			return "", rig.Errorf(rig.CodeAmbiguous, "space %s has browsers of several engines: say which, as in %s/%s:%s", rf.space, rf.space, rf.surface, r.Engine)
		}
	}
	if hit == nil {
		return "", rig.Errorf(rig.CodeNotFound, "space %s has no %s: open one with 'rigs open %s --space %s'", rf.space, rf.surface, rf.surface, rf.space)
	}
	return hit.ID, nil
}
