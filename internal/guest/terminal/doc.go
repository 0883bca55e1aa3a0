// Package terminal keeps terminal sessions: a login shell of the user on a
// terminal, which lives until the shell ends, with any number of clients coming
// and going (a page that is reloaded finds its session again).
//
// Every client sees all output, a new one the last guestapi.MaxScrollback bytes
// first, and may type; the terminal has the size that a client asked for last.
// The shell is slowed down to the fastest client, since output must not be lost
// and memory is bounded: a client that falls behind the others by maxQueue, or
// takes nothing for stall, is dropped.
package terminal
