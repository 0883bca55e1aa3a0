package audit

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"rigs/internal/rig"
	"rigs/internal/server/store/db"
)

const (
	// queueLen is how many rows wait for the writer at most, batchLen how many go
	// into one transaction.
	queueLen = 4096
	batchLen = 512
	// writeTimeout bounds one transaction. SQLite itself waits for a lock 5 s.
	writeTimeout = 30 * time.Second
	// retryMin and retryMax are how long the writer waits after a failure.
	retryMin = 50 * time.Millisecond
	retryMax = 2 * time.Second
)

// self is who does what the server does by itself.
const self = "rigs"

// Limits of a row. Longer texts are cut, and say so.
const (
	MaxWord    = 64   // bytes of an action, class or outcome
	MaxName    = 128  // bytes of a principal's or a detail's name
	MaxDetails = 32   // of a row
	MaxText    = 4096 // bytes of a detail
)

// Database is what package store offers.
type Database interface {
	Update(ctx context.Context, f func(*db.Queries) error) error
	View(ctx context.Context, f func(*db.Queries) error) error
}

// Config is what a Log works with.
type Config struct {
	Database Database
	// KeyFile holds the key, outside the database. It is made when it is missing.
	KeyFile string
	// Publish is called with rows when they are written, in order. Writing does not
	// wait for it: when it falls behind, rows are left out, which their numbers show.
	// May be nil.
	Publish func(rig.AuditRow)
	// Keep is how long rows are kept, MaxRows how many in all logs; 0: no limit.
	Keep    time.Duration
	MaxRows int64
	Now     func() time.Time // nil: time.Now
	Log     *slog.Logger
}

// Log is all audit logs of a server. It is safe for several goroutines.
type Log struct {
	Config
	sealer
	redact key

	queue   chan *entry
	closing chan struct{}
	written sync.WaitGroup // the writer
	telling sync.WaitGroup // the publisher
	failing atomic.Pointer[error]

	mu        sync.RWMutex // against a send on a closed queue
	closed    bool
	closeOnce sync.Once

	// tx is held while the database is written. seen, which it guards, has the last
	// row of each log that this process wrote; told are rows to publish.
	tx   sync.Mutex
	seen map[string]hash
	told chan rig.AuditRow
}

// entry is a row on its way. The writer alone writes to it until done is closed.
type entry struct {
	row  rig.AuditRow
	mark bool // no row: it is only waited for
	keep bool // it is kept when it could not be written
	err  error
	done chan struct{}
}

