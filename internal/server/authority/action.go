package authority

import "rigs/internal/rig"

// Action is what somebody wants to do, as far as deciding about it needs to know.
type Action struct {
	// Verb names it in the log, in approvals and in errors.
	Verb string
	// Role is the least that the caller needs in the workspace.
	Role rig.Role
	// Classes are what guardrails see in it. Without one it only looks.
	Classes []rig.Class
	// Drives says that it changes something in the machine: it is refused while
	// somebody else holds control.
	Drives bool
	// Leads says that it changes what the machine may do, and nothing in it: it is refused
	// to agents while somebody holds control. People may, as they answer agents' questions.
	Leads bool
	// People says that agents never may.
	People bool
	// Ends says that it takes something away and gives nothing: it is done even when it
	// cannot be written down. A full disk must not keep a machine from being closed, which
	// is what would make room.
	Ends bool
	// Summary is what it would do, in a line, for the person who is asked.
	Summary string
	// Detail is for the audit row. It must hold nothing that was typed.
	Detail map[string]string
	// Egress is the pattern that would be admitted, for class networkEgress, and
	// EgressSeconds for how long.
	Egress        string
	EgressSeconds int
}

// With returns the action with a summary and details, given in pairs. Empty
// values are left out.
func (a Action) With(summary string, detail ...string) Action {
	a.Summary = summary
	a.Detail = map[string]string{}
	for i := 0; i+1 < len(detail); i += 2 {
		if detail[i+1] != "" {
			a.Detail[detail[i]] = detail[i+1]
		}
	}
	return a
}

var (
	driving  = []rig.Class{rig.EnclosureControl}
	spawning = []rig.Class{rig.EnclosureControl, rig.ProcessSpawn}
)

// The actions. Verbs of surfaces (read_file, click …) come from rig.Verbs.
var (
	Open  = Action{Verb: "open", Role: rig.Member, Classes: driving}
	Close = Action{Verb: "close", Role: rig.Member, Classes: driving, Drives: true, Ends: true}
	Park  = Action{Verb: "park", Role: rig.Member, Classes: driving, Drives: true, Ends: true}
	Wake  = Action{Verb: "wake", Role: rig.Member, Classes: driving, Drives: true}
	Exec  = Action{Verb: "exec", Role: rig.Member, Classes: spawning, Drives: true}
	// Attach shows a terminal, and makes its shell when there is none; what is
	// typed into it passes Grant.Input.
	Attach    = Action{Verb: "terminal", Role: rig.Member, Classes: spawning}
	ReadFile  = Action{Verb: "files.read", Role: rig.Viewer}
	WriteFile = Action{Verb: "files.write", Role: rig.Member, Classes: driving, Drives: true}

	EgressAllow = Action{Verb: "egress.allow", Role: rig.Member, Classes: []rig.Class{rig.NetworkEgress}, Leads: true}
	EgressDeny  = Action{Verb: "egress.deny", Role: rig.Member, Classes: driving, Leads: true, Ends: true}
	EgressAsk   = Action{Verb: "egress.ask", Role: rig.Member}

	Take    = Action{Verb: "take", Role: rig.Member, People: true, Ends: true} // of the agents' power
	Give    = Action{Verb: "give", Role: rig.Member, People: true}
	Approve = Action{Verb: "approval.approve", Role: rig.Member, People: true}
	Refuse  = Action{Verb: "approval.deny", Role: rig.Member, People: true}

	SpaceCreate     = Action{Verb: "space.create", Role: rig.Member}
	SpaceChange     = Action{Verb: "space.change", Role: rig.Admin, People: true}
	SpaceDelete     = Action{Verb: "space.delete", Role: rig.Member, Classes: driving, Drives: true} // it closes rigs
	WorkspaceCreate = Action{Verb: "workspace.create", Role: rig.Admin, People: true}
	WorkspaceDelete = Action{Verb: "workspace.delete", Role: rig.Owner, People: true}
	WorkspaceEgress = Action{Verb: "workspace.egress", Role: rig.Admin, People: true}
	MemberPut       = Action{Verb: "member.put", Role: rig.Admin, People: true}
	MemberDelete    = Action{Verb: "member.delete", Role: rig.Admin, People: true}
	RuleAdd         = Action{Verb: "rule.add", Role: rig.Admin, People: true}
	RuleDelete      = Action{Verb: "rule.delete", Role: rig.Admin, People: true}

	// Of the server as a whole.
	// A token is as good as the principal whose name it bears, who may be anybody.
	TokenCreate    = Action{Verb: "token.create", Role: rig.Owner, People: true}
	TokenRevoke    = Action{Verb: "token.revoke", Role: rig.Owner, People: true, Ends: true}
	ImageBuild     = Action{Verb: "image.build", Role: rig.Admin, People: true}
	ImageRemove    = Action{Verb: "image.remove", Role: rig.Admin, People: true}
	TemplateMake   = Action{Verb: "template.make", Role: rig.Admin, People: true}
	TemplateRemove = Action{Verb: "template.remove", Role: rig.Admin, People: true}
)

// Verb is the action that a verb of a surface is.
func Verb(name string, class rig.Class, changes bool) Action {
	a := Action{Verb: name, Role: rig.Viewer}
	if !changes {
		return a
	}
	a.Role, a.Drives, a.Classes = rig.Member, true, driving
	if class != "" && class != rig.EnclosureControl {
		a.Classes = []rig.Class{rig.EnclosureControl, class}
	}
	return a
}
