// Package serverapi holds the shapes of the server's HTTP API that are its own:
// what internal/rig, internal/guestapi and internal/keeperapi do not define
// already. The server answers with them and the client decodes them;
// docs/api.md lists the routes. The package imports only our vocabulary and
// does no I/O.
package serverapi

import (
	"time"

	"rigs/internal/rig"
)

// SessionCookie is the name of the page's cookie.
const SessionCookie = "rigs_session"

const (
	// AgentHeader lets a person act as an agent of that name, with an agent's rights
	// and no more than the person's own: what a person's tools do for an agent is not
	// to be the person's doing.
	AgentHeader = "Rigs-Agent"
	// NoticeHeader of an answer tells an agent, once, that control was taken or given
	// back since it was told last.
	NoticeHeader = "Rigs-Notice"
)

// Default is the workspace, and the space, of whoever names none.
const Default = "default"

// Server is GET /v1/server.
type Server struct {
	Version   string        `json:"version"`
	DataDir   string        `json:"dataDir"`
	StartedAt time.Time     `json:"startedAt"`
	Principal rig.Principal `json:"principal" doc:"Who the server takes the caller for"`
}

// SigninLink is a one-time address that signs a browser in.
type SigninLink struct {
	URL       string    `json:"url"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// Token is a bearer token without its secret.
type Token struct {
	ID         string            `json:"id"`
	Name       string            `json:"name"`
	Kind       rig.PrincipalKind `json:"kind" enum:"person,agent"`
	CreatedAt  time.Time         `json:"createdAt"`
	LastUsedAt time.Time         `json:"lastUsedAt,omitzero" doc:"To the minute"`
	ExpiresAt  time.Time         `json:"expiresAt,omitzero"`
	// Roles are those of the principal that bears it.
	Roles []Grant `json:"roles" doc:"What its principal may do, and where"`
}

// Grant is a role in a workspace.
type Grant struct {
	Workspace string   `json:"workspace" doc:"* for all of them"`
	Role      rig.Role `json:"role" enum:"viewer,member,admin,owner"`
}

// NewToken asks for a token.
type NewToken struct {
	Name       string            `json:"name" minLength:"1" maxLength:"63" doc:"Name of the principal that bears it"`
	Kind       rig.PrincipalKind `json:"kind" enum:"person,agent"`
	TTLSeconds int64             `json:"ttlSeconds,omitempty" minimum:"1" maximum:"315360000" doc:"It is refused after this long; 0: never"`
	// Role and Workspace limit the principal, whose every token they are of.
	Role      rig.Role `json:"role,omitempty" enum:"viewer,member,admin,owner" doc:"What the principal may do; default: a person everything, an agent what a member may"`
	Workspace string   `json:"workspace,omitempty" maxLength:"63" doc:"The only workspace that it may do it in; default: all"`
}

// CreatedToken is a token with its secret, which is shown this once.
type CreatedToken struct {
	Token
	Secret string `json:"token"`
}

// Tokens lists tokens.
type Tokens struct {
	Tokens []Token `json:"tokens"`
}

// Name names a new workspace or space.
type Name struct {
	Name string `json:"name" pattern:"^[a-z0-9][a-z0-9._-]{0,62}$" doc:"1 to 63 of a-z 0-9 . _ -, beginning with a letter or digit"`
}

// Workspace holds spaces.
type Workspace struct {
	Name      string    `json:"name"`
	CreatedAt time.Time `json:"createdAt"`
	Spaces    int       `json:"spaces" doc:"How many spaces it holds"`
	Rigs      int       `json:"rigs" doc:"How many of its rigs are live"`
}

// Workspaces lists workspaces.
type Workspaces struct {
	Workspaces []Workspace `json:"workspaces"`
}

// Space holds rigs: a conversation, a pull request.
type Space struct {
	Name      string    `json:"name"`
	Workspace string    `json:"workspace"`
	CreatedAt time.Time `json:"createdAt"`
	Rigs      int       `json:"rigs" doc:"How many of its rigs are live"`
	Mode      rig.Mode  `json:"mode,omitempty" enum:"normal,readOnly" doc:"In a readOnly space agents observe and change nothing"`
}

// Spaces lists spaces.
type Spaces struct {
	Spaces []Space `json:"spaces"`
}

// Rigs lists rigs.
type Rigs struct {
	Rigs []rig.Rig `json:"rigs"`
}

// Image is an image definition and what was built from it.
type Image struct {
	Name      string        `json:"name"`
	Digest    string        `json:"digest,omitempty"`
	CreatedAt time.Time     `json:"createdAt,omitzero"`
	SizeBytes int64         `json:"sizeBytes"`
	Surfaces  []rig.Surface `json:"surfaces"`
	Default   bool          `json:"default" doc:"The surface's own image, used when a Spec names none"`
	State     string        `json:"state" enum:"ready,missing,corrupt"`
	Detail    string        `json:"detail,omitempty"`
}

// Images lists images.
type Images struct {
	Images []Image `json:"images"`
}

// BuildImage asks for an image to be built.
type BuildImage struct {
	NoCache bool `json:"noCache,omitempty" doc:"Build even if the definition has not changed"`
}

// Template is a frozen machine that rigs are cloned from.
type Template struct {
	Key       string      `json:"key"`
	Surface   rig.Surface `json:"surface"`
	Engine    rig.Engine  `json:"engine,omitempty"`
	Image     string      `json:"image"`
	MemoryMB  int         `json:"memoryMB"`
	VCPUs     int         `json:"vcpus"`
	Accel     string      `json:"accel"`
	CreatedAt time.Time   `json:"createdAt"`
	SizeBytes int64       `json:"sizeBytes"`
	State     string      `json:"state" enum:"ready,stale,corrupt"`
	Detail    string      `json:"detail,omitempty"`
}

// Templates lists templates.
type Templates struct {
	Templates []Template `json:"templates"`
}

// MakeTemplate asks for a template.
type MakeTemplate struct {
	Surface  rig.Surface `json:"surface" enum:"terminal,browser,desktop,phone,mac"`
	Engine   rig.Engine  `json:"engine,omitempty" enum:"chromium,firefox,webkit"`
	Image    string      `json:"image,omitempty" maxLength:"256"`
	MemoryMB int         `json:"memoryMB,omitempty" minimum:"0" maximum:"65536"`
	VCPUs    int         `json:"vcpus,omitempty" minimum:"0" maximum:"64"`
	Fresh    bool        `json:"fresh,omitempty" doc:"Make it again even if it is there"`
}

// Doctor is what this host can do, from trying.
type Doctor struct {
	Host     Host      `json:"host"`
	Checks   []Check   `json:"checks"`
	Surfaces []Surface `json:"surfaces"`
}

// Host describes the machine that the server runs on.
type Host struct {
	OS         string `json:"os"`
	Arch       string `json:"arch"`
	CPUs       int    `json:"cpus"`
	MemoryMB   int    `json:"memoryMB"`
	DiskFreeMB int    `json:"diskFreeMB"`
}

// Check is one thing that was tried.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
	Fix    string `json:"fix,omitempty"`
}

// Surface says whether a surface can be had here.
type Surface struct {
	Surface rig.Surface `json:"surface"`
	State   string      `json:"state" enum:"ready,missing,unsupported"`
	Accel   string      `json:"accel,omitempty"`
	Detail  string      `json:"detail,omitempty"`
	Fix     string      `json:"fix,omitempty"`
	Checks  []string    `json:"checks,omitempty"`
}

// EgressAsk asks a person to admit a pattern.
type EgressAsk struct {
	Pattern        string `json:"pattern" minLength:"1" maxLength:"512" doc:"Egress pattern such as example.com"`
	Reason         string `json:"reason" minLength:"1" maxLength:"1000" doc:"What it is needed for, for the person who answers"`
	TTLSeconds     int    `json:"ttlSeconds,omitempty" minimum:"0" maximum:"604800" doc:"For how long; 0: as long as the rig lives"`
	TimeoutSeconds int    `json:"timeoutSeconds,omitempty" minimum:"0" maximum:"3600" doc:"No answer after this long counts as denied; 0: 300"`
}

// ApprovalAnswer answers an approval.
type ApprovalAnswer struct {
	TTLSeconds *int   `json:"ttlSeconds,omitempty" minimum:"0" maximum:"604800" doc:"When approving egress: for how long instead of what was asked; 0: as long as the rig lives"`
	Pattern    string `json:"pattern,omitempty" maxLength:"512" doc:"When approving egress: the pattern to admit instead"`
	Remember   string `json:"remember,omitempty" enum:"space,agent,workspace" doc:"Write a rule with this answer for the rest of the space, the agent or the workspace (kind action)"`
	Note       string `json:"note,omitempty" maxLength:"1000"`
}

// Approvals lists approvals, the newest first.
type Approvals struct {
	Approvals []rig.Approval `json:"approvals"`
}

// WorkspaceEgress is what a workspace changes in the default egress lists.
type WorkspaceEgress struct {
	Surfaces []SurfaceEgress `json:"surfaces"`
}

// SurfaceEgress is what a workspace changes in the default list of a surface.
type SurfaceEgress struct {
	Surface rig.Surface `json:"surface" enum:"terminal,browser,desktop,phone,mac"`
	Add     []string    `json:"add,omitempty" maxItems:"256" doc:"Patterns that rigs opened from now on start with, too"`
	Remove  []string    `json:"remove,omitempty" maxItems:"256" doc:"Patterns of the default list that they start without"`
	// Effective is the list that results. It is not read in a request.
	Effective []string `json:"effective,omitempty" readOnly:"true"`
}

// Take asks for control of a rig.
type Take struct {
	Viewer string `json:"viewer,omitempty" maxLength:"64" doc:"Names the viewer, whose event stream says viewer= too: control is given back when no such stream was there for a minute"`
	Force  bool   `json:"force,omitempty" doc:"Take it from another person; for admins"`
}

// AuditLog is a piece of an audit log, oldest first.
type AuditLog struct {
	Rows []rig.AuditRow `json:"rows"`
	More bool           `json:"more,omitempty" doc:"There are more rows after these"`
}

// AuditVerified is what checking the hash chain of a log gave.
type AuditVerified struct {
	OK     bool   `json:"ok"`
	Rows   int64  `json:"rows" doc:"How many were checked"`
	BadSeq int64  `json:"badSeq,omitempty" doc:"Number of the first row that is not as it was written, or is missing"`
	Detail string `json:"detail,omitempty"`
	// LastSeq and LastHash, kept elsewhere, tell later that the log was not put back
	// to an older state.
	LastSeq  int64  `json:"lastSeq,omitempty" doc:"Number of the last row"`
	LastHash string `json:"lastHash,omitempty" doc:"Its hash"`
}

// Rules lists the guardrails of a workspace.
type Rules struct {
	Rules []rig.Rule `json:"rules"`
}

// NewRule asks for a guardrail.
type NewRule struct {
	Class  rig.Class  `json:"class" enum:"enclosureControl,networkEgress,processSpawn,secretAccess"`
	Effect rig.Effect `json:"effect" enum:"allow,ask,deny"`
	Space  string     `json:"space,omitempty" maxLength:"63"`
	Agent  string     `json:"agent,omitempty" maxLength:"63"`
	Mode   rig.Mode   `json:"mode,omitempty" enum:"normal,readOnly"`
}

// Membership is a principal's role in a workspace.
type Membership struct {
	Principal string   `json:"principal"`
	Role      rig.Role `json:"role" enum:"viewer,member,admin,owner"`
}

// NewRole is the role that a principal is to have.
type NewRole struct {
	Role rig.Role `json:"role" enum:"viewer,member,admin,owner"`
}

// Members lists the members of a workspace.
type Members struct {
	Members []Membership `json:"members"`
}

// SpaceChange changes a space.
type SpaceChange struct {
	Mode rig.Mode `json:"mode" enum:"normal,readOnly" doc:"In a readOnly space agents observe and change nothing"`
}