// Open starts the logs of a database. Close ends them.
func Open(ctx context.Context, c Config) (*Log, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	l := &Log{Config: c, queue: make(chan *entry, queueLen), closing: make(chan struct{}), seen: map[string]hash{}}
	master, ok, err := readKey(c.KeyFile)
	if err != nil {
		return nil, err
	}
	if !ok {
		master = drawKey()
	}
	l.sealer, l.redact = sealer{master.derive("heads"), master.id()}, master.derive("texts")
	if !ok {
		// The seal first: with the key there, a seal that is missing was taken away.
		err := c.Database.Update(ctx, func(q *db.Queries) error { return l.putSeal(ctx, q, &seal{}) })
		if err == nil {
			err = writeKey(c.KeyFile, master)
		}
		if err != nil {
			return nil, fmt.Errorf("the audit log cannot be begun: %w", err)
		}
	}
	l.written.Go(l.write)
	if !ok {
		_, err = l.Record(ctx, rig.AuditRow{Principal: self, Kind: rig.System, Action: "audit.key", Outcome: "done", Detail: map[string]string{"key": l.id}})
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	// Nothing is published before the caller has the log.
	told := make(chan rig.AuditRow, queueLen)
	l.tx.Lock()
	l.told = told
	l.tx.Unlock()
	l.telling.Go(func() {
		for r := range told {
			if c.Publish != nil {
				c.Publish(r)
			}
		}
	})
	return l, nil
}

// Record writes a row and returns it, with its number and hash, when it is written.
// An error says that it is not and will not be: what it is about must not happen.
func (l *Log) Record(ctx context.Context, r rig.AuditRow) (rig.AuditRow, error) {
	e := &entry{row: r}
	if err := l.send(ctx, e); err != nil {
		return rig.AuditRow{}, err
	}
	<-e.done // not ctx: whether it is written must be known; writeTimeout bounds it
	if e.err != nil {
		return rig.AuditRow{}, e.err
	}
	return e.row, nil
}

// Append queues a row, to be written in its turn. It waits while the queue is full.
// An error says that the row will not be written.
func (l *Log) Append(ctx context.Context, r rig.AuditRow) error {
	return l.send(ctx, &entry{row: r, keep: true})
}

// Flush waits until everything that was queued before is written.
func (l *Log) Flush(ctx context.Context) error {
	e := &entry{mark: true, keep: true}
	if err := l.send(ctx, e); err != nil {
		return err
	}
	select {
	case <-e.done:
		return e.err
	case <-ctx.Done():
		return rig.Errorf(rig.CodeTimeout, "the audit log is not written yet: %w", ctx.Err())
	}
}

func (l *Log) send(ctx context.Context, e *entry) error {
	e.done = make(chan struct{})
	if !e.mark {
		if err := l.clean(&e.row); err != nil {
			return err
		}
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return errClosed
	}
	if err := l.failing.Load(); err != nil {
		return *err
	}
	select {
	case l.queue <- e:
		return nil
	case <-l.closing:
		return errClosed
	case <-ctx.Done():
		if err := l.failing.Load(); err != nil {
			return *err
		}
		return rig.Errorf(rig.CodeTimeout, "the audit log did not take a row in time: %w", ctx.Err())
	}
}

var errClosed = rig.Errorf(rig.CodeUnavailable, "the audit log is closed: the server is shutting down")

// clean makes a row one that can be written.
func (l *Log) clean(r *rig.AuditRow) error {
	if r.Action == "" || r.Outcome == "" || len(r.RigID) > MaxWord || len(r.Detail) > MaxDetails {
		return rig.Errorf(rig.CodeInternal, "not an audit row: action %q, outcome %q, %d details", r.Action, r.Outcome, len(r.Detail))
	}
	if r.Time.IsZero() {
		r.Time = l.Now()
	}
	r.Time = time.UnixMilli(r.Time.UnixMilli()).UTC()
	r.Seq, r.Hash = 0, ""
	for _, s := range []*string{&r.RigID, &r.Action, &r.Outcome} {
		*s = text(*s, MaxWord)
	}
	r.Principal, r.Kind, r.Class = text(r.Principal, MaxName), rig.PrincipalKind(text(string(r.Kind), MaxWord)), rig.Class(text(string(r.Class), MaxWord))
	if len(r.Detail) == 0 {
		r.Detail = nil
		return nil
	}
	d := make(map[string]string, len(r.Detail)) // the caller's may change
	for k, v := range r.Detail {
		d[text(k, MaxName)] = text(v, MaxText)
	}
	r.Detail = d
	return nil
}

// text is s as it can be carried in JSON: valid UTF-8, and not longer than most
// bytes but for a note of how long it was.
func text(s string, most int) string {
	if len(s) <= most && utf8.ValidString(s) {
		return s
	}
	n, out := len(s), make([]byte, 0, min(len(s), most))
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		piece := s[:size]
		if r == utf8.RuneError && size == 1 {
			piece = fmt.Sprintf(`\x%02x`, s[0])
		}
		if len(out)+len(piece) > most {
			return string(out) + fmt.Sprintf("… (%d bytes)", n)
		}
		out, s = append(out, piece...), s[size:]
	}
	return string(out)
}

