package client

import "rigs/internal/stills"

// Shed takes a conversation as JSON, a list of messages as Anthropic's and
// OpenAI's APIs take it or an object with one in "messages" or "input", and
// returns it with all images but the newest keep replaced by a text block with
// their id and description. Every other byte stays as it is. It asks no server.
func Shed(conversation []byte, keep int) ([]byte, error) {
	out, _, err := stills.Shed(conversation, keep)
	return out, err
}
