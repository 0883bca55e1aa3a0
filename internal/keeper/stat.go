package keeper

import (
	"path"
	"slices"

	"rigs/internal/guestapi"
	"rigs/internal/rig"
)

// checkInfo finds what no file is, in what a guest says of one: whoever asked may
// count on the type being one of four, and on the numbers.
func checkInfo(i guestapi.FileInfo) error {
	var wrong string
	switch {
	case len(i.Path) > guestapi.MaxPath || !path.IsAbs(i.Path) || path.Clean(i.Path) != i.Path:
		wrong = "its path is none"
	case !slices.Contains([]string{"file", "dir", "symlink", "other"}, i.Type):
		wrong = "its type is none"
	case i.Size < 0:
		wrong = "its size is negative"
	case i.Mode&^0o7777 != 0:
		wrong = "its mode is none"
	case i.MTime.Year() < 0 || i.MTime.Year() > 9999:
		wrong = "its time is none"
	case len(i.Target) > guestapi.MaxPath || i.Target != "" && i.Type != "symlink":
		wrong = "its target is none"
	default:
		return nil
	}
	return rig.Errorf(rig.CodeBackendFailure, "the machine's agent described a file that cannot be: %s", wrong)
}
