package store

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"rigs/internal/rig"
)

func open(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestANewDatabaseHasTheDefaultsAndIsPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "it's a #1? db%.db")
	s := open(t, path)
	ws, err := s.Workspaces(t.Context())
	if err != nil || len(ws) != 1 || ws[0].Name != "default" || ws[0].Spaces != 1 || ws[0].CreatedAt.IsZero() {
		t.Errorf("%+v %v", ws, err)
	}
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", fi, err)
	}
	var mode string
	if err := s.db.QueryRow("PRAGMA journal_mode").Scan(&mode); err != nil || mode != "wal" {
		t.Errorf("%s %v", mode, err)
	}
}

func TestWhatWasWrittenIsThereWhenItIsOpenedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	s := open(t, path)
	r := rig.Rig{ID: rig.NewID(), Workspace: "default", Space: "s", Surface: rig.Terminal, Phase: rig.Ready, OpenedAt: time.Now().UTC(),
		Step: &rig.Step{Text: "x"}, InUse: []string{"y"}, Egress: []string{"a.test"}}
	if err := s.PutRig(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	s.Close()
	s = open(t, path)
	got, err := s.OpenRigs(t.Context())
	if err != nil || len(got) != 1 || got[0].ID != r.ID || got[0].Egress[0] != "a.test" || got[0].Step != nil || got[0].InUse != nil {
		t.Fatalf("%+v %v", got, err)
	}
	r.Phase, r.ClosedAt, r.CloseReason = rig.Closed, time.Now().UTC(), rig.Requested
	if err := s.PutRig(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if got, err := s.OpenRigs(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("%+v %v", got, err)
	}
	for _, x := range []struct {
		ws, space string
		n         int
	}{{"", "", 1}, {"default", "", 1}, {"default", "s", 1}, {"other", "", 0}, {"", "other", 0}} {
		if got, err := s.ClosedRigs(t.Context(), x.ws, x.space, 10); err != nil || len(got) != x.n {
			t.Errorf("%+v: %v %v", x, got, err)
		}
	}
	for prefix, n := range map[string]int{r.ID: 1, r.ID[:3]: 1, "%": 0, "___": 0} {
		if got, err := s.ClosedByPrefix(t.Context(), prefix); err != nil || len(got) != n {
			t.Errorf("%q: %v %v", prefix, got, err)
		}
	}
}

func TestADatabaseOfANewerServerIsRefusedAndLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	s := open(t, path)
	if _, err := s.db.Exec("INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, 1)"); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if _, err := Open(t.Context(), path); err == nil || !strings.Contains(err.Error(), "newer server") {
		t.Errorf("%v", err)
	}
}

func TestMigrationsGoDownAndUpAgain(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "db"))
	p, err := s.provider()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.DownTo(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := s.db.QueryRow("SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE 'goose_%'").Scan(&n); err != nil || n != 0 {
		t.Errorf("%d tables are left: %v", n, err)
	}
	if err := s.migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ws, err := s.Workspaces(t.Context()); err != nil || len(ws) != 1 {
		t.Errorf("%v %v", ws, err)
	}
}

func TestManyWritersDoNotFail(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "db"))
	var wg sync.WaitGroup
	errs := make(chan error, 200)
	for range 8 {
		wg.Go(func() {
			for range 20 {
				errs <- s.PutRig(context.Background(), rig.Rig{ID: rig.NewID(), Phase: rig.Ready})
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestSecretsEnd(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "db"))
	ctx, now := t.Context(), time.Now().UTC()
	p := rig.Principal{Name: "ann", Kind: rig.Person}
	for _, err := range []error{
		s.AddToken(ctx, HashOf("t"), Grant{Principal: p, TokenID: "tok", CreatedAt: now}),
		s.AddSession(ctx, HashOf("s"), Grant{Principal: p, TokenID: "tok", CreatedAt: now, ExpiresAt: now.Add(time.Hour)}),
		s.AddSession(ctx, HashOf("own"), Grant{Principal: p, CreatedAt: now, ExpiresAt: now.Add(time.Hour)}),
		s.AddLink(ctx, HashOf("l"), Grant{Principal: p, TokenID: "tok", ExpiresAt: now.Add(time.Hour)}),
		s.AddLink(ctx, HashOf("l2"), Grant{Principal: p, ExpiresAt: now.Add(time.Minute)}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if g, err := s.TakeLink(ctx, HashOf("l2")); err != nil || g.Principal != p {
		t.Errorf("%+v %v", g, err)
	}
	gone := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := s.TakeLink(ctx, HashOf("l2"))
	gone("a link used twice", err)
	if err := s.RevokeToken(ctx, "tok"); err != nil {
		t.Fatal(err)
	}
	_, err = s.Token(ctx, HashOf("t"))
	gone("the token", err)
	_, err = s.Session(ctx, HashOf("s"))
	gone("its session", err)
	_, err = s.TakeLink(ctx, HashOf("l"))
	gone("its link", err)
	if _, err := s.Session(ctx, HashOf("own")); err != nil {
		t.Errorf("another session: %v", err)
	}
	gone("revoking again", s.RevokeToken(ctx, "tok"))
	if err := s.Tidy(ctx, now.Add(2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	_, err = s.Session(ctx, HashOf("own"))
	gone("an expired session", err)
}

func TestTheOldestClosedRigsAreForgotten(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "db"))
	tx, err := s.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range keepClosed + 5 {
		if err := insertClosed(tx, i); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := s.Tidy(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	var n, oldest int
	if err := s.db.QueryRow("SELECT count(*), min(opened_at) FROM rigs").Scan(&n, &oldest); err != nil || n != keepClosed || oldest != 5 {
		t.Errorf("%d from %d: %v", n, oldest, err)
	}
}

func insertClosed(tx *sql.Tx, i int) error {
	_, err := tx.Exec("INSERT INTO rigs VALUES (?, 'w', 's', 'terminal', '', 'closed', ?, 1, 'requested', '{}')", rig.NewID(), i)
	return err
}

func TestAFullDiskIsSaidSo(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "db"))
	s.db.SetMaxOpenConns(1)                                           // the limit below is a connection's
	if _, err := s.db.Exec("PRAGMA max_page_count = 1"); err != nil { // SQLite takes the present size instead
		t.Fatal(err)
	}
	r := rig.Rig{Workspace: "default", Space: "s", Surface: rig.Terminal, Phase: rig.Ready, OpenedAt: time.Now().UTC(), Egress: []string{strings.Repeat("x", 1<<20)}}
	r.ID = rig.NewID()
	err := s.PutRig(t.Context(), r)
	if rig.CodeOf(err) != rig.CodeCapacity || !strings.Contains(err.Error(), "make room") {
		t.Errorf("%v", err)
	}
	if got, err := s.OpenRigs(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("it is there all the same: %v %v", got, err)
	}
}