// Close writes what is queued and ends the writer. An error says how many rows are
// lost.
func (l *Log) Close() error {
	l.closeOnce.Do(func() {
		close(l.closing) // who waits for the queue gives up
		l.mu.Lock()
		l.closed = true
		l.mu.Unlock()
		close(l.queue)
		l.written.Wait()
		l.tx.Lock() // Tidy publishes, too
		if l.told != nil {
			close(l.told)
		}
		l.told = nil
		l.tx.Unlock()
		l.telling.Wait()
	})
	if err := l.failing.Load(); err != nil {
		return *err
	}
	return nil
}

// write is the writer.
func (l *Log) write() {
	var kept []*entry // could not be written yet
	wait := retryMin
	for open := true; open || len(kept) > 0; {
		batch := kept
		if len(batch) == 0 {
			e, ok := <-l.queue
			if !ok {
				return
			}
			batch = append(batch, e)
		}
		batch, open = l.gather(batch)
		err := l.writeBatch(batch)
		kept = l.settle(batch, err)
		if len(kept) == 0 {
			l.failing.Store(nil)
			wait = retryMin
			continue
		}
		if !open {
			l.lose(kept, err)
			return
		}
		l.failing.Store(&err)
		if wait == retryMin {
			l.Log.Error("audit rows cannot be written: actions are refused", "rows", len(kept), "error", err)
		}
		select {
		case <-time.After(wait):
			wait = min(2*wait, retryMax)
		case <-l.closing:
		}
	}
}

// gather adds to a batch what is waiting. open is false when no more will come.
func (l *Log) gather(batch []*entry) (_ []*entry, open bool) {
	for len(batch) < batchLen {
		select {
		case e, ok := <-l.queue:
			if !ok {
				return batch, false
			}
			batch = append(batch, e)
		default:
			return batch, true
		}
	}
	return batch, true
}

// settle tells those who wait for the rows of a batch how it went, and returns the
// rows that are to be tried again.
func (l *Log) settle(batch []*entry, err error) (again []*entry) {
	if err == nil {
		for _, e := range batch {
			close(e.done)
		}
		return nil
	}
	rows := 0
	for _, e := range batch {
		if e.keep {
			again = append(again, e)
			if !e.mark {
				rows++
			}
			continue
		}
		e.err = err
		close(e.done)
	}
	if rows > 0 {
		return again
	}
	for _, e := range again { // nothing stands before them any more
		close(e.done)
	}
	return nil
}

// lose gives up rows that cannot be written before the process ends.
func (l *Log) lose(kept []*entry, err error) {
	err = fmt.Errorf("%d audit rows are lost: %w", len(kept), err)
	l.failing.Store(&err)
	for _, e := range kept {
		e.err = err
		close(e.done)
	}
}

