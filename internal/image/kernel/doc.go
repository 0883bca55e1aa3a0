// Package kernel turns a distribution's kernel package into what a machine boots:
// the uncompressed kernel (vmlinux), the modules that the guest needs in the order in
// which to load them, and an initramfs made of them and the guest binary.
//
// Everything is done on bytes: no package is installed, nothing is run and nothing is mounted.
//
// It trusts that the package comes from the archive that signed it (apt has checked
// that), and is strict about its form all the same: sizes are bounded, and what is
// not understood is an error that names it.
package kernel
