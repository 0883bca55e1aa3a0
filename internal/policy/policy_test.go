package policy

import (
	"slices"
	"strings"
	"testing"

	"rigs/internal/rig"
)

func TestParseCanonicalSpelling(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"example.com", "example.com"},
		{"EXAMPLE.Com", "example.com"},
		{"example.com.", "example.com"},
		{"*.Example.com.", "*.example.com"},
		{"a.*.example.com", "a.*.example.com"},
		{"a.b.*.example.com:443", "a.b.*.example.com:443"},
		{"example.com:443,80", "example.com"},
		{"example.com:80,443", "example.com"},
		{"example.com:443", "example.com:443"},
		{"example.com:443,22", "example.com:22,443"},
		{"db.corp.test:5432 private", "db.corp.test:5432 private"},
		{"intranet private", "intranet private"},
		{"*.com broad", "*.com broad"},
		{"*.github.io private broad", "*.github.io private broad"},
		{"bücher.example", "xn--bcher-kva.example"},
		{"BÜCHER.example", "xn--bcher-kva.example"},
		{"xn--bcher-kva.example", "xn--bcher-kva.example"},
		{"XN--BCHER-KVA.example", "xn--bcher-kva.example"},
		{"*.bücher.example", "*.xn--bcher-kva.example"},
		{"例え。テスト", "xn--r8jz45g.xn--zckzah"},
		{"_dmarc.example.com", "_dmarc.example.com"},
	} {
		p, err := Parse(tc.in)
		if err != nil {
			t.Errorf("Parse(%q): %v", tc.in, err)
			continue
		}
		if p.String() != tc.want {
			t.Errorf("Parse(%q) = %q, want %q", tc.in, p, tc.want)
		}
		if again, err := Parse(p.String()); err != nil || again.String() != p.String() {
			t.Errorf("Parse(%q) does not read its own spelling: %q, %v", tc.in, again, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tc := range []struct{ in, why string }{
		{"", "no host"},
		{" ", "not understood"},
		{" example.com", "not understood"},
		{"example.com ", "not understood"},
		{"example.com  private", "not understood"},
		{"example.com private private", "not understood"},
		{"*.com broad private", "not understood"},
		{"example.com PRIVATE", "not understood"},
		{"example.com\tprivate", "character"},
		{"*", "every host"},
		{"*:443", "every host"},
		{"* broad", "every host"},
		{"*.*", "once"},
		{"*.com", "many owners"},
		{"*.co.uk", "many owners"},
		{"*.github.io", "many owners"},
		{"a.*.com", "many owners"},
		{"*.test", "many owners"},
		{"*.com.", "many owners"},
		{"*.example.com broad", "is not"},
		{"example.com broad", "only for a pattern with a star"},
		{"example.*", "at the end"},
		{"*.", "every host"},
		{"a*.example.com", "whole labels"},
		{"*a.example.com", "whole labels"},
		{"**.example.com", "whole labels"},
		{"＊.example.com", "character"},
		{"*..example.com", "empty label"},
		{".example.com", "empty label"},
		{"a..example.com", "empty label"},
		{"example.com..", "empty label"},
		{"10.0.0.1", "names, not addresses"},
		{"10.0.0.1:80", "names, not addresses"},
		{"10.0.0.0/8", "network"},
		{"0.0.0.0/0", "network"},
		{"::1", "names, not addresses"},
		{"[::1]:80", "names, not addresses"},
		{"127.1", "address"},
		{"0x7f.1", "address"},
		{"0x7f000001", "address"},
		{"2130706433", "address"},
		{"1.2.3.4.", "address"},
		{"１２７.0.0.1", "address"},
		{"*.0.0.1", "address"},
		{"https://example.com", "URL"},
		{"example.com/path", "URL"},
		{"user@example.com", "character"},
		{"exa mple.com", "not understood"},
		{"example.com:", "ports"},
		{"example.com:0", "ports"},
		{"example.com:065", "ports"},
		{"example.com:+80", "ports"},
		{"example.com:65536", "ports"},
		{"example.com:80,", "ports"},
		{"example.com:80,80", "twice"},
		{"example.com:80:90", "names, not addresses"},
		{"example.com:http", "ports"},
		{"example.com:80-90", "ports"},
		{"example.com:1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", "16 ports"},
		{"-a.example.com", "hyphen"},
		{strings.Repeat("a", 64) + ".com", "63"},
		{strings.Repeat("a.", 127) + "com", "253"},
		{"xn--a.example", "internationalized"},
		{"exam\u202eple.com", "internationalized"},
		{strings.Repeat("a", 600), "longer"},
	} {
		p, err := Parse(tc.in)
		if err == nil {
			t.Errorf("Parse(%q) = %q, want it refused", tc.in, p)
			continue
		}
		if !strings.Contains(err.Error(), tc.why) {
			t.Errorf("Parse(%q): %v, want it to say %q", tc.in, err, tc.why)
		}
		if rig.CodeOf(err) != rig.CodeInvalidRequest {
			t.Errorf("Parse(%q): code %s", tc.in, rig.CodeOf(err))
		}
	}
}

func TestMatch(t *testing.T) {
	for _, tc := range []struct {
		pattern, host string
		port          int
		want          Match
	}{
		{"example.com", "example.com", 443, Match{Named: true, Admitted: true}},
		{"example.com", "example.com", 80, Match{Named: true, Admitted: true}},
		{"example.com", "example.com", 22, Match{Named: true}},
		{"example.com", "example.com", 8443, Match{Named: true}},
		{"example.com:22", "example.com", 22, Match{Named: true, Admitted: true}},
		{"example.com:22", "example.com", 443, Match{Named: true}},
		{"example.com", "www.example.com", 443, Match{}},
		{"example.com", "notexample.com", 443, Match{}},
		{"example.com", "example.com.evil.test", 443, Match{}},
		{"*.example.com", "example.com", 443, Match{}},
		{"*.example.com", ".example.com", 443, Match{}},
		{"*.example.com", "a.example.com", 443, Match{Named: true, Admitted: true}},
		{"*.example.com", "a.b.example.com", 443, Match{Named: true, Admitted: true}},
		{"*.example.com", "aexample.com", 443, Match{}},
		{"a.*.example.com", "a.x.example.com", 443, Match{Named: true, Admitted: true}},
		{"a.*.example.com", "a.x.y.example.com", 443, Match{}},
		{"a.*.example.com", "a.example.com", 443, Match{}},
		{"a.*.example.com", "b.x.example.com", 443, Match{}},
		{"a.*.example.com", "ba.x.example.com", 443, Match{}},
		{"a.*.example.com", "a..example.com", 443, Match{}},
		{"x.test private", "x.test", 443, Match{Named: true, Admitted: true, Private: true}},
		{"x.test:22 private", "x.test", 443, Match{Named: true}},
		// What is no host name is below no domain: whoever reads it next, a proxy for
		// one, may see another host in it.
		{"*.example.com:22", "evil.test/x.example.com", 22, Match{}},
		{"*.example.com:22", "evil.test:22+x.example.com", 22, Match{}},
		{"*.example.com:22", "a=.example.com", 22, Match{}},
		{"*.example.com:22", "A.example.com", 22, Match{}},
		{"*.example.com:22", "a..example.com", 22, Match{}},
		{"*.example.com:22", "-.example.com", 22, Match{}},
		{"*.example.com:22", strings.Repeat("a", 64) + ".example.com", 22, Match{}},
		{"*.example.com:22", "xn--evil-.example.com", 22, Match{}},          // that is no Punycode
		{"*.example.com:22", "xn--eviltest-m129b.example.com", 22, Match{}}, // "evil／test": a slash, once it is mapped
		{"*.example.com:22", "xn--bcher-kva.example.com", 22, Match{Named: true, Admitted: true}},
	} {
		l, err := ParseList([]string{tc.pattern})
		if err != nil {
			t.Fatal(err)
		}
		if got := l.Match(tc.host, tc.port); got != tc.want {
			t.Errorf("%q on %s:%d = %+v, want %+v", tc.pattern, tc.host, tc.port, got, tc.want)
		}
	}
	if (List{{}}).Match("", 443).Named {
		t.Error("the zero pattern names something")
	}
}

// TestAdmitsOneCanonicalForm is case E15.
func TestAdmitsOneCanonicalForm(t *testing.T) {
	spellings := []string{"bücher.example", "BÜCHER.example", "xn--bcher-kva.example", "Xn--Bcher-KVA.EXAMPLE", "bücher.example.", "bücher。example"}
	for _, pattern := range spellings {
		l, err := ParseList([]string{pattern})
		if err != nil {
			t.Fatal(err)
		}
		for _, host := range spellings {
			if !l.Admits(host, 443) {
				t.Errorf("pattern %q does not admit %q", pattern, host)
			}
		}
		for _, host := range []string{"bucher.example", "", ".", "xn--bcher-kva.example..", "1.2.3.4"} {
			if l.Admits(host, 443) {
				t.Errorf("pattern %q admits %q", pattern, host)
			}
		}
	}
}

func TestListChangesAreCopies(t *testing.T) {
	a, _ := ParseList([]string{"a.test", "A.test.", "b.test"})
	if got := a.Strings(); !slices.Equal(got, []string{"a.test", "b.test"}) {
		t.Fatalf("repeated pattern kept: %q", got)
	}
	p, _ := Parse("a.test")
	b, had := a.Without(p)
	if !had || len(b) != 1 || len(a) != 2 || a[0].String() != "a.test" {
		t.Errorf("Without changed the old list: %q → %q", a.Strings(), b.Strings())
	}
	if _, had := b.Without(p); had {
		t.Error("a pattern was removed twice")
	}
	c, _ := b.With(p)
	d, _ := b.With(a[1])
	if c[1].String() != "a.test" || len(d) != 1 {
		t.Errorf("With: %q, %q", c.Strings(), d.Strings())
	}
	var full List
	for i := range MaxPatterns {
		full = append(full, Pattern{after: strings.Repeat("a", i%60+1) + strings.Repeat("b", i/60+1) + ".test"})
	}
	if _, err := full.With(p); rig.CodeOf(err) != rig.CodeCapacity {
		t.Errorf("a full list took another pattern: %v", err)
	}
}

func TestDefaults(t *testing.T) {
	for _, s := range rig.Surfaces {
		list, err := ParseList(Defaults(s))
		if err != nil {
			t.Fatalf("%s: %v", s, err)
		}
		if s != rig.Terminal {
			if len(list) != 0 {
				t.Errorf("%s starts with %q, want nothing", s, list.Strings())
			}
			continue
		}
		for _, host := range []string{"github.com", "index.crates.io", "security.ubuntu.com", "crates.io"} {
			if !list.Admits(host, 443) {
				t.Errorf("a terminal does not admit %s", host)
			}
		}
		if !list.Admits("github.com", 22) || list.Admits("index.crates.io", 22) {
			t.Error("port 22 is for forges only")
		}
		for _, host := range []string{"example.com", "evil.github.io", "gist.github.com", "debian.org.evil.test"} {
			if list.Admits(host, 443) {
				t.Errorf("a terminal admits %s", host)
			}
		}
	}
	for _, e := range Baseline() {
		if e.Reason == "" || e.Pattern.private || e.Pattern.broad {
			t.Errorf("baseline entry %q: reason %q", e.Pattern, e.Reason)
		}
	}
}

func TestBaselineFileIsStrict(t *testing.T) {
	for _, text := range []string{"example.com", "example.com reason", "*.com  reason", "example.com  "} {
		if got, err := parseBaseline(text); err == nil {
			t.Errorf("parseBaseline(%q) = %v", text, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"example.com", "*.example.com:443 private", "a.*.b.test:22,80", "*.com broad", "bücher.example", "10.0.0.0/8", "[::1]:80", "xn--a", "＊.test"} {
		f.Add(s, "www.example.com")
	}
	f.Fuzz(func(t *testing.T, s, host string) {
		p, err := Parse(s)
		if err != nil {
			return
		}
		again, err := Parse(p.String())
		if err != nil || again.String() != p.String() {
			t.Fatalf("Parse(%q) = %q, which reads as %q, %v", s, p, again, err)
		}
		if len(p.after) == 0 {
			t.Fatalf("Parse(%q) has no domain", s)
		}
		name, err := Canonical(host)
		if (List{p}).Match(host, 443).Named && (err != nil || name != host) {
			t.Fatalf("%q names %q, which is not canonical", p, host)
		}
		if err != nil || !p.Names(name) {
			return
		}
		// Whatever is named ends in the pattern's own literal part.
		if name != p.after && !strings.HasSuffix(name, "."+p.after) {
			t.Fatalf("%q names %q", p, name)
		}
		if twice, err := Canonical(name); err != nil || twice != name {
			t.Fatalf("Canonical(%q) = %q, then %q, %v", host, name, twice, err)
		}
	})
}
