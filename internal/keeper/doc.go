// Package keeper is the process that owns one rig: its hypervisor, its gate, its
// agent's session and its end. The server starts it as the hidden command "rigs
// keeper", tells it all it needs on standard input (keeperapi.Config) and then
// talks to it over a Unix socket (see package keeperapi).
//
// # What it promises
//
// A keeper ends when its server's first event stream ends, when the rig's time is over, when it
// is told to, and takes its machine along in each case; the kernel ends the machine if the keeper is killed. A
// machine is handed out (phase ready) only after its guest has confirmed every
// field of its new identity. A machine that dies is reported at once as failed, with what
// QEMU and the console said last, and is never replaced.
//
// # What it trusts
//
// The server. Whatever comes from the guest is hostile: frames are parsed and
// written anew, answers are bounded, strictly decoded and have a deadline, error
// texts are cleaned, headers are never passed on, and what is kept of a guest's
// doings (console, egress log, events) has a fixed size. A keeper is expendable: it
// holds no secret but its own rig's.
package keeper
