package gate

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// routedHere asks the kernel whether its route to a is one to this machine. Without an
// answer it is not: then there is no route, and no way to connect either.
func routedHere(a netip.Addr) bool {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return true // not knowing is no reason to let it pass
	}
	defer func() { _ = unix.Close(fd) }()
	// rtnetlink(7): a header, what is asked, and one attribute, the destination.
	const size = unix.SizeofNlMsghdr + unix.SizeofRtMsg
	family := byte(unix.AF_INET6)
	if a.Is4() {
		family = unix.AF_INET
	}
	to := a.AsSlice()
	ask := make([]byte, size, size+unix.SizeofRtAttr+len(to))
	native := binary.NativeEndian
	native.PutUint32(ask, uint32(cap(ask)))
	native.PutUint16(ask[4:], unix.RTM_GETROUTE)
	native.PutUint16(ask[6:], unix.NLM_F_REQUEST)
	ask[unix.SizeofNlMsghdr], ask[unix.SizeofNlMsghdr+1] = family, byte(a.BitLen())
	ask = native.AppendUint16(ask, uint16(unix.SizeofRtAttr+len(to)))
	ask = native.AppendUint16(ask, unix.RTA_DST)
	ask = append(ask, to...)
	if err := unix.Sendto(fd, ask, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return true
	}
	// The kernel has answered before Sendto returns: nothing is waited for.
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, unix.MSG_DONTWAIT)
	if err != nil || n < size {
		return true
	}
	const kind = unix.SizeofNlMsghdr + 7 // rtm_type
	return native.Uint16(answer[4:]) == unix.RTM_NEWROUTE && answer[kind] == unix.RTN_LOCAL
}
