package placement

import (
	"log/slog"
	"strings"
	"testing"

	"rigs/internal/paths"
	"rigs/internal/rig"
)

// A server does not start with a proxy that it could not use: its rigs would
// reach nothing, or go around the proxy.
func TestMalformedProxyIsRefusedAtStart(t *testing.T) {
	const secret = "hunter2"
	for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"} {
		for _, value := range []string{
			"socks5://user:" + secret + "@proxy.example:1080",
			"ftp://user:" + secret + "@proxy.example",
			"http://user:" + secret + "@proxy.example:0",
			"http://user:" + secret + "@proxy.example:99999",
			"http://user:" + secret + "@",
			"http://user:" + secret + "@proxy.example/path",
			"http://user:" + secret + "/@proxy.example",
			"http://us%3Aer:" + secret + "@proxy.example",
			"user:" + secret + "@proxy.example:x",
			"http://user:%zz" + secret + "@proxy.example",
			"http://user:" + secret + "@proxy.example\r\nHost: evil.test",
		} {
			for _, other := range []string{"HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy", "NO_PROXY", "no_proxy"} {
				t.Setenv(other, "")
			}
			t.Setenv(name, value)
			l, err := NewLocal(paths.Layout{}, "owner", []string{"keeper"}, slog.New(slog.DiscardHandler))
			if err == nil || l != nil {
				t.Errorf("%s=%q is taken", name, value)
				continue
			}
			if rig.CodeOf(err) != rig.CodeInvalidRequest || !strings.Contains(err.Error(), strings.ToUpper(name)) {
				t.Errorf("%s=%q: %v", name, value, err)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%s=%q: the password is in the error: %v", name, value, err)
			}
		}
	}
}
