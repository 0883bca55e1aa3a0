package placement

import (
	"bufio"
	"bytes"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
)

// maxLog bounds the log file of one keeper, and maxTail what is kept of its end
// for messages, in bytes.
const (
	maxLog  = 4 << 20
	maxTail = 2 << 10
)

// keeperLog receives what a keeper writes on standard error: into a file beside
// the rig's disk, which ends with the rig, and line by line into the server's
// log for whoever debugs.
type keeperLog struct {
	mu   sync.Mutex
	f    *os.File
	left int
	tail []byte
	line []byte
	log  *slog.Logger
}

func openKeeperLog(path string, log *slog.Logger) (*keeperLog, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return &keeperLog{f: f, left: maxLog, log: log}, nil
}

// Write never fails: a full disk must not end a rig by way of its log.
func (l *keeperLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := min(len(p), l.left); n > 0 {
		if _, err := l.f.Write(p[:n]); err != nil {
			l.log.Warn("the keeper's log cannot be written", "error", err)
			n = l.left
		}
		if l.left -= n; l.left == 0 {
			_, _ = l.f.WriteString("\n(the log is full)\n") // as above
		}
	}
	l.tail = append(l.tail, p...)
	if d := len(l.tail) - maxTail; d > 0 {
		l.tail = append(l.tail[:0], l.tail[d:]...)
	}
	l.line = append(l.line, p...)
	for {
		i := bytes.IndexByte(l.line, '\n')
		if i < 0 {
			break
		}
		l.log.Debug("keeper", "line", string(l.line[:i]))
		l.line = l.line[i+1:]
	}
	if len(l.line) > maxTail {
		l.line = nil
	}
	return len(p), nil
}

// Tail is the end of the log, in whole lines where it can be.
func (l *keeperLog) Tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := string(l.tail)
	if _, rest, ok := strings.Cut(s, "\n"); ok && len(s) == maxTail {
		s = rest
	}
	return strings.TrimSpace(s)
}

// Close closes the file.
func (l *keeperLog) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.f.Close()
}

func newLines(r io.Reader, limit int) *bufio.Scanner {
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 0, 4096), limit)
	return sc
}
