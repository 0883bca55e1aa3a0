package gate

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/channel"
	"gvisor.dev/gvisor/pkg/tcpip/link/ethernet"
	"gvisor.dev/gvisor/pkg/tcpip/network/arp"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"

	"rigs/internal/rig"
)

// Why connections are closed from this side.
var (
	errRemoved = errors.New("its pattern was removed")
	errExpired = errors.New("its admission has ended")
	errIdle    = errors.New("nothing moved for long")
	errEnded   = errors.New("the guest's network ended")
)

// session is one guest's stream and the stack behind it, from the start of Serve
// to its end.
type session struct {
	gate    *Gate
	stack   *stack.Stack
	link    *channel.Endpoint
	journal *journal
	dns     answerer
	forward *tcp.Forwarder
	buffers *buffers

	mu    sync.Mutex
	ended bool
	wg    sync.WaitGroup // everything that the session started
}

// Serve connects a hypervisor's network stream (QEMU's -netdev stream) and serves
// it until it ends or ctx does. It owns conn and closes it. It returns nil when
// the other end closed the stream, the cause of ctx when that ended, and a
// *rig.Problem when the stream made no sense. When it returns, everything that it
// started has ended, and every line of the log was written. A gate serves one
// stream at a time.
func (g *Gate) Serve(ctx context.Context, conn net.Conn) error {
	defer conn.Close()
	if !g.serving.CompareAndSwap(false, true) {
		return rig.Errorf(rig.CodeConflict, "the guest's network was not connected: this gate already serves one: make another gate")
	}
	defer g.serving.Store(false)

	// The log outlives the rest, to hold the last lines.
	logCtx, endLog := context.WithCancel(context.WithoutCancel(ctx))
	s := &session{gate: g, journal: newJournal(g.cfg.Events, func(host string) bool { return g.rules().Match(host, 0).Named }), buffers: newBuffers()}
	s.journal.count = g.counters.note
	var log sync.WaitGroup
	log.Go(func() { s.journal.run(logCtx) })
	defer log.Wait()
	defer endLog()

	return s.run(ctx, conn)
}

func (s *session) run(outer context.Context, conn net.Conn) error {
	ctx, cancel := context.WithCancelCause(outer)
	defer cancel(errEnded)
	lookups := rate.NewLimiter(rate.Limit(s.gate.cfg.Limits.Lookups), 8*s.gate.cfg.Limits.Lookups)
	s.dns = answerer{gate: s.gate, note: s.journal.refused, may: lookups.Allow}
	if err := s.build(ctx); err != nil {
		return err
	}
	// The end of ctx has to reach a read and a write that block.
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()

	err := s.serveDNS(ctx)
	if err == nil {
		var writing error
		s.wg.Go(func() { s.sweep(ctx) })
		s.wg.Go(func() {
			writing = writeFrames(ctx, conn, s.link)
			cancel(errEnded) // a stream that takes nothing more has ended
		})
		err = readFrames(conn, s.gate.cfg.MTU, s.countOversize, s.take)
		cancel(errEnded)
		s.end()
		err = cmp.Or(err, writing)
	} else {
		cancel(errEnded)
		s.end()
	}
	if err == nil && outer.Err() != nil {
		err = context.Cause(outer)
	}
	return err
}

// build makes the stack.
func (s *session) build(ctx context.Context) error {
	s.stack = stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol, arp.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol},
	})
	s.link = channel.New(queueLen, uint32(s.gate.cfg.MTU+header.EthernetMinimumSize), gatewayMAC)
	// A Unix socket loses nothing and changes nothing.
	s.link.LinkEPCapabilities |= stack.CapabilityRXChecksumOffload
	s.forward = tcp.NewForwarder(s.stack, largestShare, 2*s.gate.cfg.Limits.Connections, func(r *tcp.ForwarderRequest) { s.connect(ctx, r) })
	s.stack.SetTransportProtocolHandler(tcp.ProtocolNumber, s.segment)

	sack := tcpip.TCPSACKEnabled(true)
	receive := tcpip.TCPReceiveBufferSizeRangeOption{Min: tcp.MinBufferSize, Default: plainBuffer, Max: largestShare}
	send := tcpip.TCPSendBufferSizeRangeOption{Min: tcp.MinBufferSize, Default: plainBuffer, Max: largestShare}
	moderate := tcpip.TCPModerateReceiveBufferOption(false)
	timeWait := tcpip.TCPTimeWaitTimeoutOption(time.Second) // no packet of this link is older
	linger := tcpip.TCPLingerTimeoutOption(30 * time.Second)
	for _, option := range []tcpip.SettableTransportProtocolOption{&sack, &receive, &send, &moderate, &timeWait, &linger} {
		if err := s.stack.SetTransportProtocolOption(tcp.ProtocolNumber, option); err != nil {
			return stackError("setting a TCP option", err)
		}
	}
	if err := s.stack.CreateNIC(nicID, ethernet.New(s.link)); err != nil {
		return stackError("making the network card", err)
	}
	address := tcpip.ProtocolAddress{Protocol: ipv4.ProtocolNumber, AddressWithPrefix: tcpip.AddressWithPrefix{
		Address: tcpip.AddrFrom4(gatewayAddr.As4()), PrefixLen: network.Bits(),
	}}
	if err := s.stack.AddProtocolAddress(nicID, address, stack.AddressProperties{}); err != nil {
		return stackError("setting its address", err)
	}
	// The stack stands for every address there is.
	if err := s.stack.SetPromiscuousMode(nicID, true); err != nil {
		return stackError("taking every address", err)
	}
	if err := s.stack.SetSpoofing(nicID, true); err != nil {
		return stackError("answering from every address", err)
	}
	s.stack.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: nicID}})
	return nil
}

