package main

import (
	"fmt"
	"os"

	"rigs/internal/guest"
)

// version is set by the linker.
var version = "dev"

func run() error {
	if os.Getpid() != 1 {
		return fmt.Errorf("%s is the init of a rig's machine and does nothing elsewhere (version %s)", os.Args[0], version)
	}
	return guest.Init(version)
}
