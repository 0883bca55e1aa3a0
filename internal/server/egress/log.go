package egress

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"

	"rigs/internal/keeperapi"
	"rigs/internal/rig"
	"rigs/internal/wire"
)

const (
	// MaxFile bounds one file of a log; a log has two.
	MaxFile = 2 << 20
	// MaxTotal bounds all logs together.
	MaxTotal = 64 << 20
	// maxFiles bounds how many files there are, however small.
	maxFiles = 4096
	// maxLine bounds one line. An event has at most two names of 256 bytes.
	maxLine = 4096
	// maxPage is how many events one answer holds.
	maxPage = 1000
	// backlog is how many lines may wait to be written.
	backlog = 4096
)

// Metrics counts; metrics.Metrics does.
type Metrics interface {
	// EgressEvent counts what an event stands for.
	EgressEvent(e rig.EgressEvent)
	// EgressLine counts a line as written, dropped or invalid.
	EgressLine(outcome string)
}

// Options are what a Log works with. Every field but the bounds is needed.
type Options struct {
	Dir     string
	Metrics Metrics
	Log     *slog.Logger
	Now     func() time.Time
	// The bounds; 0: MaxFile and MaxTotal.
	MaxFile, MaxTotal int64
}

// Log is the logs of all rigs. It is safe for several goroutines.
type Log struct {
	Options
	complaints *rate.Limiter // of a disk that cannot be written

	mu     sync.RWMutex // held for reading to send, for writing to close
	queue  chan task
	closed bool
	done   chan struct{}

	last  sync.Map // rig id → *int64: number of the last event believed; used by the rig's own goroutine
	files map[string]*file
	total int64 // bytes of all logs, as far as is known
}

// task is a line to write, the end of a log, or a question to the writer.
type task struct {
	rigID string
	line  []byte
	flush chan<- struct{}
}

type file struct {
	f    *os.File
	size int64
	torn bool // its last line is not whole
}

// Open opens the logs in a directory, which is made.
func Open(o Options) (*Log, error) {
	if o.MaxFile == 0 {
		o.MaxFile = MaxFile
	}
	if o.MaxTotal == 0 {
		o.MaxTotal = MaxTotal
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("egress logs: %w", err)
	}
	l := &Log{Options: o, complaints: rate.NewLimiter(rate.Every(time.Minute), 1), queue: make(chan task, backlog), done: make(chan struct{}), files: map[string]*file{}}
	l.trim()
	go l.write()
	return l, nil
}

// Stop writes what waits, and ends. Nothing is appended any more.
func (l *Log) Stop() {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.queue)
	}
	l.mu.Unlock()
	<-l.done
}

// Append notes an event of a rig's keeper and returns it as it is to be
// believed, or false. It never waits. One rig's events come from one goroutine.
func (l *Log) Append(rigID string, e rig.EgressEvent) (rig.EgressEvent, bool) {
	v, _ := l.last.LoadOrStore(rigID, new(int64))
	last, ok := v.(*int64)
	if !ok || !rig.ValidID(rigID) || !Check(&e, l.Now()) || e.Seq <= *last {
		l.Metrics.EgressLine("invalid")
		return e, false
	}
	*last = e.Seq
	l.Metrics.EgressEvent(e)
	b, err := json.Marshal(e) // on one line
	if err != nil || len(b) >= maxLine || !l.send(task{rigID: rigID, line: append(b, '\n')}, false) {
		l.Metrics.EgressLine("dropped")
	}
	return e, true
}

// Close says that a rig has no more events. Its log stays.
func (l *Log) Close(rigID string) {
	l.last.Delete(rigID)
	l.send(task{rigID: rigID}, true)
}

func (l *Log) send(t task, wait bool) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return false
	}
	if wait {
		l.queue <- t // the writer takes all, whatever the disk says
		return true
	}
	select {
	case l.queue <- t:
		return true
	default:
		return false
	}
}

// write is the one goroutine that writes.
func (l *Log) write() {
	defer close(l.done)
	for t := range l.queue {
		switch {
		case t.flush != nil:
			close(t.flush)
		case t.line == nil:
			l.close(t.rigID)
		default:
			if err := l.put(t.rigID, t.line); err != nil {
				l.Metrics.EgressLine("dropped")
				if l.complaints.Allow() {
					l.Log.Error("egress log lines are not written: free some space in the data directory", "rig", t.rigID, "error", err)
				}
				continue
			}
			l.Metrics.EgressLine("written")
		}
	}
	for id := range l.files {
		l.close(id)
	}
}

func (l *Log) close(rigID string) {
	if f := l.files[rigID]; f != nil {
		_ = f.f.Close() // nothing is buffered
		delete(l.files, rigID)
	}
}

func (l *Log) path(rigID string) string  { return filepath.Join(l.Dir, rigID+".jsonl") }
func (l *Log) older(rigID string) string { return filepath.Join(l.Dir, rigID+".1.jsonl") }

