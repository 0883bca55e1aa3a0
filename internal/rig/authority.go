package rig

import "time"

// Role is what a principal may do in a workspace. Each role may do what the
// ones before it may.
type Role string

// The roles.
const (
	Viewer Role = "viewer" // sees everything, changes nothing
	Member Role = "member" // opens, drives and closes rigs; a person also takes control and answers approvals
	Admin  Role = "admin"  // changes the workspace's rules, egress defaults and members
	Owner  Role = "owner"  // deletes the workspace
)

// Roles lists every role, the least first.
var Roles = []Role{Viewer, Member, Admin, Owner}

// Class is a kind of action that guardrails speak of. The set is closed.
type Class string

// The classes of SPEC §16.
const (
	EnclosureControl Class = "enclosureControl" // opening, driving and closing a rig
	NetworkEgress    Class = "networkEgress"    // letting a rig reach another host
	ProcessSpawn     Class = "processSpawn"     // running a program or a shell in a rig
	SecretAccess     Class = "secretAccess"     // obtaining a credential, or reading a clipboard
)

// Classes lists every class.
var Classes = []Class{EnclosureControl, NetworkEgress, ProcessSpawn, SecretAccess}

// Effect is what a guardrail does.
type Effect string

// The effects, the least restrictive first.
const (
	Allow Effect = "allow"
	Ask   Effect = "ask"
	Deny  Effect = "deny"
)

// Mode is how a space is worked in.
type Mode string

// The modes.
const (
	ModeNormal   Mode = "normal"
	ModeReadOnly Mode = "readOnly" // agents observe and change nothing
)

// Rule is one guardrail of a workspace. Empty Space, Agent and Mode match all.
type Rule struct {
	ID        string    `json:"id"`
	Class     Class     `json:"class" enum:"enclosureControl,networkEgress,processSpawn,secretAccess"`
	Effect    Effect    `json:"effect" enum:"allow,ask,deny"`
	Space     string    `json:"space,omitempty" doc:"Only in this space"`
	Agent     string    `json:"agent,omitempty" doc:"Only for the agent of this name"`
	Mode      Mode      `json:"mode,omitempty" enum:"normal,readOnly" doc:"Only in spaces of this mode"`
	CreatedAt time.Time `json:"createdAt"`
	CreatedBy string    `json:"createdBy"`
}

// Control is exclusive: while somebody holds it, nobody else's actions change
// anything in the rig.
type Control struct {
	Holder Principal `json:"holder"`
	Since  time.Time `json:"since"`
}

// ApprovalState is where an approval stands.
type ApprovalState string

// The states; all but the first are final.
const (
	Pending  ApprovalState = "pending"
	Approved ApprovalState = "approved"
	Denied   ApprovalState = "denied"
	Expired  ApprovalState = "expired"  // nobody answered in time
	Canceled ApprovalState = "canceled" // the asker went away, or the rig was closed
)

// Kinds of approvals.
const (
	ApprovalEgress = "egress" // Pattern is asked to be admitted
	ApprovalAction = "action" // an action of Class whose guardrail says ask
)

// Approval is a question to a person. What Reason and Summary say comes from
// whoever asks and is not to be believed.
type Approval struct {
	ID         string        `json:"id"`
	Kind       string        `json:"kind" enum:"egress,action"`
	Workspace  string        `json:"workspace"`
	Space      string        `json:"space"`
	RigID      string        `json:"rigId,omitempty"`
	By         Principal     `json:"by" doc:"Who asks"`
	Reason     string        `json:"reason,omitempty" doc:"In the asker's words"`
	Pattern    string        `json:"pattern,omitempty" doc:"Egress pattern, in canonical spelling"`
	TTLSeconds int           `json:"ttlSeconds,omitempty" doc:"How long the pattern is asked to be admitted; 0: as long as the rig lives"`
	Class      Class         `json:"class" enum:"enclosureControl,networkEgress,processSpawn,secretAccess"`
	Verb       string        `json:"verb,omitempty" doc:"The action, for kind action"`
	Summary    string        `json:"summary,omitempty" doc:"What the action would do, in a line"`
	State      ApprovalState `json:"state" enum:"pending,approved,denied,expired,canceled"`
	CreatedAt  time.Time     `json:"createdAt"`
	ExpiresAt  time.Time     `json:"expiresAt" doc:"When no answer counts as denied"`
	AnsweredAt time.Time     `json:"answeredAt,omitzero"`
	AnsweredBy string        `json:"answeredBy,omitempty"`
	Note       string        `json:"note,omitempty" doc:"In the answerer's words"`
}

// AuditRow is one row of a rig's audit log, or of the server's own (RigID "").
// An action has a row when it is decided, and another, with Ref, when it ended.
type AuditRow struct {
	RigID     string        `json:"rigId,omitempty"`
	Seq       int64         `json:"seq" doc:"1, 2, 3 … within the log"`
	Time      time.Time     `json:"time"`
	Principal string        `json:"principal"`
	Kind      PrincipalKind `json:"kind" enum:"person,agent,system"`
	Action    string        `json:"action" doc:"Verb, such as exec, terminal.input, take, egress.allow"`
	Class     Class         `json:"class,omitempty"`
	Outcome   string        `json:"outcome" doc:"allowed; a code such as denied or controlHeld; of an end: done or a code"`
	Ref       int64         `json:"ref,omitempty" doc:"Of an end: number of the row of the action's beginning"`
	// Detail holds what is worth knowing, as strings. Typed text and clipboard
	// content are never in it: their length and keyed hash are.
	Detail map[string]string `json:"detail,omitempty"`
	Hash   string            `json:"hash" doc:"Hex SHA-256 of the row and the hash of the row before it"`
}
