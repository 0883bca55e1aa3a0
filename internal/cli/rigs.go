package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rigs/client"
	"rigs/internal/rig"
)

// completionTimeout bounds how long a press of the tab key may take.
const completionTimeout = 2 * time.Second

// completeRig offers the ids and readable names of live rigs for the first
// argument, or for every one when many is set.
func (a *app) completeRig(many bool, more ...string) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 1 && len(more) > 0 {
			return more, cobra.ShellCompDirectiveNoFileComp
		}
		if len(args) > 0 && !many {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.rigNames(cmd.Context(), toComplete), cobra.ShellCompDirectiveNoFileComp
	}
}

// rigNames lists how the live rigs can be named, with a description after a
// tab. Without a server there is nothing to offer, and nothing to complain
// about in the middle of a command line.
func (a *app) rigNames(ctx context.Context, prefix string) []string {
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	c, err := a.client()
	if err != nil {
		return nil
	}
	rigs, err := c.Rigs(ctx, client.ListOptions{})
	if err != nil {
		return nil
	}
	var names []string
	for i := range rigs {
		r := &rigs[i]
		for _, n := range []string{r.Ref(), r.ID} {
			if strings.HasPrefix(n, prefix) {
				names = append(names, fmt.Sprintf("%s\t%s %s, opened %s ago", n, r.Surface, r.Phase, since(r.OpenedAt, time.Now())))
			}
		}
	}
	return names
}

func completeSurface(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return surfaceNames(), cobra.ShellCompDirectiveNoFileComp
}

func surfaceNames() []string {
	names := make([]string, len(rig.Surfaces))
	for i, s := range rig.Surfaces {
		names[i] = string(s)
	}
	return names
}

// parseRef splits SPACE/SURFACE[:ENGINE]; ok is false for anything else, which
// is then an id or a prefix of one.
func parseRef(s string) (spec client.Spec, ok bool) {
	space, rest, found := strings.Cut(s, "/")
	if !found || !rig.ValidName(space) {
		return spec, false
	}
	surface, engine, _ := strings.Cut(rest, ":")
	sf, err := rig.ParseSurface(surface)
	if err != nil {
		return spec, false
	}
	return client.Spec{Space: space, Surface: sf, Engine: rig.Engine(engine)}, true
}

// args checks the number of arguments and says which are missing.
func args(low, high int, names string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < low:
			return fmt.Errorf("too few arguments: %s is needed", names)
		case high >= 0 && len(args) > high:
			return fmt.Errorf("unexpected argument %q", args[high])
		}
		return nil
	}
}

