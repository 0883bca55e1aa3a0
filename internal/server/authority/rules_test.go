package authority

import (
	"testing"

	"rigs/internal/rig"
)

func TestTheMostSpecificScopeDecidesThenTheMostRestrictiveRule(t *testing.T) {
	r := func(e rig.Effect, space, agent string, m rig.Mode) rig.Rule {
		return rig.Rule{ID: string(e) + space + agent + string(m), Class: rig.ProcessSpawn, Effect: e, Space: space, Agent: agent, Mode: m}
	}
	here := scope{"s", "a", rig.ModeNormal}
	for _, x := range []struct {
		name  string
		rules []rig.Rule
		at    scope
		want  rig.Effect
	}{
		{"none", nil, here, rig.Allow},
		{"the workspace's", []rig.Rule{r(rig.Deny, "", "", "")}, here, rig.Deny},
		{"of another space", []rig.Rule{r(rig.Deny, "t", "", "")}, here, rig.Allow},
		{"of another agent", []rig.Rule{r(rig.Deny, "", "b", "")}, here, rig.Allow},
		{"of another mode", []rig.Rule{r(rig.Deny, "", "", rig.ModeReadOnly)}, here, rig.Allow},
		{"of this mode", []rig.Rule{r(rig.Ask, "", "", rig.ModeNormal)}, here, rig.Ask},
		{"restrictive wins within a scope", []rig.Rule{r(rig.Allow, "", "", ""), r(rig.Deny, "", "", ""), r(rig.Ask, "", "", "")}, here, rig.Deny},
		{"an agent's before the workspace's", []rig.Rule{r(rig.Deny, "", "", ""), r(rig.Allow, "", "a", "")}, here, rig.Allow},
		{"a space's before an agent's", []rig.Rule{r(rig.Deny, "", "a", ""), r(rig.Ask, "s", "", "")}, here, rig.Ask},
		{"both before one", []rig.Rule{r(rig.Deny, "s", "", ""), r(rig.Allow, "s", "a", "")}, here, rig.Allow},
		{"a space's before an agent's of this mode", []rig.Rule{r(rig.Deny, "", "a", rig.ModeNormal), r(rig.Allow, "s", "", "")}, here, rig.Allow},
		{"an agent's before a mode's", []rig.Rule{r(rig.Deny, "", "", rig.ModeNormal), r(rig.Allow, "", "a", "")}, here, rig.Allow},
		{"a rule's before the default", []rig.Rule{r(rig.Ask, "", "", "")}, here, rig.Ask},
		{"read only denies whatever is allowed", []rig.Rule{r(rig.Allow, "s", "a", rig.ModeReadOnly)}, scope{"s", "a", rig.ModeReadOnly}, rig.Deny},
	} {
		if got, _, _ := judge(x.rules, spawning, x.at); got != x.want {
			t.Errorf("%s: %s, want %s", x.name, got, x.want)
		}
	}
	if e, c, _ := judge(nil, []rig.Class{rig.EnclosureControl, rig.NetworkEgress}, here); e != rig.Ask || c != rig.NetworkEgress {
		t.Errorf("of several classes the most restrictive: %s %s", e, c)
	}
	if e, _, _ := judge(nil, nil, scope{mode: rig.ModeReadOnly}); e != rig.Allow {
		t.Errorf("what only looks is denied: %s", e)
	}
	for _, c := range rig.Classes {
		if _, ok := defaults[c]; !ok {
			t.Errorf("class %s has no default", c)
		}
	}
}

func TestRolesAreOrdered(t *testing.T) {
	for i, have := range rig.Roles {
		for j, need := range rig.Roles {
			if got := suffices(have, need); got != (i >= j) {
				t.Errorf("%s for %s: %v", have, need, got)
			}
		}
		if suffices("", have) || suffices("root", have) {
			t.Errorf("no role suffices for %s", have)
		}
	}
}
