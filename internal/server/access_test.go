package server_test

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"rigs/client"
	"rigs/internal/guestapi"
	"rigs/internal/rig"
	"rigs/internal/serverapi"
	"rigs/internal/wire"
)

func bearer(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

func problem(t *testing.T, res *http.Response, status int, want rig.Code) *rig.Problem {
	t.Helper()
	var p rig.Problem
	if err := wire.ReadJSON(res.Body, 1<<16, &p); err != nil {
		t.Errorf("%s %s: not a problem: %v", res.Request.Method, res.Request.URL, err)
		return &p
	}
	if res.StatusCode != status || p.Status != status || p.Code != want || res.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%s %s: %d %s %+v, want %d %s", res.Request.Method, res.Request.URL, res.StatusCode, res.Header.Get("Content-Type"), p, status, want)
	}
	return &p
}

// routes are all that the server describes, and what it does not.
func routes(t *testing.T, s *running) [][2]string {
	t.Helper()
	var b strings.Builder
	if err := s.OpenAPI(ctxOf(t), &b); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		OpenAPI string
		Paths   map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal([]byte(b.String()), &doc); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.1") {
		t.Error(doc.OpenAPI)
	}
	out := [][2]string{{"get", "/metrics"}, {"get", "/openapi.json"}, {"get", "/v1/nothing"}}
	for p, ops := range doc.Paths {
		for m := range ops {
			out = append(out, [2]string{m, strings.NewReplacer("{", "", "}", "").Replace(p)})
		}
	}
	if len(out) < 35 {
		t.Errorf("only %d routes", len(out))
	}
	return out
}

func TestNothingIsAnsweredWithoutACaller(t *testing.T) {
	s := start(t, home(t), nil)
	made, err := s.CreateToken(ctxOf(t), client.NewToken{Name: "gone", Kind: rig.Person})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.RevokeToken(ctxOf(t), made.ID); err != nil {
		t.Fatal(err)
	}
	short, err := s.CreateToken(ctxOf(t), client.NewToken{Name: "short", Kind: rig.Person, TTLSeconds: 60})
	if err != nil {
		t.Fatal(err)
	}
	if res := s.request("GET", "/v1/server", bearer(short.Secret), ""); res.StatusCode != http.StatusOK {
		t.Error(res.Status)
	}
	s.clock.advance(61 * time.Second)
	for _, rt := range routes(t, s) {
		for name, change := range map[string]func(*http.Request){
			"nothing": nil, "an unknown token": bearer("rigs_t_" + strings.Repeat("A", 43)), "a revoked token": bearer(made.Secret), "an expired token": bearer(short.Secret),
			"an empty token": bearer(""), "another scheme": func(r *http.Request) { r.SetBasicAuth("root", made.Secret) },
			"an unknown cookie": func(r *http.Request) { r.AddCookie(&http.Cookie{Name: serverapi.SessionCookie, Value: "x"}) },
			"an upgrade":        func(r *http.Request) { r.Header.Set("Connection", "Upgrade"); r.Header.Set("Upgrade", wire.Protocol) },
		} {
			res := s.request(strings.ToUpper(rt[0]), rt[1], change, "")
			if p := problem(t, res, http.StatusUnauthorized, rig.CodeUnauthenticated); p.Detail == "" || res.Header.Get("WWW-Authenticate") == "" {
				t.Errorf("%v with %s", rt, name)
			}
		}
	}
	for _, public := range []string{"/healthz", "/", "/spaces/x"} {
		if res := s.request("GET", public, nil, ""); res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden {
			t.Errorf("%s: %s", public, res.Status)
		}
	}
}

