// Package store keeps the server's state in SQLite: workspaces, spaces, what
// rigs there are and were, tokens and sessions.
//
// The database is in WAL mode, so a crash at any point leaves it as it was
// after the last finished transaction. The schema is brought up to date by
// numbered migrations when it is opened; a database from a newer server is
// refused and left alone.
//
// Secrets are stored as their SHA-256 only: they are random and long, so a
// slow hash would add nothing.
package store

import (
	"context"
	"database/sql"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pressly/goose/v3"
	_ "modernc.org/sqlite" // the database/sql driver "sqlite"

	"rigs/internal/rig"
	"rigs/internal/server/store/db"
)

//go:embed migrations/*.sql
var migrations embed.FS

// keepClosed is how many closed rigs are remembered.
const keepClosed = 10_000

// A checkpoint brings what is in the journal into the database, and waits for the disk.
// It is done aside, so that no transaction waits with it; one that writes more than
// walPages pages of 4 KB in between still does it itself.
const (
	checkpointEvery = time.Second
	walPages        = 16384
)

// ErrExists says that a name is taken.
var ErrExists = errors.New("exists already")

// ErrNotFound says that there is no such row.
var ErrNotFound = errors.New("not found")

// Store is an open database. It is safe for several goroutines.
type Store struct {
	db *sql.DB
	q  *db.Queries
	// prepared are the same queries, compiled once for each connection, for
	// transactions: an audit row is written for every action.
	prepared *db.Queries

	written atomic.Bool   // since the last checkpoint
	closing chan struct{} // ends the checkpoints
	closed  sync.Once
	aside   sync.WaitGroup
}

// Open opens the database at path, makes it if it is missing, and brings its
// schema up to date.
func Open(ctx context.Context, path string) (*Store, error) {
	// The file is made here so that it is never readable by others; SQLite
	// gives its journal the same mode.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("database: %w", err)
	}
	f.Close()
	u := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{"_pragma": {
		"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(NORMAL)", "foreign_keys(1)", "wal_autocheckpoint(" + strconv.Itoa(walPages) + ")",
	}, "_txlock": {"immediate"}}.Encode()}
	d, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, fmt.Errorf("database %s: %w", path, err)
	}
	s := &Store{db: d, closing: make(chan struct{})}
	s.q = db.New(writes{d, &s.written})
	err = s.migrate(ctx)
	if err == nil {
		s.prepared, err = db.Prepare(ctx, d)
	}
	if err != nil {
		_ = d.Close() // the first error counts
		return nil, fmt.Errorf("database %s: %w", path, err)
	}
	s.aside.Go(s.checkpoints)
	return s, nil
}

func (s *Store) provider() (*goose.Provider, error) {
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(goose.DialectSQLite3, s.db, dir, goose.WithLogger(goose.NopLogger()))
}

func (s *Store) migrate(ctx context.Context) error {
	p, err := s.provider()
	if err != nil {
		return err
	}
	have, want, err := p.GetVersions(ctx)
	if err != nil {
		return err
	}
	if have > want {
		return fmt.Errorf("its schema is version %d and this server knows up to %d: it was used by a newer server; run that one, or choose another data directory (RIGS_HOME)", have, want)
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("bringing the schema up to date: %w", err)
	}
	return nil
}

// Close closes the database.
func (s *Store) Close() error {
	s.closed.Do(func() { close(s.closing) })
	s.aside.Wait()
	return errors.Join(s.prepared.Close(), s.db.Close())
}

// checkpoints does them until Close. One that fails is done with the next, or by the
// transaction that needs it.
func (s *Store) checkpoints() {
	tick := time.NewTicker(checkpointEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if s.written.Swap(false) {
				_, _ = s.db.ExecContext(context.Background(), "PRAGMA wal_checkpoint(PASSIVE)")
			}
		case <-s.closing:
			return
		}
	}
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func fromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// Workspace is a workspace's row and how many spaces it has.
type Workspace struct {
	Name      string
	CreatedAt time.Time
	Spaces    int
}

// Workspaces lists the workspaces by name.
func (s *Store) Workspaces(ctx context.Context) ([]Workspace, error) {
	rows, err := s.q.ListWorkspaces(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]Workspace, len(rows))
	for i, r := range rows {
		out[i] = Workspace{r.Name, fromMillis(r.CreatedAt), int(r.Spaces)}
	}
	return out, nil
}

// HasWorkspace reports whether there is a workspace of that name.
func (s *Store) HasWorkspace(ctx context.Context, name string) (bool, error) {
	n, err := s.q.HasWorkspace(ctx, name)
	return n > 0, err
}

// AddWorkspace makes a workspace, or returns ErrExists.
func (s *Store) AddWorkspace(ctx context.Context, name string, at time.Time) error {
	n, err := s.q.InsertWorkspace(ctx, db.InsertWorkspaceParams{Name: name, CreatedAt: millis(at)})
	return oneRow(n, err, ErrExists)
}