func (a *app) lsCmd() *cobra.Command {
	var o client.ListOptions
	var asJSON, quietly bool
	cmd := &cobra.Command{
		Use: "ls", Aliases: []string{"list", "ps"}, Short: "List rigs",
		Example: `  rigs ls                  the live rigs
  rigs ls --all            closed ones too, newest first
  rigs ls -q --space demo  ids only`,
		Args:              args(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			rigs, err := c.Rigs(cmd.Context(), o)
			if err != nil {
				return err
			}
			switch {
			case asJSON:
				return a.json(struct {
					Rigs []client.Rig `json:"rigs"`
				}{orEmpty(rigs)})
			case quietly:
				for i := range rigs {
					fmt.Fprintln(a.out, plain(rigs[i].ID))
				}
				return nil
			case len(rigs) == 0:
				fmt.Fprintln(a.err, "no rigs: open one with 'rigs open terminal'")
				return nil
			}
			return a.rigTable(rigs)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Space, "space", "", "only this space's")
	f.BoolVarP(&o.All, "all", "a", false, "closed rigs too")
	f.BoolVarP(&quietly, "quiet", "q", false, "ids only")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// orEmpty makes a listing of nothing [] and not null.
func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func (a *app) rigTable(rigs []client.Rig) error {
	now := time.Now()
	rows := make([][]string, len(rigs))
	for i := range rigs {
		r := &rigs[i]
		rows[i] = []string{r.ID, r.Ref(), phaseWords(r), since(r.OpenedAt, now) + " ago", left(r, now), imageName(r.Image), note(r)}
	}
	return table(a.out, []string{"ID", "RIG", "PHASE", "OPENED", "ENDS", "IMAGE", "NOTE"}, rows)
}

// phaseWords is the phase with what is behind it.
func phaseWords(r *client.Rig) string {
	switch {
	case r.Phase == rig.Provisioning && r.Step != nil:
		return string(r.Phase) + ": " + r.Step.Text
	case r.Phase == rig.Closed && r.CloseReason != "":
		return fmt.Sprintf("%s (%s)", r.Phase, r.CloseReason)
	}
	return string(r.Phase)
}

// note is what keeps a rig in use, or why it failed.
func note(r *client.Rig) string {
	if r.Phase != rig.Failed || r.Error == nil {
		return strings.Join(r.InUse, ", ")
	}
	first, _, _ := strings.Cut(r.Error.Detail, "\n")
	if len(first) > 80 {
		first = strings.ToValidUTF8(first[:80], "") + "…"
	}
	return first
}

func left(r *client.Rig, now time.Time) string {
	if !r.Phase.Live() || r.ExpiresAt.IsZero() {
		return ""
	}
	return "in " + span(r.ExpiresAt.Sub(now))
}

// imageName is an image reference without most of its digest.
func imageName(ref string) string {
	name, digest, ok := strings.Cut(ref, "@sha256:")
	if !ok || len(digest) < 12 {
		return ref
	}
	return name + "@" + digest[:12]
}

func (a *app) closeCmd() *cobra.Command {
	var asJSON, all bool
	var space string
	cmd := &cobra.Command{
		Use: "close RIG...", Aliases: []string{"rm"}, Short: "Close rigs and discard their disks",
		Example: `  rigs close demo/terminal
  rigs close 7gk 0q2      two, by prefixes of their ids
  rigs close --all        every live rig`,
		ValidArgsFunction: a.completeRig(true),
		RunE: func(cmd *cobra.Command, refs []string) error {
			if (len(refs) > 0) == (all || space != "") {
				return usagef("name the rigs to close, or use --all or --space: see 'rigs close --help'")
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			if len(refs) == 0 {
				rigs, err := c.Rigs(cmd.Context(), client.ListOptions{Space: space})
				if err != nil {
					return err
				}
				for i := range rigs {
					refs = append(refs, rigs[i].ID)
				}
			}
			p := a.progress()
			defer p.Wait()
			defer p.Stop()
			return each(refs, func(ref string) error {
				p.text("closing %s", ref)
				r, err := c.Close(cmd.Context(), ref)
				p.Stop()
				if err != nil {
					return err
				}
				return a.rig(&r, asJSON)
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "every live rig")
	cmd.Flags().StringVar(&space, "space", "", "every live rig of this space")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one value for each rig")
	return cmd
}

// each calls f for every name, goes on after a failure, and returns all of
// them.
func each(names []string, f func(string) error) error {
	var errs []error
	for _, n := range names {
		if err := f(n); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) == 1 {
		return errs[0]
	}
	if len(errs) > 1 {
		texts := make([]string, len(errs))
		for i, e := range errs {
			texts[i] = e.Error()
		}
		return rig.Errorf(rig.CodeOf(errs[0]), "%d of %d failed:\n%s", len(errs), len(names), strings.Join(texts, "\n"))
	}
	return nil
}

// rig prints the one rig that a command was about.
func (a *app) rig(r *client.Rig, asJSON bool) error {
	if asJSON {
		return a.json(r)
	}
	_, err := fmt.Fprintln(a.out, plain(r.ID))
	return err
}

func (a *app) parkCmd() *cobra.Command {
	return a.oneRigCmd("park", "Stop a rig's processors; its memory stays, and the next action wakes it", (*client.Client).Park)
}

func (a *app) wakeCmd() *cobra.Command {
	return a.oneRigCmd("wake", "Let a parked rig go on", (*client.Client).Wake)
}

func (a *app) oneRigCmd(verb, short string, do func(*client.Client, context.Context, string) (client.Rig, error)) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: verb + " RIG...", Short: short,
		Example:           fmt.Sprintf("  rigs %s demo/terminal", verb),
		Args:              args(1, -1, "RIG"),
		ValidArgsFunction: a.completeRig(true),
		RunE: func(cmd *cobra.Command, refs []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			return each(refs, func(ref string) error {
				r, err := do(c, cmd.Context(), ref)
				if err != nil {
					return err
				}
				return a.rig(&r, asJSON)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
