package gate

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
)

func TestSift(t *testing.T) {
	spoofed := func(f *header.IPv4Fields) { f.SrcAddr = tcpip.AddrFrom4([4]byte{10, 0, 0, 1}) }
	options := func(f *header.IPv4Fields) {
		f.Options = header.IPv4OptionsSerializer{&header.IPv4SerializableRouterAlertOption{}}
	}
	first := func(f *header.IPv4Fields) { f.Flags = header.IPv4FlagMoreFragments }
	later := func(f *header.IPv4Fields) { f.FragmentOffset = 8 }
	syn := tcpSYN("8.8.8.8", 443)
	question := strings.Repeat("q", minLookup)
	tcp := func(offset int, options []byte) []byte {
		h := make(header.TCP, header.TCPMinimumSize+len(options))
		h.Encode(&header.TCPFields{SrcPort: 40000, DstPort: 443, DataOffset: uint8(offset), Flags: header.TCPFlagSyn})
		copy(h[header.TCPMinimumSize:], options)
		return ipv4Frame("8.8.8.8", header.TCPProtocolNumber, h)
	}
	segments := func(n uint16) []byte {
		return tcp(24, binary.BigEndian.AppendUint16([]byte{header.TCPOptionMSS, 4}, n))
	}
	padded := func(frame []byte, n int) []byte { return append(slices.Clone(frame), make([]byte, n-len(frame))...) }
	lies := func(frame []byte, length uint16) []byte {
		f := slices.Clone(frame)
		binary.BigEndian.PutUint16(f[header.EthernetMinimumSize+header.IPv4MinimumSize+4:], length)
		return f
	}
	for _, tc := range []struct {
		name    string
		frame   []byte
		pass    bool
		drop    string
		attempt bool
		reply   bool
	}{
		{name: "TCP", frame: syn, pass: true},
		{name: "TCP to a private address", frame: tcpSYN("192.168.1.1", 80), pass: true},
		{name: "lookup", frame: udpFrame("10.0.0.1", 53, question), pass: true},
		{name: "padded to Ethernet's least", frame: padded(syn, 60), pass: true},
		{name: "padded ARP", frame: padded(arpFrame(header.ARPRequest, "10.0.0.2", "10.0.0.1"), 60), pass: true},
		{name: "the smallest segments", frame: segments(536), pass: true},
		{name: "ARP for the gateway", frame: arpFrame(header.ARPRequest, "10.0.0.2", "10.0.0.1"), pass: true},
		{name: "ARP for a neighbour", frame: arpFrame(header.ARPRequest, "10.0.0.2", "10.0.0.9"), pass: true},
		{name: "ARP answer", frame: arpFrame(header.ARPReply, "10.0.0.2", "10.0.0.1"), pass: true},

		{name: "ARP probe for its own address", frame: arpFrame(header.ARPRequest, "0.0.0.0", "10.0.0.2"), drop: dropARP},
		{name: "gratuitous ARP", frame: arpFrame(header.ARPRequest, "10.0.0.2", "10.0.0.2"), drop: dropARP},
		{name: "ARP in the gateway's name", frame: arpFrame(header.ARPReply, "10.0.0.1", "10.0.0.1"), drop: dropARP},
		{name: "ARP outside the network", frame: arpFrame(header.ARPRequest, "10.0.0.2", "8.8.8.8"), drop: dropARP},
		{name: "ARP of no kind", frame: arpFrame(9, "10.0.0.2", "10.0.0.1"), drop: dropARP},
		{name: "short ARP", frame: ethernetFrame(header.ARPProtocolNumber, make([]byte, 8)), drop: dropARP},

		{name: "nothing", frame: nil, drop: dropMalformed},
		{name: "runt", frame: syn[:13], drop: dropMalformed},
		{name: "half an IPv4 header", frame: syn[:24], drop: dropMalformed},
		{name: "half a TCP header", frame: ipv4Frame("8.8.8.8", header.TCPProtocolNumber, make([]byte, 19)), drop: dropMalformed},
		{name: "half a UDP header", frame: ipv4Frame("10.0.0.1", header.UDPProtocolNumber, make([]byte, 7)), drop: dropMalformed},
		{name: "cut IPv4 packet", frame: syn[:len(syn)-1], drop: dropMalformed},
		{name: "half an IPv6 header", frame: ethernetFrame(header.IPv6ProtocolNumber, make([]byte, 39)), drop: dropMalformed},
		{name: "more padding than that", frame: padded(syn, 61), drop: dropMalformed},
		{name: "ARP with more padding than that", frame: padded(arpFrame(header.ARPRequest, "10.0.0.2", "10.0.0.1"), 61), drop: dropARP},
		{name: "a long TCP header that is not there", frame: tcp(24, nil), drop: dropMalformed},
		{name: "a TCP header that is too short", frame: tcp(16, nil), drop: dropMalformed},
		{name: "UDP that is longer than it says", frame: lies(udpFrame("10.0.0.1", 53, question), 19), drop: dropMalformed},
		{name: "UDP that is shorter than it says", frame: lies(udpFrame("10.0.0.1", 53, question), 21), drop: dropMalformed},
		{name: "less than a lookup", frame: udpFrame("10.0.0.1", 53, question[1:]), drop: dropMalformed},
		{name: "no byte of a lookup", frame: udpFrame("10.0.0.1", 53, ""), drop: dropMalformed},
		{name: "more than a lookup", frame: udpFrame("10.0.0.1", 53, strings.Repeat("q", maxLookup+1)), drop: dropMalformed},
		{name: "VLAN", frame: ethernetFrame(0x8100, make([]byte, 60)), drop: dropEthertype},
		{name: "LLDP", frame: ethernetFrame(0x88cc, make([]byte, 60)), drop: dropEthertype},

		{name: "spoofed source", frame: ipv4Frame("8.8.8.8", header.TCPProtocolNumber, make([]byte, 20), spoofed), drop: dropSource},
		{name: "options", frame: ipv4Frame("8.8.8.8", header.TCPProtocolNumber, make([]byte, 20), options), drop: dropOptions, attempt: true, reply: true},
		{name: "first fragment", frame: ipv4Frame("8.8.8.8", header.TCPProtocolNumber, make([]byte, 24), first), drop: dropFragment, attempt: true},
		{name: "later fragment", frame: ipv4Frame("10.0.0.1", header.UDPProtocolNumber, make([]byte, 24), later), drop: dropFragment, attempt: true},
		{name: "broadcast", frame: udpFrame("255.255.255.255", 67, ""), drop: dropMulticast},
		{name: "subnet broadcast", frame: udpFrame("10.0.0.255", 137, ""), drop: dropMulticast},
		{name: "multicast", frame: udpFrame("224.0.0.251", 5353, ""), drop: dropMulticast},

		{name: "TCP to itself", frame: tcpSYN("10.0.0.2", 80), drop: dropTCP, attempt: true, reply: true},
		{name: "TCP to loopback", frame: tcpSYN("127.0.0.1", 80), drop: dropTCP, attempt: true, reply: true},
		{name: "TCP to nothing", frame: tcpSYN("0.0.0.0", 80), drop: dropTCP, attempt: true, reply: true},
		{name: "tiny segments", frame: segments(535), drop: dropTCP, attempt: true, reply: true},
		{name: "QUIC", frame: udpFrame("198.18.0.1", 443, "x"), drop: dropUDP, attempt: true, reply: true},
		{name: "DNS elsewhere", frame: udpFrame("8.8.8.8", 53, "x"), drop: dropUDP, attempt: true, reply: true},
		{name: "gateway, other port", frame: udpFrame("10.0.0.1", 123, "x"), drop: dropUDP, attempt: true, reply: true},
		{name: "ping", frame: pingFrame("8.8.8.8"), drop: dropICMP, attempt: true, reply: true},
		{name: "ping of the gateway", frame: pingFrame("10.0.0.1"), drop: dropICMP, attempt: true, reply: true},
		{name: "ICMP error", frame: ipv4Frame("8.8.8.8", header.ICMPv4ProtocolNumber, []byte{3, 1, 0, 0, 0, 0, 0, 0}), drop: dropICMP, attempt: true},
		{name: "SCTP", frame: ipv4Frame("8.8.8.8", 132, make([]byte, 20)), drop: dropProtocol, attempt: true, reply: true},
		{name: "IPv6 in IPv4", frame: ipv4Frame("8.8.8.8", 41, make([]byte, 40)), drop: dropProtocol, attempt: true, reply: true},

		{name: "IPv6", frame: ipv6Frame("fd00::2", "2606:4700::1", header.TCPProtocolNumber, make([]byte, 20)), drop: dropIPv6, attempt: true, reply: true},
		{name: "IPv6 ping", frame: ipv6Frame("fd00::2", "2606:4700::1", header.ICMPv6ProtocolNumber, []byte{128, 0, 0, 0}), drop: dropIPv6, attempt: true, reply: true},
		{name: "IPv6 error", frame: ipv6Frame("fd00::2", "2606:4700::1", header.ICMPv6ProtocolNumber, []byte{1, 0, 0, 0}), drop: dropIPv6, attempt: true},
		{name: "IPv6 multicast", frame: ipv6Frame("fe80::2", "ff02::2", header.ICMPv6ProtocolNumber, []byte{133, 0, 0, 0}), drop: dropMulticast},
		{name: "IPv6 link-local", frame: ipv6Frame("fe80::2", "fe80::1", header.UDPProtocolNumber, make([]byte, 8)), drop: dropMulticast},
		{name: "solicitation for a global address", frame: solicitFrame("fd00::2", "2606:4700::1"), drop: dropMulticast, reply: true},
		{name: "solicitation for a link-local address", frame: solicitFrame("fe80::2", "fe80::1"), drop: dropMulticast},
		{name: "check for a duplicate", frame: solicitFrame("::", "2001:db8::2"), drop: dropMulticast},
	} {
		got := sift(tc.frame)
		if got.pass != tc.pass || got.drop != tc.drop || got.attempt != tc.attempt || (got.reply != nil) != tc.reply {
			t.Errorf("%s: pass %v drop %q attempt %v reply %v, want %v %q %v %v",
				tc.name, got.pass, got.drop, got.attempt, got.reply != nil, tc.pass, tc.drop, tc.attempt, tc.reply)
		}
		if got.attempt && (got.protocol == "" || !got.address.IsValid()) {
			t.Errorf("%s: an attempt to be logged without protocol or address", tc.name)
		}
	}
}

