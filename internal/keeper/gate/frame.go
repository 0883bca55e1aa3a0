package gate

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/checksum"
	"gvisor.dev/gvisor/pkg/tcpip/header"
)

// The network that a guest sees. The gateway answers for every other address of
// it, so nothing in it hangs.
var (
	guestAddr   = netip.MustParseAddr("10.0.0.2")
	gatewayAddr = netip.MustParseAddr("10.0.0.1")
	network     = netip.MustParsePrefix("10.0.0.0/24")

	broadcastAddrs = [...]netip.Addr{netip.MustParseAddr("255.255.255.255"), netip.MustParseAddr("10.0.0.255")}

	gatewayMAC = tcpip.LinkAddress("\x02rigs\x01") // locally administered
)

// Kinds of dropped frames, as Gate.Dropped counts them.
const (
	dropMalformed = "malformed" // not of the length that it says, or not what it says
	dropOversize  = "oversize"  // longer than the MTU
	dropEthertype = "ethertype" // neither ARP nor IP
	dropARP       = "arp"       // ARP that is not Ethernet and IPv4, or about the guest's own address
	dropSource    = "source"    // from an address that is not the guest's
	dropFragment  = "fragment"  // IPv4 fragments: Linux sends TCP and lookups whole
	dropOptions   = "options"   // IPv4 options: nothing sends them but probes
	dropMulticast = "multicast" // to a multicast, broadcast or link-local address: chatter that reaches nobody
	dropTCP       = "tcp"       // to an address that no connection can have, or with tiny segments
	dropUDP       = "udp"       // QUIC, NTP, DNS to anybody but the gateway …
	dropICMP      = "icmp"      // IPv4 ICMP
	dropIPv6      = "ipv6"      // everything over IPv6
	dropProtocol  = "protocol"  // other protocols over IPv4
)

// dropKinds lists them all, for counters that are made once.
var dropKinds = []string{
	dropMalformed, dropOversize, dropEthertype, dropARP, dropSource, dropFragment, dropOptions,
	dropMulticast, dropTCP, dropUDP, dropICMP, dropIPv6, dropProtocol,
}

// sifted is what the filter says about one frame.
type sifted struct {
	pass bool
	drop string // kind, when it does not pass

	// attempt is set when the frame tries to reach somebody: it is logged, not
	// only counted. Chatter that a network card makes by itself is not an attempt.
	attempt  bool
	protocol string
	address  netip.Addr
	port     int

	reply []byte // a frame that tells the guest at once, so that nothing hangs; may be nil
}

const (
	// minFrame is up to where Ethernet pads. Padding beyond it would cost memory that
	// nothing counts: the stack keeps a frame whole for as long as it keeps one byte of it.
	minFrame = 60

	// What a lookup over UDP can be: a header of 12 bytes at the least, and less than
	// maxLookup. The stack counts the bytes of those that wait, not what keeping one
	// takes.
	minLookup = 12
	maxLookup = 2 << 10

	// minSegment is the smallest size of segments that a guest may ask for, that of the
	// smallest MTU which IPv4 hosts have to take (RFC 9293 §3.7.1). A smaller one would cost many times the
	// data in the queue of what was sent.
	minSegment = header.TCPDefaultMSS
)

// sift decides about one Ethernet frame of the guest. It is pure and the only
// way into the network stack, which therefore sees nothing but well-formed ARP,
// IPv4 TCP and UDP to the gateway's port 53, from the guest's own address.
func sift(f []byte) sifted {
	if len(f) < header.EthernetMinimumSize {
		return sifted{drop: dropMalformed}
	}
	switch body := f[header.EthernetMinimumSize:]; header.Ethernet(f).Type() {
	case header.ARPProtocolNumber:
		return siftARP(body)
	case header.IPv4ProtocolNumber:
		return siftIPv4(f, body)
	case header.IPv6ProtocolNumber:
		return siftIPv6(f, body)
	}
	return sifted{drop: dropEthertype}
}

func siftARP(body []byte) sifted {
	h := header.ARP(body)
	if len(body) < header.ARPSize || len(body) > minFrame-header.EthernetMinimumSize || !h.IsValid() || (h.Op() != header.ARPRequest && h.Op() != header.ARPReply) {
		return sifted{drop: dropARP}
	}
	sender, _ := netip.AddrFromSlice(h.ProtocolAddressSender())
	target, _ := netip.AddrFromSlice(h.ProtocolAddressTarget())
	// The sender must be the guest: nobody else's place can be taken. A request
	// for the guest's own address is its check for a duplicate; the stack, which
	// answers for all addresses, must not answer that one.
	if sender != guestAddr || target == guestAddr || !network.Contains(target) {
		return sifted{drop: dropARP}
	}
	return sifted{pass: true}
}

