package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rigs/client"
	"rigs/internal/rig"
)

// grace is how long a command may take to end after a signal was passed on to
// it, before it is given up.
const grace = 5 * time.Second

// commandFlags say how a command is run; exec and run share them.
type commandFlags struct {
	tty     bool
	root    bool
	cwd     string
	env     []string
	timeout time.Duration
	shell   bool
	fenced  bool
}

func (c *commandFlags) register(f *pflag.FlagSet) {
	f.BoolVarP(&c.tty, "tty", "t", false, "give the command a terminal")
	f.BoolVar(&c.root, "root", false, "run as root instead of the ordinary user")
	f.StringVarP(&c.cwd, "workdir", "w", "", "working directory (default: the user's home)")
	f.StringArrayVarP(&c.env, "env", "e", nil, "NAME=VALUE, or NAME to pass this host's value (repeatable)")
	f.DurationVar(&c.timeout, "timeout", 0, "end the command after this long")
	f.BoolVar(&c.shell, "shell", false, "CMD is one line for /bin/sh")
	fencedFlag(f, &c.fenced)
}

func (c *commandFlags) request(argv []string, stdin bool) (client.ExecRequest, error) {
	r := client.ExecRequest{Root: c.root, Cwd: c.cwd, TTY: c.tty, Stdin: stdin, TimeoutSeconds: c.timeout.Seconds()}
	if c.timeout < 0 {
		return r, usagef("--timeout %v: give a positive duration, such as 90s", c.timeout)
	}
	if c.fenced && c.tty {
		return r, usagef("--fenced and --tty: what a terminal program draws cannot be fenced: leave one out")
	}
	switch {
	case !c.shell:
		r.Argv = argv
	case len(argv) == 1:
		r.Shell = argv[0]
	default:
		return r, usagef("--shell takes one argument, the line, and not %d: put it in quotes", len(argv))
	}
	for _, e := range c.env {
		if i := slices.Index([]byte(e), '='); i == 0 {
			return r, usagef("--env %q: it begins with '=': give NAME=VALUE", e)
		} else if i < 0 {
			v, ok := os.LookupEnv(e)
			if !ok {
				continue // as docker does: a variable that is not set is not passed
			}
			e += "=" + v
		}
		r.Env = append(r.Env, e)
	}
	return r, nil
}

// command runs argv in the rig ref with this process's streams and returns its
// status as an exitStatus, nil for 0. Signals that come in are passed on. Only a
// command with a terminal of its own reaches the user's with control sequences.
func (a *app) command(ctx context.Context, c *client.Client, ref string, req client.ExecRequest, fenced bool) (err error) {
	// The context that Main made ends with the first signal; here that signal is
	// the command's, and only a command that does not end is given up.
	outer := ctx
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	signals := passSignals(ctx, cancel)
	if outer.Err() != nil {
		return interrupted(syscall.SIGINT) // it came before there was a command
	}
	sio := client.StreamIO{Stdout: a.out, Stderr: a.err}
	if req.Stdin {
		sio.Stdin = a.in
	}
	if !req.TTY {
		stdout, stderr := guest(a.out, "standard output of a command in "+ref, fenced), guest(a.err, "standard error of a command in "+ref, fenced)
		sio.Stdout, sio.Stderr = stdout, stderr
		defer func() { err = errors.Join(err, stdout.Close(), stderr.Close()) }()
	} else {
		t, err := a.openTerm(ctx, req.Stdin)
		if err != nil {
			return err
		}
		defer t.restore()
		req.Size, sio.Resize = t.size, t.resize
	}
	sio.Signals = signals
	st, err := c.Exec(ctx, ref, req, sio)
	if cause := context.Cause(ctx); cause != nil && err != nil {
		return cause
	}
	return status(st, err)
}

// status makes a command's end an error.
func status(st client.ExitStatus, err error) error {
	switch {
	case err != nil:
		return err
	case st.TimedOut:
		return rig.Errorf(rig.CodeTimeout, "the command was ended after %s: its time was over: give it more with --timeout", seconds(time.Duration(st.Seconds*float64(time.Second))))
	case st.Code != 0:
		return exitStatus(st.Code)
	}
	return nil
}

