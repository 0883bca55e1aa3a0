// Package sweep finds and ends processes of rigs that nobody owns any more.
//
// Every process of a rig carries keeperapi.OwnerEnv in its environment: the id
// of the data directory, a slash, and the id of the rig. The kernel keeps that
// for the life of the process, so what a killed server left behind is found by
// reading /proc. Recorded process ids are never trusted, nor even kept: a
// process is signalled through a pidfd, after its mark was read again while
// the pidfd held it, so a pid that was reused in between is not touched. The
// mark holds 128 random bits of the data directory, so another server's
// processes never match.
//
// A process that a guest has taken over can erase its environment. Where the server is root
// there is a second mark, which it cannot: each rig has a uid of its own, and
// the uids that a data directory has handed out are written down (see Claim).
package sweep

import (
	"strings"

	"rigs/internal/keeperapi"
)

// Mark is the value of keeperapi.OwnerEnv for a rig, or another task, of the
// data directory with id owner.
func Mark(owner, id string) string { return owner + "/" + id }

// matches reports whether an environment block, as /proc shows it, carries the
// mark of owner, and of rig id unless that is empty; and of which rig.
func matches(environ, owner, id string) (string, bool) {
	for v := range strings.SplitSeq(environ, "\x00") {
		mark, ok := strings.CutPrefix(v, keeperapi.OwnerEnv+"=")
		if !ok {
			continue
		}
		// The first one counts, as it does for getenv.
		o, r, ok := strings.Cut(mark, "/")
		return r, ok && o == owner && (id == "" || r == id)
	}
	return "", false
}
