package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"rigs/client"
	"rigs/internal/keeperapi"
	"rigs/internal/rig"
)

// The tools about rigs, described as verbs are: their arguments are parsed
// totally, and their schemas come from the same tags.
var (
	openVerb = &rig.Verb{
		Name: "rig_open", Example: `{"surface": "terminal", "space": "fix-login", "allow": ["example.com"]}`, New: func() rig.Args { return new(openArgs) },
		Summary: "Open a rig (a disposable virtual machine) and wait until it is ready, or get the one that the space has. Returns its id, how many hosts it may reach and when it ends.",
	}
	listVerb = &rig.Verb{
		Name: "rig_list", Example: `{"space": "fix-login"}`, New: func() rig.Args { return new(listArgs) },
		Summary: "List rigs: id, name, phase, who holds control, when each ends, how many hosts each may reach.",
	}
	closeVerb = &rig.Verb{
		Name: "rig_close", Example: `{"rig": "fix-login/terminal"}`, New: func() rig.Args { return new(closeArgs) },
		Summary: "Close a rig. Its machine and everything on its disk are gone for good.",
	}
	egressVerb = &rig.Verb{
		Name: "rig_egress", Example: `{"rig": "fix-login/terminal", "action": "ask", "pattern": "example.com", "reason": "The build downloads a compiler from there"}`, New: func() rig.Args { return new(egressArgs) },
		Summary: "What a rig may reach on the network. ls: the admitted hosts. log: what was let through and what was refused, and why. ask: ask a person to admit a host, and wait for the answer.",
	}
)

type openArgs struct {
	Surface    string   `json:"surface,omitempty" enum:"terminal,browser,desktop,phone,mac" doc:"What is driven; default: terminal"`
	Space      string   `json:"space,omitempty" maxLength:"63" doc:"Conversation or task that the rig belongs to; made when it does not exist. Default: default"`
	Engine     string   `json:"engine,omitempty" enum:"chromium,firefox,webkit" doc:"Of a browser"`
	Image      string   `json:"image,omitempty" maxLength:"256" doc:"Image other than the surface's own"`
	Allow      []string `json:"allow,omitempty" maxItems:"256" doc:"Hosts that it may reach beside the default ones, such as example.com or *.example.com:8443"`
	NoDefaults bool     `json:"no_defaults,omitempty" doc:"Without the default hosts"`
	MemoryMB   int      `json:"memory_mb,omitempty" minimum:"128" maximum:"65536" doc:"Memory in MB; default: the surface's"`
	VCPUs      int      `json:"vcpus,omitempty" minimum:"1" maximum:"64" doc:"Virtual processors; default: the surface's"`
	TTLSeconds int      `json:"ttl_seconds,omitempty" minimum:"10" maximum:"604800" doc:"It is closed this long after it was opened; default: the surface's"`
	New        bool     `json:"new,omitempty" doc:"Open another one even if the space has one of this surface"`
}

// Check leaves what the server checks to the server.
func (a *openArgs) Check() error {
	if a.Surface == "" {
		a.Surface = string(rig.Terminal)
	}
	if _, err := rig.ParseSurface(a.Surface); err != nil {
		return rig.FieldErrorf("surface", "%w", err)
	}
	return nil
}

type listArgs struct {
	Space string `json:"space,omitempty" maxLength:"63" doc:"Only this space's"`
	All   bool   `json:"all,omitempty" doc:"Closed ones too, newest first"`
}

func (*listArgs) Check() error { return nil }

type closeArgs struct {
	Rig string `json:"rig" maxLength:"160" doc:"The rig: its id, a unique prefix of it, or SPACE/SURFACE[:ENGINE]"`
}

func (a *closeArgs) Check() error { return named(a.Rig) }

func named(ref string) error {
	if ref == "" {
		return rig.FieldErrorf("rig", "no rig is named: give its id, or SPACE/SURFACE such as default/terminal: rig_list shows them")
	}
	return nil
}

