package gate

import "net/netip"

// rangeKind says what an upstream address is to the gate.
type rangeKind int

const (
	rangePublic  rangeKind = iota
	rangePrivate           // refused unless the pattern says private
	rangeNever             // no connection makes sense: refused always
)

// The ranges are those of the IANA special-purpose address registries (RFC 6890
// and its updates). IPv4 lists what is not public; IPv6 lists what is, which is
// global unicast without its special parts, so what is assigned in the future
// starts out refused.
var (
	never4 = prefixes(
		"0.0.0.0/8",   // this network; Linux dials itself for 0.0.0.0
		"224.0.0.0/4", // multicast
		"240.0.0.0/4", // reserved, and the broadcast address
	)
	private4 = prefixes(
		"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", // private (RFC 1918)
		"100.64.0.0/10",                                     // carrier-grade NAT (RFC 6598), also clouds' own services
		"127.0.0.0/8",                                       // loopback
		"169.254.0.0/16",                                    // link-local, and 169.254.169.254 with a cloud's credentials
		"192.0.0.0/24",                                      // protocol assignments, also a cloud's metadata (192.0.0.192)
		"192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", // documentation
		"192.88.99.0/24",   // former 6to4 relays
		"198.18.0.0/15",    // benchmarks, and the gate's own synthetic addresses
		"168.63.129.16/32", // a public address that is a cloud's wire server
	)
	global6  = netip.MustParsePrefix("2000::/3")
	nat64    = netip.MustParsePrefix("64:ff9b::/96")
	special6 = prefixes(
		"2001::/23",     // protocol assignments, Teredo and ORCHID among them
		"2001:db8::/32", // documentation
		"2002::/16",     // 6to4: an IPv4 address in disguise
		"3fff::/20",     // documentation
	)
	never6 = prefixes("::/128", "ff00::/8", "100::/64") // unspecified, multicast, discard
)

// classify says what kind of address a is. An IPv4 address in an IPv6 form counts
// as what it is.
func classify(a netip.Addr) rangeKind {
	if a.Zone() != "" {
		return rangeNever
	}
	a = a.Unmap() // ::ffff:10.0.0.1
	if a.Is4() {
		switch {
		case contains(never4, a):
			return rangeNever
		case contains(private4, a):
			return rangePrivate
		}
		return rangePublic
	}
	switch {
	case contains(never6, a):
		return rangeNever
	case nat64.Contains(a): // what a DNS64 resolver makes of an IPv4 address
		b := a.As16()
		return classify(netip.AddrFrom4([4]byte(b[12:])))
	case global6.Contains(a) && !contains(special6, a):
		// ISATAP (RFC 5214 §6.1): where a host speaks it, it sends to the IPv4 address inside.
		if b := a.As16(); b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe {
			return classify(netip.AddrFrom4([4]byte(b[12:])))
		}
		return rangePublic
	}
	return rangePrivate
}

func contains(list []netip.Prefix, a netip.Addr) bool {
	for _, p := range list {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, s := range list {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}
