// Package transfer moves file trees between this host and a rig as tar streams.
//
// What comes out of a rig is hostile: Extract trusts nothing in the stream. It
// writes below one directory that the caller opened as an os.Root, and refuses
// by name what could reach out of it or be more than a file: absolute names,
// "..", anything through a symbolic link, links that point outside the tree,
// devices, pipes and sockets. Set-id bits and owners are dropped, and the number
// of entries and bytes is bounded. What is refused does not stop the rest; it
// is reported together at the end, as a *Refused.
//
// What goes in is the user's own: Pack reads it without following links.
package transfer
