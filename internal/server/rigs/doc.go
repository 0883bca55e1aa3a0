// Package rigs is the authority over rigs: it opens them, is the one place that
// every use of them passes, and closes them. What may happen to a rig is said
// by rig.Phase; nothing here moves a rig in another way.
//
// # Ownership
//
// Each rig has one goroutine, from its opening to the end of its machine. It
// alone starts the keeper, reads its events and tears down; everybody else asks
// it to by ending its context. A closed rig is therefore always one whose
// processes, sockets and disk are gone.
//
// # Trust
//
// A keeper's answers are bounded and strictly decoded. A guest's bytes are
// relayed and never looked at.
//
// # Time
//
// TTLs and idle windows count real time, across a suspend of the host too: they
// are compared with the wall clock at every Tick, not timed by timers.
package rigs
