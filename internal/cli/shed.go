package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"rigs/internal/rig"
	"rigs/internal/stills"
)

// maxConversation bounds what shed reads, in bytes.
const maxConversation = 256 << 20

func (a *app) shedCmd() *cobra.Command {
	var keep int
	cmd := &cobra.Command{
		Use: "shed [FILE]", Short: "Replace a conversation's older images by their descriptions",
		Long: `Reads a conversation (a list of messages, or an object with one in "messages" or "input", as
Anthropic's and OpenAI's APIs take it) from FILE or standard input and writes it with all
images but the newest replaced by a block of text with their id and description. What is
no image stays as it is, byte for byte. It needs no server.`,
		Example: `  rigs shed --keep 2 conversation.json > shorter.json
  curl -sS -d "$(rigs shed < request.json)" ...`,
		Args: args(0, 1, ""),
		RunE: func(_ *cobra.Command, words []string) error {
			if keep < 0 {
				return usagef("--keep %d: give 0 or more", keep)
			}
			in := a.in
			if len(words) == 1 && words[0] != "-" {
				f, err := os.Open(words[0])
				if err != nil {
					return rig.Errorf(rig.CodeNotFound, "cannot read the conversation: %w", err)
				}
				defer f.Close()
				in = f
			}
			b, err := io.ReadAll(io.LimitReader(in, maxConversation+1))
			if err != nil {
				return fmt.Errorf("cannot read the conversation: %w", err)
			}
			if len(b) > maxConversation {
				return rig.Errorf(rig.CodeTooLarge, "the conversation is over %d MB", maxConversation>>20)
			}
			out, _, err := stills.Shed(b, keep)
			if err != nil {
				return err
			}
			_, err = a.out.Write(out)
			return err
		},
	}
	cmd.Flags().IntVar(&keep, "keep", stills.DefaultKeep, "how many of the newest images stay")
	return cmd
}
