package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"rigs/client"
	"rigs/internal/policy"
	"rigs/internal/rig"
)

func (a *app) policyCmd() *cobra.Command {
	return parent("policy", "See and change a workspace's rules", `  rigs policy egress
  rigs policy egress add terminal '*.corp.example'`, a.policyEgressCmd(), a.policyRulesCmd(), a.policyMembersCmd(), a.policyModeCmd())
}

func (a *app) policyEgressCmd() *cobra.Command {
	cmd := parent("egress", "What rigs of a workspace may reach from the start", `  rigs policy egress ls
  rigs policy egress add terminal '*.corp.example' git.corp.example:22
  rigs policy egress remove terminal pypi.org
  rigs policy egress reset terminal`, a.policyEgressLsCmd(),
		a.policyEgressChangeCmd("add SURFACE HOST...", "Let new rigs of a surface reach more", "  rigs policy egress add terminal '*.corp.example'", -1, func(s *client.SurfaceEgress, hosts []string) {
			s.Remove = without(s.Remove, hosts)
			s.Add = append(without(s.Add, hosts), hosts...)
		}),
		a.policyEgressChangeCmd("remove SURFACE HOST...", "Let new rigs of a surface reach less", "  rigs policy egress remove terminal pypi.org", -1, func(s *client.SurfaceEgress, hosts []string) {
			s.Add = without(s.Add, hosts)
			s.Remove = append(without(s.Remove, hosts), hosts...)
		}),
		a.policyEgressChangeCmd("reset SURFACE", "Go back to the default list of a surface", "  rigs policy egress reset terminal", 1, func(s *client.SurfaceEgress, _ []string) {
			s.Add, s.Remove = nil, nil
		}))
	cmd.Long = `Each surface has a default list of hosts that its rigs start with; a workspace adds to it
and removes from it. It counts for rigs opened from then on: what a running rig reaches
is changed with 'rigs egress'. Changing takes an admin of the workspace.`
	return cmd
}

func without(list, hosts []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(p string) bool { return slices.Contains(hosts, p) })
}

func (a *app) policyEgressLsCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "ls [SURFACE]", Aliases: []string{"list"}, Short: "Show the lists, and what the workspace changes in them",
		Example: `  rigs policy egress ls
  rigs policy egress ls terminal --json`,
		Args:              args(0, 1, ""),
		ValidArgsFunction: completeSurface,
		RunE: func(cmd *cobra.Command, words []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			w, err := c.WorkspaceEgress(cmd.Context())
			if err != nil {
				return err
			}
			if len(words) > 0 {
				s, err := rig.ParseSurface(words[0])
				if err != nil {
					return usagef("%v", err)
				}
				w.Surfaces = slices.DeleteFunc(w.Surfaces, func(e client.SurfaceEgress) bool { return e.Surface != s })
			}
			return a.workspaceEgress(w, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// workspaceEgress prints the lists: + is added by the workspace, - removed.
func (a *app) workspaceEgress(w client.WorkspaceEgress, asJSON bool) error {
	if asJSON {
		w.Surfaces = orEmpty(w.Surfaces)
		return a.json(w)
	}
	var rows [][]string
	for _, s := range w.Surfaces {
		for _, p := range s.Effective {
			from := "default"
			if slices.Contains(s.Add, p) {
				from = "added"
			}
			rows = append(rows, []string{string(s.Surface), p, from})
		}
		for _, p := range s.Remove {
			rows = append(rows, []string{string(s.Surface), p, "removed"})
		}
	}
	if len(rows) == 0 {
		fmt.Fprintln(a.err, "rigs start with nothing admitted: add to that with 'rigs policy egress add SURFACE HOST'")
		return nil
	}
	return table(a.out, []string{"SURFACE", "HOST", "FROM"}, rows)
}

func (a *app) policyEgressChangeCmd(use, short, example string, most int, change func(*client.SurfaceEgress, []string)) *cobra.Command {
	var asJSON bool
	least, names := 2, strings.TrimSuffix(strings.SplitN(use, " ", 2)[1], "...")
	if most == 1 {
		least = 1
	}
	cmd := &cobra.Command{
		Use: use, Short: short, Example: example,
		Args:              args(least, most, names),
		ValidArgsFunction: completeSurface,
		RunE: func(cmd *cobra.Command, words []string) error {
			s, err := rig.ParseSurface(words[0])
			if err != nil {
				return usagef("%v", err)
			}
			hosts := make([]string, len(words)-1)
			for i, h := range words[1:] {
				p, err := policy.Parse(h) // lists hold one spelling
				if err != nil {
					return err
				}
				hosts[i] = p.String()
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			w, err := changeWorkspaceEgress(cmd.Context(), c, s, func(e *client.SurfaceEgress) { change(e, hosts) })
			if err != nil || !asJSON {
				return err
			}
			return a.workspaceEgress(w, true)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func changeWorkspaceEgress(ctx context.Context, c *client.Client, s rig.Surface, change func(*client.SurfaceEgress)) (client.WorkspaceEgress, error) {
	w, err := c.WorkspaceEgress(ctx)
	if err != nil {
		return w, err
	}
	i := slices.IndexFunc(w.Surfaces, func(e client.SurfaceEgress) bool { return e.Surface == s })
	if i < 0 {
		i = len(w.Surfaces)
		w.Surfaces = append(w.Surfaces, client.SurfaceEgress{Surface: s})
	}
	change(&w.Surfaces[i])
	for j := range w.Surfaces {
		w.Surfaces[j].Effective = nil // what results is the server's to say
	}
	return c.PutWorkspaceEgress(ctx, w)
}
