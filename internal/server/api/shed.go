package api

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"rigs/internal/stills"
)

// maxConversation bounds a conversation with its images, in bytes. What the
// model providers take in one request is about as much.
const maxConversation = 32 << 20

type conversationIn struct {
	Keep    int    `query:"keep" default:"3" minimum:"0" maximum:"100000" doc:"How many of the newest images stay"`
	RawBody []byte `contentType:"application/json"`
}

type conversationOut struct {
	ContentType string `header:"Content-Type"`
	Shed        int    `header:"Rigs-Images-Shed" doc:"How many images were replaced"`
	Body        []byte
}

// shedRoutes register the one route that is about no rig and no principal's
// things: a pure function, for programs that are not written in Go.
func (a *API) shedRoutes() {
	op := route{method: "POST", path: "/v1/shed", id: "shedImages", summary: "A conversation with all images but the newest replaced by their descriptions", tag: "stills", maxBody: maxConversation}.operation()
	op.SkipValidateBody = true // the function is what says whether it is a conversation
	op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{}}},
		Description: "A list of messages, or an object with one in 'messages' or 'input', as Anthropic's and OpenAI's APIs take it"}
	op.Responses = map[string]*huma.Response{"200": {Description: "The conversation; what was no image is as it was, byte for byte", Content: map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{}}}}}
	huma.Register(a.huma, op, func(_ context.Context, in *conversationIn) (*conversationOut, error) {
		out, n, err := stills.Shed(in.RawBody, in.Keep)
		if err != nil {
			return nil, err
		}
		return &conversationOut{"application/json", n, out}, nil
	})
}
