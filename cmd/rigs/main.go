// Command rigs is the server, the keeper and the command line of Rigs.
package main

import (
	"os"

	"rigs/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:]))
}
