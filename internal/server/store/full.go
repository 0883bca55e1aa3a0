package store

import (
	"context"
	"database/sql"
	"errors"
	"sync/atomic"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"rigs/internal/rig"
	"rigs/internal/server/store/db"
)

// writes is a database whose writes say what helps when the disk is full, and are
// noted.
type writes struct {
	db.DBTX
	written *atomic.Bool
}

func (w writes) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	r, err := w.DBTX.ExecContext(ctx, query, args...)
	w.written.Store(true)
	return r, explain(err)
}

func explain(err error) error {
	var e *sqlite.Error
	if errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_FULL {
		return rig.Errorf(rig.CodeCapacity, "the database cannot be written: %w: make room on the data directory's disk", err)
	}
	return err
}
