// Package upstream is the server's own way out: the HTTP proxy that its
// environment names, if it names one, and which connections go through it.
//
// Proxies often come with a password. It is in no error and no text that this
// package makes but Proxy.Authorization.
package upstream

import (
	"cmp"
	"encoding/base64"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpproxy"

	"rigs/internal/keeperapi"
	"rigs/internal/policy"
	"rigs/internal/rig"
)

// FromEnv reads HTTPS_PROXY, HTTP_PROXY and NO_PROXY, or else the same in lower
// case, with getenv. It returns nil when no proxy is named, and a *rig.Problem
// that names the variable when one cannot be used.
func FromEnv(getenv func(string) string) (*keeperapi.Proxy, error) {
	var p keeperapi.Proxy
	for _, v := range []struct {
		name string
		to   *string
	}{{"HTTPS_PROXY", &p.HTTPS}, {"HTTP_PROXY", &p.HTTP}, {"NO_PROXY", &p.NoProxy}} {
		*v.to = strings.TrimSpace(cmp.Or(getenv(v.name), getenv(strings.ToLower(v.name))))
	}
	if p.HTTPS == "" && p.HTTP == "" {
		return nil, nil //nolint:nilnil // no proxy is no error, and the commonest case
	}
	if _, err := New(&p); err != nil {
		return nil, err
	}
	return &p, nil
}

// Rules say which connections go through which proxy. A nil *Rules has none.
type Rules struct {
	https, http *Proxy
	pick        func(*url.URL) (*url.URL, error)
}

// New makes rules. p may be nil.
func New(p *keeperapi.Proxy) (*Rules, error) {
	if p == nil {
		return nil, nil //nolint:nilnil // no rules send everything directly
	}
	var r Rules
	for _, v := range []struct {
		name, value string
		to          **Proxy
	}{{"HTTPS_PROXY", p.HTTPS, &r.https}, {"HTTP_PROXY", p.HTTP, &r.http}} {
		if v.value == "" {
			continue
		}
		var why string
		if *v.to, why = parse(v.value); why != "" {
			// Not the value, and not url.Parse's error either, which repeats it.
			return nil, rig.Errorf(rig.CodeInvalidRequest, "the proxy in %s cannot be used: %s: write it like http://name:password@proxy.example:3128, or unset it", v.name, why)
		}
	}
	// Whether there is a proxy is decided there, which proxy it is here.
	rules := httpproxy.Config{NoProxy: p.NoProxy}
	if r.https != nil {
		rules.HTTPSProxy = "http://" + r.https.Address()
	}
	if r.http != nil {
		rules.HTTPProxy = "http://" + r.http.Address()
	}
	r.pick = rules.ProxyFunc()
	return &r, nil
}

// For returns the proxy for a connection to a canonical host, nil for a direct
// one. Port 80 is HTTP_PROXY's, every other port is HTTPS_PROXY's.
func (r *Rules) For(host string, port int) *Proxy {
	// These names mean the machine that resolves them (RFC 6761 §6.3), which must
	// not become the proxy.
	if r == nil || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return nil
	}
	scheme, p := "https", r.https
	if port == 80 {
		scheme, p = "http", r.http
	}
	if u, err := r.pick(&url.URL{Scheme: scheme, Host: net.JoinHostPort(host, strconv.Itoa(port))}); err != nil || u == nil {
		return nil // there is no error outside of CGI
	}
	return p
}

// TLS reports whether there is a proxy that is spoken to in TLS.
func (r *Rules) TLS() bool {
	return r != nil && (r.https != nil && r.https.tls || r.http != nil && r.http.tls)
}

// Proxy is one HTTP proxy.
type Proxy struct {
	host          string // name or address
	port          int
	tls           bool
	authorization string
}

// Address is where it listens, as HOST:PORT. The host may be a name.
func (p *Proxy) Address() string { return net.JoinHostPort(p.host, strconv.Itoa(p.port)) }

// Host is the name or the address that its certificate must be for.
func (p *Proxy) Host() string { return p.host }

// TLS reports whether it is spoken to in TLS (https://).
func (p *Proxy) TLS() bool { return p.tls }

// Authorization is the value of the Proxy-Authorization field that it expects,
// "" for none. It is a secret.
func (p *Proxy) Authorization() string { return p.authorization }

// String leaves the secret out.
func (p *Proxy) String() string { return p.Address() }

// parse reads a proxy's URL; why says what is wrong with it and never repeats it.
func parse(s string) (p *Proxy, why string) {
	if !strings.Contains(s, "://") {
		s = "http://" + s // proxy.example:3128, as everybody reads it
	}
	u, err := url.Parse(s)
	if err != nil {
		return nil, "it is not a URL (in a name or a password, write @ as %40, : as %3A, / as %2F and % as %25)"
	}
	p = &Proxy{tls: u.Scheme == "https", port: 80}
	switch u.Scheme {
	case "http":
	case "https":
		p.port = 443
	case "socks", "socks4", "socks4a", "socks5", "socks5h":
		return nil, "SOCKS proxies are not supported, only HTTP ones are"
	default:
		return nil, "only http:// and https:// proxies are supported"
	}
	if u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return nil, "there is something after its host and port"
	}
	if u.Port() != "" {
		n, err := strconv.ParseUint(u.Port(), 10, 16)
		if err != nil || n == 0 {
			return nil, "its port is not a number from 1 to 65535"
		}
		p.port = int(n)
	}
	if a, err := netip.ParseAddr(u.Hostname()); err == nil {
		p.host = a.String()
	} else if p.host, err = policy.Canonical(u.Hostname()); err != nil {
		return nil, "it has no usable host"
	}
	if u.User != nil {
		password, _ := u.User.Password()
		if strings.Contains(u.User.Username(), ":") {
			return nil, "its user name has a colon, which cannot be sent (RFC 7617)"
		}
		p.authorization = "Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password))
	}
	return p, ""
}