// put writes one line.
func (l *Log) put(rigID string, line []byte) error {
	f, err := l.open(rigID)
	if err != nil {
		return err
	}
	if f.size > 0 && f.size+int64(len(line)) > l.MaxFile {
		l.close(rigID)
		if err := os.Rename(l.path(rigID), l.older(rigID)); err != nil {
			return err
		}
		l.trim() // counts anew: what the rename replaced is gone
		if f, err = l.open(rigID); err != nil {
			return err
		}
	}
	if f.torn {
		line = append([]byte{'\n'}, line...)
	}
	n, err := f.f.Write(line)
	f.size += int64(n)
	l.total += int64(n)
	f.torn = err != nil && (n > 0 || f.torn)
	if err == nil && l.total > l.MaxTotal {
		l.trim()
	}
	return err
}

func (l *Log) open(rigID string) (*file, error) {
	if f := l.files[rigID]; f != nil {
		return f, nil
	}
	h, err := os.OpenFile(l.path(rigID), os.O_CREATE|os.O_WRONLY|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	fi, err := h.Stat()
	if err != nil {
		return nil, errors.Join(err, h.Close())
	}
	f := &file{f: h, size: fi.Size(), torn: fi.Size() > 0} // whoever wrote it may have been killed
	l.files[rigID] = f
	return f, nil
}

// trim removes the oldest files until the rest is within bounds.
func (l *Log) trim() {
	entries, err := os.ReadDir(l.Dir)
	if err != nil {
		l.Log.Error("egress logs cannot be looked at", "error", err)
		return
	}
	var all []fs.FileInfo
	l.total = 0
	for _, e := range entries {
		fi, err := e.Info()
		if err != nil || !fi.Mode().IsRegular() || !strings.HasSuffix(e.Name(), ".jsonl") {
			continue
		}
		all = append(all, fi)
		l.total += fi.Size()
	}
	slices.SortFunc(all, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	// Some room, so that the directory is not read for each line.
	for n := len(all); len(all) > 0 && (l.total > l.MaxTotal-l.MaxFile || n > maxFiles); n-- {
		fi := all[0]
		all = all[1:]
		l.close(strings.TrimSuffix(fi.Name(), ".jsonl")) // of a live rig: it begins a new one
		if err := os.Remove(filepath.Join(l.Dir, fi.Name())); err != nil {
			l.Log.Error("an old egress log was not removed", "error", err)
			continue
		}
		l.total -= fi.Size()
	}
}

// After returns events of a rig that follow number seq, oldest first and without
// a gap between them; Lost says how many are missing before the first. What was
// appended before is in it.
func (l *Log) After(ctx context.Context, rigID string, seq int64) (keeperapi.EgressLog, error) {
	out := keeperapi.EgressLog{Events: []rig.EgressEvent{}}
	if !rig.ValidID(rigID) {
		return out, rig.Errorf(rig.CodeNotFound, "no rig %q", rigID)
	}
	if err := l.flush(ctx); err != nil {
		return out, err
	}
	// The newer first: what is renamed in between is then read twice, not never.
	newer, err1 := open(l.path(rigID))
	older, err2 := open(l.older(rigID))
	defer closeAll(newer, older)
	if err := errors.Join(err1, err2); err != nil {
		return out, fmt.Errorf("the egress log of rig %s cannot be read: %w", rigID, err)
	}
	last := max(seq, 0)
	for _, f := range []*os.File{older, newer} {
		if f == nil {
			continue
		}
		err := lines(f, func(line []byte) bool {
			n, ok := number(line)
			if !ok || n <= last {
				return true
			}
			var e rig.EgressEvent
			if wire.DecodeStrict(line, &e) != nil || e.Seq != n {
				return true // cut short
			}
			if len(out.Events) == 0 {
				out.Lost = n - last - 1
			} else if n != last+1 || len(out.Events) >= maxPage {
				return false
			}
			out.Events = append(out.Events, e)
			last = n
			return true
		})
		if err != nil {
			return out, fmt.Errorf("the egress log of rig %s cannot be read: %w", rigID, err)
		}
		if len(out.Events) >= maxPage {
			break
		}
	}
	return out, nil
}

// flush waits until what was appended is written.
func (l *Log) flush(ctx context.Context) error {
	done := make(chan struct{})
	l.mu.RLock()
	if l.closed {
		l.mu.RUnlock()
		return nil
	}
	var err error
	select {
	case l.queue <- task{flush: done}:
	case <-ctx.Done():
		err = ctx.Err()
	}
	l.mu.RUnlock()
	if err != nil {
		return err
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // a log that has no such file is as good
	}
	return f, err
}

func closeAll(fs ...*os.File) {
	for _, f := range fs {
		if f != nil {
			_ = f.Close() // it was only read
		}
	}
}

// lines passes whole lines to f until it returns false.
func lines(r io.Reader, f func([]byte) bool) error {
	br := bufio.NewReaderSize(r, maxLine)
	for {
		line, err := br.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull): // not one of ours: up to its end
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = br.ReadSlice('\n')
			}
			if err == nil {
				continue
			}
		case err == nil:
			if !f(bytes.TrimSuffix(line, []byte{'\n'})) {
				return nil
			}
			continue
		}
		if errors.Is(err, io.EOF) {
			return nil // what is left has no end
		}
		return err
	}
}

// number reads an event's number off its line, without decoding the rest.
func number(line []byte) (int64, bool) {
	rest, ok := bytes.CutPrefix(line, []byte(`{"seq":`))
	if !ok {
		return 0, false
	}
	digits, _, ok := bytes.Cut(rest, []byte{','})
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(string(digits), 10, 64)
	return n, err == nil && n > 0
}
