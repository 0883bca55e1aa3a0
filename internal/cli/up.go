package cli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rigs/client"
	"rigs/internal/rig"
)

// welcome is the space that up opens its rig in.
const welcome = "welcome"

func (a *app) upCmd() *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use: "up", Short: "Start the server in the background and open a first rig",
		Long: `Makes sure that a server runs in the background for this user's data directory, that the
terminal's image is built and its template made, opens a terminal rig in the space
"welcome", runs a command in it, and prints how to go on. Run again, it uses what is there.`,
		Example:           "  rigs up\n  rigs up --listen 127.0.0.1:8080",
		Args:              args(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if s := os.Getenv("RIGS_SERVER"); s != "" {
				return usagef("up starts a server on this host, but RIGS_SERVER names %s: unset it", s)
			}
			var flags []string
			if listen != "" {
				flags = append(flags, "--listen="+listen)
			}
			p := a.progress()
			p.keep = true
			err := a.up(cmd.Context(), p, flags)
			p.Stop()
			p.Wait()
			return err
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "", "address of a server that has to be started (default 127.0.0.1:7878)")
	return cmd
}

func (a *app) up(ctx context.Context, p *progress, flags []string) error {
	b, err := newBackground()
	if err != nil {
		return err
	}
	if err := a.upServer(ctx, b, p, flags); err != nil {
		return err
	}
	c := b.client
	if err := a.upImage(ctx, c, p); err != nil {
		return err
	}
	p.text("template: terminal")
	if _, err := c.MakeTemplate(ctx, client.MakeTemplate{Surface: rig.Terminal}, prefixed(p, "template: ")); err != nil {
		if ctx.Err() != nil {
			return err
		}
		// Slower without, and that is all.
		p.rename("template: cannot be made, so machines boot from the image: %v", err)
		p.Stop()
	}
	p.text("a terminal rig in the space %q", welcome)
	began := time.Now()
	r, created, err := a.open(ctx, c, client.Spec{Space: welcome, Surface: rig.Terminal}, func(s client.Step) {
		p.rename("a terminal rig in the space %q: %s", welcome, s.Text)
	})
	if err != nil {
		return err
	}
	opened := time.Since(began)
	p.rename("a terminal rig in the space %q", welcome)
	p.Done()
	how := "was there already"
	if created {
		how = map[string]string{"clone": "cloned from the template", "cold": "booted from the image"}[r.Boot] + " in " + seconds(opened)
	}
	fmt.Fprintf(a.out, "\nRig %s (%s) %s, with %s.\n", plain(r.ID), plain(r.Ref()), how, accelWords(r.Accel))
	if err := a.demonstrate(ctx, c, r.ID); err != nil {
		return err
	}
	link, err := c.SigninLink(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.out, `
Watch it in a browser; this link signs you in, once, until %s:

    %s

Go on with:

%s`, link.ExpiresAt.Local().Format(time.TimeOnly), plain(link.URL), nextSteps(ownName(), plain(r.Ref())))
	return nil
}

// nextSteps lists commands to try, aligned.
func nextSteps(name, ref string) string {
	var b strings.Builder
	for _, s := range [][2]string{
		{"shell " + ref, "a shell in it; Enter ~. leaves it"},
		{"egress " + ref + " log", "what it reached, and what was refused"},
		{"run -- uname -a", "a machine for one command"},
		{"close " + ref, "it is gone, and its disk too"},
		{"down", "stop the server"},
	} {
		fmt.Fprintf(&b, "    %-40s %s\n", name+" "+s[0], s[1])
	}
	return b.String()
}

// ownName is what the user has to type to run this program again: its name, or
// its path where the name would find another one, or none.
func ownName() string {
	self, err := os.Executable()
	if err != nil {
		return "rigs"
	}
	if found, err := exec.LookPath("rigs"); err == nil && samePath(found, self) {
		return "rigs"
	}
	if wd, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(wd, self); err == nil && filepath.IsLocal(rel) && strings.Contains(rel, "/") {
			return rel
		}
	}
	return self
}

