package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rigs/client"
	"rigs/internal/rig"
)

func (a *app) approvalsCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "approvals", Short: "See and answer what agents ask",
		Long: `Agents ask before they reach a new host, and before what a guardrail says to ask for.
What they give as a reason is theirs to say, and need not be true: look at what is
asked for. A question that nobody answers in time counts as denied.`,
		Example: `  rigs approvals                       what waits for an answer
  rigs approvals --follow              wait for questions: somebody is there to be asked
  rigs approvals ls --all              answered ones too
  rigs approvals approve 7gk2m --for 10m
  rigs approvals deny 7gk2m --note 'use the mirror'`,
		Args: cobra.ArbitraryArgs,
	}
	ls := a.approvalsLsCmd()
	cmd.Flags().AddFlagSet(ls.Flags()) // without a word it lists
	cmd.AddCommand(ls, a.answerCmd(true), a.answerCmd(false))
	cmd.SuggestionsMinimumDistance = 2
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		if len(words) > 0 {
			return needsSub(cmd, words)
		}
		ls.SetContext(cmd.Context())
		return ls.RunE(ls, nil)
	}
	return cmd
}

func (a *app) approvalsLsCmd() *cobra.Command {
	var asJSON, all, follow bool
	var o client.ApprovalOptions
	cmd := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List what waits for an answer",
		Example: `  rigs approvals ls
  rigs approvals ls --all --json`,
		Args:              args(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			if follow {
				return a.followApprovals(cmd.Context(), c, o.Space, asJSON)
			}
			if !all {
				o.State = rig.Pending
			}
			list, err := c.Approvals(cmd.Context(), o)
			if err != nil {
				return err
			}
			switch {
			case asJSON:
				return a.json(struct {
					Approvals []client.Approval `json:"approvals"`
				}{orEmpty(list)})
			case len(list) == 0 && all:
				fmt.Fprintln(a.err, "nothing was asked since the server started")
				return nil
			case len(list) == 0:
				fmt.Fprintln(a.err, "nothing waits for an answer: 'rigs approvals ls --all' shows what was answered")
				return nil
			}
			now := time.Now()
			rows := make([][]string, len(list))
			for i := range list {
				q := &list[i]
				rows[i] = []string{q.ID, approvalState(q, now), q.By.Name, q.Space + " " + q.RigID, approvalWhat(q), shorten(q.Reason)}
			}
			return table(a.out, []string{"ID", "STATE", "BY", "RIG", "ASKS FOR", "REASON GIVEN"}, rows)
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&all, "all", "a", false, "answered ones too")
	f.BoolVarP(&follow, "follow", "f", false, "stay, and show questions and answers as they come: while it runs somebody is there to be asked")
	f.StringVar(&o.Space, "space", "", "only this space's")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// approvalState is the state with what a person wants to know of it.
func approvalState(q *client.Approval, now time.Time) string {
	switch q.State {
	case rig.Pending:
		return "waits, " + span(q.ExpiresAt.Sub(now)) + " left"
	case rig.Approved, rig.Denied:
		return string(q.State) + " by " + q.AnsweredBy
	case rig.Expired, rig.Canceled:
	}
	return string(q.State)
}

// approvalWhat is what is asked for.
func approvalWhat(q *client.Approval) string {
	if q.Kind != rig.ApprovalEgress {
		return shorten(strings.TrimSpace(q.Verb + " " + q.Summary))
	}
	if q.TTLSeconds > 0 {
		return "reach " + q.Pattern + " for " + span(time.Duration(q.TTLSeconds)*time.Second)
	}
	return "reach " + q.Pattern
}

// shorten keeps an asker's text to a column.
func shorten(s string) string {
	const most = 80
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

func (a *app) answerCmd(approve bool) *cobra.Command {
	var asJSON bool
	var ttl time.Duration
	var ans client.ApprovalAnswer
	cmd := &cobra.Command{
		Use: "deny ID", Short: "Say no",
		Example:           "  rigs approvals deny 7gk2m --note 'use the mirror'",
		Args:              args(1, 1, "ID"),
		ValidArgsFunction: a.completeApproval,
	}
	f := cmd.Flags()
	if approve {
		cmd.Use, cmd.Short = "approve ID", "Say yes: what was asked is done at once"
		cmd.Example = `  rigs approvals approve 7gk2m
  rigs approvals approve 7gk2m --for 10m`
		f.DurationVar(&ttl, "for", 0, "of a host: for how long instead of what was asked; 0: as long as the rig lives")
		f.StringVar(&ans.Pattern, "host", "", "of a host: admit this pattern instead")
	}
	f.StringVar(&ans.Remember, "remember", "", "of an action: answer the same from now on for the rest of the space, agent or workspace")
	f.StringVar(&ans.Note, "note", "", "a word to who asked")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	_ = cmd.RegisterFlagCompletionFunc("remember", cobra.FixedCompletions([]string{"space", "agent", "workspace"}, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		if cmd.Flags().Changed("for") {
			if ttl < 0 || ttl%time.Second != 0 {
				return usagef("--for %s: give whole seconds, such as 90s, 10m or 8h", ttl)
			}
			n := int(ttl / time.Second)
			ans.TTLSeconds = &n
		}
		c, err := a.client()
		if err != nil {
			return err
		}
		answer := c.Refuse
		if approve {
			answer = c.Approve
		}
		q, err := answer(cmd.Context(), words[0], ans)
		if err != nil || !asJSON {
			return err
		}
		return a.json(q)
	}
	return cmd
}

func (a *app) completeApproval(cmd *cobra.Command, words []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(words) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	c, err := a.client()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list, err := c.Approvals(cmd.Context(), client.ApprovalOptions{State: rig.Pending})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for i := range list {
		if strings.HasPrefix(list[i].ID, prefix) {
			out = append(out, plain(list[i].ID)+"\t"+plain(approvalWhat(&list[i])))
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// followApprovals shows what is asked and what is answered until it is interrupted. Its
// stream of events is what makes the server know that somebody is there.
func (a *app) followApprovals(ctx context.Context, c *client.Client, space string, asJSON bool) error {
	var inner error
	show := func(q *client.Approval) {
		if asJSON {
			inner = json.NewEncoder(a.out).Encode(q)
			return
		}
		line := fmt.Sprintf("%s  %-9s  %s  %s", q.ID, q.State, q.By.Name, approvalWhat(q))
		if q.Reason != "" && q.State == rig.Pending {
			line += "  (" + shorten(q.Reason) + ")"
		}
		_, inner = fmt.Fprintln(a.out, plain(line))
	}
	waiting, err := c.Approvals(ctx, client.ApprovalOptions{Space: space, State: rig.Pending})
	if err != nil {
		return err
	}
	for i := range waiting {
		show(&waiting[i])
	}
	if len(waiting) == 0 && !asJSON {
		fmt.Fprintln(a.err, "waiting for questions; answer with 'rigs approvals approve ID' or 'deny ID' in another terminal")
	}
	err = c.Events(ctx, client.EventOptions{Space: space}, func(e client.Event) bool {
		if e.Approval != nil {
			show(e.Approval)
		}
		return inner == nil
	})
	if inner == nil && ctx.Err() == nil { // interrupting is how one stops
		return err
	}
	return inner
}
