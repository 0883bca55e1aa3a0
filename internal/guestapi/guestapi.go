// Package guestapi is what a keeper can ask of the guest agent: the shapes of
// the HTTP API that rigs-guest serves on its yamux session. Paths:
//
//	GET  /v1/hello                 → Hello
//	POST /v1/rekey      Rekey      → Rekeyed       must be the first request after a restore
//	POST /v1/quiesce               → 204           flush, trim memory, be ready to be frozen
//	POST /v1/poweroff              → 204           sync and power off
//	GET  /v1/exec       upgrade    frames, KindStart carries ExecRequest
//	GET  /v1/terminal   upgrade    frames, KindStart carries TerminalRequest
//	GET  /v1/files?path=P          → application/x-tar: the file or tree at P, entry names relative to P's parent
//	PUT  /v1/files?path=P          ← application/x-tar, extracted into directory P (made when missing) → 204
//	GET  /v1/stat?path=P           → FileInfo
//	POST /v1/read       ReadFile    → FilePiece
//	POST /v1/write      WriteFile   → FileInfo
//	POST /v1/list       ListDir     → Dir
//	POST /v1/screen     ScreenRequest → Screen
//	GET  /v1/status                → Status
//
// Everything is done as user "rig" except where a field says otherwise; a
// relative path or "~" starts at the user's home. Errors are rig.Problem.
//
// Both sides of this package are written by us, but at the keeper's end every
// answer is a guest's word: bounded, with a deadline, decoded strictly.
package guestapi

import "time"

// Port is the name of the virtio-serial port that carries the session.
const Port = "dev.rigs.agent"

// User is the ordinary user in a guest: name, uid and gid, home directory.
const (
	User = "rig"
	UID  = 1000
	GID  = 1000
	Home = "/home/rig"
)

// Hello is the agent's introduction.
type Hello struct {
	Version string `json:"version"` // of rigs-guest
	BootID  string `json:"bootId"`
	Kernel  string `json:"kernel"` // uname -r
	Rekeyed bool   `json:"rekeyed"`
}

// Rekey makes a clone (or a fresh boot) its own machine. All fields are needed.
type Rekey struct {
	Entropy   []byte    `json:"entropy"` // 64 bytes at least, credited to the kernel, which then reseeds
	Time      time.Time `json:"time"`
	HostName  string    `json:"hostName"`
	MachineID string    `json:"machineId"` // 32 hex digits
	Secret    string    `json:"secret"`    // this rig's, replaces the template's
	Network   Network   `json:"network"`
}

// Network is the configuration of the guest's only NIC.
type Network struct {
	Address string `json:"address"` // CIDR, such as 10.0.0.2/24
	Gateway string `json:"gateway"` // also the DNS server
	MTU     int    `json:"mtu"`
}

// Rekeyed is the confirmation. The keeper compares every field with what it
// asked for, and hands the machine out only when all match.
type Rekeyed struct {
	HostName  string    `json:"hostName"`
	MachineID string    `json:"machineId"`
	Time      time.Time `json:"time"`     // read back after setting
	Reseeded  bool      `json:"reseeded"` // RNDADDENTROPY and RNDRESEEDCRNG both succeeded
	SecretSHA string    `json:"secretSha256"`
}

// ExecRequest starts a command. Exactly one of Argv and Shell is set.
type ExecRequest struct {
	Argv           []string `json:"argv,omitempty"`
	Shell          string   `json:"shell,omitempty"` // run by /bin/sh -c
	Cwd            string   `json:"cwd,omitempty"`   // default: home
	Env            []string `json:"env,omitempty"`   // NAME=value, added to the login environment
	Root           bool     `json:"root,omitempty"`  // as root instead of rig
	TTY            bool     `json:"tty,omitempty"`   // with a terminal of its own; stdout and stderr are then one
	Size           Size     `json:"size,omitzero"`
	TimeoutSeconds float64  `json:"timeoutSeconds,omitempty"` // 0: none
	// Stdin says that the client will send standard input; otherwise it is
	// /dev/null.
	Stdin bool `json:"stdin,omitempty"`
}

// Size is a terminal's, in character cells.
type Size struct {
	Cols int `json:"cols"`
	Rows int `json:"rows"`
}

// Signal is sent to the command's process group.
type Signal struct {
	Name string `json:"name"` // INT, TERM, KILL, HUP, QUIT, USR1, USR2, WINCH, STOP, CONT
}

// ExitStatus ends an exec or a terminal session.
type ExitStatus struct {
	Code     int     `json:"code"`             // exit status; 128+n when signal n ended it
	Signal   string  `json:"signal,omitempty"` // its name, such as KILL
	TimedOut bool    `json:"timedOut,omitempty"`
	Seconds  float64 `json:"seconds"` // how long it ran, by the guest's clock
}

// TerminalRequest attaches to a terminal session of that name, or makes it with
// a login shell of the user. A session lives until its shell ends; several
// clients may be attached, and a new one is sent the last output first.
type TerminalRequest struct {
	Session string `json:"session"` // [a-z0-9-]{1,32}; "main" is the page's
	Size    Size   `json:"size"`
	// Detached sessions are ended when the last client leaves if Ephemeral.
	Ephemeral bool `json:"ephemeral,omitempty"`
}

// FileInfo describes one file.
type FileInfo struct {
	Path   string    `json:"path"` // absolute, cleaned
	Type   string    `json:"type"` // file, dir, symlink, other
	Size   int64     `json:"size"`
	Mode   uint32    `json:"mode"` // permission bits
	MTime  time.Time `json:"mtime"`
	Target string    `json:"target,omitempty"` // of a symlink
}

// Status is what the guest says of itself.
type Status struct {
	Commands  int     `json:"commands"`  // execs running
	Terminals int     `json:"terminals"` // sessions with a client attached
	Uptime    float64 `json:"uptime"`
}

// The records of a PAX global header in the archive of GET /v1/files that stands
// for a file that could not be read: its name in the archive and why. Programs
// that do not know them ignore them.
const (
	SkippedName   = "RIGS.skipped"
	SkippedReason = "RIGS.reason"
)

// Limits on what the agent accepts and says.
const (
	MaxJSON       = 256 << 10 // any request or answer body
	MaxEnv        = 512
	MaxArgs       = 4096
	MaxScrollback = 256 << 10 // bytes of a session's output kept for a new client
	MaxTerminals  = 32
	MaxPath       = 4096
)
