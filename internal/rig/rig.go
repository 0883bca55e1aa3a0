package rig

import (
	"crypto/rand"
	"encoding/base32"
	"regexp"
	"strings"
	"sync"
	"time"
)

// IDLen is the number of characters of a rig's id.
const IDLen = 10

var idEncoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// Compiled on first use: every program has this package, also the guest's, which
// needs neither and starts on every cold boot.
var (
	idPattern   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-z]{10}$`) })
	namePattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`) })
)

// NewID draws a new rig id: 10 characters, 50 random bits.
func NewID() string {
	var b [7]byte
	rand.Read(b[:]) // never fails since Go 1.24
	return idEncoding.EncodeToString(b[:])[:IDLen]
}

// ValidID reports whether s has the form of a rig id.
func ValidID(s string) bool { return idPattern().MatchString(s) }

// ValidName reports whether s can name a space or a workspace.
func ValidName(s string) bool { return namePattern().MatchString(s) && !strings.Contains(s, "..") }

// Spec is what a caller asks for when it opens a rig. Zero values mean the
// surface's defaults.
type Spec struct {
	Workspace string  `json:"workspace,omitempty" doc:"Workspace; default 'default'"`
	Space     string  `json:"space,omitempty" doc:"Space that the rig belongs to; default 'default'. Made when it does not exist"`
	Surface   Surface `json:"surface" enum:"terminal,browser,desktop,phone,mac" doc:"What is driven"`
	Engine    Engine  `json:"engine,omitempty" enum:"chromium,firefox,webkit" doc:"Browser engine, for surface browser"`
	Image     string  `json:"image,omitempty" doc:"Image other than the surface's own: a name from 'rigs image ls', optionally with @sha256:… "`
	// Allow adds egress patterns to the surface's default list; NoDefaults
	// starts from an empty list instead.
	Allow       []string `json:"allow,omitempty" doc:"Egress patterns admitted in addition to the defaults, such as example.com or *.example.com:443" maxItems:"256"`
	NoDefaults  bool     `json:"noDefaults,omitempty" doc:"Start with an empty egress list instead of the surface's default"`
	MemoryMB    int      `json:"memoryMB,omitempty"`
	VCPUs       int      `json:"vcpus,omitempty"`
	TTLSeconds  int      `json:"ttlSeconds,omitempty"`
	IdleSeconds int      `json:"idleSeconds,omitempty"`
	New         bool     `json:"new,omitempty" doc:"Open another rig even if the space has one of this surface"`
	Cold        bool     `json:"cold,omitempty" doc:"Boot from the image instead of cloning the template"`
}

// Rig is a rig as everybody sees it.
type Rig struct {
	ID        string    `json:"id"`
	Workspace string    `json:"workspace"`
	Space     string    `json:"space"`
	Surface   Surface   `json:"surface"`
	Engine    Engine    `json:"engine,omitempty"`
	Image     string    `json:"image" doc:"Image reference with digest"`
	Resources Resources `json:"resources"`
	OpenedBy  string    `json:"openedBy" doc:"Principal that opened it"`

	Phase    Phase     `json:"phase"`
	Step     *Step     `json:"step,omitempty" doc:"What is being done, while provisioning"`
	Boot     string    `json:"boot,omitempty" doc:"How the machine started: clone or cold" enum:"clone,cold"`
	Accel    string    `json:"accel,omitempty" doc:"kvm, tcg or hvf"`
	OpenedAt time.Time `json:"openedAt"`
	ReadyAt  time.Time `json:"readyAt,omitzero"`
	ClosedAt time.Time `json:"closedAt,omitzero"`
	// ExpiresAt is when the TTL ends.
	ExpiresAt   time.Time   `json:"expiresAt"`
	CloseReason CloseReason `json:"closeReason,omitempty"`
	Error       *Problem    `json:"error,omitempty" doc:"Why it failed"`

	Egress []string `json:"egress" doc:"Egress patterns admitted now"`
	InUse  []string `json:"inUse,omitempty" doc:"What counts as use right now, such as '1 command running'"`

	// ResidentMB is measured: what of the memory of the host its processes take, shared
	// pages counted in parts (PSS).
	ResidentMB int `json:"residentMB,omitempty" doc:"Memory of the host that it takes, measured, in MB; where it can be measured"`

	Control *Control `json:"control,omitempty" doc:"Who holds control; absent when nobody does and agents may act"`
}

// Ref is SPACE/SURFACE[:ENGINE], the readable way to name a space's machine.
func (r *Rig) Ref() string {
	s := r.Space + "/" + string(r.Surface)
	if r.Engine != "" {
		s += ":" + string(r.Engine)
	}
	return s
}

// Step is one step of long work, in words for a person. Total is 0 when the
// amount is unknown.
type Step struct {
	Text  string `json:"text"`
	Done  int64  `json:"done,omitempty"`
	Total int64  `json:"total,omitempty"`
	Unit  string `json:"unit,omitempty" enum:"bytes,files,packages,steps"`
}

// PrincipalKind tells people from agents.
type PrincipalKind string

// The kinds of principals.
const (
	Person PrincipalKind = "person"
	Agent  PrincipalKind = "agent"
	System PrincipalKind = "system" // the server itself, in audit rows only
)

// Principal is somebody who asks for something.
type Principal struct {
	Name string        `json:"name"`
	Kind PrincipalKind `json:"kind" enum:"person,agent"`
}

// EgressEvent is one line of a rig's egress log.
type EgressEvent struct {
	Seq     int64     `json:"seq"`
	Time    time.Time `json:"time"`
	Verdict string    `json:"verdict" enum:"allow,deny" doc:"What the gate decided"`
	// Reason is a stable code such as notAdmitted, rawAddress, forbiddenRange,
	// portNotAdmitted, protocol, upstreamRefused, admitted, closed.
	Reason   string  `json:"reason"`
	Protocol string  `json:"protocol" doc:"tcp, udp, icmp, ipv6, dns or other"`
	Host     string  `json:"host,omitempty" doc:"Name the guest asked for, in canonical form"`
	Address  string  `json:"address,omitempty" doc:"Address the guest or the gate dialled"`
	Port     int     `json:"port,omitempty"`
	BytesOut int64   `json:"bytesOut,omitempty" doc:"From the guest, at a connection's end"`
	BytesIn  int64   `json:"bytesIn,omitempty" doc:"To the guest, at a connection's end"`
	Seconds  float64 `json:"seconds,omitempty" doc:"Duration, at a connection's end"`
	Count    int64   `json:"count,omitempty" doc:"How many like it this line stands for, when more than one"`
}

// Event is one message of the server's event stream. Exactly one of the
// pointers is set, as Type says.
type Event struct {
	Type   string       `json:"type" enum:"rig,egress,rules,approval,audit"`
	RigID  string       `json:"rigId,omitempty"`
	Rig    *Rig         `json:"rig,omitempty"`
	Egress *EgressEvent `json:"egress,omitempty"`
	Rules  []string     `json:"rules,omitempty" doc:"The rig's egress patterns after a change"`
	// Approval is one that was asked for, or answered.
	Approval *Approval `json:"approval,omitempty"`
	// Audit is a new row of the rig's audit log.
	Audit *AuditRow `json:"audit,omitempty"`
}