// checkReply checks that a frame from the gate is well-formed and small.
func checkReply(t *testing.T, reply []byte) {
	t.Helper()
	if len(reply) > 128 {
		t.Errorf("a reply of %d bytes", len(reply))
	}
	if e := header.Ethernet(reply); e.SourceAddress() != gatewayMAC {
		t.Errorf("a reply from %s", e.SourceAddress())
	}
	body := reply[header.EthernetMinimumSize:]
	switch header.Ethernet(reply).Type() {
	case header.IPv4ProtocolNumber:
		ip := header.IPv4(body)
		if !ip.IsValid(len(body)) || !ip.IsChecksumValid() || ip.TransportProtocol() != header.ICMPv4ProtocolNumber {
			t.Errorf("bad IPv4 reply % x", reply)
		}
		icmp := header.ICMPv4(ip.Payload())
		if icmp.Checksum() != header.ICMPv4Checksum(icmp, 0) || icmp.Type() != header.ICMPv4DstUnreachable {
			t.Errorf("bad ICMP reply % x", reply)
		}
		if netip.AddrFrom4(ip.DestinationAddress().As4()) != guestAddr {
			t.Errorf("a reply to %s", ip.DestinationAddress())
		}
	case header.IPv6ProtocolNumber:
		ip := header.IPv6(body)
		icmp := header.ICMPv6(ip.Payload())
		sum := header.ICMPv6Checksum(header.ICMPv6ChecksumParams{Header: icmp, Src: ip.SourceAddress(), Dst: ip.DestinationAddress()})
		if !ip.IsValid(len(body)) || icmp.Checksum() != sum {
			t.Errorf("bad IPv6 reply % x: checksum %x, want %x", reply, icmp.Checksum(), sum)
		}
		if icmp.Type() != header.ICMPv6DstUnreachable && icmp.Type() != header.ICMPv6NeighborAdvert {
			t.Errorf("a reply of type %d", icmp.Type())
		}
	default:
		t.Errorf("a reply of type %x", header.Ethernet(reply).Type())
	}
}

