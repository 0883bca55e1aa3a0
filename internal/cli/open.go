package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rigs/client"
	"rigs/internal/policy"
	"rigs/internal/rig"
)

// closeTimeout bounds the closing of what a canceled command had opened.
const closeTimeout = 30 * time.Second

// specFlags are the flags that shape a new rig, shared by open, run and the
// commands with --open.
type specFlags struct {
	spec      client.Spec
	engine    string
	ttl, idle time.Duration
	noDefault bool

	withOpen []*pflag.Flag // those that say nothing without --open
}

// needOpen refuses flags that shape a rig where none is opened.
func (s *specFlags) needOpen(open bool) error {
	for _, f := range s.withOpen {
		if f.Changed && !open {
			return usagef("--%s goes with --open: it shapes a rig when that is opened", f.Name)
		}
	}
	return nil
}

// unmet are the flags of spec that a rig, opened earlier, does not fulfil.
func unmet(spec client.Spec, r client.Rig) []string {
	var flags []string
	add := func(flag string, differs bool) {
		if differs {
			flags = append(flags, flag)
		}
	}
	add("--image", spec.Image != "" && r.Image != spec.Image && !strings.HasPrefix(r.Image, spec.Image+"@"))
	admitted, allowed := canonical(r.Egress), canonical(spec.Allow)
	without := func(all, some []string) bool {
		return slices.ContainsFunc(all, func(p string) bool { return !slices.Contains(some, p) })
	}
	add("--allow", without(allowed, admitted))
	add("--no-defaults", spec.NoDefaults && without(admitted, allowed))
	for _, n := range []struct {
		flag    string
		ask, is int
	}{
		{"--memory", spec.MemoryMB, r.Resources.MemoryMB}, {"--cpus", spec.VCPUs, r.Resources.VCPUs},
		{"--ttl", spec.TTLSeconds, r.Resources.TTLSeconds}, {"--idle", spec.IdleSeconds, r.Resources.IdleSeconds},
	} {
		add(n.flag, n.ask != 0 && n.ask != n.is)
	}
	add("--cold", spec.Cold && r.Boot == "clone")
	return flags
}

// canonical is how the server writes egress patterns.
func canonical(patterns []string) []string {
	out := make([]string, 0, len(patterns))
	for _, s := range patterns {
		if p, err := policy.Parse(s); err == nil {
			s = p.String()
		}
		out = append(out, s)
	}
	return out
}

// tellUnmet says which flags an opened rig does not fulfil, because it was there
// already. Who asked for --no-defaults must not believe that nothing is admitted.
func (a *app) tellUnmet(spec client.Spec, r client.Rig) {
	if flags := unmet(spec, r); len(flags) > 0 {
		help := "close it first, or open another with --new"
		if slices.Contains(flags, "--allow") || slices.Contains(flags, "--no-defaults") {
			help = "change its hosts with 'rigs egress', " + help
		}
		fmt.Fprintf(a.err, "rigs: %s was there already and stays as it is, without %s: %s\n", plain(r.Ref()), strings.Join(flags, ", "), help)
	}
}

func (s *specFlags) register(f *pflag.FlagSet) {
	f.StringVar(&s.spec.Space, "space", "", "space that the rig belongs to (default \"default\")")
	f.StringVar(&s.engine, "engine", "", "browser engine: chromium, firefox or webkit")
	f.StringVar(&s.spec.Image, "image", "", "image other than the surface's own (see 'rigs image ls')")
	f.StringArrayVar(&s.spec.Allow, "allow", nil, "host to admit besides the defaults: example.com, *.example.com, example.com:8443 (repeatable)")
	f.BoolVar(&s.noDefault, "no-defaults", false, "begin with an empty list of hosts")
	f.IntVar(&s.spec.MemoryMB, "memory", 0, "memory in MB (default: the surface's)")
	f.IntVar(&s.spec.VCPUs, "cpus", 0, "virtual processors (default: the surface's)")
	f.DurationVar(&s.ttl, "ttl", 0, "close it after this long, whatever happens in it (default: the surface's)")
	f.DurationVar(&s.idle, "idle", 0, "park it after this long without use, close it after twice that")
	f.BoolVar(&s.spec.Cold, "cold", false, "boot from the image instead of cloning the template")
}

