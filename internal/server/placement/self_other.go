//go:build !linux

package placement

import "os"

const sweepSupported = false

func selfPath() (string, error) { return os.Executable() }
