// Package proc starts processes and waits for them in a program that is also
// the reaper of orphans: PID 1 of a microVM.
//
// Whoever reaps everything takes the exit status away from whoever waits for
// one child, and a pid that was reaped can belong to somebody else when it is
// signalled. So there is one owner of both: a Reaper is the only place in the
// program that waits for children, hands each status to the Process it belongs
// to, and drops those of orphans. It first looks at who has ended without
// reaping (WNOWAIT), marks that Process as ended, and only then reaps: a signal
// sent through a Process therefore never reaches a stranger.
//
// Nothing else in a program with a Reaper may start processes: os/exec would
// find its children already reaped.
package proc