// build checks what can be checked here and returns the spec.
func (s *specFlags) build(surface rig.Surface) (client.Spec, error) {
	spec := s.spec
	spec.Surface, spec.Engine, spec.NoDefaults = surface, rig.Engine(s.engine), s.noDefault
	for _, d := range []struct {
		flag string
		from time.Duration
		to   *int
	}{{"--ttl", s.ttl, &spec.TTLSeconds}, {"--idle", s.idle, &spec.IdleSeconds}} {
		if d.from < 0 || d.from%time.Second != 0 {
			return spec, usagef("%s %v: give whole seconds, such as 90s, 30m or 8h", d.flag, d.from)
		}
		*d.to = int(d.from / time.Second)
	}
	if spec.MemoryMB < 0 || spec.VCPUs < 0 {
		return spec, usagef("--memory and --cpus take positive numbers")
	}
	return spec, nil
}

// open opens a rig and waits until it is ready, passing on the steps. What it began is closed again
// when ctx ends before that, or when waiting fails.
func (a *app) open(ctx context.Context, c *client.Client, spec client.Spec, onStep func(client.Step)) (r client.Rig, created bool, err error) {
	r, created, err = c.Open(ctx, spec)
	if err != nil {
		return r, false, err
	}
	ready, err := c.WaitReady(ctx, r.ID, onStep)
	if err == nil {
		return ready, created, nil
	}
	if created && ctx.Err() != nil {
		err = errors.Join(err, a.closeRig(ctx, c, r.ID))
		return r, created, rig.Errorf(rig.CodeCanceled, "opening %s was interrupted: %w", r.ID, err)
	}
	return r, created, err
}

// closeRig closes a rig even when ctx has ended.
func (a *app) closeRig(ctx context.Context, c *client.Client, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	_, err := c.Close(ctx, id)
	if code := rig.CodeOf(err); code == rig.CodeGone || code == rig.CodeNotFound {
		return nil // somebody was faster
	}
	if err != nil {
		return fmt.Errorf("closing %s: %w", id, err)
	}
	return nil
}

func (a *app) openCmd() *cobra.Command {
	var s specFlags
	var asJSON, fresh, noWait bool
	cmd := &cobra.Command{
		Use: "open SURFACE", Short: "Open a rig, or return the one that the space has",
		Long: `Opens a rig of SURFACE (terminal, browser, desktop, phone or mac) and prints its id.

A space has one rig of each surface: opening it again returns the same machine, as it is;
flags that it does not fulfil are named on standard error. Use --new for another one. Interrupting the command closes a rig that is not ready yet.`,
		Example: `  rigs open terminal
  rigs open terminal --space pr-42 --allow example.com --ttl 1h
  id=$(rigs open terminal --new)`,
		Args:              args(1, 1, "SURFACE ("+strings.Join(surfaceNames(), ", ")+")"),
		ValidArgsFunction: completeSurface,
		RunE: func(cmd *cobra.Command, names []string) error {
			surface, err := rig.ParseSurface(names[0])
			if err != nil {
				return &usage{err}
			}
			spec, err := s.build(surface)
			if err != nil {
				return err
			}
			spec.New = fresh
			c, err := a.client()
			if err != nil {
				return err
			}
			if noWait {
				r, created, err := c.Open(cmd.Context(), spec)
				if err != nil {
					return err
				}
				if !created {
					a.tellUnmet(spec, r)
				}
				return a.rig(&r, asJSON)
			}
			p := a.progress()
			r, created, err := a.open(cmd.Context(), c, spec, p.Step)
			p.Stop()
			p.Wait()
			if err != nil {
				return err
			}
			if !created {
				a.tellUnmet(spec, r)
			}
			return a.rig(&r, asJSON)
		},
	}
	f := cmd.Flags()
	s.register(f)
	f.BoolVar(&fresh, "new", false, "open another rig even if the space has one")
	f.BoolVar(&noWait, "no-wait", false, "return at once, while it is being provisioned")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// ready returns the rig that ref names, awake enough to be used. With open, a
// ref of the form SPACE/SURFACE is opened on first use, and again when its
// machine is gone.
func (a *app) ready(ctx context.Context, c *client.Client, ref string, open bool, s *specFlags) (string, error) {
	if !open {
		return ref, nil
	}
	at, ok := parseRef(ref)
	if !ok {
		return "", usagef("--open needs a rig named as SPACE/SURFACE, not %q: an id names one machine, and that is either there or gone", ref)
	}
	spec, err := s.build(at.Surface)
	if err != nil {
		return "", err
	}
	spec.Space, spec.Engine = at.Space, at.Engine
	p := a.progress()
	r, created, err := a.open(ctx, c, spec, p.Step)
	p.Stop()
	p.Wait()
	if err == nil && !created {
		a.tellUnmet(spec, r)
	}
	return r.ID, err
}
