package cli

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"reflect"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rigs/client"
	"rigs/internal/keeperapi"
	"rigs/internal/rig"
)

func (a *app) actCmd() *cobra.Command {
	var arguments string
	var asJSON, fenced bool
	cmd := &cobra.Command{
		Use: "act RIG VERB [KEY=VALUE...]", Short: "Do one action on a rig, as an agent's tools do",
		Long: `Does one action and prints what it gave. What a verb takes is given as KEY=VALUE, or all
of it as one JSON object with --args. A list is one KEY=VALUE for each entry; a value that
is @- is what standard input holds.

` + verbsHelp(),
		Example: `  rigs act demo/terminal read_file path=work/main.go limit=4096
  rigs act demo/terminal write_file path=notes.txt content=@- < notes.txt
  rigs act demo/terminal exec argv=ls argv=-l cwd=/etc
  rigs act demo/terminal exec --args '{"shell": "make test", "timeout": 600}'
  rigs act demo/terminal screen --fenced`,
		Args:              args(2, -1, "RIG VERB"),
		ValidArgsFunction: a.completeRig(false, verbNames()...),
		RunE: func(cmd *cobra.Command, words []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			return a.act(cmd.Context(), c, words[0], words[1], words[2:], arguments, asJSON, fenced)
		},
	}
	cmd.Flags().StringVar(&arguments, "args", "", "what the verb takes, as a JSON object")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	fencedFlag(cmd.Flags(), &fenced)
	return cmd
}

func verbNames() []string {
	var out []string
	for _, v := range rig.Verbs {
		out = append(out, v.Name)
	}
	return out
}

// verbsHelp lists the verbs and what they take.
func verbsHelp() string {
	var b strings.Builder
	for _, v := range rig.Verbs {
		fmt.Fprintf(&b, "%s (%s): %s\n", v.Name, v.Surface, v.Summary)
		for _, f := range v.Fields() {
			need := ""
			if f.Required {
				need = " (needed)"
			}
			fmt.Fprintf(&b, "    %-10s %s%s\n", f.Name, f.Doc, need)
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

func (a *app) act(ctx context.Context, c *client.Client, ref, verb string, words []string, arguments string, asJSON, fenced bool) error {
	if arguments != "" && len(words) > 0 {
		return usagef("--args and KEY=VALUE: give one of them")
	}
	r, err := c.Rig(ctx, ref)
	if err != nil {
		return err
	}
	v, err := rig.FindVerb(r.Surface, verb)
	if err != nil {
		return &usage{err}
	}
	raw := []byte(arguments)
	if arguments == "" {
		if raw, err = a.arguments(v, words); err != nil {
			return err
		}
	}
	act, err := v.Parse(raw)
	if err != nil {
		return &usage{err}
	}
	out, err := c.Act(ctx, r.ID, act)
	if err != nil {
		return err
	}
	if asJSON {
		return a.json(out)
	}
	return a.acted(ref, out, fenced)
}

// arguments makes the JSON of KEY=VALUE words.
func (a *app) arguments(v *rig.Verb, words []string) ([]byte, error) {
	given := map[string]any{}
	for _, w := range words {
		name, value, ok := strings.Cut(w, "=")
		if !ok {
			return nil, usagef("%q is not KEY=VALUE: see 'rigs act --help'", w)
		}
		if value == "@-" {
			b, err := io.ReadAll(io.LimitReader(a.in, rig.MaxActContent+1))
			if err != nil {
				return nil, fmt.Errorf("standard input: %w", err)
			}
			value = string(b)
		}
		kind := reflect.String // of one that the verb does not take; Parse says so
		for _, f := range v.Fields() {
			if f.Name == name {
				kind = f.Type.Kind()
			}
		}
		switch before, again := given[name]; {
		case kind == reflect.Slice:
			list, _ := before.([]string) // nil the first time
			given[name] = append(list, value)
		case again:
			return nil, usagef("%s is there twice", name)
		case kind == reflect.String:
			given[name] = value
		case json.Valid([]byte(value)):
			given[name] = json.RawMessage(value)
		default:
			given[name] = value // Parse says what it must be
		}
	}
	return json.Marshal(given)
}

// acted prints what an action gave, for a person or, fenced, for an agent.
func (a *app) acted(ref string, out client.ActResult, fenced bool) (err error) {
	w := guest(a.out, out.Verb+" in "+ref, fenced)
	defer func() {
		if cerr := w.Close(); err == nil {
			err = cerr
		}
	}()
	switch {
	case out.Exec != nil:
		return a.actedExec(w, ref, out.Exec, fenced)
	case out.File != nil:
		return a.actedFile(w, out.File)
	case out.Written != nil:
		_, err = fmt.Fprintf(w, "%s: %s, mode %03o\n", plain(out.Written.Path), size(out.Written.Size), out.Written.Mode)
		return err
	case out.Dir != nil:
		return a.actedDir(w, out.Dir)
	case out.Screen != nil:
		for _, l := range out.Screen.Lines {
			if _, err := fmt.Fprintln(w, plain(l)); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("the server's answer to %s holds nothing that this client knows: use one of the server's version", plain(out.Verb))
}

func (a *app) actedExec(w io.Writer, ref string, e *client.ExecResult, fenced bool) error {
	stderr := guest(a.err, "standard error of a command in "+ref, fenced)
	_, err := w.Write(e.Stdout)
	if err == nil && len(e.Stderr) > 0 {
		_, err = stderr.Write(e.Stderr)
		if cerr := stderr.Close(); err == nil {
			err = cerr
		}
	}
	switch {
	case err != nil:
		return err
	case e.StdoutTruncated || e.StderrTruncated:
		fmt.Fprintln(a.err, "rigs: the output was longer: 'rigs exec' shows all of it")
	}
	if e.TimedOut {
		return rig.Errorf(rig.CodeTimeout, "the command was killed after its time, %.1f s: give it more with timeout=SECONDS", e.Seconds)
	}
	if e.Code != 0 {
		return exitStatus(e.Code)
	}
	return nil
}

func (a *app) actedFile(w io.Writer, f *keeperapi.FileText) error {
	content := []byte(f.Content)
	if f.Encoding == "base64" {
		b, err := base64.StdEncoding.DecodeString(f.Content)
		if err != nil {
			return rig.Errorf(rig.CodeBackendFailure, "the file's content is not base64: %w", err)
		}
		content = b
	}
	if _, err := w.Write(content); err != nil {
		return err
	}
	if f.NextOffset > 0 {
		fmt.Fprintf(a.err, "rigs: there is more: go on with offset=%d\n", f.NextOffset)
	}
	return nil
}

func (a *app) actedDir(w io.Writer, d *keeperapi.Listing) error {
	var rows [][]string
	for _, e := range d.Entries {
		name := e.Name
		if e.Type == "dir" {
			name += "/"
		}
		if e.Target != "" {
			name += " -> " + e.Target
		}
		rows = append(rows, []string{fs.FileMode(e.Mode & 0o777).String()[1:], size(e.Size), e.MTime.Local().Format(time.DateTime), name})
	}
	if err := table(w, []string{"MODE", "SIZE", "CHANGED", "NAME"}, rows); err != nil {
		return err
	}
	if d.More {
		fmt.Fprintln(a.err, "rigs: there are more entries: see them with limit=5000")
	}
	return nil
}