func TestTheSocketAdmitsItsOwnerOnly(t *testing.T) {
	s := start(t, home(t), nil)
	info, err := s.Server(ctxOf(t))
	if err != nil || info.Principal.Kind != rig.Person || info.Version != "test" || info.DataDir == "" {
		t.Errorf("%+v %v", info, err)
	}
	sock := layout(t, s.home).ServerSocket()
	if fi, err := os.Stat(sock); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", fi, err)
	}
	if os.Getuid() != 0 {
		t.Skip("trying it as another user needs root")
	}
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("no curl")
	}
	as := func() string {
		cmd := exec.Command(curl, "-sS", "--unix-socket", sock, "http://localhost/v1/server")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		b, _ := cmd.CombinedOutput()
		return string(b)
	}
	if out := as(); !strings.Contains(out, "curl:") {
		t.Errorf("another user: %s", out)
	}
	if err := os.Chmod(sock, 0o666); err != nil { // the peer's uid counts, not only the mode
		t.Fatal(err)
	}
	if out := as(); !strings.Contains(out, "unauthenticated") {
		t.Errorf("another user: %s", out)
	}
}

func TestTokensAreShownOnceAndStoredAsHashes(t *testing.T) {
	s := start(t, home(t), nil)
	ctx := ctxOf(t)
	tok, err := s.CreateToken(ctx, client.NewToken{Name: "ci", Kind: rig.Agent})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(s.url, tok.Secret)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := c.Server(ctx); err != nil || info.Principal != (rig.Principal{Name: "ci", Kind: rig.Agent}) {
		t.Errorf("%+v %v", info, err)
	}
	l, err := s.Tokens(ctx)
	if err != nil || len(l) != 1 || l[0].LastUsedAt.IsZero() || l[0].ID != tok.ID {
		t.Errorf("%+v %v", l, err)
	}
	files, err := filepath.Glob(layout(t, s.home).Database() + "*")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), tok.Secret) || strings.Contains(string(b), tok.Secret[7:]) {
			t.Errorf("the secret is in %s", f)
		}
		if fi, err := os.Stat(f); err != nil || fi.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v", f, fi.Mode())
		}
	}
	// An agent cannot make itself a person.
	_, err = c.CreateToken(ctx, client.NewToken{Name: "me", Kind: rig.Person})
	code(t, err, rig.CodeForbidden)
	_, err = c.Tokens(ctx)
	code(t, err, rig.CodeForbidden)
	code(t, c.RevokeToken(ctx, tok.ID), rig.CodeForbidden)
	code(t, s.RevokeToken(ctx, "nope"), rig.CodeNotFound)
	_, err = s.CreateToken(ctx, client.NewToken{Name: " ", Kind: rig.Person})
	code(t, err, rig.CodeInvalidRequest)
}

