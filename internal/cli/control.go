package cli

import (
	"context"

	"github.com/spf13/cobra"

	"rigs/client"
)

func (a *app) takeCmd() *cobra.Command {
	var force bool
	cmd := a.oneRigCmd("take", "Take control of a rig: agents see it still, but change nothing in it until you give it back",
		func(c *client.Client, ctx context.Context, ref string) (client.Rig, error) {
			return c.Take(ctx, ref, client.Take{Force: force})
		})
	cmd.Long = `Takes control of a rig, exclusively. What an agent does to it is refused from then on, and
the agent is told so and by whom; what it looks at it still sees. Give control back with
"rigs give".`
	cmd.Flags().BoolVar(&force, "force", false, "take it from another person; for admins")
	return cmd
}

func (a *app) giveCmd() *cobra.Command {
	return a.oneRigCmd("give", "Give control of a rig back, so that agents act again", (*client.Client).Give)
}