const nicID = 1

func stackError(what string, err tcpip.Error) error {
	return rig.Errorf(rig.CodeInternal, "the guest's network was not connected: %s: %s", what, err)
}

// end closes every connection and the stack, and waits for all of it.
func (s *session) end() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	for _, c := range s.gate.open() {
		c.close(errEnded)
	}
	s.stack.Close()
	s.wg.Wait()
	s.stack.Destroy()
	s.link.Close()
}

// enter counts a goroutine that the stack started as the session's own. It
// returns false when the session has ended; otherwise s.wg.Done must follow.
func (s *session) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.wg.Add(1)
	}
	return !s.ended
}

func (s *session) countOversize() { s.gate.dropped[dropOversize].Add(1) }

// take puts one frame through the filter and into the stack.
func (s *session) take(frame *buffer.View) {
	f := sift(frame.AsSlice())
	if f.pass {
		p := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithView(frame)})
		s.link.InjectInbound(0, p)
		p.DecRef()
		return
	}
	frame.Release()
	s.gate.dropped[f.drop].Add(1)
	if f.attempt {
		attempt := flow{protocol: f.protocol, address: f.address, port: f.port, host: s.gate.names.name(f.address)}
		s.refuse(attempt, judge(attempt, nil)) // no list admits what the filter drops
	}
	if f.reply != nil {
		p := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(f.reply)})
		var one stack.PacketBufferList
		one.PushBack(p)
		if _, err := s.link.WritePackets(one); err != nil {
			s.journal.refused(rig.EgressEvent{Reason: ReasonRateLimit, Protocol: f.protocol}) // the guest does not read
		}
		p.DecRef()
	}
}

// segment gets every TCP segment that belongs to no connection. Returning false
// makes the stack answer with a reset at once: a refused connection costs no
// goroutine and no memory.
func (s *session) segment(id stack.TransportEndpointID, p *stack.PacketBuffer) bool {
	flags := header.TCP(p.TransportHeader().Slice()).Flags()
	if !flags.Contains(header.TCPFlagSyn) || flags.Intersects(header.TCPFlagAck|header.TCPFlagRst|header.TCPFlagFin) {
		return false
	}
	f := s.flowOf(id)
	v := judge(f, s.gate.rules())
	if v.allow && s.gate.full() {
		v = deny(ReasonTooMany)
	}
	if !v.allow {
		s.refuse(f, v)
		return false
	}
	return s.forward.HandlePacket(id, p)
}

// flowOf says what is known at the SYN.
func (s *session) flowOf(id stack.TransportEndpointID) flow {
	address := netip.AddrFrom4(id.LocalAddress.As4())
	return flow{protocol: protoTCP, address: address, port: int(id.LocalPort), host: s.gate.names.name(address)}
}

// refuse logs a flow's refusal. The address is that of the other end where it is
// known, else the one that the guest dialled; a synthetic one says nothing.
func (s *session) refuse(f flow, v verdict) { s.journal.refused(event(f, v)) }

func event(f flow, v verdict) rig.EgressEvent {
	e := rig.EgressEvent{Verdict: verdictDeny, Reason: v.reason, Protocol: f.protocol, Host: f.host, Port: f.port}
	if v.allow {
		e.Verdict = verdictAllow
	}
	switch {
	case f.upstream.IsValid():
		e.Address = f.upstream.String()
	case f.host == "" && f.address.IsValid():
		e.Address = f.address.String()
	}
	return e
}

// sweep closes connections on which nothing moves.
func (s *session) sweep(ctx context.Context) {
	limits := s.gate.cfg.Limits
	ticker := time.NewTicker(max(min(limits.Idle, limits.HalfClosed)/8, 10*time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, c := range s.gate.open() {
			if c.idleFor() >= c.patience(limits) {
				c.close(errIdle)
			}
		}
	}
}
