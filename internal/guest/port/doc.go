// Package port is the guest's end of the virtio-serial port that its keeper
// talks through.
//
// The port has no connections of its own: it is opened once, and a host comes
// and goes, before and after a restore. Each host begins a session with the
// preamble of package wire; when it leaves, or another one begins, the session
// ends and the next is waited for. While no host is there the port is always
// "readable" (with nothing), so waiting means waiting for a change: the
// runtime's poller is edge-triggered, and the kernel signals an edge when a host
// opens the port.
package port
