// Package vm_test boots, freezes, clones and ends real machines through their
// keepers, as a server does.
package vm_test

import (
	"testing"

	"rigs/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }
