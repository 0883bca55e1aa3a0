package wire

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// PeerUID is the user at the other end of a Unix socket, as the kernel recorded
// it when the connection was made.
func PeerUID(c *net.UnixConn) (int, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var cerr error
	err = raw.Control(func(fd uintptr) { cred, cerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err := errors.Join(err, cerr); err != nil {
		return 0, err
	}
	return int(cred.Uid), nil
}
