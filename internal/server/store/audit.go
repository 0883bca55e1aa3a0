package store

import (
	"context"
	"database/sql"
	"errors"

	"rigs/internal/server/store/db"
)

// Update runs f in a transaction that may write and ends with nothing done if f
// fails. Package audit uses it too, whose rows and their numbers must be written
// together or not at all.
func (s *Store) Update(ctx context.Context, f func(*db.Queries) error) error {
	return s.transact(ctx, nil, f)
}

// View runs f on the database as it is at one moment, without being in the way of
// who writes.
func (s *Store) View(ctx context.Context, f func(*db.Queries) error) error {
	return s.transact(ctx, &sql.TxOptions{ReadOnly: true}, f)
}

func (s *Store) transact(ctx context.Context, o *sql.TxOptions, f func(*db.Queries) error) error {
	tx, err := s.db.BeginTx(ctx, o)
	if err != nil {
		return explain(err)
	}
	if err := f(s.prepared.WithTx(tx)); err != nil {
		return errors.Join(explain(err), tx.Rollback())
	}
	err = explain(tx.Commit())
	s.written.Store(true)
	return err
}
