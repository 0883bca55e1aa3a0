package gate

import (
	"net/netip"

	"rigs/internal/policy"
)

// Protocols of the egress log.
const (
	protoTCP   = "tcp"
	protoUDP   = "udp"
	protoICMP  = "icmp"
	protoIPv6  = "ipv6"
	protoDNS   = "dns"
	protoOther = "other"
)

// Reasons of the egress log. They are stable: programs branch on them, and
// docs/egress.md explains each.
const (
	// The policy says no.
	ReasonNotAdmitted     = "notAdmitted"     // no pattern names the host
	ReasonPortNotAdmitted = "portNotAdmitted" // a pattern names the host, none with this port
	ReasonRawAddress      = "rawAddress"      // an address that the gate's DNS did not hand out
	ReasonForbiddenRange  = "forbiddenRange"  // the host resolves to an address that only a private pattern admits
	ReasonServerName      = "serverName"      // on port 443: no ClientHello, or one that names another host
	ReasonHTTPHost        = "httpHost"        // on port 80: no plain HTTP request, or one for another host
	ReasonProtocol        = "protocol"        // neither TCP nor a lookup: UDP, QUIC, ICMP, IPv6 and the like
	ReasonRemoved         = "removed"         // open when its pattern was removed
	ReasonExpired         = "expired"         // open when its admission ended by itself
	ReasonBadName         = "badName"         // a lookup of something that is not a name

	// A limit was reached.
	ReasonTooMany   = "tooManyConnections"
	ReasonRateLimit = "rateLimit"

	// The policy says yes; this is how it went.
	ReasonAdmitted            = "admitted"            // connected
	ReasonClosed              = "closed"              // over: bytes and seconds are final
	ReasonIdle                = "idle"                // closed by the gate because nothing moved for long
	ReasonAbandoned           = "abandoned"           // the guest gave up before it was connected
	ReasonLookupFailed        = "lookupFailed"        // the host's resolver has no address
	ReasonUpstreamRefused     = "upstreamRefused"     // the other end answered with a reset
	ReasonUpstreamUnreachable = "upstreamUnreachable" // the other end did not answer

	// The same, through the server's proxy.
	ReasonProxyUnreachable    = "proxyUnreachable"    // the proxy did not answer, or not like one
	ReasonProxyAuthentication = "proxyAuthentication" // it wants another name or password (407)
	ReasonProxyRefused        = "proxyRefused"        // it does not connect to that host
	ReasonProxyFailed         = "proxyFailed"         // it could not connect to that host (5xx)
)

// Verdicts of the egress log.
const (
	verdictAllow = "allow"
	verdictDeny  = "deny"
)

// flow is all that is known about one attempt to reach something. It is filled
// in step by step, and judged after each: at the SYN, for each address after
// resolving, after the first bytes, and again when the policy changes.
type flow struct {
	protocol string
	address  netip.Addr // as the guest dialled it; not set for a lookup
	port     int

	// host is the canonical name that address was handed out for, or that a
	// lookup asks for. It is empty for an address that nobody handed out.
	host string

	upstream netip.Addr // what the host resolved to; not set before
	own      bool       // upstream is an address of this very machine

	opening opening // what the guest's first bytes say; openingUnread before
}

// candidate is an address that a host resolved to.
type candidate struct {
	addr netip.Addr
	own  bool // it is an address of this very machine
}

// to is f with the address that its host resolved to.
func (f flow) to(c candidate) flow {
	f.upstream, f.own = c.addr, c.own
	return f
}

// openingKind is what the first bytes of a connection are.
type openingKind int

const (
	openingUnread openingKind = iota
	openingTLS                // a ClientHello
	openingHTTP               // a plain HTTP/1 request
	openingOther              // anything else
)

// opening is what the first bytes of a connection say about where it is going.
type opening struct {
	kind openingKind
	host string // canonical; empty when they name no host, or an impossible one
}

// verdict is what the gate decides about a flow.
type verdict struct {
	allow  bool
	reason string
}

func deny(reason string) verdict { return verdict{reason: reason} }

// judge is the gate's only rule: everything else in this package feeds it or
// carries out what it says. It is pure. What it denies on partial knowledge it
// denies on more, so a flow may be judged as early as something is known of it.
func judge(f flow, rules policy.List) verdict {
	switch f.protocol {
	case protoTCP, protoDNS:
	default:
		return deny(ReasonProtocol)
	}
	if f.host == "" {
		return deny(ReasonRawAddress)
	}
	m := rules.Match(f.host, f.port)
	if f.protocol == protoDNS {
		// A lookup has no port: it tells only whether the name means anything here.
		m.Admitted = m.Named
	}
	switch {
	case !m.Named:
		return deny(ReasonNotAdmitted)
	case !m.Admitted:
		return deny(ReasonPortNotAdmitted)
	}
	if f.upstream.IsValid() {
		switch kind := classify(f.upstream); {
		case kind == rangeNever, (kind == rangePrivate || f.own) && !m.Private:
			return deny(ReasonForbiddenRange)
		}
	}
	if f.opening.kind != openingUnread {
		// Only the ports that have one protocol are looked into; others go by name.
		switch {
		case f.port == portTLS && (f.opening.kind != openingTLS || f.opening.host != f.host):
			return deny(ReasonServerName)
		case f.port == portHTTP && (f.opening.kind != openingHTTP || f.opening.host != f.host):
			return deny(ReasonHTTPHost)
		}
	}
	return verdict{allow: true, reason: ReasonAdmitted}
}

// The ports whose first bytes are looked into.
const (
	portHTTP = 80
	portTLS  = 443
)
