package cli

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/spf13/cobra"
)

func (a *app) versionCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "version", Short: "Print the versions of this program and of the server",
		Example: "  rigs version --json",
		Args:    args(0, 0, ""), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := struct {
				Client string `json:"client"`
				Server string `json:"server,omitempty"`
				Go     string `json:"go"`
				OS     string `json:"os"`
				Arch   string `json:"arch"`
			}{version, "", runtime.Version(), runtime.GOOS, runtime.GOARCH}
			// The version of this program is an answer without a server too.
			ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
			defer cancel()
			if c, err := a.client(); err == nil {
				if s, err := c.Server(ctx); err == nil {
					v.Server = s.Version
				}
			}
			if asJSON {
				return a.json(v)
			}
			fmt.Fprintf(a.out, "rigs %s (%s, %s/%s)\n", v.Client, v.Go, v.OS, v.Arch)
			if v.Server != "" {
				fmt.Fprintf(a.out, "server %s\n", plain(v.Server))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
