package cli

import (
	"log/slog"

	"github.com/spf13/cobra"

	"rigs/internal/mcp"
)

func (a *app) mcpCmd() *cobra.Command {
	var agent string
	cmd := &cobra.Command{
		Use: "mcp", Short: "Serve an agent over standard input and output (Model Context Protocol)",
		Long: `Serves one MCP client over standard input and output, with tools to open rigs and to drive
them. Agent programs start it; docs/mcp.md says how to add it to the common ones.

What the tools do is done as an agent, which is named after the client unless --agent names
it, and never as the person whose server it is. With a token of an agent (RIGS_TOKEN), it is
that agent. The server itself speaks the same protocol over HTTP, at /mcp.`,
		Example: `  rigs mcp
  claude mcp add rigs -- rigs mcp
  RIGS_SERVER=http://127.0.0.1:7878 RIGS_TOKEN=... rigs mcp`,
		Args:              args(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			log := slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
			return mcp.Serve(cmd.Context(), c, mcp.Options{Version: version, Agent: agent, Log: log}, a.in, a.out)
		},
	}
	cmd.Flags().StringVar(&agent, "agent", "", "name of the agent (default: the client's own name)")
	return cmd
}
