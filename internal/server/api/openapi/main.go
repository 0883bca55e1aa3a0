// Command openapi writes the description of the API to a file.
package main

import (
	"fmt"
	"os"

	"rigs/internal/server/api"
)

func main() {
	b, err := api.OpenAPI()
	if err == nil {
		err = os.WriteFile(os.Args[1], b, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "openapi:", err)
		os.Exit(1)
	}
}
