package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rigs/client"
	"rigs/internal/rig"
)

func (a *app) egressCmd() *cobra.Command {
	var asJSON, follow, fenced bool
	verbs := []string{"ls", "allow", "deny", "log"}
	cmd := &cobra.Command{
		Use: "egress RIG [ls | allow HOST... | deny HOST... | log]", Short: "See and change what a rig can reach",
		Long: `Nothing leaves a rig but connections to hosts on its list. "ls" shows the list, "allow"
adds to it and "deny" removes from it while the rig runs (removing closes the connections
that only that entry admitted), "log" shows what was let through and what was refused.

HOST is a name (example.com: that name only), *.example.com (sub-domains only), each
optionally with a port (example.com:8443).`,
		Example: `  rigs egress demo/terminal
  rigs egress demo/terminal allow example.com '*.example.org'
  rigs egress demo/terminal deny example.com
  rigs egress demo/terminal log --follow`,
		Args:              args(1, -1, "RIG"),
		ValidArgsFunction: a.completeRig(false, verbs...),
		RunE: func(cmd *cobra.Command, words []string) (err error) {
			ref, verb, hosts := words[0], "ls", []string(nil)
			if len(words) > 1 {
				verb, hosts = words[1], words[2:]
			}
			change := verb == "allow" || verb == "deny"
			switch {
			case change && len(hosts) == 0:
				return usagef("too few arguments: HOST is needed: rigs egress %s %s HOST", ref, verb)
			case !change && len(hosts) > 0:
				return usagef("unexpected argument %q after %q", hosts[0], verb)
			case follow && verb != "log":
				return usagef("--follow goes with log: rigs egress %s log --follow", ref)
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			switch verb {
			case "ls", "list":
				rules, err := c.Egress(ctx, ref)
				if err != nil {
					return err
				}
				return a.rules(rules, asJSON)
			case "allow":
				return a.changeEgress(ctx, ref, hosts, asJSON, c.Allow)
			case "deny":
				return a.changeEgress(ctx, ref, hosts, asJSON, c.Deny)
			case "log":
				if !fenced {
					return a.egressLog(ctx, c, ref, asJSON, follow)
				}
				w := guest(a.out, "egress log of "+ref, true) // the names in it are the guest's
				defer func() { err = errors.Join(err, w.Close()) }()
				b := *a
				b.out = w
				return b.egressLog(ctx, c, ref, asJSON, follow)
			}
			return usagef("unknown command %q for 'rigs egress': it is one of %s", verb, strings.Join(verbs, ", "))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON; for log, one event a line")
	fencedFlag(cmd.Flags(), &fenced)
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "with log: go on with what comes")
	return cmd
}

func (a *app) rules(rules client.EgressRules, asJSON bool) error {
	if asJSON {
		rules.Patterns = orEmpty(rules.Patterns)
		return a.json(rules)
	}
	if len(rules.Patterns) == 0 {
		fmt.Fprintln(a.err, "nothing is admitted")
	}
	for _, p := range rules.Patterns {
		fmt.Fprintln(a.out, plain(p))
	}
	return nil
}

func (a *app) changeEgress(ctx context.Context, ref string, hosts []string, asJSON bool, change func(context.Context, string, string) (client.EgressRules, error)) error {
	var rules client.EgressRules
	err := each(hosts, func(h string) error {
		r, err := change(ctx, ref, h)
		if err == nil {
			rules = r
		}
		return err
	})
	if err != nil {
		return err
	}
	if asJSON {
		return a.rules(rules, true)
	}
	return nil
}

// egressLog prints the log, and then what comes. The event stream is opened
// before the log is read, so that nothing falls between the two; numbers tell
// what was seen.
func (a *app) egressLog(ctx context.Context, c *client.Client, ref string, asJSON, follow bool) error {
	if !follow {
		_, err := a.logSince(ctx, c, ref, 0, asJSON)
		return err
	}
	r, err := c.Rig(ctx, ref)
	if err != nil {
		return err
	}
	var last int64
	var inner error
	err = c.Events(ctx, client.EventOptions{Rig: r.ID}, func(e client.Event) bool {
		switch {
		case e.Rig != nil && last == 0:
			if last, inner = a.logSince(ctx, c, r.ID, 0, asJSON); last == 0 {
				last = -1 // read, and empty
			}
		case e.Rig != nil && !e.Rig.Phase.Live():
			return false
		case e.Egress != nil && e.Egress.Seq > last:
			last = e.Egress.Seq
			inner = a.egressLine(*e.Egress, asJSON)
		}
		return inner == nil
	})
	if inner != nil {
		return inner
	}
	if ctx.Err() == nil {
		return err
	}
	return nil // interrupting is how one stops following
}

// logSince prints the log after seq and returns the last number in it.
func (a *app) logSince(ctx context.Context, c *client.Client, ref string, seq int64, asJSON bool) (int64, error) {
	for {
		l, err := c.EgressLog(ctx, ref, seq)
		if err != nil {
			return seq, err
		}
		if l.Lost > 0 {
			fmt.Fprintf(a.err, "rigs: %d older events are no longer kept\n", l.Lost)
		}
		if len(l.Events) == 0 {
			return seq, nil
		}
		for _, e := range l.Events {
			if err := a.egressLine(e, asJSON); err != nil {
				return seq, err
			}
			seq = max(seq, e.Seq)
		}
	}
}

func (a *app) egressLine(e rig.EgressEvent, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(a.out).Encode(e)
	}
	_, err := fmt.Fprintln(a.out, plain(egressText(e)))
	return err
}

// egressText is an event as one line for a person.
func egressText(e rig.EgressEvent) string {
	what := e.Host
	if what == "" {
		what = e.Address
	}
	if e.Port != 0 {
		what = net.JoinHostPort(what, strconv.Itoa(e.Port))
	}
	s := fmt.Sprintf("%s  %-5s  %-4s  %s  %s", e.Time.Local().Format(time.TimeOnly), e.Verdict, e.Protocol, what, e.Reason)
	if e.Host != "" && e.Address != "" {
		s += " (" + e.Address + ")"
	}
	if e.BytesIn > 0 || e.BytesOut > 0 {
		s += fmt.Sprintf("  %s out, %s in", size(e.BytesOut), size(e.BytesIn))
	}
	if e.Count > 1 {
		s += fmt.Sprintf("  %d times", e.Count)
	}
	return s
}