// DeleteWorkspace forgets a workspace with its spaces, members and guardrails, or
// returns ErrNotFound. None of it may be waiting for the next one of that name.
func (s *Store) DeleteWorkspace(ctx context.Context, name string) error {
	return s.Update(ctx, func(q *db.Queries) error {
		n, err := q.DeleteWorkspace(ctx, name)
		return errors.Join(oneRow(n, err, ErrNotFound), q.DeleteMembersOf(ctx, name), q.DeleteRulesOf(ctx, name))
	})
}

// Space is a space's row.
type Space struct {
	Workspace, Name string
	CreatedAt       time.Time
	Mode            rig.Mode
}

// Spaces lists a workspace's spaces by name.
func (s *Store) Spaces(ctx context.Context, workspace string) ([]Space, error) {
	rows, err := s.q.ListSpaces(ctx, workspace)
	if err != nil {
		return nil, err
	}
	out := make([]Space, len(rows))
	for i, r := range rows {
		out[i] = Space{r.Workspace, r.Name, fromMillis(r.CreatedAt), rig.Mode(r.Mode)}
	}
	return out, nil
}

// HasSpace reports whether a workspace has a space of that name.
func (s *Store) HasSpace(ctx context.Context, workspace, name string) (bool, error) {
	n, err := s.q.HasSpace(ctx, db.HasSpaceParams{Workspace: workspace, Name: name})
	return n > 0, err
}

// AddSpace makes a space, or returns ErrExists. The workspace must exist.
func (s *Store) AddSpace(ctx context.Context, workspace, name string, at time.Time) error {
	n, err := s.q.InsertSpace(ctx, db.InsertSpaceParams{Workspace: workspace, Name: name, CreatedAt: millis(at)})
	return oneRow(n, err, ErrExists)
}

// DeleteSpace forgets a space with its guardrails, or returns ErrNotFound.
func (s *Store) DeleteSpace(ctx context.Context, workspace, name string) error {
	return s.Update(ctx, func(q *db.Queries) error {
		n, err := q.DeleteSpace(ctx, db.DeleteSpaceParams{Workspace: workspace, Name: name})
		return errors.Join(oneRow(n, err, ErrNotFound), q.DeleteRulesOfSpace(ctx, db.DeleteRulesOfSpaceParams{Workspace: workspace, Space: name}))
	})
}

func oneRow(n int64, err, none error) error {
	if err == nil && n == 0 {
		return none
	}
	return err
}

// PutRig writes a rig as it is now.
func (s *Store) PutRig(ctx context.Context, r rig.Rig) error {
	r.Step, r.InUse, r.Control = nil, nil, nil // of the moment
	doc, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return s.q.UpsertRig(ctx, db.UpsertRigParams{
		ID: r.ID, Workspace: r.Workspace, Space: r.Space, Surface: string(r.Surface), Engine: string(r.Engine),
		Phase: string(r.Phase), OpenedAt: millis(r.OpenedAt), ClosedAt: millis(r.ClosedAt),
		CloseReason: string(r.CloseReason), Document: string(doc),
	})
}

// OpenRigs returns every rig that is not closed, oldest first.
func (s *Store) OpenRigs(ctx context.Context) ([]rig.Rig, error) {
	docs, err := s.q.OpenRigs(ctx)
	if err != nil {
		return nil, err
	}
	return decodeRigs(docs)
}

// ClosedRigs returns at most n closed rigs, newest first; empty names match all.
func (s *Store) ClosedRigs(ctx context.Context, workspace, space string, n int) ([]rig.Rig, error) {
	docs, err := s.q.ClosedRigs(ctx, db.ClosedRigsParams{Workspace: workspace, Space: space, Most: int64(n)})
	if err != nil {
		return nil, err
	}
	return decodeRigs(docs)
}

// ClosedByPrefix returns the closed rigs whose id begins with prefix, at most two.
func (s *Store) ClosedByPrefix(ctx context.Context, prefix string) ([]rig.Rig, error) {
	docs, err := s.q.ClosedRigsByPrefix(ctx, prefix)
	if err != nil {
		return nil, err
	}
	return decodeRigs(docs)
}

func decodeRigs(docs []string) ([]rig.Rig, error) {
	out := make([]rig.Rig, len(docs))
	for i, d := range docs {
		if err := json.Unmarshal([]byte(d), &out[i]); err != nil {
			return nil, fmt.Errorf("a rig's row: %w", err)
		}
	}
	return out, nil
}

// Tidy removes what has expired and the oldest closed rigs.
func (s *Store) Tidy(ctx context.Context, now time.Time) error {
	ms := millis(now)
	return errors.Join(
		s.q.DeleteExpired(ctx, ms), s.q.DeleteExpiredLinks(ctx, ms), s.q.DeleteExpiredTokens(ctx, ms),
		s.q.TrimRigs(ctx, keepClosed),
	)
}
