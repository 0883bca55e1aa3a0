package keeper

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
)

// The header of a yamux frame: version, type, flags, stream, length (all
// big-endian; hashicorp/yamux spec.md).
const (
	muxHeader   = 12
	muxData     = 0
	muxWindow   = 1
	muxGoAway   = 3
	muxFlagSYN  = 1
	muxFlagsAll = 0xf
	// maxMuxFrame is above any receive window: a longer frame cannot be right.
	maxMuxFrame = 8 << 20
)

// errMux says that a guest sent what no agent of ours sends.
var errMux = errors.New("the machine's agent broke its protocol")

// muxGuard passes a session's bytes from the guest on as long as they are frames
// that our agent sends. It opens no streams and sends no pings: the library
// would keep a buffer for each stream that nobody accepts and a goroutine for each ping
// whose answer nobody reads, as many as a guest likes.
type muxGuard struct {
	net.Conn
	head [muxHeader]byte
	have int    // bytes of head
	body uint32 // bytes of the frame that follow
}

func (g *muxGuard) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	if cerr := g.check(p[:n]); cerr != nil {
		return 0, cerr
	}
	return n, err
}

func (g *muxGuard) check(p []byte) error {
	for len(p) > 0 {
		if g.body > 0 {
			skip := min(int(g.body), len(p))
			p, g.body = p[skip:], g.body-uint32(skip)
			continue
		}
		n := copy(g.head[g.have:], p)
		p, g.have = p[n:], g.have+n
		if g.have < muxHeader {
			return nil
		}
		g.have = 0
		kind, flags, length := g.head[1], binary.BigEndian.Uint16(g.head[2:]), binary.BigEndian.Uint32(g.head[8:])
		switch {
		case g.head[0] != 0 || kind != muxData && kind != muxWindow && kind != muxGoAway || flags&^muxFlagsAll != 0:
			return fmt.Errorf("%w: a frame of version %d, type %d, flags %#x", errMux, g.head[0], kind, flags)
		case flags&muxFlagSYN != 0:
			return fmt.Errorf("%w: it opened a stream", errMux)
		case kind == muxData && length > maxMuxFrame:
			return fmt.Errorf("%w: a frame of %d bytes", errMux, length)
		}
		if kind == muxData {
			g.body = length
		}
	}
	return nil
}
