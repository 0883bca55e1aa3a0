package audit

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rigs/internal/rig"
	"rigs/internal/server/store"
	"rigs/internal/server/store/db"
)

// limit is how long anything may take before a test gives up on it.
const limit = 60 * time.Second

// bench is a database and its log.
type bench struct {
	t   testing.TB
	dir string
	db  *store.Store
	*Log
}

func open(t testing.TB, dir string, conf func(*Config), wrap func(Database) Database) *bench {
	t.Helper()
	st, err := store.Open(t.Context(), filepath.Join(dir, "rigs.db"))
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, dir: dir, db: st}
	c := Config{Database: st, KeyFile: filepath.Join(dir, "audit.key"), Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	if wrap != nil {
		c.Database = wrap(st)
	}
	if conf != nil {
		conf(&c)
	}
	if b.Log, err = Open(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.close)
	return b
}

func (b *bench) close() {
	if err := errors.Join(b.Close(), b.db.Close()); err != nil {
		b.t.Error(err)
	}
}

// raw is the database without anything of ours between.
func raw(t testing.TB, dir string) *sql.DB {
	t.Helper()
	d, err := sql.Open("sqlite", filepath.Join(dir, "rigs.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func row(rigID, action string, detail ...string) rig.AuditRow {
	r := rig.AuditRow{RigID: rigID, Principal: "ann", Kind: rig.Person, Action: action, Class: rig.ProcessSpawn, Outcome: "allowed"}
	for i := 0; i+1 < len(detail); i += 2 {
		if r.Detail == nil {
			r.Detail = map[string]string{}
		}
		r.Detail[detail[i]] = detail[i+1]
	}
	return r
}

func (b *bench) record(r rig.AuditRow) rig.AuditRow {
	b.t.Helper()
	got, err := b.Record(b.t.Context(), r)
	if err != nil {
		b.t.Fatal(err)
	}
	return got
}

func (b *bench) whole(logs ...string) {
	b.t.Helper()
	for _, log := range logs {
		if v, err := b.Verify(b.t.Context(), log); err != nil || !v.OK {
			b.t.Errorf("log %q: %+v %v", log, v, err)
		}
	}
}

// all returns every row of a log.
func (b *bench) all(log string) []rig.AuditRow {
	b.t.Helper()
	var out []rig.AuditRow
	for after := int64(0); ; after = out[len(out)-1].Seq {
		l, err := b.List(b.t.Context(), log, after, 0)
		if err != nil {
			b.t.Fatal(err)
		}
		if out = append(out, l.Rows...); !l.More {
			return out
		}
	}
}

func TestARowIsAsItWasRecorded(t *testing.T) {
	b := open(t, t.TempDir(), nil, nil)
	want := rig.AuditRow{
		RigID: "r1", Time: time.Date(2026, 1, 2, 3, 4, 5, 678_999_999, time.FixedZone("", 3600)), Principal: "bot <7>", Kind: rig.Agent, Action: "exec",
		Class: rig.ProcessSpawn, Outcome: "allowed", Detail: map[string]string{"argv": "a\nb\x00 é <\u2028>", "": "empty"},
	}
	got := b.record(want)
	if len(got.Hash) != 64 {
		t.Errorf("hash %q", got.Hash)
	}
	want.Seq, want.Hash, want.Time = 1, got.Hash, time.Date(2026, 1, 2, 2, 4, 5, 678_000_000, time.UTC)
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	end := b.record(rig.AuditRow{RigID: "r1", Principal: "bot", Kind: rig.Agent, Action: "exec", Outcome: "done", Ref: got.Seq})
	if d := cmp.Diff([]rig.AuditRow{want, end}, b.all("r1")); d != "" {
		t.Error(d)
	}
	b.whole("", "r1")
	if l, err := b.Tail(t.Context(), "r1", 1); err != nil || len(l.Rows) != 1 || l.Rows[0].Seq != 2 {
		t.Errorf("%+v %v", l, err)
	}
	for id, want := range map[string]bool{"": true, "r1": true, "r2": false} {
		if has, err := b.Has(t.Context(), id); err != nil || has != want {
			t.Errorf("%q: %v %v", id, has, err)
		}
	}
}

func TestWhatCannotBeCarriedIsSaidSo(t *testing.T) {
	b := open(t, t.TempDir(), nil, nil)
	r := b.record(rig.AuditRow{RigID: "r1", Principal: "\xff", Action: strings.Repeat("a", 100), Outcome: "done", Detail: map[string]string{
		"name": "a\xffb", "long": strings.Repeat("é", MaxText),
	}})
	if r.Detail["name"] != `a\xffb` || r.Principal != `\xff` || r.Action != strings.Repeat("a", MaxWord)+"… (100 bytes)" {
		t.Errorf("%+v", r)
	}
	if d := r.Detail["long"]; !strings.HasSuffix(d, fmt.Sprintf("… (%d bytes)", 2*MaxText)) || len(d) > MaxText+20 {
		t.Errorf("%d bytes: …%s", len(d), d[len(d)-20:])
	}
	b.whole("r1")
	many := row("r1", "x")
	for i := range MaxDetails + 1 {
		many.Detail = map[string]string{}
		for j := range i + 1 {
			many.Detail[strconv.Itoa(j)] = ""
		}
	}
	for _, r := range []rig.AuditRow{{Outcome: "done"}, {Action: "x"}, many} {
		if err := b.Append(t.Context(), r); rig.CodeOf(err) != rig.CodeInternal {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

// view lets a log read inside of a transaction that is never committed.
type view struct{ tx *sql.Tx }

func (v view) View(_ context.Context, f func(*db.Queries) error) error { return f(db.New(v.tx)) }
func (v view) Update(context.Context, func(*db.Queries) error) error {
	return errors.New("it is only to be read")
}

// The promise of SPEC §7: any one byte of any column of any row.
func TestAnyChangeOfOneByteIsFound(t *testing.T) {
	b := open(t, t.TempDir(), nil, nil)
	logs := []string{"", "r1", "r2"}
	for i := range 3 {
		for _, id := range logs {
			b.record(row(id, "exec", "argv", "ls "+strconv.Itoa(i), "cwd", "/"))
			b.record(rig.AuditRow{RigID: id, Principal: "ann", Kind: rig.Person, Action: "exec", Outcome: "done", Ref: int64(2*i + 1)})
		}
	}
	b.whole(logs...)
	d := raw(t, b.dir)
	changes := 0
	for table, keys := range map[string]string{"audit_rows": "log, seq", "audit_heads": "log", "audit_seals": "key_id"} {
		rows := dump(t, d, table, keys)
		for i, r := range rows {
			for column, v := range r {
				for _, bad := range oneByteOff(v) {
					tx, err := d.Begin()
					if err != nil {
						t.Fatal(err)
					}
					where, args := only(r, keys)
					_, err = tx.Exec(fmt.Sprintf("UPDATE %s SET %s = ? WHERE %s", table, column, where), append([]any{bad}, args...)...)
					if err == nil { // not one that makes two rows one
						changes++
						l := &Log{Config: Config{Database: view{tx}}, sealer: b.sealer}
						at := fmt.Sprintf("%s, row %d, %s: %v instead of %v", table, i, column, bad, v)
						if id, ok := r["log"].(string); ok {
							found(t, l, at, id)
						} else {
							found(t, l, at, logs...)
						}
					}
					if err := tx.Rollback(); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
	if changes < 2000 {
		t.Errorf("only %d changes were tried", changes)
	}
	b.whole(logs...)
}

// found fails unless each of the logs is found to be changed.
func found(t *testing.T, l *Log, what string, logs ...string) {
	t.Helper()
	for _, id := range logs {
		v, err := l.Verify(t.Context(), id)
		if err != nil {
			t.Errorf("%s: log %q: %v", what, id, err)
		}
		if v.OK || v.Detail == "" {
			t.Errorf("%s: log %q: not found", what, id)
		}
	}
}

func dump(t *testing.T, d *sql.DB, table, order string) []map[string]any {
	t.Helper()
	rows, err := d.Query(fmt.Sprintf("SELECT * FROM %s ORDER BY %s", table, order))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var out []map[string]any
	for rows.Next() {
		vals, ptrs := make([]any, len(names)), make([]any, len(names))
		for i := range vals {
			ptrs[i] = &vals[i]
		}
		if err := rows.Scan(ptrs...); err != nil {
			t.Fatal(err)
		}
		r := map[string]any{}
		for i, n := range names {
			r[n] = vals[i]
		}
		out = append(out, r)
	}
	if err := rows.Err(); err != nil || len(out) == 0 {
		t.Fatalf("%d rows of %s: %v", len(out), table, err)
	}
	return out
}

func only(r map[string]any, keys string) (string, []any) {
	var where []string
	var args []any
	for k := range strings.SplitSeq(keys, ", ") {
		where, args = append(where, k+" = ?"), append(args, r[k])
	}
	return strings.Join(where, " AND "), args
}

// oneByteOff returns v with one byte changed, each in turn, and with one more and
// one less.
func oneByteOff(v any) []any {
	var out []any
	switch v := v.(type) {
	case int64:
		for i := range 8 {
			out = append(out, v^(1<<(8*i)))
		}
		return append(out, v+1, v-1)
	case string:
		for _, b := range bytesOff([]byte(v)) {
			out = append(out, string(b))
		}
	case []byte:
		for _, b := range bytesOff(v) {
			out = append(out, b)
		}
	default:
		panic(fmt.Sprintf("%T", v))
	}
	return out
}

func bytesOff(v []byte) [][]byte {
	out := [][]byte{append(bytes.Clone(v), ' ')}
	for i := range v {
		b := bytes.Clone(v)
		b[i] ^= 1
		out = append(out, b)
	}
	if len(v) > 0 {
		out = append(out, v[:len(v)-1])
	}
	return out
}

// What somebody does who can write to the database and has not the key.
func TestWhatAnEditorOfTheDatabaseDoesIsFound(t *testing.T) {
	b := open(t, t.TempDir(), nil, nil)
	for range 6 {
		b.record(row("r1", "exec"))
		b.record(row("r2", "exec"))
	}
	d := raw(t, b.dir)
	early := dump(t, d, "audit_heads", "log")
	for range 3 {
		b.record(row("r1", "exec"))
	}
	b.whole("", "r1", "r2")
	// forged is a row that follows the last one as it should.
	rows := b.all("r1")
	last := rows[len(rows)-1]
	forged := last
	forged.Seq++
	var prev hash
	copy(prev[:], unhex(t, last.Hash))
	sum := rowHash(prev, &forged)
	head := func(tx *sql.Tx, last int64, h []byte) error {
		_, err := tx.Exec("UPDATE audit_heads SET last_seq = ?, last_hash = ? WHERE log = 'r1'", last, h)
		return err
	}
	for name, c := range map[string]struct {
		do   func(tx *sql.Tx) error
		logs []string
		seq  int64
	}{
		"the first row is gone": {exe("DELETE FROM audit_rows WHERE log = 'r1' AND seq = 1"), []string{"r1"}, 1},
		"a row is gone":         {exe("DELETE FROM audit_rows WHERE log = 'r1' AND seq = 5"), []string{"r1"}, 5},
		"the last row is gone":  {exe("DELETE FROM audit_rows WHERE log = 'r1' AND seq = 9"), []string{"r1"}, 9},
		"two rows are swapped": {func(tx *sql.Tx) error {
			return errors.Join(exe("UPDATE audit_rows SET seq = 100 WHERE log = 'r1' AND seq = 4")(tx), exe("UPDATE audit_rows SET seq = 4 WHERE log = 'r1' AND seq = 5")(tx),
				exe("UPDATE audit_rows SET seq = 5 WHERE log = 'r1' AND seq = 100")(tx))
		}, []string{"r1"}, 4},
		"a row is gone and the rest moves up": {func(tx *sql.Tx) error {
			return errors.Join(exe("DELETE FROM audit_rows WHERE log = 'r1' AND seq = 5")(tx), exe("UPDATE audit_rows SET seq = seq - 1 WHERE log = 'r1' AND seq > 5")(tx))
		}, []string{"r1"}, 5},
		"a row is another log's": {exe("UPDATE audit_rows SET log = 'r3' WHERE log = 'r1' AND seq = 9"), []string{"r1", "r3"}, 0},
		"a row is put behind the last": {func(tx *sql.Tx) error {
			return insertRaw(tx, forged, sum)
		}, []string{"r1"}, 10},
		"a row is put behind the last, and the head says so": {func(tx *sql.Tx) error {
			return errors.Join(insertRaw(tx, forged, sum), head(tx, 10, sum[:]))
		}, []string{"r1"}, 0},
		"the last rows are gone, and the head says so": {func(tx *sql.Tx) error {
			return errors.Join(exe("DELETE FROM audit_rows WHERE log = 'r1' AND seq > 6")(tx), head(tx, 6, unhex(t, rows[5].Hash)))
		}, []string{"r1"}, 0},
		"the last rows are gone, and the head is an older one with its MAC": {func(tx *sql.Tx) error {
			return errors.Join(exe("DELETE FROM audit_rows WHERE log = 'r1' AND seq > 6")(tx), head(tx, 6, unhex(t, rows[5].Hash)), setMAC(tx, early))
		}, []string{"", "r1", "r2"}, 0},
		"the head is gone": {exe("DELETE FROM audit_heads WHERE log = 'r1'"), []string{"r1", ""}, 0},
		"the whole log is gone": {func(tx *sql.Tx) error {
			return errors.Join(exe("DELETE FROM audit_heads WHERE log = 'r1'")(tx), exe("DELETE FROM audit_rows WHERE log = 'r1'")(tx))
		}, []string{"", "r1", "r2"}, 0},
		"the whole log has another name": {func(tx *sql.Tx) error {
			return errors.Join(exe("UPDATE audit_heads SET log = 'r3' WHERE log = 'r1'")(tx), exe("UPDATE audit_rows SET log = 'r3' WHERE log = 'r1'")(tx))
		}, []string{"", "r1", "r2", "r3"}, 0},
		"the last rows are gone, the head is an older one, and another makes up for it": {func(tx *sql.Tx) error {
			var now, then hash
			if err := tx.QueryRow("SELECT mac FROM audit_heads WHERE log = 'r1'").Scan(scan{&now}); err != nil {
				return err
			}
			if err := errors.Join(exe("DELETE FROM audit_rows WHERE log = 'r1' AND seq > 6")(tx), head(tx, 6, unhex(t, rows[5].Hash)), setMAC(tx, early)); err != nil {
				return err
			}
			if err := tx.QueryRow("SELECT mac FROM audit_heads WHERE log = 'r1'").Scan(scan{&then}); err != nil {
				return err
			}
			now.sub(then)
			_, err := tx.Exec("INSERT INTO audit_heads SELECT 'r3', first_seq, anchor, last_seq, last_hash, broken_at, key_id, ? FROM audit_heads WHERE log = 'r2'", now[:])
			return err
		}, []string{"", "r1", "r2"}, 0},
		"the seal is gone": {exe("DELETE FROM audit_seals"), []string{"", "r1", "r2"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			tx, err := d.Begin()
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback()
			if err := c.do(tx); err != nil {
				t.Fatal(err)
			}
			l := &Log{Config: Config{Database: view{tx}}, sealer: b.sealer}
			found(t, l, name, c.logs...)
			if v, err := l.Verify(t.Context(), "r1"); c.seq != 0 && v.BadSeq != c.seq {
				t.Errorf("row %d was named instead of %d: %s %v", v.BadSeq, c.seq, v.Detail, err)
			}
		})
	}
	b.whole("", "r1", "r2")
}

// scan reads a hash from a column.
type scan struct{ into *hash }

func (s scan) Scan(v any) error {
	b, ok := v.([]byte)
	if !ok || !copyHash(s.into, b) {
		return fmt.Errorf("%v is no hash", v)
	}
	return nil
}

func exe(q string) func(*sql.Tx) error {
	return func(tx *sql.Tx) error { _, err := tx.Exec(q); return err }
}

func insertRaw(tx *sql.Tx, r rig.AuditRow, h hash) error {
	p, err := toRow(&r, h)
	if err != nil {
		return err
	}
	return db.New(tx).InsertAuditRow(context.Background(), p)
}

func setMAC(tx *sql.Tx, heads []map[string]any) error {
	for _, h := range heads {
		if h["log"] == "r1" {
			_, err := tx.Exec("UPDATE audit_heads SET mac = ? WHERE log = 'r1'", h["mac"])
			return err
		}
	}
	return errors.New("no head")
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	var b []byte
	if _, err := fmt.Sscanf(s, "%x", &b); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestALogGoesOnAfterARestart(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, nil, nil)
	b.record(row("r1", "one"))
	if err := b.Append(t.Context(), row("r1", "two")); err != nil {
		t.Fatal(err)
	}
	b.close() // writes what is queued
	if err := b.Append(t.Context(), row("r1", "late")); rig.CodeOf(err) != rig.CodeUnavailable {
		t.Errorf("after the end: %v", err)
	}
	b = open(t, dir, nil, nil)
	if got := b.record(row("r1", "three")); got.Seq != 3 {
		t.Errorf("row %d", got.Seq)
	}
	if rows := b.all(""); len(rows) != 1 || rows[0].Action != "audit.key" || rows[0].Kind != rig.System {
		t.Errorf("%+v", rows)
	}
	b.whole("", "r1")
}

// Writing on must not make a changed log a good one.
func TestAChangedLogIsWrittenOnAndStaysChanged(t *testing.T) {
	for name, do := range map[string]string{
		"rows taken from the end": "DELETE FROM audit_rows WHERE log = 'r1' AND seq > 2",
		"rows and the head's end": "UPDATE audit_heads SET last_seq = 2, last_hash = (SELECT hash FROM audit_rows WHERE log = 'r1' AND seq = 2) WHERE log = 'r1'",
		"a MAC":                   "UPDATE audit_heads SET mac = zeroblob(32) WHERE log = 'r1'",
		"the head":                "DELETE FROM audit_heads WHERE log = 'r1'",
		"a row behind the last":   "INSERT INTO audit_rows SELECT log, 5, time, principal, kind, action, class, outcome, ref, detail, hash FROM audit_rows WHERE log = 'r1' AND seq = 4",
	} {
		for _, running := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, running %v", name, running), func(t *testing.T) {
				dir := t.TempDir()
				b := open(t, dir, nil, nil)
				for range 4 {
					b.record(row("r1", "x"))
				}
				b.record(row("r2", "x"))
				if !running {
					b.close()
				}
				if _, err := raw(t, dir).Exec(do); err != nil {
					t.Fatal(err)
				}
				if !running {
					b = open(t, dir, nil, nil)
				}
				// The second may fail once where a row is in its place, and then not again.
				for range 3 {
					if _, err := b.Record(t.Context(), row("r1", "later")); err != nil {
						b.record(row("r1", "later"))
					}
				}
				found(t, b.Log, name, "r1")
				b.record(row("r2", "x"))
				if rows := b.all("r1"); rows[len(rows)-1].Action != "later" {
					t.Errorf("%+v", rows)
				}
			})
		}
	}
}

func TestAReplacedKeyIsSaidSo(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, nil, nil)
	b.record(row("r1", "x"))
	b.record(row("r2", "x"))
	b.close()
	if err := os.Remove(filepath.Join(dir, "audit.key")); err != nil {
		t.Fatal(err)
	}
	b = open(t, dir, nil, nil)
	b.record(row("r1", "x"))
	b.record(row("r3", "x"))
	b.whole("r3")
	found(t, b.Log, "the key was replaced", "", "r1", "r2")
	if v, err := b.Verify(t.Context(), "r2"); err != nil || !strings.Contains(v.Detail, "another key") {
		t.Errorf("%+v %v", v, err)
	}
}

func TestAKeyThatOthersCanReadIsRefused(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, nil, nil)
	b.close()
	path := filepath.Join(dir, "audit.key")
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", fi, err)
	}
	st, err := store.Open(t.Context(), filepath.Join(dir, "rigs.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	c := Config{Database: st, KeyFile: path, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	for name, spoil := range map[string]func() error{
		"its mode":    func() error { return os.Chmod(path, 0o644) },
		"its content": func() error { return errors.Join(os.Chmod(path, 0o600), os.WriteFile(path, []byte("00\n"), 0o600)) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), c); rig.CodeOf(err) != rig.CodeIntegrity {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// heard is what was published.
type heard struct {
	mu   sync.Mutex
	rows []rig.AuditRow
}

func (h *heard) add(r rig.AuditRow) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rows = append(h.rows, r)
}

func (h *heard) size() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.rows)
}

func TestManyWritersKeepTheirOrder(t *testing.T) {
	var told heard
	b := open(t, t.TempDir(), func(c *Config) { c.Publish = told.add }, nil)
	const writers, each = 8, 200
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			id := "r" + strconv.Itoa(w%3)
			for i := range each {
				r := row(id, "input", "writer", strconv.Itoa(w), "n", strconv.Itoa(i))
				var err error
				if i%50 == 0 {
					_, err = b.Record(context.Background(), r)
				} else {
					err = b.Append(context.Background(), r)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Go(func() {
		for range 20 {
			if v, err := b.Verify(context.Background(), "r0"); err != nil || !v.OK {
				t.Errorf("while it is written: %+v %v", v, err)
			}
		}
	})
	wg.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if err := b.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	b.whole("", "r0", "r1", "r2")
	for told.size() < writers*each { // it is told by and by
		if ctx.Err() != nil {
			t.Fatalf("only %d rows are told", told.size())
		}
		time.Sleep(time.Millisecond)
	}
	n := 0
	for _, id := range []string{"r0", "r1", "r2"} {
		next := map[string]int{}
		rows := b.all(id)
		for i, r := range rows {
			if r.Seq != int64(i+1) {
				t.Fatalf("%s: row %d has number %d", id, i+1, r.Seq)
			}
			if w := r.Detail["writer"]; r.Detail["n"] != strconv.Itoa(next[w]) {
				t.Fatalf("%s: writer %s: %s after %d", id, w, r.Detail["n"], next[w]-1)
			}
			next[r.Detail["writer"]]++
		}
		n += len(rows)
		var of []rig.AuditRow
		for _, r := range told.rows {
			if r.RigID == id {
				of = append(of, r)
			}
		}
		if d := cmp.Diff(rows, of); d != "" {
			t.Errorf("what was told of %s is not what was written: %s", id, d)
		}
	}
	if n != writers*each {
		t.Errorf("%d rows", n)
	}
}

// faulty is a database that can fail, and that can be held.
type faulty struct {
	Database
	fail atomic.Bool
	hold sync.RWMutex
}

var errDisk = errors.New("the disk is on fire")

func (f *faulty) Update(ctx context.Context, g func(*db.Queries) error) error {
	f.hold.RLock()
	defer f.hold.RUnlock()
	if f.fail.Load() {
		// After some of it was done, which must not count.
		return f.Database.Update(ctx, func(q *db.Queries) error { return errors.Join(g(q), errDisk) })
	}
	return f.Database.Update(ctx, g)
}

func TestWhatCannotBeWrittenDoesNotHappen(t *testing.T) {
	f := &faulty{}
	told := make(chan rig.AuditRow, 100)
	b := open(t, t.TempDir(), func(c *Config) { c.Publish = func(r rig.AuditRow) { told <- r } }, func(d Database) Database { f.Database = d; return f })
	b.record(row("r1", "before"))
	f.fail.Store(true)
	if _, err := b.Record(t.Context(), row("r1", "refused")); !errors.Is(err, errDisk) {
		t.Fatalf("%v", err)
	}
	// One that is taken is kept.
	if err := b.Append(t.Context(), row("r1", "kept")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Record(t.Context(), row("r1", "refused")); err == nil {
		t.Fatal("an action passed")
	}
	// From when the writer has noticed, nothing is taken any more.
	var refused error
	for end := time.Now().Add(limit); refused == nil && time.Now().Before(end); {
		refused = b.Flush(t.Context())
	}
	if !errors.Is(refused, errDisk) || rig.CodeOf(refused) != rig.CodeUnavailable {
		t.Fatalf("%v", refused)
	}
	if err := b.Append(t.Context(), row("r1", "refused")); !errors.Is(err, errDisk) {
		t.Fatalf("%v", err)
	}
	f.fail.Store(false)
	for deadline := time.After(limit); ; {
		select {
		case r := <-told:
			if r.Action != "kept" {
				continue
			}
		case <-deadline:
			t.Fatal("the row that was kept is not written")
		}
		break
	}
	b.record(row("r1", "after"))
	var names []string
	for _, r := range b.all("r1") {
		names = append(names, r.Action)
	}
	if d := cmp.Diff([]string{"before", "kept", "after"}, names); d != "" {
		t.Error(d)
	}
	b.whole("", "r1")
}

func TestAFullQueueMakesWritersWaitAndDropsNothing(t *testing.T) {
	f := &faulty{}
	b := open(t, t.TempDir(), nil, func(d Database) Database { f.Database = d; return f })
	f.hold.Lock()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	taken := 0
	for {
		err := b.Append(ctx, row("r1", "input", "n", strconv.Itoa(taken)))
		if err != nil {
			if rig.CodeOf(err) != rig.CodeTimeout {
				t.Error(err)
			}
			break
		}
		if taken++; taken > 10*queueLen {
			t.Fatal("there is no bound")
		}
	}
	f.hold.Unlock()
	wait, done := context.WithTimeout(t.Context(), limit)
	defer done()
	if err := b.Flush(wait); err != nil {
		t.Fatal(err)
	}
	rows := b.all("r1")
	if len(rows) != taken {
		t.Fatalf("%d rows of %d", len(rows), taken)
	}
	for i, r := range rows {
		if r.Detail["n"] != strconv.Itoa(i) {
			t.Fatalf("row %d is %v", i, r.Detail)
		}
	}
}

func TestRowsThatCannotBeWrittenAtTheEndAreSaidToBeLost(t *testing.T) {
	f := &faulty{}
	dir := t.TempDir()
	st, err := store.Open(t.Context(), filepath.Join(dir, "rigs.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	f.Database = st
	l, err := Open(t.Context(), Config{Database: f, KeyFile: filepath.Join(dir, "k"), Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	f.fail.Store(true)
	if err := l.Append(t.Context(), row("r1", "x")); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); !errors.Is(err, errDisk) || !strings.Contains(err.Error(), "1 audit rows are lost") {
		t.Errorf("%v", err)
	}
}

func TestOldRowsGoAndTheRestIsWhole(t *testing.T) {
	var by atomic.Int64
	b := open(t, t.TempDir(), func(c *Config) {
		c.Now = func() time.Time { return time.Now().Add(time.Duration(by.Load())) }
		c.Keep = 90 * 24 * time.Hour
	}, nil)
	for range 5 {
		b.record(row("r1", "old"))
		b.record(row("r2", "old"))
	}
	by.Add(int64(60 * 24 * time.Hour))
	kept := b.record(row("r1", "new"))
	if err := b.Tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(b.all("r2")); n != 5 {
		t.Errorf("%d rows are left before their time", n)
	}
	by.Add(int64(31 * 24 * time.Hour))
	if err := b.Tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]rig.AuditRow{kept}, b.all("r1")); d != "" {
		t.Error(d)
	}
	if has, err := b.Has(t.Context(), "r2"); err != nil || has {
		t.Errorf("the log of a rig that is gone for long is there: %v", err)
	}
	b.whole("", "r1")
	notes := map[string]string{}
	for _, r := range b.all("") {
		if r.Action == "audit.trim" {
			notes[r.Detail["rig"]] = r.Detail["from"] + "-" + r.Detail["to"]
		}
	}
	if d := cmp.Diff(map[string]string{"": "1-1", "r1": "1-5", "r2": "1-5"}, notes); d != "" {
		t.Error(d)
	}
	if got := b.record(row("r1", "next")); got.Seq != 7 {
		t.Errorf("number %d", got.Seq)
	}
	b.whole("", "r1")
}

func TestARigThatWritesMuchPushesOutItsOwnRowsOnly(t *testing.T) {
	b := open(t, t.TempDir(), func(c *Config) { c.MaxRows = 3000 }, nil)
	for range 10 {
		b.record(row("quiet", "x"))
	}
	for range 2*trimLen + 500 {
		if err := b.Append(t.Context(), row("loud", "x")); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(b.Flush(t.Context()), b.Tidy(t.Context())); err != nil {
		t.Fatal(err)
	}
	if n := len(b.all("quiet")); n != 10 {
		t.Errorf("%d rows of the quiet rig", n)
	}
	loud := b.all("loud")
	if len(loud) < 2900 || len(loud) > 3000 || loud[len(loud)-1].Seq != 2*trimLen+500 {
		t.Errorf("%d rows of the loud rig", len(loud))
	}
	b.whole("", "quiet", "loud")
}

func TestShare(t *testing.T) {
	const all = 1 << 62
	for _, x := range []struct {
		sizes []int64
		most  int64
		want  int64
	}{
		{nil, 10, all},
		{[]int64{5, 5}, 0, all},
		{[]int64{5, 5}, 10, all},
		{[]int64{5, 6}, 10, 5},
		{[]int64{1, 100}, 10, 9},
		{[]int64{100, 1, 100}, 11, 5},
		{[]int64{3, 3, 3}, 2, 0},
	} {
		var heads []head
		for _, n := range x.sizes {
			heads = append(heads, head{first: 11, last: 10 + n})
		}
		if got := share(heads, x.most); got != x.want {
			t.Errorf("%v within %d: %d each, want %d", x.sizes, x.most, got, x.want)
		}
	}
}

func TestRedactTellsNothing(t *testing.T) {
	b := open(t, t.TempDir(), nil, nil)
	long := []byte("correct horse battery staple")
	one, again, other := b.Redact("r1", long), b.Redact("r1", long), b.Redact("r2", long)
	if one["bytes"] != "28" || one["hmac"] != again["hmac"] || one["hmac"] == other["hmac"] || len(one["hmac"]) != 64 {
		t.Errorf("%v %v %v", one, again, other)
	}
	// Keys of a keyboard: equal ones must not look equal.
	if a, b := b.Redact("r1", []byte("a")), b.Redact("r1", []byte("a")); a["hmac"] == b["hmac"] || a["bytes"] != "1" {
		t.Errorf("%v %v", a, b)
	}
}

// docs/audit.md shows how to verify an export without us.
func TestAnExportVerifiesWithTheDocumentedProgram(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	doc, err := os.ReadFile("../../../docs/audit.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(doc), "```python\n")
	program, _, ok2 := strings.Cut(rest, "```")
	if !ok || !ok2 {
		t.Fatal("docs/audit.md has no program")
	}
	b := open(t, t.TempDir(), nil, nil)
	for i := range 30 {
		b.record(row("r1", "exec", "argv", "é\u2028 <&> \x7f \"\\ "+strconv.Itoa(i), "cwd", "/"))
		b.record(rig.AuditRow{RigID: "r1", Principal: "ann", Kind: rig.Person, Action: "exec", Outcome: "done", Ref: int64(2*i + 1)})
	}
	check := func(log []byte) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		cmd := exec.CommandContext(ctx, python, "-c", program)
		cmd.Stdin = bytes.NewReader(log)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, after := range []int64{0, 7} {
		var log bytes.Buffer
		if err := b.Export(t.Context(), &log, "r1", after); err != nil {
			t.Fatal(err)
		}
		if out, err := check(log.Bytes()); err != nil || !strings.Contains(out, "rows up to 60") {
			t.Errorf("%v: %s", err, out)
		}
		bad := bytes.Replace(log.Bytes(), []byte(`"cwd":"/"`), []byte(`"cwd":"."`), 5)
		if out, err := check(bad); err == nil {
			t.Errorf("a changed export passes: %s", out)
		}
	}
}

func TestAnExportIsOneRowALine(t *testing.T) {
	b := open(t, t.TempDir(), nil, nil)
	for i := range 2*page + 10 {
		if err := b.Append(t.Context(), row("r1", "x", "n", strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if err := errors.Join(b.Flush(t.Context()), b.Export(t.Context(), &out, "r1", 0)); err != nil {
		t.Fatal(err)
	}
	var got []rig.AuditRow
	for line := range strings.Lines(out.String()) {
		var r rig.AuditRow
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		got = append(got, r)
	}
	if d := cmp.Diff(b.all("r1"), got); d != "" {
		t.Error(d)
	}
}

func BenchmarkRecord(b *testing.B) {
	l := open(b, b.TempDir(), nil, nil)
	for b.Loop() {
		l.record(row("r1", "exec", "argv", "ls"))
	}
}

func BenchmarkRecordParallel(b *testing.B) {
	l := open(b, b.TempDir(), nil, nil)
	var n atomic.Int64
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		id := "r" + strconv.FormatInt(n.Add(1), 10)
		for pb.Next() {
			l.record(row(id, "exec", "argv", "ls"))
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	l := open(b, b.TempDir(), nil, nil)
	for b.Loop() {
		if err := l.Append(b.Context(), row("r1", "terminal.input", "bytes", "1")); err != nil {
			b.Fatal(err)
		}
	}
	if err := l.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkRecordBesideInput is what an action waits while another rig's input is
// written at a thousand events a second.
func BenchmarkRecordBesideInput(b *testing.B) {
	l := open(b, b.TempDir(), nil, nil)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		t := time.NewTicker(time.Millisecond)
		defer t.Stop()
		for {
			select {
			case <-stop:
				return
			case <-t.C:
				if err := l.Append(context.Background(), row("busy", "terminal.input", "bytes", "1", "hmac", strings.Repeat("0", 64))); err != nil {
					b.Error(err)
				}
			}
		}
	}()
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		l.record(row("r1", "exec", "command", "ls"))
		took = append(took, time.Since(began))
	}
	close(stop)
	<-stopped
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}
