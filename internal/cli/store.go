package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rigs/client"
	"rigs/internal/rig"
)

func (a *app) imageCmd() *cobra.Command {
	return parent("image", "List, build and remove images", `  rigs image ls
  rigs image build terminal`, a.imageLsCmd(), a.imageBuildCmd(), a.imageRmCmd())
}

func (a *app) completeImage(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	c, err := a.client()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	images, _ := c.Images(cmd.Context()) // nothing to offer is an answer too
	names := make([]string, len(images))
	for i := range images {
		names[i] = images[i].Name + "\t" + images[i].State
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (a *app) imageLsCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List images: what can be built, and what is",
		Example: "  rigs image ls",
		Args:    args(0, 0, ""), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			images, err := c.Images(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return a.json(struct {
					Images []client.Image `json:"images"`
				}{orEmpty(images)})
			}
			rows := make([][]string, len(images))
			for i := range images {
				m := &images[i]
				surfaces := make([]string, len(m.Surfaces))
				for j, s := range m.Surfaces {
					surfaces[j] = string(s)
				}
				built, bytes := "", ""
				if !m.CreatedAt.IsZero() {
					built, bytes = since(m.CreatedAt, time.Now())+" ago", size(m.SizeBytes)
				}
				rows[i] = []string{m.Name, m.State, strings.Join(surfaces, ","), bytes, built, shortDigest(m.Digest), m.Detail}
			}
			return table(a.out, []string{"NAME", "STATE", "SURFACES", "SIZE", "BUILT", "DIGEST", "DETAIL"}, rows)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func shortDigest(d string) string {
	d = strings.TrimPrefix(d, "sha256:")
	return d[:min(12, len(d))]
}

func (a *app) imageBuildCmd() *cobra.Command {
	var noCache, asJSON bool
	cmd := &cobra.Command{
		Use: "build NAME", Short: "Build an image on the server's host",
		Example:           "  rigs image build terminal\n  rigs image build terminal --no-cache",
		Args:              args(1, 1, "NAME"),
		ValidArgsFunction: a.completeImage,
		RunE: func(cmd *cobra.Command, words []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			p := a.progress()
			p.keep = true
			m, err := c.BuildImage(cmd.Context(), words[0], noCache, p.Step)
			p.end(err == nil)
			p.Wait()
			if err != nil {
				return err
			}
			if asJSON {
				return a.json(m)
			}
			_, err = fmt.Fprintln(a.out, plain(m.Name+"@"+m.Digest))
			return err
		},
	}
	cmd.Flags().BoolVar(&noCache, "no-cache", false, "build it even if its definition has not changed")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) imageRmCmd() *cobra.Command {
	return &cobra.Command{
		Use: "rm NAME...", Aliases: []string{"remove"}, Short: "Remove what was built of images",
		Example:           "  rigs image rm terminal",
		Args:              args(1, -1, "NAME"),
		ValidArgsFunction: a.completeImage,
		RunE: func(cmd *cobra.Command, names []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			return each(names, func(n string) error { return c.RemoveImage(cmd.Context(), n) })
		},
	}
}

func (a *app) templateCmd() *cobra.Command {
	return parent("template", "List, make and remove templates: frozen machines that rigs are cloned from", `  rigs template ls
  rigs template make terminal`, a.templateLsCmd(), a.templateMakeCmd(), a.templateRmCmd())
}

func (a *app) templateLsCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List templates",
		Example: "  rigs template ls",
		Args:    args(0, 0, ""), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			ts, err := c.Templates(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return a.json(struct {
					Templates []client.Template `json:"templates"`
				}{orEmpty(ts)})
			}
			rows := make([][]string, len(ts))
			for i := range ts {
				t := &ts[i]
				what := string(t.Surface)
				if t.Engine != "" {
					what += ":" + string(t.Engine)
				}
				rows[i] = []string{t.Key[:min(12, len(t.Key))], what, t.State, fmt.Sprintf("%d MB", t.MemoryMB), strconv.Itoa(t.VCPUs), t.Accel, size(t.SizeBytes), since(t.CreatedAt, time.Now()) + " ago", imageName(t.Image), t.Detail}
			}
			return table(a.out, []string{"KEY", "SURFACE", "STATE", "MEMORY", "CPUS", "ACCEL", "SIZE", "MADE", "IMAGE", "DETAIL"}, rows)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) templateMakeCmd() *cobra.Command {
	var m client.MakeTemplate
	var engine string
	var asJSON bool
	cmd := &cobra.Command{
		Use: "make SURFACE", Short: "Boot a machine and freeze it, unless that is done",
		Example:           "  rigs template make terminal\n  rigs template make terminal --memory 1024 --fresh",
		Args:              args(1, 1, "SURFACE"),
		ValidArgsFunction: completeSurface,
		RunE: func(cmd *cobra.Command, words []string) error {
			surface, err := rig.ParseSurface(words[0])
			if err != nil {
				return &usage{err}
			}
			m.Surface, m.Engine = surface, rig.Engine(engine)
			c, err := a.client()
			if err != nil {
				return err
			}
			p := a.progress()
			p.keep = true
			t, err := c.MakeTemplate(cmd.Context(), m, p.Step)
			p.end(err == nil)
			p.Wait()
			if err != nil {
				return err
			}
			if asJSON {
				return a.json(t)
			}
			_, err = fmt.Fprintln(a.out, plain(t.Key))
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&engine, "engine", "", "browser engine: chromium, firefox or webkit")
	f.StringVar(&m.Image, "image", "", "image other than the surface's own")
	f.IntVar(&m.MemoryMB, "memory", 0, "memory in MB (default: the surface's)")
	f.IntVar(&m.VCPUs, "cpus", 0, "virtual processors (default: the surface's)")
	f.BoolVar(&m.Fresh, "fresh", false, "make it again even if it is there")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) templateRmCmd() *cobra.Command {
	return &cobra.Command{
		Use: "rm KEY...", Aliases: []string{"remove"}, Short: "Remove templates; rigs that were cloned from them go on",
		Example: "  rigs template rm 3f9a0c",
		Args:    args(1, -1, "KEY"),
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			c, err := a.client()
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			ts, _ := c.Templates(cmd.Context()) // nothing to offer is an answer too
			keys := make([]string, len(ts))
			for i := range ts {
				keys[i] = ts[i].Key + "\t" + string(ts[i].Surface)
			}
			return keys, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, keys []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			ts, err := c.Templates(cmd.Context())
			if err != nil {
				return err
			}
			return each(keys, func(k string) error {
				full, err := fullKey(ts, k)
				if err != nil {
					return err
				}
				return c.RemoveTemplate(cmd.Context(), full)
			})
		},
	}
}

// fullKey finds the one template whose key begins with prefix: the table shows
// keys shortened.
func fullKey(ts []client.Template, prefix string) (string, error) {
	var found []string
	for i := range ts {
		if strings.HasPrefix(ts[i].Key, prefix) {
			found = append(found, ts[i].Key)
		}
	}
	switch len(found) {
	case 0:
		return "", rig.Errorf(rig.CodeNotFound, "no template %q: see 'rigs template ls'", prefix)
	case 1:
		return found[0], nil
	}
	return "", rig.Errorf(rig.CodeAmbiguous, "template %q: %d keys begin so: give more of it", prefix, len(found))
}
