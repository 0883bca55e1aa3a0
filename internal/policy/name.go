package policy

import (
	"net/netip"
	"strings"

	"golang.org/x/net/idna"

	"rigs/internal/rig"
)

// maxName and maxLabel are the limits of RFC 1035 §2.3.4, in bytes of the
// textual form without the trailing dot.
const (
	maxName  = 253
	maxLabel = 63
)

// profile maps what people type to what is looked up. Non-transitional, as all
// browsers do: "straße.de" is not "strasse.de". Underscores are let through here
// because DNS has them; checkLabel says which characters a name may have.
var profile = idna.New(idna.MapForLookup(), idna.Transitional(false), idna.BidiRule(), idna.StrictDomainName(false))

// Canonical brings a host name into the one form in which names are compared:
// lower case, no trailing dot, ASCII. It refuses addresses and everything that
// is not a host name.
func Canonical(name string) (string, error) {
	if len(name) > 4*maxName { // before the mapping, which is not linear in hostile input
		return "", invalidName(name, "it is longer than 253 characters")
	}
	n := strings.ToLower(name)
	if !isASCII(n) || strings.Contains(n, "xn--") {
		var err error
		if n, err = profile.ToASCII(name); err != nil {
			return "", invalidName(name, "it is not a valid internationalized name")
		}
		// Some input (invalid UTF-8, for one) maps to a label that is not valid
		// itself. A form that does not stay as it is cannot be the one that decides.
		if again, err := profile.ToASCII(n); err != nil || again != n {
			return "", invalidName(name, "it is not a valid internationalized name")
		}
	}
	n = strings.TrimSuffix(n, ".") // after the mapping, which makes dots of other full stops
	if n == "" {
		return "", invalidName(name, "it is empty")
	}
	if _, err := netip.ParseAddr(strings.Trim(n, "[]")); err == nil {
		return "", invalidName(name, "it is an address and not a name")
	}
	if err := checkName(n); err != "" {
		return "", invalidName(name, err)
	}
	return n, nil
}

// checkName says what is wrong with a name in canonical form, "" when nothing is.
func checkName(n string) string {
	if len(n) > maxName {
		return "it is longer than 253 characters"
	}
	labels := strings.Split(n, ".")
	for _, l := range labels {
		if why := checkLabel(l); why != "" {
			return why
		}
	}
	// "1.2.3.4", but also "127.1" and "0x7f.1", which resolvers read as addresses.
	if endsInNumber(labels[len(labels)-1]) {
		return "it is an address and not a name"
	}
	return ""
}

func checkLabel(l string) string {
	switch {
	case l == "":
		return "it has an empty label"
	case len(l) > maxLabel:
		return "it has a label longer than 63 characters"
	case l[0] == '-' || l[len(l)-1] == '-':
		return "it has a label that begins or ends with a hyphen"
	}
	for i := range len(l) {
		c := l[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return "it has a character that no host name has"
		}
	}
	return ""
}

// endsInNumber follows the WHATWG URL standard's "ends in a number" check.
func endsInNumber(last string) bool {
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

func invalidName(name, why string) error {
	if len(name) > 80 {
		name = name[:80] + "…"
	}
	return rig.FieldErrorf("pattern", "host name %q is not usable: %s: write it like example.com", name, why)
}
