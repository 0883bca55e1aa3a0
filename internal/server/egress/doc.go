// Package egress keeps the egress logs of rigs on disk, so that what a rig
// reached, and what it was refused, is known after its machine is gone.
//
// # Trust
//
// Events come from keepers, which a guest may have taken over. Check decides
// what of them is believed: known verdicts, codes of letters, names without
// control characters, numbers that ascend. What does not pass is counted and
// dropped.
//
// # Bounds
//
// A log is two files of JSON Lines, RIG.jsonl and the older RIG.1.jsonl, of
// MaxFile bytes each. All logs together have MaxTotal bytes; above that the files
// that were written last the longest ago go first.
//
// # Faults
//
// Appending never waits: one goroutine writes, from a queue, and when the queue
// is full the line is dropped and counted. A disk that is full is logged and
// counted, and every later line is tried again. Rotation is a rename. A line that
// was cut short by a crash or a full disk is skipped when reading. The numbers of
// events tell what is missing, whyever it is.
package egress
