package gate

import (
	"net"
	"net/netip"
	"slices"
)

// machine knows the addresses of this machine, on which services may listen that
// are not meant for guests.
type machine struct {
	addrs   []netip.Addr
	unknown bool // they cannot be read
}

// thisMachine reads them. They change while a gate runs, so it is asked again for
// every connection.
func thisMachine() machine {
	list, err := net.InterfaceAddrs()
	m := machine{unknown: err != nil}
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok {
				m.addrs = append(m.addrs, ip.Unmap())
			}
		}
	}
	return m
}

// has reports whether what is sent to a arrives at this machine itself. Interfaces
// do not tell it all: every address of a network that is on the loopback interface
// does, and so does what a route says is local, as those of a cloud's load balancers.
func (m machine) has(a netip.Addr) bool {
	a = a.Unmap()
	if m.unknown {
		return true // not knowing is no reason to let it pass
	}
	return slices.Contains(m.addrs, a) || routedHere(a)
}
