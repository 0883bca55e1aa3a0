// Package flatten merges the layers of a container image into one read-only file system, without root,
// without mounting, and without ever making a file of the image on the host: the
// tree is kept in memory, the contents in one spool file.
//
// Layers are hostile. An entry that would lie outside the tree, goes through a
// symbolic link, links to what is not there, could be taken for a mark of the
// overlay that the guest puts on top, or exceeds a limit is refused with an
// error that names it. The same layers give the same bytes.
package flatten
