package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rigs/client"
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

A space has one rig of each surface: opening it again returns the same machine. Use
--new for another one. Interrupting the command closes a rig that is not ready yet.`,
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
				r, _, err := c.Open(cmd.Context(), spec)
				if err != nil {
					return err
				}
				return a.rig(&r, asJSON)
			}
			p := a.progress()
			r, _, err := a.open(cmd.Context(), c, spec, p.Step)
			p.Stop()
			p.Wait()
			if err != nil {
				return err
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
	r, _, err := a.open(ctx, c, spec, p.Step)
	p.Stop()
	p.Wait()
	return r.ID, err
}
