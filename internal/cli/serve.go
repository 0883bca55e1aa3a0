package cli

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rigs/internal/config"
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
			_ = c
			return nil
		},
	}
	for _, s := range config.Settings {
		cmd.Flags().String(s.Flag, "", s.Doc+" ("+s.Env+")")
	}
	cmd.Flags().IntVar(&readyFD, "ready-fd", 0, "descriptor to write a line to when the server can be asked")
	_ = cmd.Flags().MarkHidden("ready-fd")
	return cmd
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
