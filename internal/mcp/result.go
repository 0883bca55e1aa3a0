package mcp

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"rigs/client"
	"rigs/internal/fence"
	"rigs/internal/rig"
)

const (
	// maxGuest is how much of one thing that a guest said is in a result, in
	// bytes. Clients cut results of about twice this, and not at a place that an
	// agent would choose.
	maxGuest = 32 << 10
	// maxMessage bounds an error's message, in bytes.
	maxMessage = 2000
)

// call is one call of a tool: who makes it, and what its result will say.
type call struct {
	session *session
	// api makes the call's requests, as the agent.
	api *client.Client
	req *mcp.CallToolRequest

	mu       sync.Mutex
	notices  []string
	progress float64

	text       []mcp.Content
	structured any
	// missing is what helps when something is not found; empty: it is the rig.
	missing string
}

// say adds a text of ours to the result.
func (c *call) say(format string, args ...any) {
	c.text = append(c.text, &mcp.TextContent{Text: fmt.Sprintf(format, args...)})
}

// guest adds what a guest said. When it is too long, its beginning and its end
// are shown, and rest says how to get the rest.
func (c *call) guest(source string, said []byte, rest string) {
	if len(said) == 0 {
		return
	}
	if len(said) > maxGuest {
		head, tail := said[:maxGuest*3/4], said[len(said)-maxGuest/4:]
		left := len(said) - len(head) - len(tail)
		c.text = append(c.text, &mcp.TextContent{Text: fence.Wrap(source+", beginning", head)})
		c.say("… %d bytes are left out here. %s", left, rest)
		c.text = append(c.text, &mcp.TextContent{Text: fence.Wrap(source+", end", tail)})
		return
	}
	c.text = append(c.text, &mcp.TextContent{Text: fence.Wrap(source, said)})
}

// step tells a client that asked for it how far a call is.
func (c *call) step(ctx context.Context, format string, args ...any) {
	token := c.req.Params.GetProgressToken()
	if token == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.progress++
	// A client that is gone is found out by its answer.
	_ = c.req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: c.progress, Message: fence.Source(fmt.Sprintf(format, args...))})
}

// beat tells every so often that the call is still running, so that no client
// takes it for dead, until the returned function is called.
func (c *call) beat(ctx context.Context, every time.Duration) (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		began, t := time.Now(), time.NewTicker(every)
		defer t.Stop()
		for {
			select {
			case <-done:
				return
			case <-ctx.Done():
				return
			case <-t.C:
				c.step(ctx, "still running after %d s", int(time.Since(began).Seconds()))
			}
		}
	})
	return func() { close(done); wg.Wait() }
}

// notice takes what the server says the agent must be told.
func (c *call) notice(n string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notices = append(c.notices, fence.Source(n))
}