func TestASigninLinkWorksOnceAndMakesASession(t *testing.T) {
	s := start(t, home(t), nil)
	ctx := ctxOf(t)
	tok, err := s.CreateToken(ctx, client.NewToken{Name: "ann", Kind: rig.Person})
	if err != nil {
		t.Fatal(err)
	}
	ann, err := client.New(s.url, tok.Secret)
	if err != nil {
		t.Fatal(err)
	}
	link, err := ann.SigninLink(ctx)
	if err != nil || !strings.HasPrefix(link.URL, s.url+"/signin?code=") {
		t.Fatalf("%+v %v", link, err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := browser.Get(link.URL)
	if err != nil || res.StatusCode != http.StatusSeeOther || res.Header.Get("Location") != "/" {
		t.Fatalf("%+v %v", res, err)
	}
	if set := res.Header.Get("Set-Cookie"); !strings.Contains(set, "HttpOnly") || !strings.Contains(set, "SameSite=Strict") || !strings.HasPrefix(set, serverapi.SessionCookie+"=") {
		t.Error(set)
	}
	who := func() *http.Response {
		res, err := browser.Get(s.url + "/v1/server")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { res.Body.Close() })
		return res
	}
	var info client.Server
	if err := json.NewDecoder(who().Body).Decode(&info); err != nil || info.Principal.Name != "ann" {
		t.Errorf("%+v %v", info, err)
	}
	if res := s.request("GET", strings.TrimPrefix(link.URL, s.url), nil, ""); res.StatusCode != http.StatusUnauthorized || res.Header.Get("Set-Cookie") != "" {
		t.Errorf("twice: %s", res.Status)
	}
	late, err := ann.SigninLink(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s.clock.advance(time.Hour)
	if res := s.request("GET", strings.TrimPrefix(late.URL, s.url), nil, ""); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("late: %s", res.Status)
	}
	// Revoking the token ends the session that came from it.
	if err := s.RevokeToken(ctx, tok.ID); err != nil {
		t.Fatal(err)
	}
	problem(t, who(), 401, rig.CodeUnauthenticated)

	// Signing out, from the owner's own session.
	link, err = s.SigninLink(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := browser.Get(link.URL); err != nil {
		t.Fatal(err)
	}
	if res := who(); res.StatusCode != http.StatusOK {
		t.Error(res.Status)
	}
	u, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	kept := jar.Cookies(u)
	if res, err := browser.Post(s.url+"/v1/signout", "", nil); err != nil || res.StatusCode != http.StatusNoContent {
		t.Fatalf("%+v %v", res, err)
	}
	if res := s.request("GET", "/v1/server", func(r *http.Request) { r.AddCookie(kept[0]) }, ""); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("a stolen copy works on: %s", res.Status)
	}
}

func TestForeignNamesAndOriginsAreRefused(t *testing.T) {
	s := start(t, home(t), map[string]string{"allowedHosts": "rigs.test"})
	tok, err := s.CreateToken(ctxOf(t), client.NewToken{Name: "t", Kind: rig.Person})
	if err != nil {
		t.Fatal(err)
	}
	own := s.url
	host := strings.TrimPrefix(own, "http://")
	_, port, _ := net.SplitHostPort(host)
	for _, x := range []struct {
		name, method, path, host string
		header                   map[string]string
		refused                  bool
	}{
		{"own address", "GET", "/v1/server", "", nil, false},
		{"localhost", "GET", "/v1/server", "localhost:" + port, nil, false},
		{"IPv6 loopback", "GET", "/v1/server", "[::1]:" + port, nil, false},
		{"an allowed name", "GET", "/v1/server", "RIGS.test", nil, false},
		{"a rebound name", "GET", "/v1/server", "evil.test:" + port, nil, true},
		{"a rebound name, for the page", "GET", "/", "evil.test", nil, true},
		{"a rebound name, for health", "GET", "/healthz", "evil.test", nil, true},
		{"a look-alike", "GET", "/v1/server", "localhost.evil.test", nil, true},
		{"another address", "GET", "/v1/server", "10.0.0.1", nil, true},
		{"an own POST", "POST", "/v1/signin-links", "", map[string]string{"Origin": own}, false},
		{"a POST of a program", "POST", "/v1/signin-links", "", nil, false},
		{"a foreign POST", "POST", "/v1/signin-links", "", map[string]string{"Origin": "http://evil.test"}, true},
		{"a POST from another port", "POST", "/v1/signin-links", "", map[string]string{"Origin": "http://127.0.0.1:1"}, true},
		{"a POST from nowhere", "POST", "/v1/signin-links", "", map[string]string{"Origin": "null"}, true},
		{"a POST from another site, without Origin", "POST", "/v1/signin-links", "", map[string]string{"Sec-Fetch-Site": "cross-site"}, true},
		{"a DELETE from a sibling", "DELETE", "/v1/tokens/x", "", map[string]string{"Sec-Fetch-Site": "same-site"}, true},
		{"a foreign stream", "GET", "/v1/rigs/abc/exec", "", map[string]string{"Origin": "http://evil.test", "Connection": "Upgrade", "Upgrade": wire.Protocol}, true},
		{"a foreign WebSocket", "GET", "/v1/rigs/abc/exec", "", map[string]string{"Origin": "http://evil.test", "Connection": "Upgrade", "Upgrade": "WebSocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}, true},
		{"a foreign GET", "GET", "/v1/server", "", map[string]string{"Origin": "http://evil.test"}, false}, // the browser does not let it read the answer
	} {
		res := s.request(x.method, x.path, func(r *http.Request) {
			bearer(tok.Secret)(r)
			r.Host = x.host
			for k, v := range x.header {
				r.Header.Set(k, v)
			}
		}, "")
		if x.refused {
			problem(t, res, http.StatusForbidden, rig.CodeForbidden)
		} else if res.StatusCode == http.StatusForbidden {
			t.Errorf("%s: %s", x.name, res.Status)
		}
		if h := res.Header; h.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(h.Get("Content-Security-Policy"), "frame-ancestors 'none'") || h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %v", x.name, h)
		}
	}
}

func TestMistakesAreProblemsWithACodeAndAField(t *testing.T) {
	s := start(t, home(t), nil)
	tok, err := s.CreateToken(ctxOf(t), client.NewToken{Name: "t", Kind: rig.Person})
	if err != nil {
		t.Fatal(err)
	}
	auth := bearer(tok.Secret)
	for _, x := range []struct {
		method, path, body string
		status             int
		code               rig.Code
		field              string
	}{
		{"POST", "/v1/rigs", `{`, 400, rig.CodeInvalidRequest, ""},
		{"POST", "/v1/rigs", `{}`, 400, rig.CodeInvalidRequest, "surface"},
		{"POST", "/v1/rigs", `{"surface":"toaster"}`, 400, rig.CodeInvalidRequest, "surface"},
		{"POST", "/v1/rigs", `{"surface":"terminal","memroyMB":5}`, 400, rig.CodeInvalidRequest, "memroyMB"},
		{"POST", "/v1/rigs", `{"surface":"terminal","memoryMB":5}`, 400, rig.CodeInvalidRequest, "memoryMB"},
		{"POST", "/v1/rigs", `{"surface":"terminal","ttlSeconds":1}`, 400, rig.CodeInvalidRequest, "ttlSeconds"},
		{"POST", "/v1/rigs", `{"surface":"terminal","space":"../x"}`, 400, rig.CodeInvalidRequest, "space"},
		{"POST", "/v1/rigs", `{"surface":"terminal","image":"/etc/passwd"}`, 400, rig.CodeInvalidRequest, "image"},
		{"POST", "/v1/rigs", `{"surface":"terminal","image":"--privileged"}`, 400, rig.CodeInvalidRequest, "image"},
		{"POST", "/v1/rigs", `{"surface":"terminal","engine":"webkit"}`, 400, rig.CodeInvalidRequest, "engine"},
		{"POST", "/v1/rigs", `{"surface":"terminal","allow":["-x"]}`, 400, rig.CodeInvalidRequest, "allow"},
		{"POST", "/v1/rigs", `{"surface":"terminal","workspace":"nope"}`, 404, rig.CodeNotFound, ""},
		{"POST", "/v1/rigs", `{"surface":"terminal","image":"` + strings.Repeat("a", 300<<10) + `"}`, 413, rig.CodeTooLarge, ""},
		{"GET", "/v1/rigs/zzzzzzzzzz", "", 404, rig.CodeNotFound, ""},
		{"GET", "/v1/rigs/zz", "", 400, rig.CodeInvalidRequest, "rig"},
		{"GET", "/v1/rigs/a%2Fterminal", "", 404, rig.CodeNotFound, ""},
		{"GET", "/v1/rigs/a%2Ftoaster", "", 400, rig.CodeInvalidRequest, "rig"},
		{"GET", "/v1/rigs/abc?wait=forever", "", 400, rig.CodeInvalidRequest, "wait"},
		{"GET", "/v1/rigs?colour=blue", "", 400, rig.CodeInvalidRequest, "colour"},
		{"GET", "/v1/rigs/zzzzzzzzzz/exec", "", 400, rig.CodeInvalidRequest, ""},
		{"GET", "/v1/rigs/zzzzzzzzzz/files", "", 400, rig.CodeInvalidRequest, "path"},
		{"PUT", "/v1/rigs/zzzzzzzzzz/files?path=x", "tar", 400, rig.CodeInvalidRequest, "Content-Type"},
		{"GET", "/v1/events?rig=zzzzzzzzzz", "", 404, rig.CodeNotFound, ""},
		{"POST", "/v1/workspaces", `{"name":"A"}`, 400, rig.CodeInvalidRequest, "name"},
		{"POST", "/v1/tokens", `{"name":"x","kind":"robot"}`, 400, rig.CodeInvalidRequest, "kind"},
		{"GET", "/v1/nothing", "", 404, rig.CodeNotFound, ""},
		{"PATCH", "/v1/rigs", "", 404, rig.CodeNotFound, ""},
		{"POST", "/", "", 405, rig.CodeInvalidRequest, ""},
	} {
		res := s.request(x.method, x.path, func(r *http.Request) {
			auth(r)
			if x.body != "" && x.method == "POST" {
				r.Header.Set("Content-Type", "application/json")
			}
		}, x.body)
		if p := problem(t, res, x.status, x.code); p.Field != x.field || p.Detail == "" {
			t.Errorf("%s %s %.60s: field %q, want %q: %s", x.method, x.path, x.body, p.Field, x.field, p.Detail)
		}
	}
}

func TestAWebSocketCarriesTheFramesAsOneByteStream(t *testing.T) {
	s := start(t, home(t), nil)
	r := s.ready(rig.Spec{Space: good})
	tok, err := s.CreateToken(ctxOf(t), client.NewToken{Name: "t", Kind: rig.Person})
	if err != nil {
		t.Fatal(err)
	}
	ctx := ctxOf(t)
	c, _, err := websocket.Dial(ctx, s.url+"/v1/rigs/good%2Fterminal/terminal", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + tok.Secret}, "Origin": {s.url}}})
	if err != nil {
		t.Fatal(err)
	}
	conn := websocket.NetConn(ctx, c, websocket.MessageBinary)
	w, fr := wire.NewWriter(oneByOne{conn}), wire.NewReader(conn)
	if err := w.WriteJSON(wire.KindStart, guestapi.TerminalRequest{Session: "main"}); err != nil {
		t.Fatal(err)
	}
	if err := w.WriteData(wire.KindStdin, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	for {
		f, err := fr.Next()
		if err != nil {
			t.Fatal(err)
		}
		if f.Kind == wire.KindStdout {
			if string(f.Payload) != "hello" {
				t.Errorf("%q", f.Payload)
			}
			break
		}
	}
	c.CloseNow() // as a browser whose tab is gone
	s.until(r.ID, "unused", func(r rig.Rig) bool { return len(r.InUse) == 0 })
}

