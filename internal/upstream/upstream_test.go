package upstream

import (
	"fmt"
	"strings"
	"testing"

	"rigs/internal/keeperapi"
	"rigs/internal/rig"
)

func TestFromEnv(t *testing.T) {
	env := map[string]string{"https_proxy": "http://lower.test:1", "HTTPS_PROXY": "http://upper.test:1", "http_proxy": "plain.test:2", "no_proxy": "a.test"}
	get := func(k string) string { return env[k] }
	p, err := FromEnv(get)
	if err != nil || *p != (keeperapi.Proxy{HTTPS: "http://upper.test:1", HTTP: "plain.test:2", NoProxy: "a.test"}) {
		t.Errorf("%+v, %v", p, err)
	}
	env = map[string]string{"NO_PROXY": "a.test"}
	if p, err := FromEnv(get); p != nil || err != nil {
		t.Errorf("without a proxy: %+v, %v", p, err)
	}
	env = map[string]string{"http_proxy": "socks5://x.test"}
	if _, err := FromEnv(get); rig.CodeOf(err) != rig.CodeInvalidRequest || !strings.Contains(err.Error(), "HTTP_PROXY") || !strings.Contains(err.Error(), "SOCKS") {
		t.Errorf("SOCKS: %v", err)
	}
}

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		url, address  string
		tls           bool
		authorization string
	}{
		{"http://proxy.test:3128", "proxy.test:3128", false, ""},
		{"proxy.test:3128", "proxy.test:3128", false, ""},
		{"PROXY:3128/", "proxy:3128", false, ""},
		{"http://proxy.test", "proxy.test:80", false, ""},
		{"https://proxy.test", "proxy.test:443", true, ""},
		{"http://10.1.2.3:8080", "10.1.2.3:8080", false, ""},
		{"http://[fd00::1]:8080", "[fd00::1]:8080", false, ""},
		{"http://Aladdin:open%20sesame@proxy.test:1", "proxy.test:1", false, "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="},
		{"Aladdin:open%20sesame@proxy.test:1", "proxy.test:1", false, "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="},
		{"http://name@proxy.test:1", "proxy.test:1", false, "Basic bmFtZTo="},
	} {
		p, why := parse(tc.url)
		if why != "" || p.Address() != tc.address || p.TLS() != tc.tls || p.Authorization() != tc.authorization {
			t.Errorf("%s: %+v, %s", tc.url, p, why)
		}
		if p != nil && strings.Contains(fmt.Sprint(p), "QWxh") {
			t.Errorf("%s is printed as %s", tc.url, p)
		}
	}
}

// What is refused is not repeated: a password may be anywhere in it.
func TestParseRefuses(t *testing.T) {
	for _, value := range []string{
		"socks5://u:s3cret@proxy.test:1080", "socks5h://s3cret", "ftp://s3cret.test", "http://", "http://u:s3cret@", "http://u:s3cret@:3128",
		"http://proxy.test:0/s3cret", "http://u:s3cret@proxy.test:0", "http://u:s3cret@proxy.test:99999", "http://u:s3cret@proxy.test:port",
		"http://proxy.test/s3cret", "http://proxy.test?s3cret", "http://proxy.test#s3cret", "http://u:s3cret%@proxy.test", "http://u:s3cret@ex ample.test",
		"http://a%3As3cret:x@proxy.test", "http://u:s3\x00cret@proxy.test", "http://u:s3cret@0x7f.1:80", "u:s3cret#@proxy.test:1", "u:s3cret/x@proxy.test:1",
	} {
		for _, p := range []keeperapi.Proxy{{HTTP: value}, {HTTPS: value}} {
			_, err := New(&p)
			if rig.CodeOf(err) != rig.CodeInvalidRequest {
				t.Errorf("%q: %v", value, err)
			}
			if err != nil && strings.Contains(err.Error(), "cret") {
				t.Errorf("it is repeated: %v", err)
			}
		}
	}
}

func TestFor(t *testing.T) {
	rules, err := New(&keeperapi.Proxy{
		HTTPS: "http://secure.test:1", HTTP: "http://plain.test:2",
		NoProxy: "direct.test, .below.test,*.star.test,port.test:8443,10.0.0.0/8,bücher.example",
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		host string
		port int
		want string
	}{
		{"x.test", 443, "secure.test:1"},
		{"x.test", 80, "plain.test:2"},
		{"x.test", 22, "secure.test:1"},
		{"x.test", 8080, "secure.test:1"},
		{"direct.test", 443, ""},
		{"direct.test", 80, ""},
		{"sub.direct.test", 443, ""},
		{"indirect.test", 443, "secure.test:1"},
		{"below.test", 443, "secure.test:1"},
		{"a.below.test", 443, ""},
		{"star.test", 443, "secure.test:1"},
		{"a.star.test", 443, ""},
		{"port.test", 443, "secure.test:1"},
		{"port.test", 8443, ""},
		{"xn--bcher-kva.example", 443, ""},
		{"localhost", 443, ""},
		{"a.localhost", 80, ""},
	} {
		got := ""
		if p := rules.For(tc.host, tc.port); p != nil {
			got = p.Address()
		}
		if got != tc.want {
			t.Errorf("%s:%d goes to %q, want %q", tc.host, tc.port, got, tc.want)
		}
	}
	var none *Rules
	if none.For("x.test", 443) != nil {
		t.Error("without rules there is a proxy")
	}
	one, err := New(&keeperapi.Proxy{HTTP: "plain.test:2"})
	if err != nil || one.For("x.test", 443) != nil || one.For("x.test", 80) == nil {
		t.Errorf("with HTTP_PROXY alone: %v", err)
	}
	all, err := New(&keeperapi.Proxy{HTTP: "plain.test:2", HTTPS: "plain.test:2", NoProxy: "*"})
	if err != nil || all.For("x.test", 443) != nil || all.For("x.test", 80) != nil {
		t.Errorf("with NO_PROXY=*: %v", err)
	}
}
