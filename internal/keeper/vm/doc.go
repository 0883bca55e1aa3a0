// Package vm runs one QEMU: its command line, its monitor, its end, and the
// freezing and cloning of a machine.
//
// # Boundary
//
// The command line is a pure function of a Plan (see Argv), and golden tests pin
// it. The process gets no configuration but that line, no display, no shared
// folder, no network of the host's, QEMU's own seccomp sandbox with everything
// denied, an almost empty environment, and four sockets that have no name: they
// are inherited descriptors, so there is no path that anybody else could connect
// to. The base image is opened read-only; all writes go to one throwaway disk of
// bounded size.
//
// # Lifetime
//
// QEMU is started from a thread of its own and is killed by the kernel when that
// thread ends, which happens only with this process. It cannot outlive its
// keeper, however the keeper ends.
//
// # Clones
//
// A template is a machine's memory as a file, 80 KB of device state, and its
// disk. A clone maps the memory file privately, so that clones share its pages
// and none can change it. "Privately" needs help: QEMU answers a guest that gives
// pages back (through the balloon) by punching a hole into the file behind them
// also when the mapping is private, and a guest could so damage the template of
// every other. A clone therefore runs under a filter that refuses fallocate(2); see
// filter_linux.go. The cost is that a clone cannot return memory to the host.
//
// # Trust
//
// A guest may take QEMU over, so that what QEMU says is a guest's word: monitor
// lines, console and standard error are bounded, and the last two are cleaned
// before anybody sees them.
package vm
