//go:build !linux && !darwin

package wire

import (
	"errors"
	"net"
)

// PeerUID is not to be had here.
func PeerUID(*net.UnixConn) (int, error) {
	return 0, errors.New("peer credentials are not supported on this system")
}
