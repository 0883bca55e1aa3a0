// Package gate is the only way out of a rig. The guest's one network card ends
// here, in a TCP/IP stack inside the keeper, and nothing leaves but TCP
// connections to names that the policy admits, which the gate dials itself.
//
// # Threat
//
// The guest is hostile: it may run anything, as root, with its own network
// stack. It wants to reach what it may not, to carry data out through lookups
// and through hosts that share an address, to reach services of the host's own
// network through an admitted name, and to make the keeper hang, grow or fill a
// disk. An admitted host may be hostile as well, and its DNS may answer anything.
//
// # Promises
//
//   - Nothing is sent to anybody, lookups included, for a name that is not
//     admitted. The DNS that the guest talks to makes up its answers.
//   - A refusal is an answer: a reset, an ICMP error, an empty answer. It is in
//     the egress log, with its reason.
//   - Every decision is one pure function, judge. It is asked at the SYN, for each
//     address after resolving, after the first bytes, and again for open
//     connections when the policy changes.
//   - A guest's connection is accepted only after the other end accepted, so a
//     refusal upstream is a refusal in the guest.
//   - Whatever the guest does, memory, goroutines and log lines stay within
//     Limits, and Allow, Deny and the end of Serve wait for no guest.
//
// # Shape
//
// Data flows one way: link.go cuts the hypervisor's stream into frames, frame.go
// sifts them (pure), session.go feeds the stack, dnsanswer.go answers lookups
// (pure), names.go knows which address stands for which name, verdict.go and
// ranges.go decide (pure), connect.go resolves and dials, proxy.go does so through
// a proxy, expiry.go ends admissions when their time is over, opening.go and http.go
// look at the first bytes, relay.go moves the rest, journal.go writes it down, counters.go counts.
//
// What is not inspected, and a test for every case, is in docs/egress.md.
package gate
