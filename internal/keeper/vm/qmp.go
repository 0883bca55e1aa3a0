package vm

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// maxQMP bounds a line of the monitor.
const maxQMP = 1 << 20

// writeTimeout is how long a monitor may refuse to take a command.
const writeTimeout = 10 * time.Second

// ErrMonitor is wrapped by every error about a monitor that has ended or makes no sense.
var ErrMonitor = errors.New("QEMU's monitor")

// QMPError is a command that QEMU refused.
type QMPError struct{ Command, Class, Desc string }

func (e *QMPError) Error() string { return "QEMU refused " + e.Command + ": " + e.Desc }

// QMP is a client of QEMU's machine protocol. Commands may be sent before QEMU
// is up; they are answered in order. Make it with NewQMP.
type QMP struct {
	conn    *net.UnixConn
	onEvent func(name string, data json.RawMessage)

	mu      sync.Mutex // also keeps the order of writes that of pending
	pending []*call
	err     error
	done    chan struct{}
}

type call struct {
	command string
	answer  chan answer
}

type answer struct {
	value json.RawMessage
	err   error
}

// NewQMP starts a client on conn, which it owns. onEvent is called for each event, in order, and must
// not block.
func NewQMP(conn *net.UnixConn, onEvent func(name string, data json.RawMessage)) *QMP {
	q := &QMP{conn: conn, onEvent: onEvent, done: make(chan struct{})}
	go q.read()
	q.send("qmp_capabilities", nil, nil)
	return q
}

// Close ends the connection; calls that wait fail.
func (q *QMP) Close() error {
	err := q.conn.Close()
	<-q.done
	return err
}

// Execute runs a command and decodes its result into out, unless that is nil.
func (q *QMP) Execute(ctx context.Context, command string, args, out any) error {
	return q.send(command, args, nil).wait(ctx, out)
}

// SendFD gives QEMU an open file under a name, for addresses of the form fd:NAME.
func (q *QMP) SendFD(ctx context.Context, name string, f *os.File) error {
	return q.send("getfd", map[string]string{"fdname": name}, f).wait(ctx, nil)
}

// send queues a command. Errors come out of wait.
func (q *QMP) send(command string, args any, f *os.File) *call {
	c := &call{command: command, answer: make(chan answer, 1)}
	msg, err := json.Marshal(struct {
		Execute   string `json:"execute"`
		Arguments any    `json:"arguments,omitempty"`
	}{command, args})
	if err != nil {
		c.answer <- answer{err: err}
		return c
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil {
		c.answer <- answer{err: q.err}
		return c
	}
	msg = append(msg, '\n')
	// The socket's buffer takes hundreds of commands: it is full only if QEMU hangs.
	_ = q.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	if f != nil {
		// The descriptor travels with the bytes; QEMU keeps it until getfd is executed.
		_, _, err = q.conn.WriteMsgUnix(msg, unix.UnixRights(int(f.Fd())), nil)
	} else {
		_, err = q.conn.Write(msg)
	}
	if err != nil {
		c.answer <- answer{err: fmt.Errorf("%w: %w", ErrMonitor, err)}
		return c
	}
	q.pending = append(q.pending, c)
	return c
}

func (c *call) wait(ctx context.Context, out any) error {
	select {
	case a := <-c.answer:
		if a.err != nil || out == nil {
			return a.err
		}
		if err := json.Unmarshal(a.value, out); err != nil {
			return fmt.Errorf("%w: answer to %s: %w", ErrMonitor, c.command, err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("QEMU did not answer %s: %w", c.command, context.Cause(ctx))
	}
}

// read hands answers and events out until the connection ends.
func (q *QMP) read() {
	defer close(q.done)
	s := bufio.NewScanner(q.conn)
	s.Buffer(make([]byte, 0, 4096), maxQMP)
	var err error
	for err == nil && s.Scan() {
		err = q.message(s.Bytes())
	}
	if err == nil {
		err = s.Err()
	}
	if err == nil {
		err = io.EOF
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.err = fmt.Errorf("%w ended: %w", ErrMonitor, err)
	for _, c := range q.pending {
		c.answer <- answer{err: q.err}
	}
	q.pending = nil
}

func (q *QMP) message(line []byte) error {
	var m struct {
		QMP    json.RawMessage `json:"QMP"` // the greeting
		Return json.RawMessage `json:"return"`
		Error  *struct {
			Class string `json:"class"`
			Desc  string `json:"desc"`
		} `json:"error"`
		Event string          `json:"event"`
		Data  json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(line, &m); err != nil {
		return err
	}
	switch {
	case m.Event != "":
		if q.onEvent != nil {
			q.onEvent(m.Event, m.Data)
		}
		return nil
	case m.QMP != nil:
		return nil
	case m.Return == nil && m.Error == nil:
		return errors.New("a message of no known kind")
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.pending) == 0 {
		return errors.New("an answer to nothing")
	}
	c := q.pending[0]
	q.pending = q.pending[1:]
	if m.Error != nil {
		c.answer <- answer{err: &QMPError{c.command, m.Error.Class, Clean(m.Error.Desc)}}
	} else {
		c.answer <- answer{value: m.Return}
	}
	return nil
}