type egressArgs struct {
	Rig            string `json:"rig" maxLength:"160" doc:"The rig: its id, a unique prefix of it, or SPACE/SURFACE[:ENGINE]"`
	Action         string `json:"action,omitempty" enum:"ls,log,ask" doc:"Default: ls"`
	Pattern        string `json:"pattern,omitempty" maxLength:"512" doc:"Needed for ask: the host, such as example.com, *.example.com or example.com:8443"`
	Reason         string `json:"reason,omitempty" maxLength:"1000" doc:"Needed for ask: what the host is for, told to the person who answers"`
	TTLSeconds     int    `json:"ttl_seconds,omitempty" minimum:"0" maximum:"604800" doc:"ask: for how long; default: as long as the rig lives"`
	TimeoutSeconds int    `json:"timeout_seconds,omitempty" minimum:"0" maximum:"3600" doc:"ask: no answer after this long counts as no; default: 300"`
	After          int64  `json:"after,omitempty" minimum:"0" doc:"log: only events with a higher number"`
	Limit          int    `json:"limit,omitempty" minimum:"1" maximum:"500" doc:"log: at most so many, the newest; default: 50"`
}

func (a *egressArgs) Check() error {
	if a.Action == "" {
		a.Action = "ls"
	}
	if a.Limit == 0 {
		a.Limit = 50
	}
	switch {
	case a.Action != "ls" && a.Action != "log" && a.Action != "ask":
		return rig.FieldErrorf("action", "action %.40q: it must be ls, log or ask", a.Action)
	case a.Action == "ask" && a.Pattern == "":
		return rig.FieldErrorf("pattern", "no host to ask for: give a pattern such as example.com")
	case a.Action == "ask" && strings.TrimSpace(a.Reason) == "":
		return rig.FieldErrorf("reason", "no reason: say what the host is needed for, to the person who answers")
	case a.Limit < 0 || a.Limit > 500:
		return rig.FieldErrorf("limit", "limit is %d: it must be from 1 to 500", a.Limit)
	}
	return named(a.Rig)
}

// argsOf parses a tool's arguments.
func argsOf[T any](v *rig.Verb, raw json.RawMessage) (*T, error) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) == nil { // what is no object, Parse refuses
		if err := inRange(v, fields); err != nil {
			return nil, err
		}
	}
	a, err := v.Parse(raw)
	if err != nil {
		return nil, err
	}
	args, ok := a.Args.(any).(*T)
	if !ok {
		return nil, fmt.Errorf("%s: arguments of type %T", v.Name, a.Args)
	}
	return args, nil
}

func rigTools() []tool {
	return []tool{
		{&mcp.Tool{
			Name: openVerb.Name, Description: openVerb.Summary, InputSchema: schemaOf(openVerb),
			Annotations: &mcp.ToolAnnotations{Title: "Open a rig", DestructiveHint: yes(false), OpenWorldHint: yes(false)},
		}, open},
		{&mcp.Tool{
			Name: listVerb.Name, Description: listVerb.Summary, InputSchema: schemaOf(listVerb),
			Annotations: &mcp.ToolAnnotations{Title: "List rigs", ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: yes(false)},
		}, list},
		{&mcp.Tool{
			Name: closeVerb.Name, Description: closeVerb.Summary, InputSchema: schemaOf(closeVerb),
			Annotations: &mcp.ToolAnnotations{Title: "Close a rig", DestructiveHint: yes(true), IdempotentHint: true, OpenWorldHint: yes(false)},
		}, closeRig},
		{&mcp.Tool{
			Name: egressVerb.Name, Description: egressVerb.Summary, InputSchema: schemaOf(egressVerb),
			Annotations: &mcp.ToolAnnotations{Title: "Network access of a rig", DestructiveHint: yes(false), OpenWorldHint: yes(true)},
		}, egress},
	}
}

func open(ctx context.Context, c *call, raw json.RawMessage) error {
	a, err := argsOf[openArgs](openVerb, raw)
	if err != nil {
		return err
	}
	r, created, err := c.api.Open(ctx, client.Spec{Space: a.Space, Surface: rig.Surface(a.Surface), Engine: rig.Engine(a.Engine), Image: a.Image, Allow: a.Allow,
		NoDefaults: a.NoDefaults, MemoryMB: a.MemoryMB, VCPUs: a.VCPUs, TTLSeconds: a.TTLSeconds, New: a.New})
	if err != nil {
		return err
	}
	c.session.uses(&r)
	id := r.ID
	r, err = c.api.WaitReady(ctx, id, func(s client.Step) { c.step(ctx, "%s", stepText(s)) })
	if err != nil {
		c.say("The rig has the id %s.", id)
		return err
	}
	if created {
		c.say("Opened a new rig.\n%s", describe(&r))
	} else {
		c.say("The space has this rig already.%s\n%s", notApplied(a), describe(&r))
	}
	c.say(whatItReaches)
	c.structured = map[string]any{"created": created, "rig": facts(&r)}
	return nil
}

