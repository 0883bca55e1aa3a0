package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxLine bounds a message on standard input, in bytes.
const maxLine = 16 << 20

// lines is a transport of one message a line. The SDK's ends the session at the
// first line that is no message; this one answers it with an error, as JSON-RPC
// has it, and goes on.
type lines struct {
	in  io.Reader
	out io.Writer
	max int
}

// Connect implements mcp.Transport.
func (l *lines) Connect(ctx context.Context) (mcp.Connection, error) {
	out := &messages{w: l.out}
	r, w := io.Pipe()
	go func() { w.CloseWithError(l.copy(w, out)) }()
	// What comes through is bounded here.
	return (&mcp.IOTransport{Reader: r, Writer: out, MaxLineLength: -1}).Connect(ctx)
}

// copy passes messages on until the input ends. A batch, which only old versions
// of the protocol have, becomes the messages that it holds.
func (l *lines) copy(to io.Writer, answers io.Writer) error {
	in := bufio.NewReaderSize(l.in, 64<<10)
	for {
		line, fits, err := readLine(in, l.max)
		if !fits {
			if e := refuse(answers, jsonrpc.CodeParseError, "the line is longer than a message may be"); e != nil {
				return e
			}
		} else if line = bytes.TrimSpace(line); len(line) > 0 {
			if e := pass(to, answers, line); e != nil {
				return e
			}
		}
		if err != nil {
			return err
		}
	}
}

// pass passes on the messages in a line, and answers what is none.
func pass(to, answers io.Writer, line []byte) error {
	if !json.Valid(line) {
		return refuse(answers, jsonrpc.CodeParseError, "the line is not JSON")
	}
	batch := []json.RawMessage{line}
	if line[0] == '[' {
		batch = nil
		if err := json.Unmarshal(line, &batch); err != nil || len(batch) == 0 {
			return refuse(answers, jsonrpc.CodeInvalidRequest, "a batch without a message")
		}
	}
	for _, m := range batch {
		if _, err := jsonrpc.DecodeMessage(m); err != nil {
			if err := refuse(answers, jsonrpc.CodeInvalidRequest, "not a JSON-RPC message"); err != nil {
				return err
			}
			continue
		}
		if _, err := to.Write(append(bytes.TrimSpace(m), '\n')); err != nil {
			return err
		}
	}
	return nil
}

// readLine reads to the end of a line or of the input. Of a line that is longer
// than limit nothing is kept.
func readLine(in *bufio.Reader, limit int) (line []byte, fits bool, _ error) {
	fits = true
	for {
		piece, err := in.ReadSlice('\n')
		if fits && len(line)+len(piece) > limit {
			line, fits = nil, false
		}
		if fits {
			line = append(line, piece...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, fits, err
		}
	}
}

// refuse answers what cannot be read, and so has no id.
func refuse(to io.Writer, code int, message string) error {
	type failure struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}
	b, err := json.Marshal(struct {
		Version string  `json:"jsonrpc"`
		ID      any     `json:"id"`
		Error   failure `json:"error"`
	}{"2.0", nil, failure{code, message}})
	if err != nil {
		return err
	}
	_, err = to.Write(append(b, '\n'))
	return err
}

// messages writes one after another. It does not close what is below it.
type messages struct {
	mu sync.Mutex
	w  io.Writer
}

func (w *messages) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.w.Write(p)
}

func (*messages) Close() error { return nil }
