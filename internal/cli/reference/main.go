// Command reference writes docs/reference.md from the commands themselves.
package main

import (
	"fmt"
	"os"

	"rigs/internal/cli"
)

func main() {
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}

func write(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := cli.Reference(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
