package auth

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"rigs/internal/rig"
	"rigs/internal/wire"
)

// Hosts are the names that the server answers to, beside those of loopback.
type Hosts []string

// check refuses a Host header that does not name this server: a name that an
// attacker owns can resolve to 127.0.0.1 and make this server that name's
// origin (DNS rebinding). The port may be any: it is not what is attacked.
func (h Hosts) check(host string) error {
	name := host
	if n, _, err := net.SplitHostPort(host); err == nil {
		name = n
	}
	name = strings.TrimSuffix(strings.ToLower(strings.Trim(name, "[]")), ".")
	if name == "localhost" || slices.Contains(h, name) {
		return nil
	}
	if ip := net.ParseIP(name); ip != nil && ip.IsLoopback() {
		return nil
	}
	return rig.Errorf(rig.CodeForbidden, "the server does not answer to the name %.100q: use 127.0.0.1 or localhost, or add the name to the setting allowedHosts", name)
}

// checkOrigin refuses what a page of another origin made the browser send:
// anything that changes something or opens a stream. Programs send no Origin.
func checkOrigin(r *http.Request) error {
	upgrade := wire.IsUpgrade(r) || isWebSocket(r)
	if (r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions) && !upgrade {
		return nil
	}
	foreign := false
	if o := r.Header.Get("Origin"); o != "" {
		u, err := url.Parse(o)
		foreign = err != nil || (u.Scheme != "http" && u.Scheme != "https") || !strings.EqualFold(u.Host, r.Host)
	} else if s := r.Header.Get("Sec-Fetch-Site"); s != "" {
		foreign = s != "same-origin" && s != "none"
	}
	if foreign {
		return rig.Errorf(rig.CodeForbidden, "the request comes from a page of another origin (%.100q): only the server's own page may ask for this", r.Header.Get("Origin"))
	}
	return nil
}

func isWebSocket(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}
