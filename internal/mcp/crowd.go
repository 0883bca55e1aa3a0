package mcp

import (
	"context"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"rigs/internal/rig"
)

// maxSessions is how many sessions one caller has over HTTP at a time.
const maxSessions = 64

// crowd knows the sessions of each caller, so that nobody has more than
// maxSessions: for a new one, the one that was unused for longest is ended.
type crowd struct {
	mu    sync.Mutex
	clock uint64 // counts uses
	of    map[string][]*member
}

// member is one session.
type member struct {
	session *mcp.ServerSession
	used    uint64 // when, by the crowd's clock
	calls   int    // under way
}

// middleware counts a caller's session in, and notes its uses.
func (c *crowd) middleware(caller string) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if ss, ok := req.GetSession().(*mcp.ServerSession); ok {
				old, err := c.enter(caller, ss, method == "initialize")
				if err != nil {
					return nil, err
				}
				if old != nil { // it ends by itself, once its last answers are out
					go func() { _ = old.Close() }()
				}
				defer c.leave(caller, ss)
			}
			return next(ctx, method, req)
		}
	}
}

// enter begins a use of a session. Old is one that has to end for it.
func (c *crowd) enter(caller string, ss *mcp.ServerSession, begins bool) (old *mcp.ServerSession, _ error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.find(caller, ss)
	if m == nil {
		if !begins {
			return nil, nil
		}
		if len(c.of[caller]) >= maxSessions {
			idle := c.idle(caller)
			if idle == nil {
				return nil, rig.Errorf(rig.CodeCapacity, "%d sessions of yours are at work: end one of them", maxSessions)
			}
			old = idle.session
			c.remove(caller, old)
		}
		m = &member{session: ss}
		c.of[caller] = append(c.of[caller], m)
		go func() {
			_ = ss.Wait() // how it ended makes no difference
			c.mu.Lock()
			defer c.mu.Unlock()
			c.remove(caller, ss)
		}()
	}
	c.clock++
	m.used = c.clock
	m.calls++
	return old, nil
}

func (c *crowd) leave(caller string, ss *mcp.ServerSession) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.find(caller, ss); m != nil {
		m.calls--
	}
}

func (c *crowd) find(caller string, ss *mcp.ServerSession) *member {
	if i := slices.IndexFunc(c.of[caller], func(m *member) bool { return m.session == ss }); i >= 0 {
		return c.of[caller][i]
	}
	return nil
}

// idle is the session without a call that was unused for longest; nil: none.
func (c *crowd) idle(caller string) *member {
	var oldest *member
	for _, m := range c.of[caller] {
		if m.calls == 0 && (oldest == nil || m.used < oldest.used) {
			oldest = m
		}
	}
	return oldest
}

func (c *crowd) remove(caller string, ss *mcp.ServerSession) {
	c.of[caller] = slices.DeleteFunc(c.of[caller], func(m *member) bool { return m.session == ss })
	if len(c.of[caller]) == 0 {
		delete(c.of, caller)
	}
}
