package audit

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"rigs/internal/rig"
	"rigs/internal/server/store/db"
	"rigs/internal/serverapi"
)

// MaxRows is the most rows that List returns at once.
const MaxRows = 1000

// page is how many rows are read at once.
const page = 1000

// Has reports whether there is a log of that rig, which may be gone for long.
func (l *Log) Has(ctx context.Context, rigID string) (bool, error) {
	found := false
	err := l.Database.View(ctx, func(q *db.Queries) error {
		_, err := q.AuditHead(ctx, rigID)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		found = err == nil
		return err
	})
	return found, err
}

// List returns rows of a log with numbers above after, oldest first: limit of them,
// or MaxRows, or what there is. A row that was changed is shown as it is now.
func (l *Log) List(ctx context.Context, rigID string, after int64, limit int) (serverapi.AuditLog, error) {
	out := serverapi.AuditLog{Rows: []rig.AuditRow{}}
	if limit <= 0 || limit > MaxRows {
		limit = MaxRows
	}
	err := l.Database.View(ctx, func(q *db.Queries) error { return list(ctx, q, &out, rigID, after, limit) })
	return out, err
}

// Tail returns the last n rows of a log, or MaxRows, oldest first.
func (l *Log) Tail(ctx context.Context, rigID string, n int) (serverapi.AuditLog, error) {
	out := serverapi.AuditLog{Rows: []rig.AuditRow{}}
	n = min(n, MaxRows)
	err := l.Database.View(ctx, func(q *db.Queries) error {
		last, err := q.LastAuditRow(ctx, rigID)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		return list(ctx, q, &out, rigID, last.Seq-int64(n), n)
	})
	return out, err
}

func list(ctx context.Context, q *db.Queries, out *serverapi.AuditLog, rigID string, after int64, limit int) error {
	rows, err := q.AuditRows(ctx, db.AuditRowsParams{Log: rigID, After: after, Most: int64(limit) + 1})
	if err != nil {
		return err
	}
	if out.More = len(rows) > limit; out.More {
		rows = rows[:limit]
	}
	for i := range rows {
		r, _ := fromRow(&rows[i]) // Verify says what is wrong with it
		out.Rows = append(out.Rows, r)
	}
	return nil
}

// Export writes the rows of a log with numbers above after as JSON Lines.
func (l *Log) Export(ctx context.Context, w io.Writer, rigID string, after int64) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for {
		// Not in one transaction: a reader that takes its time would keep SQLite from
		// ever folding its journal. What is appended meanwhile is exported too.
		p, err := l.List(ctx, rigID, after, page)
		if err != nil {
			return err
		}
		for i := range p.Rows {
			if err := enc.Encode(&p.Rows[i]); err != nil {
				return err
			}
			after = p.Rows[i].Seq
		}
		if !p.More {
			return nil
		}
	}
}

// Verify checks a log: every row's hash, that none is missing, that it begins and
// ends where the head says, the head's own MAC, and that no log is missing or is an
// older state of itself. It is not an error when something is wrong with the log.
func (l *Log) Verify(ctx context.Context, rigID string) (serverapi.AuditVerified, error) {
	var v serverapi.AuditVerified
	err := l.Database.View(ctx, func(q *db.Queries) error {
		v = serverapi.AuditVerified{}
		bad, err := l.verify(ctx, q, rigID, &v)
		if err != nil {
			return err
		}
		if bad == "" {
			bad, err = l.verifySeal(ctx, q)
		}
		v.OK, v.Detail = bad == "", bad
		return err
	})
	return v, err
}

// verify returns what is wrong with a log.
func (l *Log) verify(ctx context.Context, q *db.Queries, rigID string, v *serverapi.AuditVerified) (string, error) {
	d, err := q.AuditHead(ctx, rigID)
	none := errors.Is(err, sql.ErrNoRows)
	if err != nil && !none {
		return "", err
	}
	h := head{first: 1, anchor: genesis(rigID), lastHash: genesis(rigID)}
	good := true
	if !none {
		h, good = l.parseHead(&d)
	}
	prev, next := h.anchor, h.first
	for after := int64(-1 << 62); ; {
		rows, err := q.AuditRows(ctx, db.AuditRowsParams{Log: rigID, After: after, Most: page})
		if err != nil {
			return "", err
		}
		for i := range rows {
			r, err := fromRow(&rows[i])
			switch {
			case r.Seq != next:
				v.BadSeq = next
				return fmt.Sprintf("row %d is missing: row %d stands in its place", next, r.Seq), nil
			case err != nil:
				v.BadSeq = next
				return fmt.Sprintf("row %d was changed: %v", next, err), nil
			}
			sum := rowHash(prev, &r)
			if sum.String() != r.Hash {
				v.BadSeq = next
				return fmt.Sprintf("row %d was changed, or a row before it was taken out or put in", next), nil
			}
			prev, next, after = sum, next+1, r.Seq
			v.Rows++
			v.LastSeq, v.LastHash = r.Seq, r.Hash
		}
		if len(rows) < page {
			break
		}
	}
	switch {
	case !none && d.KeyID != l.id:
		return fmt.Sprintf("the log was sealed with another key, %.16s, and this server has %s: rows may have been taken from its end; those that are there follow each other", d.KeyID, l.id), nil
	case none && v.Rows > 0, !good:
		return "where the log begins and ends was changed: rows may have been taken from its end; those that are there follow each other", nil
	case next > h.last+1:
		v.BadSeq = h.last + 1
		return fmt.Sprintf("rows were put behind the last one, %d", h.last), nil
	case next < h.last+1:
		v.BadSeq = next
		return fmt.Sprintf("rows are missing at the end: the log had %d", h.last), nil
	case prev != h.lastHash:
		v.BadSeq = h.last
		return fmt.Sprintf("the last row, %d, is not the one that was written", h.last), nil
	case h.broken != 0:
		v.BadSeq = h.broken
		return fmt.Sprintf("before row %d was written, the log was changed, or its key replaced: what stands before it is not to be relied on", h.broken), nil
	}
	return "", nil
}

// verifySeal returns what is wrong with the logs together.
func (l *Log) verifySeal(ctx context.Context, q *db.Queries) (string, error) {
	s, err := l.readSeal(ctx, q)
	if err != nil {
		return "", err
	}
	heads, err := q.AuditHeads(ctx)
	if err != nil {
		return "", err
	}
	var sum hash
	for i := range heads {
		if heads[i].KeyID != l.id {
			continue
		}
		// Each is checked: one that says whatever makes up for another's absence, or for
		// its being older, would give the right sum.
		if _, good := l.parseHead(&heads[i]); !good {
			return fmt.Sprintf("this log is whole by itself, but where the log %.40q begins and ends was changed: it may be this one, or another, under a false name", heads[i].Log), nil
		}
		var mac hash
		copyHash(&mac, heads[i].Mac)
		sum.add(mac)
	}
	if s.bad || sum != s.sum {
		return "the rows follow each other and the log ends where it should, but some log of this server was taken away, or is an older state of itself, and it may be this one", nil
	}
	return "", nil
}
