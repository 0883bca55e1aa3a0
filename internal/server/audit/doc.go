// Package audit writes down who did what: a log for each rig, and the server's
// own, whose rows have no rig. Logs outlive the machines that they are about.
//
// # Threat
//
// Somebody who can edit the database afterwards, be it the file or a copy that is
// put back, and wants a row to say something else, to be gone, or to be one that
// nobody wrote. Every row holds the SHA-256 of its own columns and of the row
// before it; a log's first row starts from the log's name. Where a log begins and
// ends stands in a head, and what all heads come to in a seal; both carry a MAC
// whose key is a file of mode 0600 outside the database. So a change of any byte, a
// row taken out, also at the end, a log taken away and an older state of one log
// are found by Verify. What is not found: putting back an older state of the whole
// database, and whatever is done by someone who has the key, which is everybody
// who can be the server. docs/audit.md has the format, and a way to tell these too.
//
// A log whose head was changed while nobody looked is written on, because refusing
// would give whoever edits the database a way to stop everything; but the head
// then says for ever since which row it was so, and Verify fails.
//
// # Writing
//
// One goroutine writes, in the order in which rows were handed over, all that are
// waiting in one transaction. In it each gets its number, so a number is never of
// a row that is not there. The queue is bounded: whoever hands rows over faster
// than the disk takes them waits, and nothing is dropped.
//
// Record returns when the row is written, or an error, and then it never will be:
// this is for actions, which are refused when it fails. Append returns when the
// row is in the queue: this is for streams of input events, of which a thousand a
// second must not be held up. A row that Append took is kept and tried again when
// the database fails, and from the failure on Append and Record return its error,
// so that no more happens than is in memory already. Only the process's death, or
// a power cut (SQLite in WAL mode with synchronous=NORMAL) can lose the last of
// them, from the end, and leaves a log that is whole.
//
// # What is not written
//
// Typed text and the content of clipboards: Redact makes a length and a keyed
// hash of them.
package audit
