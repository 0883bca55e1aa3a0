package wire

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// MaxFrame is the largest payload of a frame in bytes. Larger writes are split
// by WriteData; a larger frame from the peer is an error.
const MaxFrame = 64 << 10

// Window is how many bytes of standard input a client may send before the
// other end has acknowledged them. It keeps a command that does not read its
// input from blocking the signals and resizes that travel behind that input.
const Window = 256 << 10

// Kind is the first byte of a frame.
type Kind byte

// The kinds of frames on a stream. A frame is: kind (1 byte), length of the
// payload (4 bytes, big-endian), payload.
const (
	KindStart  Kind = iota + 1 // client → guest, first frame: JSON guestapi.ExecRequest or TerminalRequest
	KindStdin                  // client → guest: bytes
	KindEOF                    // client → guest: end of standard input; empty
	KindStdout                 // guest → client: bytes; a terminal's output too
	KindStderr                 // guest → client: bytes
	KindAck                    // guest → client: 4 bytes big-endian, how many bytes of stdin were consumed
	KindResize                 // client → guest: JSON guestapi.Size
	KindSignal                 // client → guest: JSON guestapi.Signal
	KindExit                   // guest → client, last frame: JSON guestapi.ExitStatus
	KindError                  // guest or relay → client, last frame: JSON rig.Problem
)

// Frame is one message of a stream.
type Frame struct {
	Kind    Kind
	Payload []byte
}

// ErrFrame is wrapped by every error about a malformed frame.
var ErrFrame = errors.New("malformed frame")

// Reader reads frames. It is for one goroutine.
type Reader struct {
	r   io.Reader
	hdr [5]byte
	buf []byte
}

// NewReader returns a Reader. r should be buffered if it is a socket.
func NewReader(r io.Reader) *Reader { return &Reader{r: r} }

// Next returns the next frame. Its payload is valid until the next call.
// io.EOF means that the peer ended the stream between two frames.
func (r *Reader) Next() (Frame, error) {
	if _, err := io.ReadFull(r.r, r.hdr[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("%w: truncated header", ErrFrame)
		}
		return Frame{}, err
	}
	k, n := Kind(r.hdr[0]), binary.BigEndian.Uint32(r.hdr[1:])
	if k < KindStart || k > KindError {
		return Frame{}, fmt.Errorf("%w: kind %d", ErrFrame, k)
	}
	if n > MaxFrame {
		return Frame{}, fmt.Errorf("%w: %d bytes, the limit is %d", ErrFrame, n, MaxFrame)
	}
	if cap(r.buf) < int(n) {
		r.buf = make([]byte, MaxFrame)
	}
	r.buf = r.buf[:n]
	if _, err := io.ReadFull(r.r, r.buf); err != nil {
		return Frame{}, fmt.Errorf("%w: truncated payload", ErrFrame)
	}
	return Frame{k, r.buf}, nil
}

// Writer writes frames. It is safe for several goroutines; each frame is one
// Write of the underlying writer.
type Writer struct {
	mu  sync.Mutex
	w   io.Writer
	buf []byte
}

// NewWriter returns a Writer.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write sends one frame. The payload must not be larger than MaxFrame.
func (w *Writer) Write(k Kind, payload []byte) error {
	if len(payload) > MaxFrame {
		return fmt.Errorf("%w: %d bytes, the limit is %d", ErrFrame, len(payload), MaxFrame)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf = append(w.buf[:0], byte(k), 0, 0, 0, 0)
	binary.BigEndian.PutUint32(w.buf[1:], uint32(len(payload)))
	w.buf = append(w.buf, payload...)
	_, err := w.w.Write(w.buf)
	return err
}

// WriteData sends data as frames of kind k.
func (w *Writer) WriteData(k Kind, data []byte) error {
	for len(data) > 0 {
		n := min(len(data), MaxFrame)
		if err := w.Write(k, data[:n]); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// WriteJSON sends v as one frame.
func (w *Writer) WriteJSON(k Kind, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return w.Write(k, b)
}

// WriteAck acknowledges n bytes of standard input.
func (w *Writer) WriteAck(n int) error {
	return w.Write(KindAck, binary.BigEndian.AppendUint32(nil, uint32(n)))
}

// Ack returns the number in an acknowledgement.
func (f Frame) Ack() (int, error) {
	if f.Kind != KindAck || len(f.Payload) != 4 {
		return 0, fmt.Errorf("%w: not an acknowledgement", ErrFrame)
	}
	return int(binary.BigEndian.Uint32(f.Payload)), nil
}

// Decode decodes a JSON frame strictly into v.
func (f Frame) Decode(v any) error {
	if err := DecodeStrict(f.Payload, v); err != nil {
		return fmt.Errorf("%w: kind %d: %w", ErrFrame, f.Kind, err)
	}
	return nil
}
