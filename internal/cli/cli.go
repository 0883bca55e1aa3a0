// Package cli is the command line of Rigs: the client's commands, and serve.
//
// It promises exit status 0 (done), 1 (failed), 2 (wrong usage), and the
// command's own status for exec, run and shell; results on standard output,
// everything else on standard error; errors as "rigs: what failed: why: what
// helps", or as an RFC 9457 problem where --json was given.
//
// What a guest says (names, errors, output of its commands) is data: outside shell
// and commands with a terminal of their own (-t), its control sequences do not
// reach the user's terminal (see plain and guest), and trees that are copied out of a rig
// go through package transfer.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"rigs/client"
	"rigs/internal/rig"
)

// version is stamped by the linker.
var version = "dev"

// app is one run of the command line.
type app struct {
	in       io.Reader
	out, err io.Writer
	// running is set when flags and arguments were understood, so that an error
	// from before is one of usage.
	running bool
	// workspace is the value of the global flag.
	workspace string
}

// Main runs the command line and returns the exit status of the process.
func Main(args []string) int {
	// A reader that leaves (| head) must not end us before what we opened is
	// closed: the write then fails instead.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop) // the second signal ends us as it would any program
	a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr}
	return a.main(ctx, args)
}

func (a *app) main(ctx context.Context, args []string) int {
	root := a.root() //nolint:contextcheck // commands get ctx from ExecuteContextC below
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	var st exitStatus
	if errors.As(err, &st) {
		return int(st)
	}
	if errors.Is(err, syscall.EPIPE) {
		return 128 + int(syscall.SIGPIPE) // as if the signal had ended us; nobody reads a message
	}
	if !a.running {
		err = usageError(cmd, err)
	}
	return a.fail(err, wantsJSON(cmd, args))
}

// exitStatus is returned by commands that pass on a command's own status.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// usage is an error of the caller's command line.
type usage struct{ err error }

func (u *usage) Error() string { return u.err.Error() }
func (u *usage) Unwrap() error { return u.err }

func usagef(format string, args ...any) error { return &usage{fmt.Errorf(format, args...)} }

// usageError adds what helps to an error that cobra found.
func usageError(cmd *cobra.Command, err error) error {
	msg := strings.TrimSpace(err.Error())
	// cobra's own list of suggestions spans lines.
	msg = strings.NewReplacer("\n\nDid you mean this?\n\t", ": did you mean ", "\n\t", " or ", "\n", "").Replace(msg)
	return usagef("%s: see '%s --help'", msg, cmd.CommandPath())
}

// fail reports err and returns the exit status.
func (a *app) fail(err error, asJSON bool) int {
	code := 1
	var u *usage
	if errors.As(err, &u) {
		code = 2
	}
	if asJSON {
		p := rig.AsProblem(err)
		if code == 2 {
			p = rig.Errorf(rig.CodeInvalidRequest, "%w", err)
		}
		enc := json.NewEncoder(a.err)
		enc.SetIndent("", "  ")
		_ = enc.Encode(p) // standard error is all we have to complain to
		return code
	}
	fmt.Fprintf(a.err, "rigs: %s\n", plainBlock(err.Error()))
	return code
}

// wantsJSON looks for --json among the arguments too, because a command line
// that could not be parsed has set no flag.
func wantsJSON(cmd *cobra.Command, args []string) bool {
	if cmd.Flags().Lookup("json") == nil {
		return false
	}
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	return slices.Contains(args, "--json") || slices.Contains(args, "--json=true")
}

// client connects to the server that the environment names.
func (a *app) client() (*client.Client, error) {
	c, err := client.FromEnv()
	if err != nil {
		return nil, err
	}
	return c.In(a.workspace), nil
}

// json prints v as the result of a command.
func (a *app) json(v any) error {
	enc := json.NewEncoder(a.out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

const rootLong = `Rigs gives an agent a machine of its own: a disposable virtual machine with its own
kernel, disk and network, from which nothing leaves but what you admitted.

A rig is named by its id, by a unique prefix of it (3 characters or more), or by
SPACE/SURFACE, such as welcome/terminal.

The client talks to the server at RIGS_SERVER (a URL, with RIGS_TOKEN, or the path of a
socket); by default to the one of this user's data directory (RIGS_HOME).`

const rootExample = `  rigs up                                    start a server and a first rig
  rigs run -- uname -a                       a command in a machine that is gone afterwards
  rigs open terminal --space demo            a machine that stays
  rigs exec demo/terminal -- git --version   a command in it
  rigs shell demo/terminal                   a shell in it
  rigs egress demo/terminal allow example.com
  rigs close demo/terminal`

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "rigs",
		Short:         "Disposable virtual machines for agents, which you can watch",
		Long:          rootLong,
		Example:       rootExample,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version,
		PersistentPreRun: func(*cobra.Command, []string) {
			a.running = true
		},
	}
	root.SetVersionTemplate("rigs {{.Version}}\n")
	root.SuggestionsMinimumDistance = 2
	root.PersistentFlags().StringVar(&a.workspace, "workspace", os.Getenv("RIGS_WORKSPACE"), "workspace in which spaces and rigs are looked up (RIGS_WORKSPACE)")
	root.AddGroup(
		&cobra.Group{ID: "rigs", Title: "Rigs:"},
		&cobra.Group{ID: "agents", Title: "Agents:"},
		&cobra.Group{ID: "server", Title: "Server:"},
		&cobra.Group{ID: "store", Title: "Images and templates:"},
	)
	group := func(id string, cmds ...*cobra.Command) {
		for _, c := range cmds {
			c.GroupID = id
			root.AddCommand(c)
		}
	}
	group("rigs", a.openCmd(), a.runCmd(), a.lsCmd(), a.execCmd(), a.shellCmd(), a.actCmd(), a.cpCmd(), a.egressCmd(), a.auditCmd(), a.approvalsCmd(), a.parkCmd(), a.wakeCmd(), a.takeCmd(), a.giveCmd(), a.closeCmd())
	group("agents", a.mcpCmd(), a.shedCmd())
	group("server", a.upCmd(), a.downCmd(), a.serveCmd(), a.doctorCmd(), a.signinCmd(), a.tokenCmd(), a.policyCmd())
	group("store", a.imageCmd(), a.templateCmd())
	root.AddCommand(a.versionCmd())
	root.SetHelpCommand(helpCmd())
	root.InitDefaultCompletionCmd()
	if c, _, err := root.Find([]string{"completion"}); err == nil {
		c.Args = cobra.ArbitraryArgs
		c.RunE = needsSub
		c.Example = "  source <(rigs completion bash)"
	}
	return root
}

func helpCmd() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Explain a command",
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, words []string) error {
			about, rest, err := cmd.Root().Find(words)
			if err != nil || len(rest) > 0 {
				return usagef("no such command: rigs %s: see 'rigs --help'", strings.Join(words, " "))
			}
			return about.Help()
		},
	}
}

// parent is a command that only has sub-commands.
func parent(use, short, example string, subs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: use, Short: short, Example: example,
		Args: cobra.ArbitraryArgs,
		RunE: needsSub,
	}
	c.SuggestionsMinimumDistance = 2
	c.AddCommand(subs...)
	return c
}

// needsSub is what a command without an action of its own does.
func needsSub(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	hint := ""
	for _, s := range cmd.SuggestionsFor(args[0]) {
		if s[0] == args[0][0] {
			hint = fmt.Sprintf("did you mean %s: ", s)
			break
		}
	}
	return usagef("unknown command %q for %q: %ssee '%s --help'", args[0], cmd.CommandPath(), hint, cmd.CommandPath())
}
