package auth

import (
	"context"
	"errors"
	"sync"
	"time"
)

// errEnded is why the context of a request ends before the request does.
var errEnded = errors.New("the token or session was revoked or has expired")

// live are the requests that are under way: a stream is looked at once, when it
// begins, and can stay open for days.
type live struct {
	mu      sync.Mutex
	of      map[string]map[*Caller]context.CancelCauseFunc // by token
	revoked map[string]bool
}

// add returns the context of a request, which ends with what the caller came by.
func (l *live) add(ctx context.Context, c Caller, now time.Time) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := func() { cancel(nil) }
	if !c.until.IsZero() {
		t := time.AfterFunc(c.until.Sub(now), func() { cancel(errEnded) })
		done = func() { t.Stop(); cancel(nil) }
	}
	if c.TokenID == "" {
		return ctx, done
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.revoked[c.TokenID] { // while it was being looked up
		cancel(errEnded)
		return ctx, done
	}
	if l.of == nil {
		l.of = map[string]map[*Caller]context.CancelCauseFunc{}
	}
	if l.of[c.TokenID] == nil {
		l.of[c.TokenID] = map[*Caller]context.CancelCauseFunc{}
	}
	l.of[c.TokenID][&c] = cancel
	return ctx, func() {
		done()
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.of[c.TokenID], &c)
		if len(l.of[c.TokenID]) == 0 {
			delete(l.of, c.TokenID)
		}
	}
}

// end ends the requests of a token, now and from now on.
func (l *live) end(token string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.revoked == nil {
		l.revoked = map[string]bool{}
	}
	l.revoked[token] = true
	for _, cancel := range l.of[token] {
		cancel(errEnded)
	}
}
