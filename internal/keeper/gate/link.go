package gate

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"syscall"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/channel"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"rigs/internal/rig"
)

const (
	// maxFrame is the largest frame that QEMU sends (net/net.h, NET_BUFSIZE:
	// 4096+65536). A length above it means that the stream is not in step.
	maxFrame = 4096 + 65536

	// queueLen bounds the frames that wait for a guest that does not read. What
	// they hold is bounded again by the send buffers that the data is from.
	queueLen = 256

	// batch is how many frames go out with one system call.
	batch = 32
)

// readFrames hands each frame of a hypervisor's stream to take: a length of four
// bytes, big-endian, then the frame. The frame's buffer belongs to take. It
// returns nil when the stream ends.
func readFrames(conn io.Reader, mtu int, oversize func(), take func(*buffer.View)) error {
	r := bufio.NewReaderSize(conn, 64<<10)
	var length [4]byte
	for {
		if _, err := io.ReadFull(r, length[:]); err != nil {
			return endOfStream(err)
		}
		n := int(binary.BigEndian.Uint32(length[:]))
		if n > maxFrame {
			return rig.Errorf(rig.CodeBackendFailure, "the guest's network ended: the hypervisor announced a frame of %d bytes, and %d is the most: the rig cannot be trusted any more, close it", n, maxFrame)
		}
		if n > mtu+header.EthernetMinimumSize {
			oversize()
			if _, err := r.Discard(n); err != nil {
				return endOfStream(err)
			}
			continue
		}
		v := buffer.NewViewSize(n)
		if _, err := io.ReadFull(r, v.AsSlice()); err != nil {
			v.Release()
			return endOfStream(err)
		}
		take(v)
	}
}

// endOfStream turns the ways in which a hypervisor ends, killed in the middle of a
// frame among them, into nil.
func endOfStream(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, io.ErrClosedPipe) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return rig.Errorf(rig.CodeBackendFailure, "the guest's network ended: %w", err)
}

// writeFrames sends what the stack queues on the link until ctx or conn ends.
func writeFrames(ctx context.Context, conn net.Conn, link *channel.Endpoint) error {
	var (
		lengths [batch][4]byte
		packets [batch]*stack.PacketBuffer
		pieces  = make([][]byte, 0, 4*batch)
	)
	for {
		p := link.ReadContext(ctx)
		if p == nil {
			return nil
		}
		n := 0
		pieces = pieces[:0]
		for ; p != nil; p = link.Read() {
			binary.BigEndian.PutUint32(lengths[n][:], uint32(p.Size()))
			pieces = append(append(pieces, lengths[n][:]), p.AsSlices()...)
			packets[n] = p
			if n++; n == batch {
				break
			}
		}
		bufs := net.Buffers(pieces) // WriteTo consumes its own header, not the array
		_, err := bufs.WriteTo(conn)
		for i, p := range packets[:n] {
			p.DecRef()
			packets[i] = nil
		}
		clear(pieces)
		if err != nil {
			return endOfStream(err)
		}
	}
}
