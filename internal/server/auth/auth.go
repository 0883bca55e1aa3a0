// Package auth decides who a request comes from, and whether a browser was
// tricked into sending it.
//
// # Who
//
// The owner of the server, over its Unix socket, by the peer credential that
// the kernel vouches for. Anybody else by a bearer token. A browser by a cookie,
// which it gets from a one-time sign-in link. Tokens, cookies and links are 256
// random bits, stored as hashes, and looked up in constant time.
//
// # Tricks
//
// A page of another origin can make a browser send requests here. The Host
// header must name this server (a name that was rebound to 127.0.0.1 does
// not), and whatever changes something or opens a stream must come from this
// server's own origin, if it says where it comes from. Over the socket neither
// is possible.
package auth

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/time/rate"

	"rigs/internal/rig"
	"rigs/internal/server/store"
	"rigs/internal/serverapi"
	"rigs/internal/wire"
)

const (
	// SessionTTL is how long a browser stays signed in.
	SessionTTL = 30 * 24 * time.Hour
	// LinkTTL is how long a sign-in link works, once.
	LinkTTL = 10 * time.Minute
	// touchEvery is how exact a token's last use is.
	touchEvery = time.Minute
)

// prefixes tell what a secret is, so that one that leaked is recognized.
const (
	tokenPrefix   = "rigs_t_"
	sessionPrefix = "rigs_s_"
	linkPrefix    = "rigs_l_"
)

func newSecret(prefix string) string {
	var b [32]byte
	rand.Read(b[:]) // never fails since Go 1.24
	return prefix + base64.RawURLEncoding.EncodeToString(b[:])
}

// Auth knows tokens, sessions and links.
type Auth struct {
	store *store.Store
	log   *slog.Logger
	now   func() time.Time
	owner rig.Principal
	hosts Hosts

	refusals *rate.Limiter // of log lines
	live     live
}

// New returns an Auth whose server answers to the names in hosts.
func New(s *store.Store, hosts Hosts, log *slog.Logger, now func() time.Time) *Auth {
	name := "uid " + strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return &Auth{store: s, log: log, now: func() time.Time { return now().UTC() }, owner: rig.Principal{Name: name, Kind: rig.Person}, hosts: hosts,
		refusals: rate.NewLimiter(rate.Every(time.Second), 20)}
}

// start is the beginning of what a stranger said, for the log.
func start(s string) string { return s[:min(len(s), 200)] }

// Caller is who a request comes from, and how that is known.
type Caller struct {
	rig.Principal
	TokenID string     // of the token, or the one that the session descends from
	Owner   bool       // the server's owner: over the socket, or in a session that came from there
	session store.Hash // of the cookie
	until   time.Time  // when the token or the session ends; zero: never
	// Behalf is the person who acts as the agent that Principal is, if one does.
	Behalf *Caller
}

type callerKey struct{}

// From returns the caller of an authenticated request.
func From(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

type peerKey struct{}

// peer is what is known of a connection over the Unix socket.
type peer struct{ uid int }

// ConnContext notes who is at the other end of a connection over the socket.
// It is for http.Server.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return ctx
	}
	uid, err := wire.PeerUID(u)
	if err != nil {
		uid = -1 // nobody's: a token is needed
	}
	return context.WithValue(ctx, peerKey{}, peer{uid})
}

// overSocket reports whether the request came over the Unix socket.
func overSocket(ctx context.Context) (peer, bool) {
	p, ok := ctx.Value(peerKey{}).(peer)
	return p, ok
}

// Guard refuses requests of which a browser may have been tricked into sending.
// It stands before everything, the page included.
func (a *Auth) Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, ok := overSocket(r.Context()); !ok {
			if err := errors.Join(a.hosts.check(r.Host), checkOrigin(r)); err != nil {
				// Anybody on this host can cause it: neither how often nor how long is
				// up to them.
				if a.refusals.Allow() {
					a.log.Warn("refused", "host", start(r.Host), "origin", start(r.Header.Get("Origin")), "path", start(r.URL.Path), "error", err)
				}
				wire.WriteProblem(w, err)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// Require lets only authenticated requests through to next.
func (a *Auth) Require(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := a.identify(r)
		if err == nil {
			c, err = asAgent(c, r)
		}
		if err != nil {
			if rig.CodeOf(err) == rig.CodeUnauthenticated {
				w.Header().Set("WWW-Authenticate", `Bearer realm="rigs"`)
			}
			wire.WriteProblem(w, err)
			return
		}
		ctx, done := a.live.add(r.Context(), c, a.now())
		defer done()
		next.ServeHTTP(w, r.WithContext(context.WithValue(ctx, callerKey{}, c)))
	})
}

