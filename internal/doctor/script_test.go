package doctor

import (
	"os"
	"path/filepath"
	"testing"
)

// script makes a program of a shell line; of none, a path where there is none.
func script(t *testing.T, line string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "qemu")
	if line != "" {
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+line+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return path
}
