package cli

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"rigs/client"
	"rigs/internal/rig"
	"rigs/internal/serverapi"
)

// inWorkspace is the workspace that a policy is of.
func (a *app) inWorkspace() string { return cmp.Or(a.workspace, serverapi.Default) }

// words are a vocabulary's, for messages and completion.
func words[T ~string](of []T) []string {
	out := make([]string, len(of))
	for i, w := range of {
		out[i] = string(w)
	}
	return out
}

func (a *app) policyRulesCmd() *cobra.Command {
	var asJSON bool
	var n client.NewRule
	var mode string
	cmd := &cobra.Command{
		Use: "rules [ls | add CLASS EFFECT | rm ID...]", Short: "What agents may do: allow, ask, deny",
		Long: `Guardrails say what agents may do in a workspace: allow it, ask a person first, or deny it.
CLASS is what is done, EFFECT is allow, ask or deny.

  enclosureControl   open, drive and close rigs          (without a rule: allow)
  processSpawn       run programs and shells in a rig    (allow)
  networkEgress      let a rig reach another host        (ask)
  secretAccess       credentials, reading a clipboard    (ask)

Of the rules that match, the one for a space counts before one for an agent, that before one
for a mode, and that before one for the whole workspace; among equals the most restrictive.`,
		Example: `  rigs policy rules
  rigs policy rules add processSpawn ask
  rigs policy rules add networkEgress deny --agent builder --space demo`,
		Args: args(0, -1, ""),
		ValidArgsFunction: func(_ *cobra.Command, have []string, _ string) ([]string, cobra.ShellCompDirective) {
			switch {
			case len(have) == 0:
				return []string{"ls", "add", "rm"}, cobra.ShellCompDirectiveNoFileComp
			case have[0] == "add" && len(have) == 1:
				return words(rig.Classes), cobra.ShellCompDirectiveNoFileComp
			case have[0] == "add" && len(have) == 2:
				return []string{"allow", "ask", "deny"}, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, w []string) error {
			verb := "ls"
			if len(w) > 0 {
				verb, w = w[0], w[1:]
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			switch {
			case verb == "ls" && len(w) == 0:
				rules, err := c.Rules(ctx, a.inWorkspace())
				if err != nil {
					return err
				}
				return a.ruleTable(rules, asJSON)
			case verb == "add" && len(w) == 2:
				n.Class, n.Effect, n.Mode = rig.Class(w[0]), rig.Effect(w[1]), rig.Mode(mode)
				r, err := c.AddRule(ctx, a.inWorkspace(), n)
				if err != nil {
					return err
				}
				if asJSON {
					return a.json(r)
				}
				_, err = fmt.Fprintln(a.out, plain(r.ID))
				return err
			case verb == "rm" && len(w) > 0:
				return each(w, func(id string) error { return c.DeleteRule(ctx, a.inWorkspace(), id) })
			}
			return usagef("usage: rigs policy rules [ls | add CLASS EFFECT | rm ID...]; CLASS is one of %s", strings.Join(words(rig.Classes), ", "))
		},
	}
	f := cmd.Flags()
	f.StringVar(&n.Space, "space", "", "with add: only in this space")
	f.StringVar(&n.Agent, "agent", "", "with add: only for the agent of this name")
	f.StringVar(&mode, "mode", "", "with add: only in spaces of this mode (normal, readOnly)")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) ruleTable(rules []client.Rule, asJSON bool) error {
	if asJSON {
		return a.json(serverapi.Rules{Rules: orEmpty(rules)})
	}
	if len(rules) == 0 {
		fmt.Fprintf(a.err, "workspace %s has no rules: agents drive rigs and run programs, and ask before a rig reaches another host\n", plain(a.inWorkspace()))
		return nil
	}
	rows := make([][]string, len(rules))
	for i, r := range rules {
		rows[i] = []string{r.ID, string(r.Class), string(r.Effect), cmp.Or(r.Space, "all"), cmp.Or(r.Agent, "all"), cmp.Or(string(r.Mode), "all"), r.CreatedBy}
	}
	return table(a.out, []string{"ID", "CLASS", "EFFECT", "SPACE", "AGENT", "MODE", "BY"}, rows)
}

func (a *app) policyMembersCmd() *cobra.Command {
	var asJSON, everywhere bool
	cmd := &cobra.Command{
		Use: "members [ls | put NAME ROLE | rm NAME...]", Short: "Who may do what in a workspace",
		Long: `A principal, whom a token names, has a role in a workspace or in all of them (--everywhere).

  viewer   sees everything, changes nothing
  member   opens, drives and closes rigs; a person also takes control and answers approvals
  admin    changes rules, egress defaults and members
  owner    everything, deleting the workspace included

An agent is a member at most. You, over the server's socket, are always an owner.`,
		Example: `  rigs policy members
  rigs policy members put ann admin --workspace team
  rigs policy members rm bob`,
		Args: args(0, -1, ""),
		ValidArgsFunction: func(_ *cobra.Command, have []string, _ string) ([]string, cobra.ShellCompDirective) {
			switch {
			case len(have) == 0:
				return []string{"ls", "put", "rm"}, cobra.ShellCompDirectiveNoFileComp
			case have[0] == "put" && len(have) == 2:
				return words(rig.Roles), cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, w []string) error {
			verb, in := "ls", a.inWorkspace()
			if len(w) > 0 {
				verb, w = w[0], w[1:]
			}
			if everywhere {
				in = "*"
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			switch {
			case verb == "ls" && len(w) == 0:
				ms, err := c.Members(ctx, in)
				if err != nil {
					return err
				}
				if asJSON {
					return a.json(serverapi.Members{Members: orEmpty(ms)})
				}
				if len(ms) == 0 {
					fmt.Fprintln(a.err, "nobody has a role of their own here: see those who have one in all workspaces with --everywhere")
					return nil
				}
				rows := make([][]string, len(ms))
				for i, m := range ms {
					rows[i] = []string{m.Principal, string(m.Role)}
				}
				return table(a.out, []string{"NAME", "ROLE"}, rows)
			case verb == "put" && len(w) == 2:
				m, err := c.PutMember(ctx, in, client.Membership{Principal: w[0], Role: rig.Role(w[1])})
				if err == nil && asJSON {
					return a.json(m)
				}
				return err
			case verb == "rm" && len(w) > 0:
				return each(w, func(name string) error { return c.DeleteMember(ctx, in, name) })
			}
			return usagef("usage: rigs policy members [ls | put NAME ROLE | rm NAME...]; ROLE is one of %s", strings.Join(words(rig.Roles), ", "))
		},
	}
	cmd.Flags().BoolVar(&everywhere, "everywhere", false, "roles in all workspaces")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) policyModeCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "mode SPACE [normal | readOnly]", Short: "Let agents only look in a space, or act in it again",
		Long:    `In a readOnly space agents observe and change nothing, whatever the rules say.`,
		Example: "  rigs policy mode demo readOnly",
		Args:    args(1, 2, "SPACE"),
		ValidArgsFunction: func(_ *cobra.Command, have []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(have) == 1 {
				return []string{string(rig.ModeNormal), string(rig.ModeReadOnly)}, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, w []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			if len(w) == 1 {
				ss, err := c.Spaces(cmd.Context())
				if err != nil {
					return err
				}
				for _, s := range ss {
					if s.Name != w[0] {
						continue
					}
					if asJSON {
						return a.json(s)
					}
					_, err := fmt.Fprintln(a.out, plain(string(s.Mode)))
					return err
				}
				return rig.Errorf(rig.CodeNotFound, "workspace %s has no space %q", a.inWorkspace(), w[0])
			}
			s, err := c.ChangeSpace(cmd.Context(), a.inWorkspace(), w[0], client.SpaceChange{Mode: rig.Mode(w[1])})
			if err == nil && asJSON {
				return a.json(s)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
