package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/miekg/dns"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/checksum"
	"gvisor.dev/gvisor/pkg/tcpip/header"

	"rigs/internal/keeper/gate"
)

// measureGateAlone times what the gate itself takes to answer a SYN, without a
// guest: from the frame's way into its socket to the answer's way out.
func measureGateAlone(ctx context.Context, rep *report) (err error) {
	const each = 1000
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it does not wait
	if err != nil {
		return err
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	_, p, _ := net.SplitHostPort(l.Addr().String())
	port, err := strconv.ParseUint(p, 10, 16)
	if err != nil {
		return err
	}
	g, err := gate.New(gate.Config{Patterns: []string{hostName + ":" + p + " private"}})
	if err != nil {
		return err
	}
	ours, theirs, err := connPair()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- g.Serve(ctx, theirs) }()
	defer func() {
		cancel()
		ours.Close()
		if serr := <-served; !errors.Is(serr, context.Canceled) {
			err = errors.Join(err, serr)
		}
	}()
	peer := &framePeer{conn: ours, port: 10000}
	for _, kind := range []struct {
		what, name string
		flags      header.TCPFlags
	}{
		{"denied", "denied.test", header.TCPFlagRst | header.TCPFlagAck},
		{"admitted, connected on the host's loopback", hostName, header.TCPFlagSyn | header.TCPFlagAck},
	} {
		to, err := peer.lookup(kind.name)
		if err != nil {
			return err
		}
		var medians, late []float64
		for range *repeat {
			took := make([]float64, each)
			for i := range took {
				if took[i], err = peer.connect(to, uint16(port), kind.flags); err != nil {
					return fmt.Errorf("%s: %w", kind.what, err)
				}
			}
			medians, late = append(medians, quantile(took, 0.5)), append(late, quantile(took, 0.99))
		}
		aim := ""
		if kind.flags.Contains(header.TCPFlagRst) {
			aim = "< 1"
		}
		rep.add("connect, "+kind.what+", in the gate alone: median", "ms", "", medians...)
		rep.add("connect, "+kind.what+", in the gate alone: 99th percentile", "ms", aim, late...)
	}
	return nil
}

// connPair returns two ends of a nameless Unix socket.
func connPair() (a, b net.Conn, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, err
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "socket")
		ends[i], err = net.FileConn(f) // a duplicate
		f.Close()
		if err != nil {
			return nil, nil, err
		}
	}
	return ends[0], ends[1], nil
}

// framePeer is a guest that speaks in frames.
type framePeer struct {
	conn net.Conn
	port uint16 // the last that it used
}

// The guest's addresses, which the gate knows; the card's may be any.
var (
	guestMAC   = tcpip.LinkAddress("\x52\x54\x00\x12\x34\x56")
	anyMAC     = tcpip.LinkAddress("\x02\x00\x00\x00\x00\x01")
	guestIP    = netip.MustParseAddr("10.0.0.2")
	gatewayIP  = netip.MustParseAddr("10.0.0.1")
	frameLimit = 64 << 10
)

func (p *framePeer) send(frame []byte) error {
	_, err := p.conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...))
	return err
}

// receive returns the transport header and what follows of the next frame that has some
// for the port used last, and answers ARP meanwhile.
func (p *framePeer) receive(protocol tcpip.TransportProtocolNumber) ([]byte, error) {
	if err := p.conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return nil, err
	}
	for {
		var length [4]byte
		if _, err := io.ReadFull(p.conn, length[:]); err != nil {
			return nil, err
		}
		n := int(binary.BigEndian.Uint32(length[:]))
		if n < header.EthernetMinimumSize || n > frameLimit {
			return nil, fmt.Errorf("a frame of %d bytes", n)
		}
		frame := make([]byte, n)
		if _, err := io.ReadFull(p.conn, frame); err != nil {
			return nil, err
		}
		body := frame[header.EthernetMinimumSize:]
		switch header.Ethernet(frame).Type() {
		case header.ARPProtocolNumber:
			if err := p.send(arpAnswer(header.ARP(body))); err != nil {
				return nil, err
			}
		case header.IPv4ProtocolNumber:
			ip := header.IPv4(body)
			// TCP and UDP have their ports in the same place.
			if ip.IsValid(len(body)) && ip.TransportProtocol() == protocol && header.UDP(ip.Payload()).DestinationPort() == p.port {
				return ip.Payload(), nil
			}
		}
	}
}

