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
	var asJSON, follow, fenced, wait bool
	var ttl time.Duration
	var reason string
	verbs := []string{"ls", "allow", "ask", "deny", "log"}
	cmd := &cobra.Command{
		Use: "egress RIG [ls | allow HOST... | ask HOST | deny HOST... | log]", Short: "See and change what a rig can reach",
		Long: `Nothing leaves a rig but connections to hosts on its list. "ls" shows the list, "allow"
adds to it and "deny" removes from it while the rig runs (removing closes the connections
that only that entry admitted), "log" shows what was let through and what was refused,
also of a closed rig. With --for an entry ends by itself.

Agents do not admit hosts, they "ask": a person sees the question on the page and in
'rigs approvals', and when one approves, the host is admitted.

HOST is a name (example.com: that name only), *.example.com (sub-domains only), each
optionally with a port (example.com:8443).`,
		Example: `  rigs egress demo/terminal
  rigs egress demo/terminal allow example.com '*.example.org'
  rigs egress demo/terminal allow example.net --for 10m
  rigs egress demo/terminal ask example.com --reason 'fetch the test data' --wait
  rigs egress demo/terminal deny example.com
  rigs egress demo/terminal log --follow`,
		Args:              args(1, -1, "RIG"),
		ValidArgsFunction: a.completeRig(false, verbs...),
		RunE: func(cmd *cobra.Command, words []string) (err error) {
			ref, verb, hosts := words[0], "ls", []string(nil)
			if len(words) > 1 {
				verb, hosts = words[1], words[2:]
			}
			change := verb == "allow" || verb == "deny" || verb == "ask"
			switch {
			case change && len(hosts) == 0:
				return usagef("too few arguments: HOST is needed: rigs egress %s %s HOST", ref, verb)
			case !change && len(hosts) > 0:
				return usagef("unexpected argument %q after %q", hosts[0], verb)
			case verb == "ask" && len(hosts) > 1:
				return usagef("unexpected argument %q: one HOST is asked for at a time", hosts[1])
			case verb == "ask" && strings.TrimSpace(reason) == "":
				return usagef("a reason is needed, for the person who answers: rigs egress %s ask %s --reason '...'", ref, hosts[0])
			case ttl != 0 && verb != "allow" && verb != "ask":
				return usagef("--for goes with allow and ask")
			case ttl < 0 || ttl%time.Second != 0:
				return usagef("--for %s: give whole seconds, such as 90s, 10m or 8h", ttl)
			case (wait || reason != "") && verb != "ask":
				return usagef("--reason and --wait go with ask: rigs egress %s ask HOST --reason '...'", ref)
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
				return a.changeEgress(ctx, ref, hosts, asJSON, func(ctx context.Context, ref, host string) (client.EgressRules, error) {
					return c.AllowFor(ctx, ref, host, ttl)
				})
			case "ask":
				return a.askEgress(ctx, c, ref, client.EgressAsk{Pattern: hosts[0], Reason: reason, TTLSeconds: int(ttl / time.Second)}, wait, asJSON)
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
	cmd.Flags().DurationVar(&ttl, "for", 0, "with allow and ask: how long, such as 10m (default: as long as the rig lives)")
	cmd.Flags().StringVar(&reason, "reason", "", "with ask: what it is needed for, for the person who answers")
	cmd.Flags().BoolVar(&wait, "wait", false, "with ask: wait for the answer")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "with log: go on with what comes")
	return cmd
}

func (a *app) rules(rules client.EgressRules, asJSON bool) error {
	if asJSON {
		rules.Patterns, rules.Entries = orEmpty(rules.Patterns), orEmpty(rules.Entries)
		return a.json(rules)
	}
	if len(rules.Patterns) == 0 {
		fmt.Fprintln(a.err, "nothing is admitted: admit a host with 'rigs egress RIG allow HOST'")
	}
	ends := map[string]time.Time{}
	for _, e := range rules.Entries {
		ends[e.Pattern] = e.ExpiresAt
	}
	for _, p := range rules.Patterns {
		line := plain(p)
		if t := ends[p]; !t.IsZero() {
			line += "  ends in " + span(time.Until(t))
		}
		fmt.Fprintln(a.out, line)
	}
	return nil
}

// askEgress asks a person, and with wait says what the answer was: no is a failure.
func (a *app) askEgress(ctx context.Context, c *client.Client, ref string, ask client.EgressAsk, wait, asJSON bool) error {
	q, err := c.AskEgress(ctx, ref, ask)
	if err != nil {
		return err
	}
	if wait {
		fmt.Fprintf(a.err, "asked whether %s may be reached: waiting for a person's answer (approval %s)\n", plain(q.Pattern), plain(q.ID))
		if q, err = c.WaitApproval(ctx, q.ID); err != nil {
			return err
		}
	}
	if asJSON {
		err = a.json(q)
	} else if q.State == rig.Pending {
		_, err = fmt.Fprintln(a.out, plain(q.ID))
		fmt.Fprintf(a.err, "asked: a person answers on the page, or with 'rigs approvals approve %s'\n", plain(q.ID))
	}
	if err != nil || q.State == rig.Pending || q.State == rig.Approved {
		return err
	}
	why := map[rig.ApprovalState]string{rig.Denied: plain(q.AnsweredBy) + " said no", rig.Expired: "nobody answered in time"}[q.State]
	if why == "" {
		why = "the rig was closed, or the server stopped"
	}
	if q.Note != "" {
		why += ": " + plain(q.Note)
	}
	p := rig.Errorf(rig.CodeDenied, "%s is not admitted: %s", plain(q.Pattern), why)
	p.Approval = q.ID
	return p
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
		case e.Rig != nil && (e.Rig.Phase == rig.Closed || e.Rig.Phase == rig.Failed):
			_, inner = a.logSince(ctx, c, r.ID, max(last, 0), asJSON) // nothing comes any more
			return false
		case e.Rig != nil && last == 0:
			if last, inner = a.logSince(ctx, c, r.ID, 0, asJSON); last == 0 {
				last = -1 // read, and empty
			}
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
