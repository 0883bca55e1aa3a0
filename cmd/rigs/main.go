// Command rigs is the server, the keeper and the command line of Rigs.
package main

import (
	"context"
	"os"

	"rigs/internal/cli"
	"rigs/internal/keeper"
)

func main() {
	// A keeper is started for every rig, by the server only: it has no flags, no
	// place in the help, and no time to lose.
	if len(os.Args) == 2 && os.Args[1] == "keeper" {
		os.Exit(keeper.Main(context.Background(), os.Stdin, os.Stdout))
	}
	os.Exit(cli.Main(os.Args[1:]))
}