func ethernet(protocol tcpip.NetworkProtocolNumber, size int) (frame, body []byte) {
	frame = make([]byte, header.EthernetMinimumSize+size)
	header.Ethernet(frame).Encode(&header.EthernetFields{SrcAddr: guestMAC, DstAddr: anyMAC, Type: protocol})
	return frame, frame[header.EthernetMinimumSize:]
}

func arpAnswer(ask header.ARP) []byte {
	frame, body := ethernet(header.ARPProtocolNumber, header.ARPSize)
	a := header.ARP(body)
	a.SetIPv4OverEthernet()
	a.SetOp(header.ARPReply)
	copy(a.HardwareAddressSender(), guestMAC)
	copy(a.ProtocolAddressSender(), ask.ProtocolAddressTarget())
	copy(a.HardwareAddressTarget(), ask.HardwareAddressSender())
	copy(a.ProtocolAddressTarget(), ask.ProtocolAddressSender())
	return frame
}

// ipv4 frames what follows an IPv4 header to an address.
func ipv4(to netip.Addr, protocol tcpip.TransportProtocolNumber, payload []byte) []byte {
	frame, body := ethernet(header.IPv4ProtocolNumber, header.IPv4MinimumSize+len(payload))
	ip := header.IPv4(body)
	ip.Encode(&header.IPv4Fields{
		TotalLength: uint16(len(body)), TTL: 64, Protocol: uint8(protocol),
		SrcAddr: tcpip.AddrFrom4(guestIP.As4()), DstAddr: tcpip.AddrFrom4(to.As4()),
	})
	ip.SetChecksum(^ip.CalculateChecksum())
	copy(body[header.IPv4MinimumSize:], payload)
	return frame
}

func (p *framePeer) lookup(name string) (netip.Addr, error) {
	question, err := new(dns.Msg).SetQuestion(dns.Fqdn(name), dns.TypeA).Pack()
	if err != nil {
		return netip.Addr{}, err
	}
	p.port++
	u := header.UDP(make([]byte, header.UDPMinimumSize+len(question)))
	u.Encode(&header.UDPFields{SrcPort: p.port, DstPort: 53, Length: uint16(len(u))}) // no checksum, which IPv4 allows
	copy(u.Payload(), question)
	if err := p.send(ipv4(gatewayIP, header.UDPProtocolNumber, u)); err != nil {
		return netip.Addr{}, err
	}
	b, err := p.receive(header.UDPProtocolNumber)
	if err != nil {
		return netip.Addr{}, err
	}
	var answer dns.Msg
	if err := answer.Unpack(header.UDP(b).Payload()); err != nil {
		return netip.Addr{}, err
	}
	if len(answer.Answer) == 1 {
		if a, ok := answer.Answer[0].(*dns.A); ok {
			if addr, ok := netip.AddrFromSlice(a.A.To4()); ok {
				return addr, nil
			}
		}
	}
	return netip.Addr{}, fmt.Errorf("%s: %v", name, &answer)
}

// connect sends a SYN and returns the milliseconds until an answer with flags. A
// connection that was accepted is reset.
func (p *framePeer) connect(to netip.Addr, port uint16, flags header.TCPFlags) (float64, error) {
	if p.port++; p.port < 10000 {
		p.port = 10000 // again from the start
	}
	segment := func(f *header.TCPFields) error {
		f.SrcPort, f.DstPort, f.DataOffset, f.WindowSize = p.port, port, header.TCPMinimumSize, 65535
		t := header.TCP(make([]byte, header.TCPMinimumSize))
		t.Encode(f)
		sum := header.PseudoHeaderChecksum(header.TCPProtocolNumber, tcpip.AddrFrom4(guestIP.As4()), tcpip.AddrFrom4(to.As4()), uint16(len(t)))
		t.SetChecksum(^checksum.Checksum(t, sum))
		return p.send(ipv4(to, header.TCPProtocolNumber, t))
	}
	began := time.Now()
	if err := segment(&header.TCPFields{SeqNum: 1, Flags: header.TCPFlagSyn}); err != nil {
		return 0, err
	}
	b, err := p.receive(header.TCPProtocolNumber)
	took := time.Since(began)
	if err != nil {
		return 0, err
	}
	answer := header.TCP(b)
	if got := answer.Flags(); got != flags {
		return 0, fmt.Errorf("answered with %s, not %s", got, flags)
	}
	if flags.Contains(header.TCPFlagSyn) {
		err = segment(&header.TCPFields{SeqNum: 2, AckNum: answer.SequenceNumber() + 1, Flags: header.TCPFlagRst | header.TCPFlagAck})
	}
	return float64(took.Nanoseconds()) / 1e6, err
}