func siftIPv4(f, body []byte) sifted {
	h := header.IPv4(body)
	if !h.IsValid(len(body)) || len(f) > minFrame && len(body) > int(h.TotalLength()) {
		return sifted{drop: dropMalformed}
	}
	s := sifted{address: netip.AddrFrom4(h.DestinationAddress().As4())}
	size := int(h.HeaderLength())
	payload := body[size:h.TotalLength()]
	switch {
	case netip.AddrFrom4(h.SourceAddress().As4()) != guestAddr:
		s.drop = dropSource // a spoofed source, or DHCP; no answer could reach it
		return s
	case linkScope(s.address):
		s.drop = dropMulticast
		return s
	case size != header.IPv4MinimumSize:
		s.drop, s.attempt, s.protocol = dropOptions, true, protoOther
		s.reply = unreachable4(f, body, header.ICMPv4AdminProhibited)
		return s
	case h.More() || h.FragmentOffset() != 0:
		s.drop, s.attempt, s.protocol = dropFragment, true, protoOther
		return s
	}
	switch h.TransportProtocol() {
	case header.TCPProtocolNumber:
		if len(payload) < header.TCPMinimumSize {
			s.drop = dropMalformed
			return s
		}
		segment := header.TCP(payload)
		if o := int(segment.DataOffset()); o < header.TCPMinimumSize || o > len(payload) {
			s.drop = dropMalformed
			return s
		}
		s.protocol, s.port = protoTCP, int(segment.DestinationPort())
		if s.address == guestAddr || s.address.IsLoopback() || contains(never4, s.address) {
			s.drop, s.attempt = dropTCP, true
			s.reply = unreachable4(f, body, header.ICMPv4AdminProhibited)
			return s
		}
		if segment.Flags().Contains(header.TCPFlagSyn) && header.ParseSynOptions(segment.Options(), false).MSS < minSegment {
			s.drop, s.attempt, s.protocol = dropTCP, true, protoOther
			s.reply = unreachable4(f, body, header.ICMPv4AdminProhibited)
			return s
		}
		s.pass = true
	case header.UDPProtocolNumber:
		if len(payload) < header.UDPMinimumSize || int(header.UDP(payload).Length()) != len(payload) {
			s.drop = dropMalformed
			return s
		}
		s.protocol, s.port = protoUDP, int(header.UDP(payload).DestinationPort())
		if s.address == gatewayAddr && s.port == dnsPort {
			if n := len(payload) - header.UDPMinimumSize; n < minLookup || n > maxLookup {
				s.drop = dropMalformed
				return s
			}
			s.pass = true
			return s
		}
		s.drop, s.attempt = dropUDP, true
		// Port unreachable is what a connected socket reports at once; browsers
		// take it as "no QUIC here".
		s.reply = unreachable4(f, body, header.ICMPv4PortUnreachable)
	case header.ICMPv4ProtocolNumber:
		s.drop, s.attempt, s.protocol = dropICMP, true, protoICMP
		if len(payload) >= header.ICMPv4MinimumSize && header.ICMPv4(payload).Type() == header.ICMPv4Echo {
			s.reply = unreachable4(f, body, header.ICMPv4AdminProhibited)
		} // never an error about an error (RFC 1122 §3.2.2)
	default:
		s.drop, s.attempt, s.protocol = dropProtocol, true, protoOther
		s.reply = unreachable4(f, body, header.ICMPv4AdminProhibited)
	}
	return s
}

// linkScope reports whether a is an address that only neighbours have: a frame to
// it leaves nobody's machine, with or without a gate.
func linkScope(a netip.Addr) bool {
	return a.IsMulticast() || a.IsLinkLocalUnicast() && a.Is6() || slices.Contains(broadcastAddrs[:], a)
}

// unreachable4 makes the ICMP destination-unreachable frame that answers the
// frame f, whose IPv4 packet is packet.
func unreachable4(f, packet []byte, code header.ICMPv4Code) []byte {
	quoted := packet[:min(len(packet), int(header.IPv4(packet).HeaderLength())+8)]
	out := make([]byte, header.EthernetMinimumSize+header.IPv4MinimumSize+header.ICMPv4MinimumSize+len(quoted))
	encodeEthernet(out, f, header.IPv4ProtocolNumber)
	ip := header.IPv4(out[header.EthernetMinimumSize:])
	ip.Encode(&header.IPv4Fields{
		TotalLength: uint16(len(ip)),
		TTL:         64,
		Protocol:    uint8(header.ICMPv4ProtocolNumber),
		SrcAddr:     tcpip.AddrFrom4(gatewayAddr.As4()),
		DstAddr:     tcpip.AddrFrom4(guestAddr.As4()),
	})
	ip.SetChecksum(^ip.CalculateChecksum())
	icmp := header.ICMPv4(ip[header.IPv4MinimumSize:])
	icmp.SetType(header.ICMPv4DstUnreachable)
	icmp.SetCode(code)
	copy(icmp[header.ICMPv4MinimumSize:], quoted)
	icmp.SetChecksum(header.ICMPv4Checksum(icmp, 0))
	return out
}

