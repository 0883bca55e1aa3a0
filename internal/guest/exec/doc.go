// Package exec runs one command for one client: as user rig or as root, with
// pipes or a terminal, standard input within the window, a timeout, signals,
// and an exit status that means what a shell's does.
//
// A command has ended when its own process has: what it leaves running does not
// keep the stream open, and what it has written before is not lost. When the
// client goes away first, the command's process group is hung up and, after
// Grace, killed.
package exec
