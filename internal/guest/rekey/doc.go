// Package rekey makes a machine its own: after a boot, and above all after a
// restore of a template, of which other machines exist that are alike to the
// last bit. It gives the kernel fresh randomness, sets the clock, the host name,
// the machine id and the network, and removes SSH host keys.
//
// Nothing is confirmed by assumption: what Apply returns is read back from the
// kernel and the files.
package rekey