// asAgent is the caller, or the agent that the request says it acts as.
func asAgent(c Caller, r *http.Request) (Caller, error) {
	names, ok := r.Header[serverapi.AgentHeader]
	if !ok || c.Kind == rig.Agent && len(names) == 1 && names[0] == c.Name {
		return c, nil
	}
	if c.Kind == rig.Agent {
		return c, rig.Errorf(rig.CodeForbidden, "%s is an agent, and only people act as another one (%s)", c.Name, serverapi.AgentHeader)
	}
	if len(names) != 1 || GoodName(names[0]) != nil {
		return c, rig.FieldErrorf(serverapi.AgentHeader, "the header %s names no agent: it takes a name like a token's", serverapi.AgentHeader)
	}
	return Caller{Principal: rig.Principal{Name: names[0], Kind: rig.Agent}, TokenID: c.TokenID, until: c.until, Behalf: &c}, nil
}

// GoodName is an error that says why a principal cannot be named so.
func GoodName(n string) error {
	if strings.TrimSpace(n) != n || n == "" || len(n) > maxName || strings.ContainsFunc(n, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return rig.FieldErrorf("name", "name %.80q: it must have 1 to %d bytes, not begin or end with a space, and hold no control characters", n, maxName)
	}
	return nil
}

// maxName bounds a principal's name, in bytes.
const maxName = 63

// identify finds out who a request comes from. A token that was sent counts
// before anything else: who sends a wrong one is not let in by another way.
func (a *Auth) identify(r *http.Request) (Caller, error) {
	ctx := r.Context()
	if h := r.Header.Get("Authorization"); h != "" {
		scheme, secret, _ := strings.Cut(h, " ")
		if !strings.EqualFold(scheme, "Bearer") || !strings.HasPrefix(secret, tokenPrefix) {
			return Caller{}, unauthenticated("the Authorization header is not 'Bearer' and a token")
		}
		g, err := a.store.Token(ctx, store.HashOf(secret))
		if err := a.check(g, err, "the token"); err != nil {
			return Caller{}, err
		}
		if now := a.now(); now.Sub(g.LastUsedAt) >= touchEvery {
			if err := a.store.TouchToken(ctx, g.TokenID, now); err != nil {
				a.log.Warn("a token's use was not noted", "token", g.TokenID, "error", err)
			}
		}
		return Caller{Principal: g.Principal, TokenID: g.TokenID, until: g.ExpiresAt}, nil
	}
	if p, ok := overSocket(ctx); ok && p.uid == os.Getuid() {
		return Caller{Principal: a.owner, Owner: true}, nil
	}
	if c, err := r.Cookie(serverapi.SessionCookie); err == nil {
		h := store.HashOf(c.Value)
		g, err := a.store.Session(ctx, h)
		if err := a.check(g, err, "the session"); err != nil {
			return Caller{}, err
		}
		return Caller{Principal: g.Principal, TokenID: g.TokenID, Owner: g.TokenID == "" && g.Principal.Kind == rig.Person, session: h, until: g.ExpiresAt}, nil
	}
	return Caller{}, unauthenticated("no token and no session")
}

func (a *Auth) check(g store.Grant, err error, what string) error {
	if errors.Is(err, store.ErrNotFound) || err == nil && g.Expired(a.now()) {
		return unauthenticated(what + " is unknown, revoked or expired")
	}
	return err
}

func unauthenticated(why string) error {
	return rig.Errorf(rig.CodeUnauthenticated, "not signed in: %s: send a token ('rigs token create NAME'), or sign the browser in with the link that 'rigs signin' prints", why)
}

// NewToken makes a token. Only people may: an agent could otherwise make itself
// a person.
func (a *Auth) NewToken(ctx context.Context, n serverapi.NewToken) (serverapi.CreatedToken, error) {
	if err := people(ctx, "make tokens"); err != nil {
		return serverapi.CreatedToken{}, err
	}
	if err := GoodName(n.Name); err != nil {
		return serverapi.CreatedToken{}, err
	}
	if n.Kind != rig.Person && n.Kind != rig.Agent {
		return serverapi.CreatedToken{}, rig.FieldErrorf("kind", "token kind %q: it must be person or agent", n.Kind)
	}
	now := a.now()
	g := store.Grant{Principal: rig.Principal{Name: n.Name, Kind: n.Kind}, TokenID: rig.NewID(), CreatedAt: now}
	if n.TTLSeconds > 0 {
		g.ExpiresAt = now.Add(time.Duration(n.TTLSeconds) * time.Second)
	}
	secret := newSecret(tokenPrefix)
	if err := a.store.AddToken(ctx, store.HashOf(secret), g); err != nil {
		return serverapi.CreatedToken{}, err
	}
	return serverapi.CreatedToken{Token: token(g), Secret: secret}, nil
}

