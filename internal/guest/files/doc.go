// Package files carries files into and out of a guest as tar streams, and tells
// what a path is.
//
// Everything is done with the user's own rights (account.Do): a file that the
// user cannot read is not sent, and nothing is written where the user could not.
// Extraction is confined to its directory besides (os.Root): no name and no link
// of an archive leads out of it. What cannot be carried is refused by name,
// never left out silently, except sockets, pipes and devices inside a tree.
package files
