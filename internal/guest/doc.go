// Package guest is the agent inside a rig: the handler that serves package
// guestapi to the keeper, and what stands around it.
//
// It is the only part of us on the untrusted side. It holds no secret but the
// rig's own, in memory; whoever is root in the guest can read that and change
// everything here, so nothing outside relies on what it says. It promises the
// keeper of an unharmed guest: nothing but hello, rekey, quiesce and poweroff is
// answered before the machine is its own (rekeyed); commands and files are the
// user's, with the user's rights; nothing that must be unique comes from a
// generator that was seeded before a freeze.
//
// Sub-packages: boot (PID 1 until the image's system runs), port (the serial
// port), proc (starting and reaping), account (users), stream (frames), exec,
// terminal, files, rekey.
package guest
