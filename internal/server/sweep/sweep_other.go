//go:build !linux

package sweep

import (
	"context"
	"errors"
)

// errUnsupported says that this system has no /proc to find processes in.
var errUnsupported = errors.New("finding processes by their mark works on Linux only")

// Find finds nothing here.
func Find(owner, id string) (map[int]string, error) { return nil, errUnsupported }

// Kill finds nothing here: keepers end with their server, VMs with their keeper.
func Kill(ctx context.Context, owner, id string) (int, error) { return 0, errUnsupported }

func inUse(uint32) (bool, error) { return false, errUnsupported }

// Resident is not measured here.
func Resident(pid int) (int64, error) { return 0, errUnsupported }
