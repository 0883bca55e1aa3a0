package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"rigs/client"
)

func (a *app) doctorCmd() *cobra.Command {
	var asJSON, fresh bool
	cmd := &cobra.Command{
		Use: "doctor", Short: "Say what this host can boot, from trying, and what is missing",
		Long: `Reports what the server's host can boot. Nothing is guessed: hardware virtualization counts
only where a probe machine really ran with it. The exit status is 1 when no surface is
ready.`,
		Example: "  rigs doctor\n  rigs doctor --fresh --json",
		Args:    args(0, 0, ""), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			p := a.progress()
			p.text("trying what this host can boot")
			d, err := c.Doctor(cmd.Context(), fresh)
			p.Stop()
			p.Wait()
			if err != nil {
				return err
			}
			if asJSON {
				err = a.json(d)
			} else {
				err = doctorReport(a.out, &d)
			}
			if err == nil && !anyReady(&d) {
				return exitStatus(1)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&fresh, "fresh", false, "try again instead of using what was found before")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func anyReady(d *client.Doctor) bool {
	for _, s := range d.Surfaces {
		if s.State == "ready" {
			return true
		}
	}
	return false
}

func doctorReport(w io.Writer, d *client.Doctor) error {
	fmt.Fprintf(w, "Host: %s/%s, %d CPUs, %s memory, %s free on the data directory's disk\n\n",
		plain(d.Host.OS), plain(d.Host.Arch), d.Host.CPUs, size(int64(d.Host.MemoryMB)<<20), size(int64(d.Host.DiskFreeMB)<<20))
	for _, c := range d.Checks {
		mark := "ok  "
		if !c.OK {
			mark = "MISS"
		}
		fmt.Fprintf(w, "%s  %s", mark, plain(c.Name))
		if c.Detail != "" {
			fmt.Fprintf(w, ": %s", plain(c.Detail))
		}
		fmt.Fprintln(w)
		if !c.OK && c.Fix != "" {
			fmt.Fprintf(w, "      to get it: %s\n", plain(c.Fix))
		}
	}
	fmt.Fprintln(w)
	rows := make([][]string, len(d.Surfaces))
	for i, s := range d.Surfaces {
		rows[i] = []string{string(s.Surface), s.State, s.Accel, s.Detail, s.Fix}
	}
	return table(w, []string{"SURFACE", "STATE", "ACCEL", "DETAIL", "TO GET IT"}, rows)
}
