package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rigs/client"
	"rigs/internal/rig"
)

// followEvery is how often a log that is followed is looked at.
const followEvery = time.Second

func (a *app) auditCmd() *cobra.Command {
	var asJSON, follow bool
	var lines int
	verbs := []string{"ls", "verify", "export"}
	cmd := &cobra.Command{
		Use: "audit [RIG] [ls | verify | export]", Short: "See who did what, and whether the log is as it was written",
		Long: `Every action has a row in its rig's log, a person's and an agent's, refused ones too. "ls"
shows the last ones, an action and its end in one line; "verify" checks that none was
changed, taken out or put in, and fails otherwise; "export" writes all rows as JSON Lines.
The log outlives its rig: name a closed one by its id. Without RIG it is the server's own.

What was typed is not in it: its length and a keyed hash are. See docs/audit.md.`,
		Example: `  rigs audit demo/terminal
  rigs audit demo/terminal --follow
  rigs audit demo/terminal verify
  rigs audit 7gk export > 7gk.jsonl
  rigs audit                           the server's own`,
		Args:              args(0, 2, "RIG"),
		ValidArgsFunction: a.completeRig(false, verbs...),
		RunE: func(cmd *cobra.Command, words []string) error {
			ref, verb := "", "ls"
			if len(words) > 0 && !slices.Contains(verbs, words[0]) { // none of them can be part of an id
				ref, words = words[0], words[1:]
			}
			if len(words) > 0 {
				verb, words = words[0], words[1:]
			}
			switch {
			case len(words) > 0:
				return usagef("unexpected argument %q after %q", words[0], verb)
			case follow && verb != "ls":
				return usagef("--follow goes with ls: rigs audit RIG --follow")
			case lines < 1 || lines > 1000:
				return usagef("--lines is %d: it must be from 1 to 1000; 'rigs audit RIG export' gives all", lines)
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			switch verb {
			case "ls":
				if follow {
					return a.followAudit(cmd.Context(), c, ref, lines, asJSON)
				}
				l, err := c.Audit(cmd.Context(), ref, client.AuditOptions{Limit: lines, Tail: true})
				if err != nil {
					return err
				}
				return a.auditRows(l, asJSON)
			case "verify":
				return a.verifyAudit(cmd.Context(), c, ref, asJSON)
			case "export":
				return c.ExportAudit(cmd.Context(), ref, a.out)
			}
			return usagef("unknown command %q for 'rigs audit': it is one of %s", verb, strings.Join(verbs, ", "))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON; with --follow, one row a line")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "with ls: go on with what comes")
	cmd.Flags().IntVarP(&lines, "lines", "n", 200, "with ls: how many rows, the last ones")
	return cmd
}

func (a *app) auditRows(l client.AuditLog, asJSON bool) error {
	if asJSON {
		l.Rows = orEmpty(l.Rows)
		return a.json(l)
	}
	if len(l.Rows) == 0 {
		fmt.Fprintln(a.err, "nothing is in the log")
		return nil
	}
	var rows [][]string
	for _, e := range foldAudit(l.Rows) {
		rows = append(rows, auditCells(e))
	}
	return table(a.out, []string{"ROW", "TIME", "WHO", "ACTION", "OUTCOME", "DETAIL"}, rows)
}

// auditEntry is an action with its end, if that is there.
type auditEntry struct {
	row client.AuditRow
	end *client.AuditRow
}

// foldAudit puts the ends of actions to their beginnings. An end whose beginning is
// not there stands for itself; so does everything that says more than that it ended.
func foldAudit(rows []client.AuditRow) []auditEntry {
	var out []auditEntry
	begun := map[int64]int{}
	for i := range rows {
		r := &rows[i]
		if at, ok := begun[r.Ref]; ok && r.Ref != 0 && r.Action == out[at].row.Action && out[at].end == nil {
			out[at].end = r
			continue
		}
		begun[r.Seq] = len(out)
		out = append(out, auditEntry{row: *r})
	}
	return out
}

func auditCells(e auditEntry) []string {
	who := e.row.Principal
	if e.row.Kind != rig.Person {
		who += " (" + string(e.row.Kind) + ")"
	}
	outcome, detail := e.row.Outcome, maps.Clone(e.row.Detail)
	if e.end != nil {
		outcome = e.end.Outcome
		if d := e.end.Time.Sub(e.row.Time); d >= time.Millisecond {
			outcome += " in " + seconds(d)
		}
		if detail == nil {
			detail = map[string]string{}
		}
		maps.Copy(detail, e.end.Detail)
	} else if e.row.Ref != 0 {
		outcome += " (of row " + strconv.FormatInt(e.row.Ref, 10) + ")"
	}
	return []string{strconv.FormatInt(e.row.Seq, 10), e.row.Time.Local().Format(time.DateTime), who, e.row.Action, outcome, auditDetail(detail)}
}

// auditDetail says a row's details in a line. Hashes tell a person nothing. What could be
// read as another detail is quoted: a command "true approvedBy=ann" was approved by nobody.
func auditDetail(d map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(d)) {
		if k != "hmac" {
			v := d[k]
			if strings.ContainsAny(v, "=\"") {
				v = strconv.Quote(v)
			}
			parts = append(parts, k+"="+v)
		}
	}
	return strings.Join(parts, " ")
}

func (a *app) verifyAudit(ctx context.Context, c *client.Client, ref string, asJSON bool) error {
	v, err := c.VerifyAudit(ctx, ref)
	if err != nil {
		return err
	}
	if asJSON {
		if err := a.json(v); err != nil {
			return err
		}
	}
	if !v.OK {
		return rig.Errorf(rig.CodeIntegrity, "the audit log is not as it was written: %s", v.Detail)
	}
	if !asJSON {
		fmt.Fprintf(a.out, "%d rows are as they were written; the last is %d, with hash %s\n", v.Rows, v.LastSeq, plain(v.LastHash))
	}
	return nil
}

// followAudit prints the end of a log, and then what comes.
func (a *app) followAudit(ctx context.Context, c *client.Client, ref string, lines int, asJSON bool) error {
	if ref != "" { // a name may be another rig's in a moment
		r, err := c.Rig(ctx, ref)
		if rig.CodeOf(err) != rig.CodeNotFound {
			if err != nil {
				return err
			}
			ref = r.ID
		}
	}
	l, err := c.Audit(ctx, ref, client.AuditOptions{Limit: lines, Tail: true})
	last := int64(0)
	t := time.NewTicker(followEvery)
	defer t.Stop()
	for err == nil {
		for i := range l.Rows {
			if last = l.Rows[i].Seq; asJSON {
				err = json.NewEncoder(a.out).Encode(&l.Rows[i])
			} else {
				_, err = fmt.Fprintln(a.out, strings.Join(plainAll(auditCells(auditEntry{row: l.Rows[i]})), "  "))
			}
			if err != nil {
				return err
			}
		}
		if !l.More {
			select {
			case <-t.C:
			case <-ctx.Done():
				return nil // interrupting is how one stops following
			}
		}
		l, err = c.Audit(ctx, ref, client.AuditOptions{After: last, Limit: 1000})
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func plainAll(cells []string) []string {
	for i := range cells {
		cells[i] = plain(cells[i])
	}
	return cells
}
