package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rigs/internal/config"
)

//go:generate go run ./reference ../../docs/reference.md

const referenceHead = `# Reference

<!-- Made by go generate from internal/cli; do not edit. -->

The commands of ` + "`rigs`" + ` and its settings. The HTTP API is in [api.md](api.md), and as OpenAPI 3.1 at ` + "`/openapi.json`" + ` of a
running server.

A **RIG** is named by its id, by a unique prefix of it (3 characters or more), or by ` + "`SPACE/SURFACE[:ENGINE]`" + `.

| exit status | meaning |
|---|---|
| 0 | done |
| 1 | failed; what failed, why, and what helps is on standard error |
| 2 | wrong usage |
| the command's own | for ` + "`exec`, `run` and `shell`" + `; 128 + n when signal n ended it |

With ` + "`--json`" + ` results are JSON on standard output, and errors are [RFC 9457](https://www.rfc-editor.org/rfc/rfc9457) problems with
a stable ` + "`code`" + ` on standard error. Long work shows a bar on a terminal and plain lines elsewhere.

`

// Reference writes the reference page.
func Reference(w io.Writer) error {
	b := new(strings.Builder)
	b.WriteString(referenceHead)
	root := (&app{}).root()
	root.InitDefaultHelpFlag()
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, s := range c.Commands() {
			if s.Hidden || s.Name() == "help" || c.Name() == "completion" {
				continue
			}
			referenceOf(b, s)
			walk(s)
		}
	}
	b.WriteString("## Commands\n\n")
	walk(root)
	referenceSettings(b)
	_, err := io.WriteString(w, b.String())
	return err
}

func referenceOf(b *strings.Builder, c *cobra.Command) {
	fmt.Fprintf(b, "### %s\n\n", c.CommandPath())
	text := c.Long
	if text == "" || c.Parent().Name() == "rigs" && c.Name() == "completion" {
		text = c.Short + "."
	}
	fmt.Fprintf(b, "%s\n\n", text)
	if c.HasSubCommands() {
		return
	}
	fmt.Fprintf(b, "```\n%s\n```\n\n", c.UseLine())
	if c.Example != "" {
		fmt.Fprintf(b, "```sh\n%s\n```\n\n", undent(c.Example))
	}
	rows := false
	c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		if !rows {
			b.WriteString("| flag | |\n|---|---|\n")
			rows = true
		}
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		kind, usage := pflag.UnquoteUsage(f)
		if kind != "" {
			name += " " + kind
		}
		fmt.Fprintf(b, "| `%s` | %s |\n", name, strings.ReplaceAll(usage, "|", `\|`))
	})
	if rows {
		b.WriteString("\n")
	}
}

func undent(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimPrefix(l, "  ")
	}
	return strings.Join(lines, "\n")
}

func referenceSettings(b *strings.Builder) {
	b.WriteString("## Settings\n\n### Of the server\n\nA setting comes from a flag of `rigs serve`, else from a variable, else from `" + config.FileName +
		"` in the data directory, else it has its default. Unknown keys are errors.\n\n| key | flag | variable | |\n|---|---|---|---|\n")
	for _, s := range config.Settings {
		fmt.Fprintf(b, "| `%s` | `--%s` | `%s` | %s |\n", s.Key, s.Flag, s.Env, s.Doc)
	}
	b.WriteString("\nThe file has one key more, `surfaces`, with `memoryMB`, `vcpus`, `ttlSeconds`, `idleSeconds` and `diskMB` for each surface:\n\n" +
		"```yaml\nlisten: 127.0.0.1:8080\nsurfaces:\n  terminal:\n    memoryMB: 1024\n    ttlSeconds: 3600\n```\n\n" +
		"### Of the client\n\n| variable | |\n|---|---|\n" +
		"| `RIGS_SERVER` | server to talk to: a URL, or the path of a socket; default: the socket in the data directory |\n" +
		"| `RIGS_TOKEN` | token, for a URL (see `rigs token create`) |\n" +
		"| `RIGS_WORKSPACE` | workspace, like `--workspace` |\n" +
		"| `RIGS_HOME` | data directory: `/var/lib/rigs` for root, else `~/.local/share/rigs` |\n")
}