// oneByOne makes each byte a message of its own.
type oneByOne struct{ w io.Writer }

func (o oneByOne) Write(p []byte) (int, error) {
	for i := range p {
		if _, err := o.w.Write(p[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(p), nil
}

func TestThePageIsServedOrItsAbsenceSaidSo(t *testing.T) {
	s := start(t, home(t), nil)
	res := s.request("GET", "/spaces/anything", nil, "")
	b, err := io.ReadAll(res.Body)
	if err != nil || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/html") || res.StatusCode != http.StatusOK && !strings.Contains(string(b), "has not been built") {
		t.Errorf("%s %v %s", res.Status, err, b)
	}
	if csp := res.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "frame-ancestors 'none'") || !strings.Contains(csp, "default-src 'self'") {
		t.Error(csp)
	}
	for _, p := range []string{"/assets/missing.js", "/assets/", "/.gitkeep", "/../web/dist/.gitkeep"} {
		res := s.request("GET", p, nil, "")
		b, _ := io.ReadAll(res.Body)
		if strings.HasPrefix(p, "/assets/m") && res.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s %s", p, res.Status, b)
		}
	}
}

func TestASlowSubscriberIsDroppedAndNobodyWaits(t *testing.T) {
	s := start(t, home(t), nil)
	conn, err := net.Dial("unix", layout(t, s.home).ServerSocket())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	r := s.ready(rig.Spec{Space: good})
	for range 600 { // two events each, none of them read
		if _, err := s.Run(ctxOf(t), r.ID, client.ExecCollect{ExecRequest: client.ExecRequest{Shell: "x"}}); err != nil {
			t.Fatal(err)
		}
	}
}
