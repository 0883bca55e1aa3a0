package confine

// The uids of rigs. systemd's table of uids ("Users, Groups, UIDs and GIDs on
// systemd systems") leaves 0x70000000 to 0x7FFDFFFF to nobody, above those of
// containers; Debian's subordinate uids end at 600100000, and what directory services
// map to by default at 2000200000, which is below, too.
const (
	// TemplateGID is a group that every rig with a uid of its own is in. A template's
	// memory, which an old QEMU must be able to open for writing, belongs to it.
	TemplateGID = 0x7A000000
	FirstUID    = 0x7A000001
	LastUID     = 0x7AFFFFFF
)