func TestRepliesAreWellFormed(t *testing.T) {
	for _, f := range [][]byte{
		udpFrame("8.8.8.8", 443, "a long payload that is not quoted whole"), pingFrame("8.8.8.8"), tcpSYN("127.0.0.1", 80),
		ipv6Frame("fd00::2", "2606:4700::1", header.TCPProtocolNumber, make([]byte, 200)), solicitFrame("fd00::2", "2606:4700::1"),
	} {
		checkReply(t, sift(f).reply)
	}
}

func FuzzSift(f *testing.F) {
	for _, frame := range [][]byte{
		tcpSYN("8.8.8.8", 443), udpFrame("10.0.0.1", 53, "a long question"), udpFrame("8.8.8.8", 443, "x"), pingFrame("8.8.8.8"),
		arpFrame(header.ARPRequest, "10.0.0.2", "10.0.0.1"), solicitFrame("fd00::2", "2606:4700::1"),
		ipv6Frame("fd00::2", "2606:4700::1", header.TCPProtocolNumber, make([]byte, 20)), {}, make([]byte, 14),
	} {
		f.Add(frame)
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		s := sift(frame)
		if s.pass == (s.drop != "") {
			t.Fatalf("pass %v, drop %q", s.pass, s.drop)
		}
		if s.reply != nil {
			checkReply(t, s.reply)
		}
		if !s.pass {
			return
		}
		// Whatever passes is what the stack was promised.
		body := frame[header.EthernetMinimumSize:]
		switch header.Ethernet(frame).Type() {
		case header.ARPProtocolNumber:
		case header.IPv4ProtocolNumber:
			ip := header.IPv4(body)
			if !ip.IsValid(len(body)) || netip.AddrFrom4(ip.SourceAddress().As4()) != guestAddr || ip.More() || ip.FragmentOffset() != 0 {
				t.Fatalf("passed % x", frame)
			}
			to := netip.AddrFrom4(ip.DestinationAddress().As4())
			if len(frame) > minFrame && len(body) != int(ip.TotalLength()) {
				t.Fatalf("passed with padding: % x", frame)
			}
			switch ip.TransportProtocol() {
			case header.TCPProtocolNumber:
				if o := int(header.TCP(ip.Payload()).DataOffset()); o < header.TCPMinimumSize || o > len(ip.Payload()) {
					t.Fatalf("passed a TCP header of %d bytes of %d", o, len(ip.Payload()))
				}
			case header.UDPProtocolNumber:
				if to != gatewayAddr || header.UDP(ip.Payload()).DestinationPort() != dnsPort {
					t.Fatalf("passed UDP to %s", to)
				}
			default:
				t.Fatalf("passed protocol %d", ip.Protocol())
			}
		default:
			t.Fatalf("passed type %x", header.Ethernet(frame).Type())
		}
	})
}
