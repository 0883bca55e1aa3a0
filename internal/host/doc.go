// Package host finds out what this host has: its QEMU, its processor's clock, its
// memory and disk, and whether KVM really runs a guest. It guesses nothing: a KVM
// device that opens proves nothing (there are hosts where a machine is created, real-mode code
// runs, and every kernel then hangs), so the answer comes from a probe guest. What is
// slow to find out is kept in the probes directory, with all that it depends on.
package host
