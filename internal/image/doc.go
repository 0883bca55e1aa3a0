// Package image keeps what machines boot from: container images, the kernel, the
// initramfs and the empty file system of the writable layer.
//
// # Where things are
//
// layout.Images() is an OCI image layout. An image's name leads to the digest of its manifest, and
// that to everything else. Beside it, rootfs/HEX holds the image with that digest,
// flattened into a read-only file system, and blank/N an empty one of N MB.
// layout.Kernels() holds a directory for each kernel, named by the digest of what is in it,
// and initrd-HEX for each pair of a kernel and a guest binary.
//
// # What it promises
//
// Nothing is booted that is not what it was when it was made: blobs are checked against the digests that
// lead to them when they are read, and every file that a machine reads is sealed
// (see internal/seal) and verified by each Boot. What is damaged is refused with the
// code "integrity", and Build makes it again.
//
// Every change is complete or has not happened: things are made under a temporary name and
// renamed. One process at a time changes the store; others wait for it. What
// a crash left is removed by the next change.
//
// # What is kept
//
// The image that a build replaces stays, because rigs that run may be cloned from it; the
// ones before it are removed. Removing an image takes both. An initramfs
// that no boot has asked for in a week is removed when another is made. A file that a running machine has
// open lives until it closes it, whatever its name.
//
// # What it trusts
//
// The cache directory belongs to this user. Layers are hostile (see flatten); packages are Debian's,
// checked by apt.
package image