func encodeEthernet(out, to []byte, kind tcpip.NetworkProtocolNumber) {
	header.Ethernet(out).Encode(&header.EthernetFields{
		SrcAddr: gatewayMAC, DstAddr: header.Ethernet(to).SourceAddress(), Type: kind,
	})
}

// siftIPv6 drops everything. The guest is told at once all the same: a neighbour
// solicitation for a global address is answered, and what is then sent there is
// prohibited, so that even a guest that made itself an IPv6 route falls back to
// IPv4 without waiting.
func siftIPv6(f, body []byte) sifted {
	h := header.IPv6(body)
	if !h.IsValid(len(body)) {
		return sifted{drop: dropMalformed}
	}
	s := sifted{drop: dropIPv6, address: netip.AddrFrom16(h.DestinationAddress().As16())}
	if icmp := header.ICMPv6(h.Payload()); h.NextHeader() == uint8(header.ICMPv6ProtocolNumber) &&
		len(icmp) >= header.ICMPv6NeighborSolicitMinimumSize && icmp.Type() == header.ICMPv6NeighborSolicit {
		target := netip.AddrFrom16(header.NDPNeighborSolicit(icmp.MessageBody()).TargetAddress().As16())
		source := netip.AddrFrom16(h.SourceAddress().As16())
		// The unspecified source is the guest's check for a duplicate of its own
		// address: answering that would take the address away from it.
		if target.IsGlobalUnicast() && target != source && !source.IsUnspecified() {
			s.reply = advertise6(f, source, target)
		}
		s.drop = dropMulticast // looking for a neighbour; what is sent there is the attempt
		return s
	}
	if linkScope(s.address) {
		s.drop = dropMulticast
		return s
	}
	s.attempt, s.protocol = true, protoIPv6
	switch p := h.Payload(); tcpip.TransportProtocolNumber(h.NextHeader()) {
	case header.TCPProtocolNumber, header.UDPProtocolNumber:
		if len(p) >= 4 {
			s.port = int(binary.BigEndian.Uint16(p[2:]))
		}
	case header.ICMPv6ProtocolNumber:
		if len(p) == 0 || p[0] < 128 { // an error, or nothing at all (RFC 4443 §2.4)
			return s
		}
	}
	s.reply = prohibited6(f, body)
	return s
}

// icmp6 makes the frame that carries an ICMPv6 message from one address to
// another; its checksum is filled in.
func icmp6(f []byte, from, to netip.Addr, message []byte) []byte {
	out := make([]byte, header.EthernetMinimumSize+header.IPv6MinimumSize+len(message))
	encodeEthernet(out, f, header.IPv6ProtocolNumber)
	src, dst := tcpip.AddrFrom16(from.As16()), tcpip.AddrFrom16(to.As16())
	ip := header.IPv6(out[header.EthernetMinimumSize:])
	ip.Encode(&header.IPv6Fields{
		PayloadLength: uint16(len(message)), TransportProtocol: header.ICMPv6ProtocolNumber,
		HopLimit: header.NDPHopLimit, SrcAddr: src, DstAddr: dst,
	})
	icmp := header.ICMPv6(ip[header.IPv6MinimumSize:])
	copy(icmp, message)
	icmp.SetChecksum(0)
	icmp.SetChecksum(^checksum.Checksum(icmp, header.PseudoHeaderChecksum(header.ICMPv6ProtocolNumber, src, dst, uint16(len(icmp)))))
	return out
}

// advertise6 answers a neighbour solicitation: target is at the gateway.
func advertise6(f []byte, source, target netip.Addr) []byte {
	message := make([]byte, header.ICMPv6NeighborAdvertMinimumSize+header.NDPLinkLayerAddressSize)
	icmp := header.ICMPv6(message)
	icmp.SetType(header.ICMPv6NeighborAdvert)
	na := header.NDPNeighborAdvert(icmp.MessageBody())
	na.SetSolicitedFlag(true)
	na.SetOverrideFlag(true)
	na.SetTargetAddress(tcpip.AddrFrom16(target.As16()))
	na.Options().Serialize(header.NDPOptionsSerializer{header.NDPTargetLinkLayerAddressOption(gatewayMAC)})
	return icmp6(f, target, source, message)
}

// prohibited6 makes the frame that says packet was administratively prohibited,
// as if the host that it was sent to said so.
func prohibited6(f, packet []byte) []byte {
	quoted := packet[:min(len(packet), header.IPv6MinimumSize+8)]
	message := make([]byte, header.ICMPv6DstUnreachableMinimumSize+len(quoted))
	icmp := header.ICMPv6(message)
	icmp.SetType(header.ICMPv6DstUnreachable)
	icmp.SetCode(header.ICMPv6Prohibited)
	copy(message[header.ICMPv6DstUnreachableMinimumSize:], quoted)
	h := header.IPv6(packet)
	return icmp6(f, netip.AddrFrom16(h.DestinationAddress().As16()), netip.AddrFrom16(h.SourceAddress().As16()), message)
}
