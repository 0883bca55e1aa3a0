package mcp

import (
	"context"
	"encoding/json"
	"fmt"
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
	// watchPause is how long a broken stream of events is left alone.
	watchPause = time.Second
	// watchTries is how often in a row it may break without an event before it is
	// given up until the next call.
	watchTries = 5
	// openWait bounds how long a call waits for the stream to be there.
	openWait = 5 * time.Second
	// maxAgent bounds an agent's name, in bytes; the server has the same bound.
	maxAgent = 63
)

// hub knows the sessions of one server.
type hub struct {
	client  *client.Client
	options Options

	mu       sync.Mutex
	sessions map[*mcp.ServerSession]*session
}

// session is one client's session: who acts in it, and what it has to be told.
type session struct {
	hub   *hub
	mcp   *mcp.ServerSession
	ctx   context.Context //nolint:containedctx // the session's own life, which no call's context is
	setUp sync.Mutex

	agent  *client.Client // set up by the first call
	person *client.Client // nil when the caller is an agent
	name   string         // the agent's

	mu       sync.Mutex
	watching bool
	calls    int                           // under way
	control  map[string]string             // who holds the rigs that this session used, by id
	asked    map[string]context.CancelFunc // questions that were put to the user
}

// session returns the state of a session, which ends with it.
func (h *hub) session(ss *mcp.ServerSession) *session {
	h.mu.Lock()
	defer h.mu.Unlock()
	s, ok := h.sessions[ss]
	if ok {
		return s
	}
	ctx, cancel := context.WithCancel(context.Background())
	s = &session{hub: h, mcp: ss, ctx: ctx, control: map[string]string{}, asked: map[string]context.CancelFunc{}}
	h.sessions[ss] = s
	go func() {
		_ = ss.Wait() // how it ended makes no difference
		cancel()
		h.mu.Lock()
		delete(h.sessions, ss)
		h.mu.Unlock()
	}()
	return s
}

// call runs a tool.
func (h *hub) call(ctx context.Context, req *mcp.CallToolRequest, run func(context.Context, *call, json.RawMessage) error) *mcp.CallToolResult {
	s := h.session(req.Session)
	c := &call{session: s, req: req}
	s.count(1)
	defer s.count(-1)
	err := s.begin(ctx)
	if err == nil {
		c.api = s.agent.OnNotice(c.notice)
		stop := c.beat(ctx, h.options.beat)
		args := req.Params.Arguments
		if len(args) == 0 {
			args = json.RawMessage("{}")
		}
		err = run(ctx, c, args)
		stop()
	}
	return c.result(err)
}

func (s *session) count(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls += n
}

// begin finds out once who the caller is, and sees to it that the events are
// watched.
func (s *session) begin(ctx context.Context) error {
	s.setUp.Lock()
	defer s.setUp.Unlock()
	if s.agent == nil {
		who, err := s.hub.client.Server(ctx)
		if err != nil {
			return err
		}
		s.agent, s.name = s.hub.client, who.Principal.Name
		if who.Principal.Kind == rig.Person {
			s.name = s.hub.options.Agent
			if s.name == "" {
				s.name = agentName(s.mcp.InitializeParams())
			}
			s.agent, s.person = s.hub.client.As(s.name), s.hub.client
		}
	}
	s.watch(ctx)
	return nil
}

// agentName is a name for the agent from what its client calls itself.
func agentName(p *mcp.InitializeParams) string {
	name := ""
	if p != nil && p.ClientInfo != nil {
		name = p.ClientInfo.Name
	}
	name = strings.TrimSpace(strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII || !unicode.IsPrint(r) {
			return '-'
		}
		return r
	}, name))
	if name == "" {
		name = "mcp"
	}
	return strings.TrimSpace(name[:min(len(name), maxAgent)])
}

// asks reports whether questions can be put to the client's user, and answered
// in that person's name.
func (s *session) asks() bool {
	p := s.mcp.InitializeParams()
	return s.person != nil && p != nil && p.Capabilities != nil && p.Capabilities.Elicitation != nil
}

// watch follows the server's events for as long as the session lives, and
// returns when it does.
func (s *session) watch(ctx context.Context) {
	s.mu.Lock()
	if s.watching {
		s.mu.Unlock()
		return
	}
	s.watching = true
	s.mu.Unlock()
	open := make(chan struct{})
	opened := sync.OnceFunc(func() { close(open) })
	go func() { //nolint:contextcheck // it lives as long as the session, not as the call that begins it
		defer opened()
		defer func() {
			s.mu.Lock()
			s.watching = false
			s.mu.Unlock()
		}()
		// A person who watches counts as somebody who is there to be asked: only
		// one who can be asked watches as a person.
		c := s.agent
		if s.asks() {
			c = s.person
		}
		for tries := 0; tries < watchTries; tries++ {
			err := c.Events(s.ctx, client.EventOptions{Opened: func() {
				opened()
				if s.asks() {
					go s.pending()
				}
			}}, func(e client.Event) bool {
				tries = 0
				s.event(e)
				return true
			})
			if err == nil || s.ctx.Err() != nil {
				return
			}
			opened()
			select {
			case <-s.ctx.Done():
				return
			case <-time.After(watchPause):
			}
		}
	}()
	t := time.NewTimer(openWait)
	defer t.Stop()
	select {
	case <-open:
	case <-t.C:
	case <-ctx.Done():
	}
}

// uses notes that the session uses a rig: it is told who takes control of it.
func (s *session) uses(r *client.Rig) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.control[r.ID]; !ok {
		s.control[r.ID] = s.holder(r)
	}
}

// holder is who else controls a rig.
func (s *session) holder(r *client.Rig) string {
	if r.Control == nil || r.Control.Holder == (rig.Principal{Name: s.name, Kind: rig.Agent}) {
		return ""
	}
	return r.Control.Holder.Name
}

func (s *session) event(e client.Event) {
	switch {
	case e.Rig != nil:
		s.mu.Lock()
		before, used := s.control[e.Rig.ID]
		now := s.holder(e.Rig)
		if used {
			s.control[e.Rig.ID] = now
			if !e.Rig.Phase.Live() {
				delete(s.control, e.Rig.ID)
			}
		}
		s.mu.Unlock()
		if used && before != now {
			s.tell(e.Rig, now)
		}
	case e.Approval != nil && e.Approval.State == rig.Pending:
		s.ask(e.Approval)
	case e.Approval != nil:
		s.mu.Lock()
		if cancel := s.asked[e.Approval.ID]; cancel != nil {
			cancel()
			delete(s.asked, e.Approval.ID) // it will not be pending again
		}
		s.mu.Unlock()
	}
}

// tell notifies a client that listens of a change of control, between its calls.
func (s *session) tell(r *client.Rig, holder string) {
	what, state := fmt.Sprintf("%s took control of %s: your changes are refused until it is handed back", fence.Source(holder), r.Ref()), "taken"
	if holder == "" {
		what, state = fmt.Sprintf("control of %s was handed back: you may act again", r.Ref()), "given"
	}
	// A client that is gone does not need to know.
	//nolint:staticcheck // deprecated for the stateless protocol, which is not spoken here: sessions have no other way to be told
	_ = s.mcp.Log(s.ctx, &mcp.LoggingMessageParams{Level: "notice", Logger: "rigs", Data: map[string]string{"rig": r.ID, "control": state, "holder": fence.Source(holder), "message": what}})
}
