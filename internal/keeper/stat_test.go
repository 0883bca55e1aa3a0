package keeper

import (
	"strings"
	"testing"
	"time"

	"rigs/internal/guestapi"
	"rigs/internal/rig"
)

func TestWhatAGuestSaysOfAFile(t *testing.T) {
	good := guestapi.FileInfo{Path: "/home/rig/a b", Type: "symlink", Size: 3, Mode: 0o1777, MTime: time.Unix(0, 0), Target: "../x"}
	if err := checkInfo(good); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*guestapi.FileInfo){
		"path":   func(i *guestapi.FileInfo) { i.Path = "a" },
		"path ":  func(i *guestapi.FileInfo) { i.Path = "/a/../b" },
		"path  ": func(i *guestapi.FileInfo) { i.Path = "/" + strings.Repeat("x", guestapi.MaxPath) },
		"type":   func(i *guestapi.FileInfo) { i.Type = "\x1b[2J" },
		"size":   func(i *guestapi.FileInfo) { i.Size = -1 },
		"mode":   func(i *guestapi.FileInfo) { i.Mode = 1 << 31 },
		"time":   func(i *guestapi.FileInfo) { i.MTime = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) },
		"target": func(i *guestapi.FileInfo) { i.Type = "file" },
	} {
		i := good
		change(&i)
		if err := checkInfo(i); rig.CodeOf(err) != rig.CodeBackendFailure || !strings.Contains(err.Error(), "its "+strings.TrimSpace(want)) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