func token(g store.Grant) serverapi.Token {
	return serverapi.Token{ID: g.TokenID, Name: g.Principal.Name, Kind: g.Principal.Kind, CreatedAt: g.CreatedAt, LastUsedAt: g.LastUsedAt, ExpiresAt: g.ExpiresAt}
}

// Tokens lists the tokens that are good.
func (a *Auth) Tokens(ctx context.Context) (serverapi.Tokens, error) {
	out := serverapi.Tokens{Tokens: []serverapi.Token{}}
	if err := people(ctx, "see tokens"); err != nil {
		return out, err
	}
	gs, err := a.store.Tokens(ctx, a.now())
	for _, g := range gs {
		out.Tokens = append(out.Tokens, token(g))
	}
	return out, err
}

// Revoke makes a token, and the sessions that came from it, worthless, and ends the
// requests and streams that they have open.
func (a *Auth) Revoke(ctx context.Context, id string) error {
	if err := people(ctx, "revoke tokens"); err != nil {
		return err
	}
	err := a.store.RevokeToken(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return rig.Errorf(rig.CodeNotFound, "no token %q: see 'rigs token ls'", id)
	}
	if err == nil {
		a.live.end(id)
	}
	return err
}

func people(ctx context.Context, what string) error {
	if c := From(ctx); c.Kind != rig.Person {
		return rig.Errorf(rig.CodeForbidden, "%s is an agent, and only people may %s", c.Name, what)
	}
	return nil
}

// NewLink makes the code of a sign-in link for the caller.
func (a *Auth) NewLink(ctx context.Context) (code string, expires time.Time, err error) {
	c := From(ctx)
	if c.Behalf != nil {
		return "", expires, rig.Errorf(rig.CodeForbidden, "%s is an agent that a person's tool acts as: the person signs in without the header %s", c.Name, serverapi.AgentHeader)
	}
	expires = a.now().Add(LinkTTL)
	code = newSecret(linkPrefix)
	return code, expires, a.store.AddLink(ctx, store.HashOf(code), store.Grant{Principal: c.Principal, TokenID: c.TokenID, ExpiresAt: expires})
}

// SignIn exchanges the code of a link for a session's cookie. A code works once.
func (a *Auth) SignIn(ctx context.Context, code string, secure bool) (*http.Cookie, error) {
	g, err := a.store.TakeLink(ctx, store.HashOf(code))
	if errors.Is(err, store.ErrNotFound) || err == nil && g.Expired(a.now()) {
		return nil, rig.Errorf(rig.CodeUnauthenticated, "this sign-in link was used already or has expired: 'rigs signin' prints a new one")
	}
	if err != nil {
		return nil, err
	}
	now := a.now()
	secret := newSecret(sessionPrefix)
	g.CreatedAt, g.ExpiresAt = now, now.Add(SessionTTL)
	if g.TokenID != "" { // no longer than the token that it descends from
		all, err := a.store.Tokens(ctx, now)
		if err != nil {
			return nil, err
		}
		for _, t := range all {
			if t.TokenID == g.TokenID && !t.ExpiresAt.IsZero() && t.ExpiresAt.Before(g.ExpiresAt) {
				g.ExpiresAt = t.ExpiresAt
			}
		}
	}
	if err := a.store.AddSession(ctx, store.HashOf(secret), g); err != nil {
		return nil, err
	}
	c := cookie(secret, secure)
	c.Expires = g.ExpiresAt
	return c, nil
}

// SignOut ends the caller's session, if it is one, and returns the cookie that
// makes the browser forget it.
func (a *Auth) SignOut(ctx context.Context, secure bool) (*http.Cookie, error) {
	c := cookie("", secure)
	c.MaxAge = -1
	return c, a.store.DeleteSession(ctx, From(ctx).session)
}

func cookie(value string, secure bool) *http.Cookie {
	return &http.Cookie{Name: serverapi.SessionCookie, Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: secure}
}
