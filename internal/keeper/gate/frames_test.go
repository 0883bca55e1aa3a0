package gate

import (
	"net/netip"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/checksum"
	"gvisor.dev/gvisor/pkg/tcpip/header"
)

const guestMAC = tcpip.LinkAddress("\x52\x54\x00\x12\x34\x56")

func ethernetFrame(kind tcpip.NetworkProtocolNumber, body []byte) []byte {
	f := make([]byte, header.EthernetMinimumSize+len(body))
	header.Ethernet(f).Encode(&header.EthernetFields{SrcAddr: guestMAC, DstAddr: gatewayMAC, Type: kind})
	copy(f[header.EthernetMinimumSize:], body)
	return f
}

// ipv4Frame makes a frame from the guest.
func ipv4Frame(to string, proto tcpip.TransportProtocolNumber, payload []byte, change ...func(*header.IPv4Fields)) []byte {
	f := header.IPv4Fields{
		TTL: 64, Protocol: uint8(proto), SrcAddr: tcpip.AddrFrom4(guestAddr.As4()),
		DstAddr: tcpip.AddrFrom4(netip.MustParseAddr(to).As4()),
	}
	for _, c := range change {
		c(&f)
	}
	size := header.IPv4MinimumSize
	if f.Options != nil {
		size += 4
	}
	f.TotalLength = uint16(size + len(payload))
	ip := make([]byte, size+len(payload))
	header.IPv4(ip).Encode(&f)
	header.IPv4(ip).SetChecksum(^header.IPv4(ip).CalculateChecksum())
	copy(ip[size:], payload)
	return ethernetFrame(header.IPv4ProtocolNumber, ip)
}

func tcpSYN(to string, port uint16) []byte {
	h := make(header.TCP, header.TCPMinimumSize)
	h.Encode(&header.TCPFields{SrcPort: 40000, DstPort: port, SeqNum: 1, DataOffset: header.TCPMinimumSize, Flags: header.TCPFlagSyn, WindowSize: 65535})
	return ipv4Frame(to, header.TCPProtocolNumber, h)
}

func udpFrame(to string, port uint16, payload string) []byte {
	h := make(header.UDP, header.UDPMinimumSize+len(payload))
	h.Encode(&header.UDPFields{SrcPort: 40000, DstPort: port, Length: uint16(len(h))})
	copy(h[header.UDPMinimumSize:], payload)
	return ipv4Frame(to, header.UDPProtocolNumber, h)
}

func pingFrame(to string) []byte {
	h := make(header.ICMPv4, header.ICMPv4MinimumSize+8)
	h.SetType(header.ICMPv4Echo)
	h.SetChecksum(header.ICMPv4Checksum(h, 0))
	return ipv4Frame(to, header.ICMPv4ProtocolNumber, h)
}

func ipv6Frame(from, to string, next tcpip.TransportProtocolNumber, payload []byte) []byte {
	src, dst := tcpip.AddrFrom16(netip.MustParseAddr(from).As16()), tcpip.AddrFrom16(netip.MustParseAddr(to).As16())
	ip := make(header.IPv6, header.IPv6MinimumSize+len(payload))
	ip.Encode(&header.IPv6Fields{PayloadLength: uint16(len(payload)), TransportProtocol: next, HopLimit: 255, SrcAddr: src, DstAddr: dst})
	copy(ip[header.IPv6MinimumSize:], payload)
	if next == header.ICMPv6ProtocolNumber {
		icmp := header.ICMPv6(ip[header.IPv6MinimumSize:])
		icmp.SetChecksum(0)
		icmp.SetChecksum(^checksum.Checksum(icmp, header.PseudoHeaderChecksum(next, src, dst, uint16(len(payload)))))
	}
	return ethernetFrame(header.IPv6ProtocolNumber, ip)
}

func solicitFrame(from, target string) []byte {
	icmp := make(header.ICMPv6, header.ICMPv6NeighborSolicitMinimumSize)
	icmp.SetType(header.ICMPv6NeighborSolicit)
	header.NDPNeighborSolicit(icmp.MessageBody()).SetTargetAddress(tcpip.AddrFrom16(netip.MustParseAddr(target).As16()))
	return ipv6Frame(from, "ff02::1:ff00:1", header.ICMPv6ProtocolNumber, icmp)
}

func arpFrame(op header.ARPOp, sender, target string) []byte {
	h := make(header.ARP, header.ARPSize)
	h.SetIPv4OverEthernet()
	h.SetOp(op)
	copy(h.HardwareAddressSender(), guestMAC)
	copy(h.ProtocolAddressSender(), netip.MustParseAddr(sender).AsSlice())
	copy(h.ProtocolAddressTarget(), netip.MustParseAddr(target).AsSlice())
	return ethernetFrame(header.ARPProtocolNumber, h)
}
