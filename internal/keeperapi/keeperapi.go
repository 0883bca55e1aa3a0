// Package keeperapi is the protocol between the server and a keeper: the
// configuration that a keeper reads on its standard input (one JSON value), and
// the HTTP API that it serves on the Unix socket Config.Socket:
//
//	GET  /v1/events                → application/jsonl, Event values. The first connection is the
//	                                 keeper's lifeline: when it ends, so does the keeper. It must come
//	                                 within AttachTimeout.
//	GET  /v1/status                → Status
//	POST /v1/exec       ExecCollect → ExecResult   runs to the end and returns the output
//	GET  /v1/exec       upgrade    frames, relayed to the guest
//	GET  /v1/terminal   upgrade    frames, relayed to the guest
//	GET  /v1/files?path=P          → tar, relayed from the guest
//	PUT  /v1/files?path=P          ← tar, relayed to the guest
//	GET  /v1/stat?path=P           → guestapi.FileInfo
//	POST /v1/act        rig.Action → ActResult
//	GET  /v1/egress                → EgressRules
//	POST /v1/egress/allow  EgressChange → EgressRules
//	POST /v1/egress/deny   EgressChange → EgressRules
//	GET  /v1/egress/log?after=SEQ  → EgressLog
//	POST /v1/park, /v1/wake        → 204
//	POST /v1/close                 → 204 when the VM is gone; the keeper then exits 0
//
// Relays pass a guest's status code and body, never its headers: the content
// type is the keeper's own.
package keeperapi

import (
	"time"

	"rigs/internal/guestapi"
	"rigs/internal/rig"
)

// AttachTimeout is how long a keeper waits for its server.
const AttachTimeout = 15 * time.Second

// OwnerEnv is the environment variable that marks every process of a rig: its
// value is the data directory's id, a slash and the rig's id. A process keeps
// its environment for life and nobody else can give it one, so the mark
// survives a crash, and a reused pid does not carry it.
const OwnerEnv = "RIGS_OWNER"

// Mode says what a keeper is started for.
type Mode string

// The modes. A template keeper boots the image, freezes it into
// Config.TemplateDir and exits; a probe keeper tries Accel with the real kernel
// and exits.
const (
	ModeRig      Mode = "rig"
	ModeTemplate Mode = "template"
	ModeProbe    Mode = "probe"
)

// Config is all that a keeper is told. Paths are absolute.
type Config struct {
	Mode       Mode   `json:"mode"`
	RigID      string `json:"rigId"`
	Owner      string `json:"owner"`      // value of OwnerEnv
	Socket     string `json:"socket"`     // where to serve
	RuntimeDir string `json:"runtimeDir"` // 0700, for sockets; exists
	DiskDir    string `json:"diskDir"`    // for the throwaway disk and logs; exists
	// ServerUID is the only user whose connections to Socket are answered. Without
	// it the socket's mode is all that protects it, and keepers that share a user
	// can use each other's.
	ServerUID *int `json:"serverUid,omitempty"`

	Machine  Machine   `json:"machine"`
	Boot     BootFiles `json:"boot"`
	Template string    `json:"template,omitempty"` // template directory to clone; empty: cold boot
	// TemplateDir is where ModeTemplate puts its result; exists, empty.
	TemplateDir string `json:"templateDir,omitempty"`

	HostName string    `json:"hostName"`
	Deadline time.Time `json:"deadline"` // end of the TTL
	Egress   []string  `json:"egress"`   // admitted patterns
	// Proxy is the server's own way out, if it has one.
	Proxy    *Proxy `json:"proxy,omitempty"`
	LogLevel string `json:"logLevel,omitempty"`
}

// Proxy is an upstream HTTP proxy, as HTTPS_PROXY, HTTP_PROXY and NO_PROXY of
// the server say. The URLs may hold a name and a password.
type Proxy struct {
	HTTPS   string `json:"https,omitempty"`
	HTTP    string `json:"http,omitempty"`
	NoProxy string `json:"noProxy,omitempty"`
}

// String leaves the values out, in case somebody logs one.
func (Proxy) String() string { return "(proxies)" }

