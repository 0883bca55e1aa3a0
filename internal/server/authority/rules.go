package authority

import (
	"slices"

	"rigs/internal/rig"
)

// defaults are what holds where no rule says otherwise.
var defaults = map[rig.Class]rig.Effect{
	rig.EnclosureControl: rig.Allow,
	rig.ProcessSpawn:     rig.Allow,
	rig.NetworkEgress:    rig.Ask, // SPEC §3: by a person, or by an approval
	rig.SecretAccess:     rig.Ask,
}

// scope is where an agent acts.
type scope struct {
	space, agent string
	mode         rig.Mode
}

// judge is the whole of the guardrails: what an agent's action of these classes
// comes to. Of the rules that match, those with the most specific scope count (a
// space before an agent before a mode before the whole workspace), and of these
// the most restrictive; of several classes the most restrictive. A read-only space
// denies all of it, whatever rules say.
func judge(rules []rig.Rule, classes []rig.Class, s scope) (effect rig.Effect, class rig.Class, rule string) {
	effect = rig.Allow
	for i, c := range classes {
		e, id := judgeClass(rules, c, s)
		if i == 0 || restricts(e) > restricts(effect) {
			effect, class, rule = e, c, id
		}
	}
	return effect, class, rule
}

func judgeClass(rules []rig.Rule, c rig.Class, s scope) (rig.Effect, string) {
	if s.mode == rig.ModeReadOnly {
		return rig.Deny, "readOnly"
	}
	effect, rule, best := defaults[c], "", 0
	for _, r := range rules {
		if r.Class != c || r.Space != "" && r.Space != s.space || r.Agent != "" && r.Agent != s.agent || r.Mode != "" && r.Mode != s.mode {
			continue
		}
		n := 1 // more than the default
		for i, narrow := range []bool{r.Mode != "", r.Agent != "", r.Space != ""} {
			if narrow {
				n += 1 << (i + 1)
			}
		}
		if n > best || n == best && restricts(r.Effect) > restricts(effect) {
			effect, rule, best = r.Effect, r.ID, n
		}
	}
	return effect, rule
}

// restricts orders effects.
func restricts(e rig.Effect) int { return slices.Index([]rig.Effect{rig.Allow, rig.Ask, rig.Deny}, e) }

// suffices reports whether a role may do what another is the least for. No role
// at all suffices for nothing.
func suffices(have, need rig.Role) bool {
	return slices.Contains(rig.Roles, have) && slices.Index(rig.Roles, have) >= slices.Index(rig.Roles, need)
}
