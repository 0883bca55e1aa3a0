// Command rigs-guest is the agent inside a rig: PID 1 of a microVM. It is put
// into the initramfs as /init, boots the image's system and serves its keeper
// over a serial port.
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "rigs-guest:", err)
		os.Exit(1)
	}
}
