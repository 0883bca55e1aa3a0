package mcp

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"rigs/client"
	"rigs/internal/rig"
	"rigs/internal/serverapi"
	"rigs/internal/wire"
)

const (
	// sessionHeader is the protocol's.
	sessionHeader = "Mcp-Session-Id"
	// sessionTimeout ends a session of which nothing was heard. No call takes
	// longer than a command's hour.
	sessionTimeout = 90 * time.Minute
	// maxBody bounds a message, in bytes. The largest is a file that is written.
	maxBody = 4 << 20
)

// credentials are the headers that say who a caller is.
var credentials = []string{"Authorization", "Cookie", serverapi.AgentHeader}

// Handler serves MCP over streamable HTTP. Api is the HTTP API behind
// authentication; caller says who makes a request that has been let in, so that a
// session serves nobody but who began it: its id carries a mark of who that was.
func Handler(api http.Handler, caller func(*http.Request) string, version string, log *slog.Logger) http.Handler {
	key := make([]byte, 32)
	rand.Read(key) // never fails since Go 1.24
	all := &crowd{of: map[string][]*member{}}
	h := mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {
		who := caller(r)
		c := client.Over(&within{api, r, credentials}, "the server itself")
		s := New(c, Options{Version: version, Log: log, sessionID: func() string { return bound(key, rand.Text(), who) }})
		s.AddReceivingMiddleware(all.middleware(who))
		return s
	}, &mcp.StreamableHTTPOptions{Logger: log, SessionTimeout: sessionTimeout, MaxRequestBodyBytes: maxBody,
		DisableLocalhostProtection: true, // the server's guard has looked at Host and Origin, and knows more names
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if id := r.Header.Get(sessionHeader); id != "" {
			name, _, _ := strings.Cut(id, ".")
			if !hmac.Equal([]byte(id), []byte(bound(key, name, caller(r)))) {
				wire.WriteProblem(w, rig.Errorf(rig.CodeNotFound, "there is no such session of yours: begin a new one"))
				return
			}
		}
		h.ServeHTTP(w, r)
	})
}

// bound is a session id that only its caller can use.
func bound(key []byte, name, caller string) string {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(name + "\x00" + caller))
	return name + "." + hex.EncodeToString(m.Sum(nil)[:16])
}
