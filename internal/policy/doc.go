// Package policy decides which hosts a rig may reach. It holds the egress
// patterns, their strict parser, the matching, and the lists that surfaces
// start with. The gate asks it about every connection and the broker about
// every credential: egress and credentials are one policy.
//
// # Patterns
//
//	HOST[:PORTS][ private][ broad]
//
// HOST is one of
//
//	example.com       that name and no other
//	*.example.com     every sub-domain, at any depth, but not example.com itself
//	a.*.example.com   exactly one label in the place of the star
//
// PORTS is a list such as 443 or 22,443. Without it a pattern admits 80 and 443;
// every other port, 22 included, only where the pattern says so.
//
// "private" also admits answers in loopback, private, link-local and metadata
// ranges, which are refused otherwise (the gate says which, after resolving).
//
// "broad" forces a wildcard below a public suffix, such as *.com or *.github.io,
// whose sub-domains belong to many different owners. Without the word such a
// pattern is refused, because it admits more than it seems to say. A lone star
// is refused always, and so are addresses: a rig reaches names, because a name
// is what a ClientHello and a person reading the log can be compared with.
//
// # Names
//
// One canonical form decides: lower case, no trailing dot, internationalized
// labels in their ASCII form (UTS #46, non-transitional). Patterns and hosts are
// brought into it before they are compared.
//
// # Trust
//
// Everything here is pure: no I/O, no clock, no resolver. Patterns come from
// people, host names from guests; both are parsed as if they were hostile, and
// what does not parse admits nothing. The package imports only the vocabulary.
package policy