// notApplied says what was asked for that a rig which is there already did not get.
func notApplied(a *openArgs) string {
	var names []string
	for _, x := range []struct {
		name  string
		asked bool
	}{
		{"image", a.Image != ""}, {"allow", len(a.Allow) > 0}, {"no_defaults", a.NoDefaults}, {"memory_mb", a.MemoryMB != 0}, {"vcpus", a.VCPUs != 0}, {"ttl_seconds", a.TTLSeconds != 0},
	} {
		if x.asked {
			names = append(names, x.name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return " Not applied to it: " + strings.Join(names, ", ") + "; new opens another one."
}

func stepText(s client.Step) string {
	if s.Total <= 0 {
		return s.Text
	}
	return fmt.Sprintf("%s (%d of %d %s)", s.Text, s.Done, s.Total, s.Unit)
}

// describe is a rig in words of ours.
func describe(r *client.Rig) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s  %s", r.ID, r.Ref(), r.Phase)
	if r.Workspace != "default" {
		fmt.Fprintf(&b, "  workspace %s", r.Workspace)
	}
	if r.Control != nil {
		fmt.Fprintf(&b, "  controlled by %s (%s)", r.Control.Holder.Name, r.Control.Holder.Kind)
	}
	if r.Phase.Live() {
		fmt.Fprintf(&b, "  ends %s", r.ExpiresAt.UTC().Format(time.RFC3339))
	}
	if r.CloseReason != "" {
		fmt.Fprintf(&b, "  (%s)", r.CloseReason)
	}
	if r.Phase.Live() {
		if len(r.Egress) == 0 {
			b.WriteString("  may reach nothing")
		} else {
			fmt.Fprintf(&b, "  may reach what %s admit", count(len(r.Egress), "pattern", "patterns"))
		}
	}
	return b.String()
}

// whatItReaches says how to learn what describe only counts: the lists are long,
// and much the same for every rig.
const whatItReaches = "rig_egress with action ls lists what a rig may reach."

// count is a number of things.
func count(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + more
}

// facts is what is known of a rig without its guest.
func facts(r *client.Rig) map[string]any {
	f := map[string]any{"id": r.ID, "ref": r.Ref(), "workspace": r.Workspace, "space": r.Space, "surface": r.Surface, "phase": r.Phase, "openedAt": r.OpenedAt, "expiresAt": r.ExpiresAt, "egressPatterns": len(r.Egress)}
	if r.Control != nil {
		f["control"] = r.Control
	}
	if r.CloseReason != "" {
		f["closeReason"] = r.CloseReason
	}
	return f
}

func list(ctx context.Context, c *call, raw json.RawMessage) error {
	a, err := argsOf[listArgs](listVerb, raw)
	if err != nil {
		return err
	}
	rigs, err := c.api.Rigs(ctx, client.ListOptions{Space: a.Space, All: a.All})
	if err != nil {
		return err
	}
	const most = 100
	left := len(rigs) - most
	if left > 0 {
		rigs = rigs[:most]
	}
	out, lines := make([]map[string]any, len(rigs)), make([]string, len(rigs))
	for i := range rigs {
		out[i], lines[i] = facts(&rigs[i]), describe(&rigs[i])
	}
	if len(rigs) == 0 {
		lines = []string{"No rigs. Open one with rig_open."}
	} else {
		lines = append(lines, whatItReaches)
	}
	if left > 0 {
		lines = append(lines, fmt.Sprintf("… and %d more: name a space.", left))
	}
	c.say("%s", strings.Join(lines, "\n"))
	c.structured = map[string]any{"rigs": out}
	return nil
}

func closeRig(ctx context.Context, c *call, raw json.RawMessage) error {
	a, err := argsOf[closeArgs](closeVerb, raw)
	if err != nil {
		return err
	}
	r, err := c.api.Close(ctx, a.Rig)
	if err != nil {
		return err
	}
	c.say("Closed.\n%s", describe(&r))
	c.structured = map[string]any{"rig": facts(&r)}
	return nil
}

func egress(ctx context.Context, c *call, raw json.RawMessage) error {
	a, err := argsOf[egressArgs](egressVerb, raw)
	if err != nil {
		return err
	}
	switch a.Action {
	case "log":
		return egressLog(ctx, c, a)
	case "ask":
		return egressAsk(ctx, c, a)
	}
	rules, err := c.api.Egress(ctx, a.Rig)
	if err != nil {
		return err
	}
	c.rules(rules)
	return nil
}

// rules says what is admitted. Patterns are people's and agents', in canonical
// spelling.
func (c *call) rules(rules keeperapi.EgressRules) {
	ends := map[string]string{}
	for _, e := range rules.Entries {
		if !e.ExpiresAt.IsZero() {
			ends[e.Pattern] = " until " + e.ExpiresAt.UTC().Format(time.RFC3339)
		}
	}
	lines := []string{"Nothing is admitted."}
	if len(rules.Patterns) > 0 {
		lines = []string{"Admitted:"}
	}
	for _, p := range rules.Patterns {
		lines = append(lines, "  "+p+ends[p])
	}
	c.say("%s", strings.Join(lines, "\n"))
	c.structured = map[string]any{"egress": rules}
}

// maxPages bounds how many pieces of an egress log are read for a result.
const maxPages = 64

// egressLog shows the newest events. The names in it are what the guest asked
// for.
func egressLog(ctx context.Context, c *call, a *egressArgs) error {
	var events []rig.EgressEvent
	after, total := a.After, 0
	for range maxPages { // a guest can write to it faster than it is read
		l, err := c.api.EgressLog(ctx, a.Rig, after)
		if err != nil {
			return err
		}
		if len(l.Events) == 0 || l.Events[len(l.Events)-1].Seq <= after {
			break
		}
		total += len(l.Events)
		events = append(events, l.Events...)
		events = events[max(0, len(events)-a.Limit):]
		after = events[len(events)-1].Seq
	}
	if total == 0 {
		c.say("Nothing has happened after number %d.", a.After)
		return nil
	}
	var b strings.Builder
	for _, e := range events {
		where := e.Host
		if where == "" {
			where = e.Address
		}
		if e.Port != 0 {
			where += ":" + strconv.Itoa(e.Port)
		}
		fmt.Fprintf(&b, "%d %s %s %s %s %s", e.Seq, e.Time.UTC().Format(time.RFC3339), e.Verdict, e.Protocol, where, e.Reason)
		if e.Count > 1 {
			fmt.Fprintf(&b, " (%d times)", e.Count)
		}
		b.WriteByte('\n')
	}
	if left := total - len(events); left > 0 {
		c.say("The newest %d of %d events up to number %d; a higher limit shows more.", len(events), total, after)
	}
	c.say("number, time, verdict, protocol, where to, reason:")
	c.guest("egress log", []byte(b.String()), "Ask for fewer with limit or after.")
	return nil
}

// egressAsk asks, and waits for the answer.
func egressAsk(ctx context.Context, c *call, a *egressArgs) error {
	q, err := c.api.AskEgress(ctx, a.Rig, client.EgressAsk{Pattern: a.Pattern, Reason: a.Reason, TTLSeconds: a.TTLSeconds, TimeoutSeconds: a.TimeoutSeconds})
	if err != nil {
		return err
	}
	already := q.State == rig.Approved // at once: nobody was asked
	if q.State == rig.Pending {
		c.step(ctx, "waiting for a person to answer (approval %s, until %s)", q.ID, q.ExpiresAt.UTC().Format(time.RFC3339))
		c.missing = "The server forgot the question: look with rig_egress, action ls, and ask again if the host is not there."
		if q, err = c.api.WaitApproval(ctx, q.ID); err != nil {
			return err
		}
	}
	note := ""
	if q.Note != "" {
		note = ": " + q.Note
	}
	if q.State != rig.Approved {
		why := map[rig.ApprovalState]string{rig.Denied: q.AnsweredBy + " said no" + note, rig.Expired: "nobody answered in time", rig.Canceled: "the question was withdrawn"}[q.State]
		// Somebody may have admitted it in another way while the question was open.
		if rules, err := c.api.Egress(ctx, a.Rig); err == nil && slices.Contains(rules.Patterns, q.Pattern) {
			c.say("%s is already admitted: rig_egress with action ls has it. Your question itself: %s.", q.Pattern, why)
			c.structured = admitted(&q)
			return nil
		}
		p := rig.Errorf(rig.CodeDenied, "%s is not admitted: %s", q.Pattern, why)
		p.Approval = q.ID
		return p
	}
	if already {
		c.say("%s is already admitted: nobody had to be asked.", q.Pattern)
	} else {
		c.say("%s is admitted; %s said yes%s", q.Pattern, q.AnsweredBy, note)
	}
	c.structured = admitted(&q)
	return nil
}

func admitted(q *client.Approval) map[string]any {
	return map[string]any{"approval": map[string]any{"id": q.ID, "state": q.State, "pattern": q.Pattern, "ttlSeconds": q.TTLSeconds}, "admitted": true}
}
