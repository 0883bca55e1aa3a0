// Package boot is what PID 1 of a microVM does before it is the agent: it turns
// the initramfs that the keeper handed to the kernel into the running system of
// a container image that knows nothing of us.
//
// The disks are the image's read-only file system and a writable one; an overlay
// of both becomes the root. Everything the agent needs that the image may lack
// (mount points, the user rig) is made in the writable layer. Of the image only
// a shell is expected.
//
// A failure is fatal: Run's caller prints it on the console, where the host
// reads the reason, and powers off.
package boot
