// Package debian runs mmdebstrap: it makes the file tree of an image out of Debian
// packages, and fetches the kernel package, both as a tar stream and without leaving
// a file behind.
//
// Packages come from the mirrors that the host's own apt uses where the host is
// Debian, so that proxies, local mirrors and a firewall's rules apply; elsewhere
// from mmdebstrap's default. apt checks signatures, against Debian's own keyring only.
//
// As root mmdebstrap runs in its root mode, in a mount namespace of its own; as an
// ordinary user in unshare mode, which needs user namespaces and a range of
// subordinate uids.
package debian
