package audit

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"rigs/internal/rig"
	"rigs/internal/server/store/db"
)

// trimLen is how many rows one transaction removes: actions wait for it.
const trimLen = 2000

// Tidy removes the rows that are older than Keep, and the oldest ones of the
// largest logs while there are more than MaxRows in all: a rig that writes much
// pushes out its own rows and nobody else's. What is left can be verified as before.
// Each removal is a row of the server's own log, which says what was removed.
func (l *Log) Tidy(ctx context.Context) error {
	heads, err := l.heads(ctx)
	if err != nil {
		return err
	}
	var before time.Time
	if l.Keep > 0 {
		before = l.Now().Add(-l.Keep)
	}
	most := share(heads, l.MaxRows)
	for i := range heads {
		h := &heads[i]
		for up := h.last - most; ; { // rows up to this one go, whatever their age
			if err := ctx.Err(); err != nil {
				return err
			}
			n, err := l.trim(h.log, up, before) //nolint:contextcheck // a transaction is finished, as every one of the writer's
			if err != nil {
				return err
			}
			if n == 0 {
				break
			}
		}
	}
	return nil
}

// share is how many rows each log may have so that there are at most most of them:
// the largest number for which that is so.
func share(heads []head, most int64) int64 {
	const all = int64(1) << 62
	if most <= 0 {
		return all
	}
	sizes := make([]int64, 0, len(heads))
	for i := range heads {
		sizes = append(sizes, max(0, heads[i].rows()))
	}
	slices.Sort(sizes)
	left := most
	for i, n := range sizes {
		each := left / int64(len(sizes)-i)
		if n > each {
			return each
		}
		left -= n
	}
	return all
}

func (l *Log) heads(ctx context.Context) ([]head, error) {
	var out []head
	err := l.Database.View(ctx, func(q *db.Queries) error {
		rows, err := q.AuditHeads(ctx)
		for i := range rows {
			if h, ok := l.parseHead(&rows[i]); ok { // a changed one is evidence
				out = append(out, h)
			}
		}
		return err
	})
	return out, err
}

// trim removes the first rows of a log, at most trimLen, that are numbered up to up
// or written before the time given, and returns how many. A log whose rig is gone
// goes with its last row.
func (l *Log) trim(log string, up int64, before time.Time) (int, error) {
	l.tx.Lock()
	defer l.tx.Unlock()
	n := 0
	var note *entry
	err := l.update(func(ctx context.Context, q *db.Queries, heads map[string]*heldHead) error {
		d, err := q.AuditHead(ctx, log)
		if errors.Is(err, sql.ErrNoRows) {
			return nil // it went with its last row
		}
		if err != nil {
			return err
		}
		h := &heldHead{existed: true, sealed: true, was: hash(d.Mac)}
		var ok bool
		if h.head, ok = l.parseHead(&d); !ok {
			return nil
		}
		from := h.first
		if n, err = skip(ctx, q, &h.head, up, before); err != nil || n == 0 {
			return err
		}
		if _, err := q.DeleteAuditRows(ctx, db.DeleteAuditRowsParams{Log: log, UpTo: h.first - 1}); err != nil {
			return err
		}
		heads[log], h.gone = h, log != "" && h.rows() == 0
		what := map[string]string{"from": number(from), "to": number(h.first - 1), "hash": h.anchor.String()}
		if log != "" {
			what["rig"] = log
		}
		note = &entry{row: rig.AuditRow{Principal: self, Kind: rig.System, Action: "audit.trim", Outcome: "done", Detail: what}}
		if err := l.clean(&note.row); err != nil {
			return err
		}
		return l.insert(ctx, q, heads, note)
	})
	if err != nil || note == nil {
		return 0, err
	}
	l.publish(note)
	return n, nil
}

// skip moves the beginning of a log behind the rows that go and returns how many
// they are. It stops at one that was changed, which is evidence.
func skip(ctx context.Context, q *db.Queries, h *head, up int64, before time.Time) (int, error) {
	rows, err := q.AuditRows(ctx, db.AuditRowsParams{Log: h.log, After: h.first - 1, Most: trimLen})
	if err != nil {
		return 0, err
	}
	for i := range rows {
		r, changed := fromRow(&rows[i])
		sum := rowHash(h.anchor, &r)
		goes := changed == nil && r.Seq == h.first && sum.String() == r.Hash && (r.Seq <= up || r.Time.Before(before))
		if !goes {
			return i, nil
		}
		h.first, h.anchor = h.first+1, sum
	}
	return len(rows), nil
}