// Machine is what the hypervisor is asked for.
type Machine struct {
	Surface     rig.Surface `json:"surface"`
	Accel       string      `json:"accel"` // tcg, kvm or hvf
	QEMU        string      `json:"qemu"`  // path of the binary
	QEMUVersion string      `json:"qemuVersion"`
	MemoryMB    int         `json:"memoryMB"`
	VCPUs       int         `json:"vcpus"`
	DiskMB      int         `json:"diskMB"`
	TSCKHz      int         `json:"tscKHz"` // the host's, 0 where it has none
}

// BootFiles are the inputs of a boot, all read-only and verified before.
type BootFiles struct {
	Kernel     string `json:"kernel"` // vmlinux
	Initrd     string `json:"initrd"`
	RootFS     string `json:"rootfs"`     // read-only file system image of the container image
	RootFSType string `json:"rootfsType"` // erofs or ext4
	Blank      string `json:"blank"`      // empty file system for the writable layer, raw
}

// Event is one message of a keeper's event stream; the field that Type names
// is set.
type Event struct {
	Type   string           `json:"type"` // phase, step, egress, rules
	Phase  rig.Phase        `json:"phase,omitempty"`
	Boot   string           `json:"boot,omitempty"` // with ready: clone or cold
	Reason rig.CloseReason  `json:"reason,omitempty"`
	Error  *rig.Problem     `json:"error,omitempty"` // with failed
	Step   *rig.Step        `json:"step,omitempty"`
	Egress *rig.EgressEvent `json:"egress,omitempty"`
	Rules  []string         `json:"rules,omitempty"`
}

// Status is a keeper's account of its rig.
type Status struct {
	Phase   rig.Phase         `json:"phase"`
	Boot    string            `json:"boot"`
	Streams map[string]int    `json:"streams"` // open exec, terminal and files streams
	QEMUPID int               `json:"qemuPid"`
	LastUse time.Time         `json:"lastUse"`
	Dropped map[string]uint64 `json:"dropped"` // frames the gate dropped, by kind
	Gate    GateCounters      `json:"gate"`
}

// GateCounters count what a gate did since it was made, everything included that
// the log leaves out.
type GateCounters struct {
	Open      int               `json:"open"`      // connections that are open now
	Admitted  uint64            `json:"admitted"`  // connections that were connected
	Refused   map[string]uint64 `json:"refused"`   // by reason; connections, lookups and other attempts
	Unreached map[string]uint64 `json:"unreached"` // by reason; admitted, but never connected
	BytesOut  uint64            `json:"bytesOut"`  // from the guest, open connections included
	BytesIn   uint64            `json:"bytesIn"`   // to the guest
	Lookups   uint64            `json:"lookups"`   // that the guest asked for
	Dropped   map[string]uint64 `json:"dropped"`   // frames, by kind
}

// ExecCollect runs a command to its end.
type ExecCollect struct {
	guestapi.ExecRequest
	Input []byte `json:"input,omitempty"` // standard input
	Limit int    `json:"limit,omitempty"` // most bytes kept of each output; 0: MaxCollect
}

// MaxCollect is the most that POST /v1/exec returns of each output, in bytes.
const MaxCollect = 1 << 20

// ExecResult is what a command said.
type ExecResult struct {
	guestapi.ExitStatus
	Stdout          []byte `json:"stdout"`
	Stderr          []byte `json:"stderr"`
	StdoutTruncated bool   `json:"stdoutTruncated,omitempty"`
	StderrTruncated bool   `json:"stderrTruncated,omitempty"`
}

// EgressRules are the patterns admitted now. Entries are the same in the same
// order, with when they end.
type EgressRules struct {
	Patterns []string      `json:"patterns"`
	Entries  []EgressEntry `json:"entries"`
}

// EgressEntry is one admitted pattern.
type EgressEntry struct {
	Pattern   string    `json:"pattern"`
	ExpiresAt time.Time `json:"expiresAt,omitzero" doc:"When it ends and its connections are closed; absent: with the rig"`
}

// EgressChange admits or removes one pattern.
type EgressChange struct {
	Pattern string `json:"pattern"`
	// TTLSeconds ends an admission by itself. Admitting a pattern again replaces
	// the end that it had.
	TTLSeconds int `json:"ttlSeconds,omitempty" minimum:"0" maximum:"604800" doc:"When admitting: for how long; 0: as long as the rig lives"`
}

// EgressLog is a piece of the egress log, oldest first.
type EgressLog struct {
	Events []rig.EgressEvent `json:"events"`
	Lost   int64             `json:"lost,omitempty"` // events before these that are no longer kept
}
