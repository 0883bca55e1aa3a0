package gate

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"testing"
)

// serverNames returns a server_name extension (RFC 6066 §3) with names, each as its
// kind and its text.
func serverNames(names ...string) []byte {
	var list []byte
	for _, n := range names {
		list = append(append(list, n[0]), byte(len(n[1:])>>8), byte(len(n[1:])))
		list = append(list, n[1:]...)
	}
	body := append(binary.BigEndian.AppendUint16(nil, uint16(len(list))), list...)
	return append([]byte{0, 0, byte(len(body) >> 8), byte(len(body))}, body...)
}

// withExtensions replaces a ClientHello's server_name extension with others, in front.
func withExtensions(t testing.TB, hello []byte, extensions ...[]byte) []byte {
	t.Helper()
	body := hello[9:]
	at := 2 + 32
	at += 1 + int(body[at])                           // session
	at += 2 + int(binary.BigEndian.Uint16(body[at:])) // cipher suites
	at += 1 + int(body[at])                           // compression
	rest, all := body[at+2:], bytes.Join(extensions, nil)
	for len(rest) > 0 {
		n := 4 + int(binary.BigEndian.Uint16(rest[2:]))
		if binary.BigEndian.Uint16(rest) != 0 {
			all = append(all, rest[:n]...)
		}
		rest = rest[n:]
	}
	body = append(binary.BigEndian.AppendUint16(bytes.Clone(body[:at]), uint16(len(all))), all...)
	message := append([]byte{1, 0, byte(len(body) >> 8), byte(len(body))}, body...)
	return append([]byte{22, 3, 1, byte(len(message) >> 8), byte(len(message))}, message...)
}

// E6: a ClientHello that names the host in a way that others could read otherwise
// names none.
func TestServerNameHasOneReading(t *testing.T) {
	hello := clientHello(t, "good.test")
	named := func(names ...string) []byte { return withExtensions(t, hello, serverNames(names...)) }
	empty := []byte{22, 3, 1, 0, 0}
	cut := records(hello, 100)
	for name, tc := range map[string]struct {
		hello []byte
		host  string
	}{
		"as it is":               {named("\x00good.test"), "good.test"},
		"upper case":             {named("\x00GOOD.TEST"), "good.test"},
		"two names":              {named("\x00good.test", "\x00evil.test"), ""},
		"the same name twice":    {named("\x00good.test", "\x00good.test"), ""},
		"two extensions":         {withExtensions(t, hello, serverNames("\x00good.test"), serverNames("\x00evil.test")), ""},
		"no name":                {named(), ""},
		"an empty name":          {named("\x00"), ""},
		"a dot at the end":       {named("\x00good.test."), ""},
		"two dots":               {named("\x00good..test"), ""},
		"an IPv4 address":        {named("\x001.2.3.4"), ""},
		"a number":               {named("\x0016909060"), ""},
		"an IPv6 address":        {named("\x00::1"), ""},
		"the same in brackets":   {named("\x00[::1]"), ""},
		"with a port":            {named("\x00good.test:443"), ""},
		"a NUL in it":            {named("\x00good.test\x00.evil.test"), ""},
		"a space in it":          {named("\x00good.test "), ""},
		"not ASCII":              {named("\x00g\uff4fod.test"), ""},
		"a full stop of another": {named("\x00good\u3002test"), ""},
		"a record without bytes": {append(bytes.Clone(empty), hello...), ""},
		"the same, in between":   {append(append(bytes.Clone(cut[:105]), empty...), cut[105:]...), ""},
		"SSL 2":                  {append([]byte{0x80, 0x2e, 1, 3, 1, 0, 0x15, 0, 0, 0, 0x10}, make([]byte, 64)...), ""},
		"SSL 2, three bytes":     {append([]byte{0x16, 3, 1, 1, 3, 1, 0, 0x15, 0, 0, 0, 0x10}, make([]byte, 800)...), ""},
		"a second one after it":  {append(bytes.Clone(hello), clientHello(t, "evil.test")...), "good.test"}, // no server takes it, see docs/egress.md
		"changed in the middle":  {append(append(bytes.Clone(cut[:105]), 20, 3, 1, 0, 1, 1), cut[105:]...), ""},
		"TLS 1.0":                {clientHello(t, "good.test", func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS10 }), "good.test"},
	} {
		t.Run(name, func(t *testing.T) {
			_, o := readHello(t.Context(), readOnly{bytes.NewReader(tc.hello)}, deadline)
			if o.host != tc.host || tc.host != "" && o.kind != openingTLS {
				t.Errorf("%+v, want %q", o, tc.host)
			}
		})
	}
}
