package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rigs/client"
	"rigs/internal/rig"
)

func (a *app) tokenCmd() *cobra.Command {
	return parent("token", "Make, list and revoke tokens", `  rigs token create laptop
  rigs token create builder --kind agent --ttl 720h
  rigs token rm 4f2k`, a.tokenCreateCmd(), a.tokenLsCmd(), a.tokenRmCmd())
}

func (a *app) signinCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "signin", Short: "Print a link that signs a browser in",
		Long: `Prints an address of the page that signs a browser in as you. It works once, and for
some minutes: open it in the browser that you want to use.`,
		Example: `  rigs signin
  xdg-open "$(rigs signin)"`,
		Args: args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			l, err := c.SigninLink(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return a.json(l)
			}
			_, err = fmt.Fprintln(a.out, plain(l.URL))
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) tokenCreateCmd() *cobra.Command {
	var kind, role, only string
	var ttl time.Duration
	var asJSON bool
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Make a token for a person or an agent, and print it this once",
		Long: `Makes a bearer token. Whoever has it acts as NAME: give it to a program as RIGS_TOKEN,
with RIGS_SERVER as the server's URL. The server keeps only a hash of it.`,
		Example: `  rigs token create laptop
  rigs token create ann --role member --only team
  RIGS_TOKEN=$(rigs token create builder --kind agent) rigs ls`,
		Args:              args(1, 1, "NAME"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, words []string) error {
			if kind != string(rig.Person) && kind != string(rig.Agent) {
				return usagef("--kind %q: it is person or agent", kind)
			}
			if ttl < 0 || ttl%time.Second != 0 {
				return usagef("--ttl %v: give whole seconds, such as 24h", ttl)
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			t, err := c.CreateToken(cmd.Context(), client.NewToken{Name: words[0], Kind: rig.PrincipalKind(kind), TTLSeconds: int64(ttl / time.Second), Role: rig.Role(role), Workspace: only})
			if err != nil {
				return err
			}
			if asJSON {
				return a.json(t)
			}
			fmt.Fprintf(a.err, "token %s for %s %s, %s; it is shown only now:\n", plain(t.ID), kind, plain(t.Name), plain(roleText(t.Roles)))
			_, err = fmt.Fprintln(a.out, plain(t.Secret))
			return err
		},
	}
	cmd.Flags().StringVar(&kind, "kind", string(rig.Person), "person or agent")
	cmd.Flags().StringVar(&role, "role", "", "viewer, member, admin or owner (default: what the name has; a new person owner, a new agent member)")
	cmd.Flags().StringVar(&only, "only", "", "only in this workspace")
	_ = cmd.RegisterFlagCompletionFunc("role", cobra.FixedCompletions(words(rig.Roles), cobra.ShellCompDirectiveNoFileComp))
	cmd.Flags().DurationVar(&ttl, "ttl", 0, "refuse it after this long (default: never)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions([]string{"person", "agent"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (a *app) tokenLsCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List tokens, without their secrets",
		Example: "  rigs token ls --json",
		Args:    args(0, 0, ""), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			tokens, err := c.Tokens(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return a.json(struct {
					Tokens []client.Token `json:"tokens"`
				}{orEmpty(tokens)})
			}
			now := time.Now()
			rows := make([][]string, len(tokens))
			for i, t := range tokens {
				ends := "never"
				if !t.ExpiresAt.IsZero() {
					ends = "in " + span(t.ExpiresAt.Sub(now))
				}
				used := "never"
				if !t.LastUsedAt.IsZero() {
					used = since(t.LastUsedAt, now) + " ago"
				}
				rows[i] = []string{t.ID, t.Name, string(t.Kind), roleText(t.Roles), since(t.CreatedAt, now) + " ago", used, ends}
			}
			return table(a.out, []string{"ID", "NAME", "KIND", "ROLE", "CREATED", "USED", "EXPIRES"}, rows)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// roleText says what a principal may do, and where.
func roleText(roles []client.Grant) string {
	out := make([]string, len(roles))
	for i, g := range roles {
		if out[i] = string(g.Role) + " in " + g.Workspace; g.Workspace == "*" {
			out[i] = string(g.Role) + " everywhere"
		}
	}
	if len(out) == 0 {
		return "without a role"
	}
	return strings.Join(out, ", ")
}

func (a *app) tokenRmCmd() *cobra.Command {
	return &cobra.Command{
		Use: "rm ID...", Aliases: []string{"revoke"}, Short: "Revoke tokens",
		Example: "  rigs token rm 4f2k",
		Args:    args(1, -1, "ID"),
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			c, err := a.client()
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			tokens, _ := c.Tokens(cmd.Context()) // nothing to offer is an answer too
			names := make([]string, len(tokens))
			for i, t := range tokens {
				names[i] = t.ID + "\t" + plain(t.Name)
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, ids []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			return each(ids, func(id string) error { return c.RevokeToken(cmd.Context(), id) })
		},
	}
}