// writeBatch writes the rows of a batch, all or none.
func (l *Log) writeBatch(batch []*entry) error {
	l.tx.Lock()
	defer l.tx.Unlock()
	err := l.update(func(ctx context.Context, q *db.Queries, heads map[string]*heldHead) error {
		for _, e := range batch {
			if e.mark {
				continue
			}
			if err := l.insert(ctx, q, heads, e); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return rig.Errorf(cmp.Or(codeOf(err), rig.CodeUnavailable), "the audit log cannot be written: %w", err)
	}
	l.failing.Store(nil) // before whoever hears of a row acts
	for _, e := range batch {
		l.publish(e)
	}
	return nil
}

// publish tells of a row that was written. It is called with tx held, so that rows
// are told in order.
func (l *Log) publish(e *entry) {
	if e.mark {
		return
	}
	select {
	case l.told <- e.row:
	default: // whoever listens must not hold up whoever acts
	}
}

// update runs f in a transaction that ends with the heads that f changed, and the
// seal. It is called with tx held.
func (l *Log) update(f func(ctx context.Context, q *db.Queries, heads map[string]*heldHead) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	heads := map[string]*heldHead{}
	err := l.Database.Update(ctx, func(q *db.Queries) error {
		if err := f(ctx, q, heads); err != nil {
			return err
		}
		return l.putHeads(ctx, q, heads)
	})
	for log, h := range heads {
		if err != nil || h.gone {
			delete(l.seen, log) // after a failure look again: it may be written all the same
			continue
		}
		l.seen[log] = h.lastHash
	}
	return err
}

// codeOf is the code of an error that has one.
func codeOf(err error) rig.Code {
	var p *rig.Problem
	if errors.As(err, &p) {
		return p.Code
	}
	return ""
}

// heldHead is a head in a transaction.
type heldHead struct {
	head
	existed bool
	sealed  bool // with the key of now: was, its MAC, is in the seal
	was     hash
	gone    bool // it is taken away
}

// insert gives a row its number and hash and writes it.
func (l *Log) insert(ctx context.Context, q *db.Queries, heads map[string]*heldHead, e *entry) error {
	r := &e.row
	h := heads[r.RigID]
	if h == nil {
		var err error
		if h, err = l.readHead(ctx, q, r.RigID); err != nil {
			return err
		}
		heads[r.RigID] = h
	}
	r.Seq = h.last + 1
	sum := rowHash(h.lastHash, r)
	r.Hash = sum.String()
	d, err := toRow(r, sum)
	if err != nil {
		return err
	}
	h.last, h.lastHash = r.Seq, sum
	return q.InsertAuditRow(ctx, d)
}

// readHead reads where a log ends, and notes it in the head when it is not what was
// written.
func (l *Log) readHead(ctx context.Context, q *db.Queries, log string) (*heldHead, error) {
	d, err := q.AuditHead(ctx, log)
	h := &heldHead{existed: err == nil}
	good := true
	switch {
	case errors.Is(err, sql.ErrNoRows):
		h.head = head{log: log, first: 1, anchor: genesis(log), lastHash: genesis(log)}
	case err != nil:
		return nil, err
	default:
		h.head, good = l.parseHead(&d)
		h.sealed = copyHash(&h.was, d.Mac) && d.KeyID == l.id
	}
	seen, wrote := l.seen[log]
	if wrote {
		good = good && h.existed && seen == h.lastHash
	} else {
		// The first time in this process: are the rows there that the head speaks of?
		last, err := q.LastAuditRow(ctx, log)
		var lastHash hash
		switch {
		case errors.Is(err, sql.ErrNoRows):
			good = good && h.rows() == 0
		case err != nil:
			return nil, err
		default:
			good = copyHash(&lastHash, last.Hash) && good && last.Seq == h.last && lastHash == h.lastHash
		}
	}
	if good {
		return h, nil
	}
	// Go on behind whatever is there.
	last, err := q.LastAuditRow(ctx, log)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	if err == nil && last.Seq >= h.last {
		h.last = last.Seq
		copyHash(&h.lastHash, last.Hash)
	}
	if h.broken == 0 {
		h.broken = h.last + 1
		l.Log.Error("an audit log was changed from outside: 'rigs audit verify' says what is wrong", "rig", log, "from", h.broken)
	}
	return h, nil
}

// putHeads writes changed heads, and the seal over all of them.
func (l *Log) putHeads(ctx context.Context, q *db.Queries, heads map[string]*heldHead) error {
	if len(heads) == 0 {
		return nil
	}
	s, err := l.readSeal(ctx, q)
	if err != nil {
		return err
	}
	for _, h := range heads {
		if h.sealed {
			s.sum.sub(h.was)
		}
		if h.gone {
			err = q.DeleteAuditHead(ctx, h.log)
		} else {
			var mac hash
			mac, err = l.putHead(ctx, q, &h.head)
			s.sum.add(mac)
		}
		if err != nil {
			return err
		}
	}
	s.commits++
	return l.putSeal(ctx, q, &s)
}