// passSignals turns this process's signals into the command's. The second one,
// or a command that is still there after the grace, cancels ctx.
func passSignals(ctx context.Context, cancel context.CancelCauseFunc) <-chan client.Signal {
	in := make(chan os.Signal, 4)
	signal.Notify(in, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	out := make(chan client.Signal, 4)
	go func() {
		defer signal.Stop(in)
		var over <-chan time.Time
		var got syscall.Signal
		for {
			select {
			case <-ctx.Done():
				return
			case <-over:
				cancel(interrupted(got))
				return
			case s := <-in:
				if over != nil {
					cancel(interrupted(got))
					return
				}
				got, _ = s.(syscall.Signal)
				over = time.After(grace)
				select {
				case out <- client.Signal{Name: signalNames[got]}:
				default: // full: the command has had four already
				}
			}
		}
	}()
	return out
}

var signalNames = map[syscall.Signal]string{syscall.SIGINT: "INT", syscall.SIGTERM: "TERM", syscall.SIGHUP: "HUP", syscall.SIGQUIT: "QUIT"}

// interrupted is the status of a shell's child that this signal ended.
func interrupted(s syscall.Signal) error { return exitStatus(128 + int(s)) }

// split parses "RIG [flags] [--] CMD...": flags may stand before and after RIG,
// and everything from the first word after it, or from "--", is the command.
func split(cmd *cobra.Command, args []string) (ref string, argv []string, err error) {
	if len(args) == 0 {
		return "", nil, usagef("too few arguments: RIG and a command are needed: see '%s --help'", cmd.CommandPath())
	}
	f := cmd.Flags()
	if err := f.Parse(args[1:]); err != nil {
		return "", nil, usageError(cmd, err)
	}
	if help, err := f.GetBool("help"); err == nil && help {
		return "", nil, pflag.ErrHelp
	}
	if f.NArg() == 0 {
		return "", nil, usagef("no command: give it after the rig: %s %s -- CMD...: see '%s --help'", cmd.CommandPath(), args[0], cmd.CommandPath())
	}
	return args[0], f.Args(), nil
}

func (a *app) execCmd() *cobra.Command {
	var s specFlags
	var cf commandFlags
	var stdin, open bool
	cmd := &cobra.Command{
		Use: "exec RIG [flags] -- CMD...", Short: "Run a command in a rig",
		Long: `Runs a command in a rig and exits with its status. Its output comes as it is written,
standard output and standard error apart; on a terminal without the control sequences in
it, unless the command has a terminal of its own (-t). A signal to this process is passed
on to the command; a second one gives it up.`,
		Example: `  rigs exec demo/terminal -- git clone https://github.com/git/git
  rigs exec demo/terminal --shell 'make 2>&1 | tail'
  tar c . | rigs exec demo/terminal -i -- tar x
  rigs exec demo/terminal -it -- python3
  rigs exec --open demo/terminal -- true    opens the rig on first use`,
		ValidArgsFunction: a.completeRig(false),
		RunE: func(cmd *cobra.Command, words []string) error {
			ref, argv, err := split(cmd, words)
			if errors.Is(err, pflag.ErrHelp) {
				return cmd.Help()
			}
			if err != nil {
				return err
			}
			if err := s.needOpen(open); err != nil {
				return err
			}
			req, err := cf.request(argv, stdin)
			if err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			id, err := a.ready(cmd.Context(), c, ref, open, &s)
			if err != nil {
				return err
			}
			return a.command(cmd.Context(), c, id, req, cf.fenced)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false)
	f.BoolVarP(&stdin, "interactive", "i", false, "connect standard input")
	f.BoolVar(&open, "open", false, "open the rig SPACE/SURFACE if it is not there, with the flags of 'rigs open'")
	cf.register(f)
	registerForOpen(&s, f)
	return cmd
}

// registerForOpen adds open's flags out of the way: they matter with --open
// only, and the space is part of the rig's name there.
func registerForOpen(s *specFlags, f *pflag.FlagSet) {
	sub := pflag.NewFlagSet("", pflag.ContinueOnError)
	s.register(sub)
	sub.VisitAll(func(fl *pflag.Flag) {
		if fl.Name == "space" || fl.Name == "engine" {
			return
		}
		fl.Usage = "with --open: " + fl.Usage
		f.AddFlag(fl)
		s.withOpen = append(s.withOpen, fl)
	})
}

func (a *app) runCmd() *cobra.Command {
	var s specFlags
	var cf commandFlags
	var keep bool
	cmd := &cobra.Command{
		Use: "run [flags] -- CMD...", Short: "Run a command in a rig of its own, which is gone afterwards",
		Long: `Opens a new terminal rig, runs a command in it with standard input, output and error
connected, closes the rig, and exits with the command's status. The rig is closed
whatever happens; an interruption is passed on to the command first.`,
		Example: `  rigs run -- uname -a
  rigs run --allow example.com -- curl -sS https://example.com
  rigs run -t -- bash
  rigs run --shell 'echo $((6 * 7))'
  echo 'print(6 * 7)' | rigs run -- python3 -`,
		Args:              args(1, -1, "a command"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, argv []string) (err error) {
			spec, err := s.build(rig.Terminal)
			if err != nil {
				return err
			}
			spec.New = true
			req, err := cf.request(argv, true)
			if err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			p := a.progress()
			r, _, err := a.open(ctx, c, spec, p.Step)
			p.Stop()
			p.Wait()
			if err != nil {
				if r.ID != "" && ctx.Err() == nil {
					err = errors.Join(err, a.closeRig(ctx, c, r.ID))
				}
				return err
			}
			if keep {
				fmt.Fprintf(a.err, "rigs: the rig stays: %s\n", r.ID)
			} else {
				defer func() {
					if cerr := a.closeRig(ctx, c, r.ID); cerr != nil {
						err = errors.Join(err, cerr)
						var st exitStatus
						if errors.As(err, &st) {
							// The command's status is the caller's; say the rest beside it.
							fmt.Fprintf(a.err, "rigs: %s\n", plainBlock(cerr.Error()))
						}
					}
				}()
			}
			return a.command(ctx, c, r.ID, req, cf.fenced)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false)
	f.BoolVar(&keep, "keep", false, "leave the rig open")
	f.BoolP("interactive", "i", true, "connect standard input (run always does)")
	s.register(f)
	cf.register(f)
	return cmd
}

func (a *app) shellCmd() *cobra.Command {
	var s specFlags
	var session string
	var open, ephemeral bool
	cmd := &cobra.Command{
		Use: "shell RIG", Short: "Attach to a shell in a rig",
		Long: `Attaches to a terminal session of a rig. A session goes on when you leave it, so that you
or the web page can come back to it: press Enter, then "~.", to detach. Sessions have
names; "main" is the one that the page shows.`,
		Example: `  rigs shell demo/terminal
  rigs shell --open demo/terminal --allow example.com
  rigs shell demo/terminal --session logs`,
		Args:              args(1, 1, "RIG"),
		ValidArgsFunction: a.completeRig(false),
		RunE: func(cmd *cobra.Command, words []string) error {
			if err := s.needOpen(open); err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			if !isTerminal(a.in) || !isTerminal(a.out) {
				return usagef("shell needs a terminal for its input and output: use 'rigs exec' in scripts")
			}
			id, err := a.ready(cmd.Context(), c, words[0], open, &s)
			if err != nil {
				return err
			}
			return a.attach(cmd.Context(), c, id, words[0], client.TerminalRequest{Session: session, Ephemeral: ephemeral})
		},
	}
	f := cmd.Flags()
	f.StringVar(&session, "session", "main", "name of the session")
	f.BoolVar(&ephemeral, "rm", false, "end the session when its last viewer leaves")
	f.BoolVar(&open, "open", false, "open the rig SPACE/SURFACE if it is not there, with the flags of 'rigs open'")
	registerForOpen(&s, f)
	return cmd
}

// attach connects the user's terminal to a session.
func (a *app) attach(ctx context.Context, c *client.Client, id, ref string, req client.TerminalRequest) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t, err := a.openTerm(ctx, true)
	if err != nil {
		return err
	}
	defer t.restore()
	req.Size = t.size
	in := &detachReader{r: a.in, detach: func() { cancel(errDetached) }}
	st, err := c.Terminal(ctx, id, req, client.StreamIO{Stdin: in, Stdout: a.out, Stderr: a.err, Resize: t.resize})
	t.restore()
	if err != nil {
		// Whatever had the screen is still running: undo what it had set.
		fmt.Fprint(a.out, resetModes)
	}
	if errors.Is(context.Cause(ctx), errDetached) {
		if req.Ephemeral {
			fmt.Fprint(a.err, "\r\ndetached; the session ends with its last viewer\n")
			return nil
		}
		fmt.Fprintf(a.err, "\r\ndetached; the session goes on: rigs shell %s --session %s\n", plain(ref), plain(req.Session))
		return nil
	}
	return status(st, err)
}

// resetModes leaves the alternate screen, shows the cursor, and ends mouse, focus
// and paste reports, application keys and colours.
const resetModes = "\x1b[?1047l\x1b[?25h\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1006l\x1b[?2004l\x1b[?1l\x1b>\x1b[0m"

var errDetached = errors.New("detached")

// detachReader passes on what is typed and looks for "~." after Enter, the way
// out that ssh has. It is for one goroutine.
type detachReader struct {
	r      io.Reader
	detach func()

	state   detachState
	pending []byte
}

type detachState int

const (
	lineStart detachState = iota // right after Enter, or at the beginning
	inLine
	afterTilde
)

func (d *detachReader) Read(p []byte) (int, error) {
	for {
		if len(d.pending) > 0 {
			n := copy(p, d.pending)
			d.pending = d.pending[n:]
			return n, nil
		}
		buf := make([]byte, len(p))
		n, err := d.r.Read(buf)
		for _, b := range buf[:n] {
			if d.feed(b) {
				d.detach()
				return 0, io.EOF
			}
		}
		if err != nil && len(d.pending) == 0 {
			return 0, err
		}
	}
}

// feed takes one byte and reports whether it completes the escape.
func (d *detachReader) feed(b byte) bool {
	switch {
	case d.state == lineStart && b == '~':
		d.state = afterTilde // held back until the next byte decides
		return false
	case d.state == afterTilde && b == '.':
		return true
	case d.state == afterTilde && b == '~':
		d.state = inLine // "~~" types one
	case d.state == afterTilde:
		d.pending = append(d.pending, '~')
		d.state = inLine
	}
	if b == '\r' || b == '\n' || b == 3 || b == 4 {
		d.state = lineStart // Enter, ^C and ^D begin a line
	} else if d.state != afterTilde {
		d.state = inLine
	}
	d.pending = append(d.pending, b)
	return false
}