// result is the call's answer.
func (c *call) result(err error) *mcp.CallToolResult {
	r := &mcp.CallToolResult{Content: c.text, StructuredContent: c.structured}
	if err != nil {
		f := failed(err)
		if f.Code == rig.CodeNotFound && c.missing != "" {
			f.Help = c.missing
		}
		if f.Code == rig.CodeForbidden && c.missing != "" { // a file's permissions in the rig
			f.Help = ""
		}
		r.IsError = true
		r.StructuredContent = map[string]*failure{"error": f}
		r.Content = append([]mcp.Content{&mcp.TextContent{Text: f.text()}}, r.Content...)
		if f.more != "" {
			r.Content = append(r.Content, &mcp.TextContent{Text: fence.Wrap("details of the error", f.more)})
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.notices) > 0 {
		r.Content = append([]mcp.Content{&mcp.TextContent{Text: "NOTICE: " + strings.Join(c.notices, "\nNOTICE: ")}}, r.Content...)
	}
	if len(r.Content) == 0 {
		r.Content = []mcp.Content{&mcp.TextContent{Text: "Done."}}
	}
	return r
}

// failure is a tool's error as a client gets it.
type failure struct {
	Code     rig.Code       `json:"code"`
	Message  string         `json:"message"`
	Help     string         `json:"help,omitempty"`
	Field    string         `json:"field,omitempty"`
	Holder   *rig.Principal `json:"holder,omitempty"`
	Approval string         `json:"approval,omitempty"`
	more     string         // further lines, which may be a guest's
}

func (f *failure) text() string {
	s := "Error " + string(f.Code)
	if f.Field != "" {
		s += " (field " + f.Field + ")"
	}
	s += ": " + f.Message
	if f.Help != "" {
		s += "\n" + f.Help
	}
	return s
}

// failed is an error as a tool's failure. Its first line is one of ours, with
// names in it that a guest may have chosen; what follows may be a guest's.
func failed(err error) *failure {
	p := rig.AsProblem(err)
	first, more, _ := strings.Cut(p.Detail, "\n")
	if len(first) > maxMessage {
		first = strings.ToValidUTF8(first[:maxMessage], "") + "…"
	}
	if len(more) > maxGuest {
		more = more[:maxGuest]
	}
	f := &failure{Code: p.Code, Message: inTools(strings.ReplaceAll(fence.Clean(first), "\n", " ")), Help: help[p.Code], Field: argument(p.Field), Holder: p.Holder, Approval: p.Approval, more: more}
	if p.Holder != nil {
		f.Help = fmt.Sprintf("%s (%s) holds control. %s", fence.Source(p.Holder.Name), p.Holder.Kind, f.Help)
	}
	return f
}

// argument is what the tools call a field of the API: ttl_seconds is ttlSeconds
// there.
func argument(field string) string {
	var b strings.Builder
	lower := false // the letter before
	for _, r := range field {
		if unicode.IsUpper(r) && lower {
			b.WriteByte('_')
		}
		lower = unicode.IsLower(r)
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// inTools says in an error's message what an agent can do with its tools where
// the API tells programs and people what they can.
func inTools(message string) string {
	for _, t := range told {
		message = t.what.ReplaceAllString(message, t.by)
	}
	return apiFields.ReplaceAllStringFunc(message, argument)
}

// told are the ways in which the API's messages name its own routes and the
// commands, and what they are in tools.
var told = []struct {
	what *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`POST \S+/egress/ask( \('rigs egress RIG ask HOST'\))?`), "rig_egress (action ask)"},
	{regexp.MustCompile(`wait for it with 'rigs watch [^']*' or GET \S+`), "rig_open waits for it"},
	{regexp.MustCompile(`with 'rigs open [^']*'`), "with rig_open"},
	{regexp.MustCompile(`see (its state with )?'rigs ls'`), "see rig_list"},
	{regexp.MustCompile(`open it in the page, or with 'rigs shell'`), "a person opens it in the page"},
	{regexp.MustCompile(`give a name from 'rigs image ls', optionally with @sha256:…`), "leave it out for the surface's own: a person knows the others' names"},
	{regexp.MustCompile(`: see '(rigs [^']*)'$`), ": a person can see '$1'"},
}

// apiFields are the API's names of what the tools take, where a message has them.
var apiFields = regexp.MustCompile(`\b(ttlSeconds|timeoutSeconds|memoryMB|noDefaults)\b`)

// help says what an agent can do about an error, beside what the message says.
var help = map[rig.Code]string{
	rig.CodeControlHeld:     "You can still read and look; do not try to change anything until a result tells you that control was handed back.",
	rig.CodeDenied:          "Do not try another way around it: tell the person what you wanted and why.",
	rig.CodeForbidden:       "Do not try another way around it: the person who set this up must give you the right.",
	rig.CodeNotFound:        "rig_list shows the rigs that there are; rig_open opens one.",
	rig.CodeAmbiguous:       "Name the rig by its whole id: rig_list shows them.",
	rig.CodeGone:            "The machine and its disk are gone. rig_open opens a fresh one.",
	rig.CodeNotReady:        "rig_open with the same space and surface waits until the rig is ready.",
	rig.CodeBackendFailure:  "This machine is broken, and what was on its disk is lost. Close it with rig_close and open another with rig_open.",
	rig.CodeCapacity:        "Close rigs that are not needed with rig_close, or ask for less memory.",
	rig.CodeUnauthenticated: "The person who set this up must give it a valid token (RIGS_TOKEN, or the Authorization header).",
	rig.CodeTimeout:         "Give it more time, or run it in the background and look at it later.",
	rig.CodeUnavailable:     "The person who runs the server must help: 'rigs doctor' says what is missing.",
}
