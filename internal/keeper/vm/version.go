package vm

import (
	"fmt"
	"regexp"
	"strconv"
)

// Version is the release of a QEMU.
type Version struct{ Major, Minor, Micro int }

// Oldest is the oldest QEMU that works: -netdev stream came with 7.2.
var Oldest = Version{7, 2, 0}

var versionPattern = regexp.MustCompile(`^(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?(?:$|[ ~+(-])`)

// ParseVersion reads what follows "QEMU emulator version ", such as
// "7.2.22 (Debian 1:7.2+dfsg-7)". Only the numbers count.
func ParseVersion(s string) (Version, error) {
	m := versionPattern.FindStringSubmatch(s)
	if m == nil {
		return Version{}, fmt.Errorf("%.80q is not a version of QEMU", s)
	}
	n := func(s string) int { v, _ := strconv.Atoi(s); return v } // digits or nothing
	return Version{n(m[1]), n(m[2]), n(m[3])}, nil
}

// AtLeast reports whether v is o or newer.
func (v Version) AtLeast(o Version) bool {
	if v.Major != o.Major {
		return v.Major > o.Major
	}
	if v.Minor != o.Minor {
		return v.Minor > o.Minor
	}
	return v.Micro >= o.Micro
}

func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Micro) }

// ReadOnlyTemplates reports whether memory can be mapped privately from a file
// that was opened read-only (memory-backend-file's rom=off).
func (v Version) ReadOnlyTemplates() bool { return v.AtLeast(Version{8, 2, 0}) }
