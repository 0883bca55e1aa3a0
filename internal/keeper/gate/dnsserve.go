package gate

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"

	"rigs/internal/rig"
)

const (
	dnsStreams    = 8                // lookups over TCP at once; more wait
	dnsStreamIdle = 10 * time.Second // between two messages of one
)

// serveDNS answers lookups on the gateway's port 53, over UDP and TCP.
func (s *session) serveDNS(ctx context.Context) error {
	at := tcpip.FullAddress{NIC: nicID, Addr: tcpip.AddrFrom4(gatewayAddr.As4()), Port: dnsPort}
	packets, err := gonet.DialUDP(s.stack, &at, nil, ipv4.ProtocolNumber)
	if err != nil {
		return rig.Errorf(rig.CodeInternal, "the guest's network was not connected: listening for lookups: %w", err)
	}
	streams, err := gonet.ListenTCP(s.stack, at, ipv4.ProtocolNumber)
	if err != nil {
		_ = packets.Close() // it never fails
		return rig.Errorf(rig.CodeInternal, "the guest's network was not connected: listening for lookups: %w", err)
	}
	s.wg.Go(func() {
		stop := context.AfterFunc(ctx, func() { _ = packets.Close() })
		defer stop()
		s.answerPackets(packets)
	})
	s.wg.Go(func() {
		stop := context.AfterFunc(ctx, func() { streams.Shutdown(); _ = streams.Close() })
		defer stop()
		s.answerStreams(ctx, streams)
	})
	return nil
}

// answerPackets answers one after the other: an answer takes microseconds, and
// what comes faster waits in the socket's buffer or is lost there.
func (s *session) answerPackets(conn *gonet.UDPConn) {
	message := make([]byte, maxLookup)
	for {
		n, from, err := conn.ReadFrom(message)
		if err != nil {
			return // closed: nothing else ends it
		}
		if r := s.dns.answer(message[:n]); r != nil {
			// An answer that does not fit the queue is lost like any packet.
			_, _ = conn.WriteTo(r, from)
		}
	}
}

func (s *session) answerStreams(ctx context.Context, l *gonet.TCPListener) {
	slots := make(chan struct{}, dnsStreams)
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		conn, err := l.Accept()
		if err != nil {
			return
		}
		s.wg.Go(func() {
			defer func() { <-slots }()
			defer conn.Close()
			stop := context.AfterFunc(ctx, func() { conn.Close() })
			defer stop()
			s.answerStream(conn)
		})
	}
}

// answerStream serves one connection: RFC 1035 §4.2.2, a length of two bytes
// before each message.
func (s *session) answerStream(conn net.Conn) {
	message := make([]byte, maxLookup)
	for {
		if conn.SetDeadline(time.Now().Add(dnsStreamIdle)) != nil {
			return
		}
		if _, err := io.ReadFull(conn, message[:2]); err != nil {
			return
		}
		n := int(binary.BigEndian.Uint16(message))
		if n > len(message) {
			return
		}
		if _, err := io.ReadFull(conn, message[:n]); err != nil {
			return
		}
		r := s.dns.answer(message[:n])
		if r == nil {
			return
		}
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(r))), r...)); err != nil {
			return
		}
	}
}