func samePath(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// upServer makes sure that a server of this very build runs.
func (a *app) upServer(ctx context.Context, b *background, p *progress, flags []string) error {
	p.text("server: looking for it")
	running, err := b.find(ctx)
	if err != nil {
		return err
	}
	if running != nil {
		defer running.Close()
		same, err := running.ours()
		if err != nil {
			return err
		}
		others, err := othersRigs(ctx, b.client)
		if err != nil {
			return err
		}
		switch {
		case same:
			p.rename("server: running, process %d", running.pid)
			return nil
		case others > 0:
			p.rename("server: running, process %d, of another build; it has %d rigs of yours, so it goes on (replace it with 'rigs down' and 'rigs up')", running.pid, others)
			return nil
		}
		p.text("server: stopping the one of another build")
		if err := running.stop(ctx); err != nil {
			return err
		}
	}
	p.text("server: starting")
	if err := b.start(ctx, flags); err != nil {
		return err
	}
	p.rename("server: started, log in %s", b.layout.ServerLog())
	return nil
}

// othersRigs counts the live rigs that up did not open.
func othersRigs(ctx context.Context, c *client.Client) (n int, err error) {
	rigs, err := c.Rigs(ctx, client.ListOptions{})
	for i := range rigs {
		if rigs[i].Space != welcome {
			n++
		}
	}
	return n, err
}

func (a *app) upImage(ctx context.Context, c *client.Client, p *progress) error {
	p.text("image: looking for terminal's")
	images, err := c.Images(ctx)
	if err != nil {
		return err
	}
	for i := range images {
		m := &images[i]
		if !m.Default || !hasSurface(m, rig.Terminal) {
			continue
		}
		if m.State == "ready" {
			p.rename("image: %s is built (%s)", m.Name, size(m.SizeBytes))
			return nil
		}
		built, err := c.BuildImage(ctx, m.Name, false, prefixed(p, "image: "))
		if err != nil {
			return err
		}
		p.text("image: %s, %s, %s", built.Name, size(built.SizeBytes), shortDigest(built.Digest))
		return nil
	}
	return rig.Errorf(rig.CodeUnavailable, "the server has no image for terminals: see 'rigs image ls'")
}

func hasSurface(m *client.Image, s rig.Surface) bool {
	for _, have := range m.Surfaces {
		if have == s {
			return true
		}
	}
	return false
}

// prefixed passes steps on with a word before them.
func prefixed(p *progress, prefix string) func(client.Step) {
	return func(s client.Step) {
		s.Text = prefix + s.Text
		p.Step(s)
	}
}

// demonstrate runs a command in the rig, and shows that it cannot reach a host
// that nobody admitted.
func (a *app) demonstrate(ctx context.Context, c *client.Client, id string) error {
	for _, line := range []string{"uname -a", "curl -sS https://example.com"} {
		began := time.Now()
		res, err := c.Run(ctx, id, client.ExecCollect{ExecRequest: client.ExecRequest{Shell: line, TimeoutSeconds: 30}})
		if err != nil {
			return err
		}
		fmt.Fprintf(a.out, "\n    $ %s\n", line)
		for l := range strings.Lines(string(res.Stdout) + string(res.Stderr)) {
			fmt.Fprintf(a.out, "    %s\n", plain(strings.TrimRight(l, "\r\n")))
		}
		fmt.Fprintf(a.out, "    [status %d after %s]\n", res.Code, seconds(time.Since(began)))
	}
	l, err := c.EgressLog(ctx, id, 0)
	if err != nil {
		return err
	}
	for i := len(l.Events) - 1; i >= 0; i-- {
		if e := l.Events[i]; e.Verdict == "deny" {
			fmt.Fprintf(a.out, "\nNothing leaves but what you admitted. Its egress log says:\n\n    %s\n", plain(egressText(e)))
			break
		}
	}
	return nil
}

func accelWords(accel string) string {
	switch accel {
	case "kvm", "hvf":
		return "hardware virtualization"
	case "tcg":
		return "software emulation ('rigs doctor' says why)"
	}
	return accel
}

func (a *app) downCmd() *cobra.Command {
	return &cobra.Command{
		Use: "down", Short: "Stop the server that runs in the background, and every rig of it",
		Example:           "  rigs down",
		Args:              args(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := newBackground()
			if err != nil {
				return err
			}
			running, err := findServer(cmd.Context(), b.layout.ServerSocket())
			if err != nil {
				return err
			}
			if running == nil {
				fmt.Fprintf(a.err, "no server is running for %s\n", b.layout.Data())
				return nil
			}
			defer running.Close()
			p := a.progress()
			p.text("stopping the server, process %d", running.pid)
			err = running.stop(cmd.Context())
			p.end(err == nil)
			p.Wait()
			if err == nil {
				fmt.Fprintln(a.err, "the server and its rigs are gone")
			}
			return err
		},
	}
}
