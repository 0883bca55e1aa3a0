// Package confine takes away from a keeper, and more so from its QEMU, what they do
// not need, so that a guest that has taken one over can do little with it.
//
// Three places call it, each for what only it can do:
//
//   - Start, by whoever starts a keeper: the kernel lets only a privileged process
//     empty the bounding set of capabilities, so that is done for the child before
//     it becomes unprivileged.
//   - Keeper, by the keeper, before it serves and before it starts anything: no
//     new privileges, no capabilities, Landlock on the files of its configuration, a
//     filter of dangerous system calls. All of it holds for what it starts, for good.
//   - Machine, on the thread that starts QEMU: a second, tighter Landlock layer and filter, without
//     network and without the keeper's own directory.
//
// Landlock is used as far as the kernel has it: ABI says how far that is, and the
// keeper says once what is missing. Everything else is required: a keeper that
// cannot be confined does not serve.
package confine
