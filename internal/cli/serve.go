package cli

import (
	"fmt"
	"os"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rigs/internal/config"
	"rigs/internal/server"
)

const serveLong = `Runs the server until it is interrupted; its rigs end with it. It listens on a socket in
the data directory, which admits this user, and on --listen, where everybody needs a token.

A setting comes from a flag, else from a variable (RIGS_...), else from config.yaml in the
data directory. 'rigs up' runs the server in the background.`

func (a *app) serveCmd() *cobra.Command {
	var readyFD int
	cmd := &cobra.Command{
		Use: "serve", Short: "Run the server",
		Long:              serveLong,
		Example:           "  rigs serve\n  rigs serve --listen 127.0.0.1:8080 --log-format json\n  RIGS_HOME=/srv/rigs rigs serve --listen none",
		Args:              args(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := config.Load(givenSettings(cmd.Flags()), os.LookupEnv)
			if err != nil {
				return err
			}
			o := server.Options{Config: c, Version: version, Log: a.err}
			if readyFD != 0 {
				o.Ready = tellReady(readyFD)
			}
			return server.Run(cmd.Context(), o)
		},
	}
	for _, s := range config.Settings {
		cmd.Flags().String(s.Flag, "", s.Doc+" ("+s.Env+")")
	}
	cmd.Flags().IntVar(&readyFD, "ready-fd", 0, "descriptor to write a line to when the server can be asked")
	_ = cmd.Flags().MarkHidden("ready-fd")
	return cmd
}

// tellReady returns what writes a line with the server's addresses to a
// descriptor that whoever started us waits on. That it has gone is its affair.
func tellReady(fd int) func(server.Ready) {
	syscall.CloseOnExec(fd) // or a keeper could hold it open
	f := os.NewFile(uintptr(fd), "ready")
	return func(r server.Ready) {
		fmt.Fprintf(f, "%s %s\n", r.Socket, r.URL)
		f.Close()
	}
}

// givenSettings returns the settings that have been given as flags, by key.
func givenSettings(f *pflag.FlagSet) map[string]string {
	given := map[string]string{}
	for _, s := range config.Settings {
		if fl := f.Lookup(s.Flag); fl != nil && fl.Changed {
			given[s.Key] = fl.Value.String()
		}
	}
	return given
}
