package server_test

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // to change what the server wrote

	"rigs/client"
	"rigs/internal/rig"
)

func TestWhoDidWhatIsKnownWhenTheRigIsGone(t *testing.T) {
	dir := home(t)
	s := start(t, dir, nil)
	r := s.ready(rig.Spec{Space: good})
	agent := s.as(client.NewToken{Name: "otto", Kind: rig.Agent})
	if err := run(t, agent, r.ID, "true"); err != nil {
		t.Fatal(err)
	}
	act, err := rig.ParseAction(rig.Terminal, []byte(`{"verb":"write_file","path":"x","content":"a secret text","mode":"600"}`))
	if err != nil {
		t.Fatal(err)
	}
	// The keeper of this test does not know the verb; that it was asked for counts.
	if _, err := agent.Act(ctxOf(t), r.ID, act); err == nil {
		t.Error("a keeper without the verb did it")
	}
	if _, err := s.Close(ctxOf(t), r.ID); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := s.ExportAudit(ctxOf(t), r.ID, &out); err != nil {
		t.Fatal(err)
	}
	var rows []client.AuditRow
	done := map[string]int64{}
	for line := range strings.Lines(out.String()) {
		var row client.AuditRow
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		if rows = append(rows, row); row.Seq != int64(len(rows)) {
			t.Errorf("row %d has number %d", len(rows), row.Seq)
		}
		if row.Ref != 0 {
			if begun := rows[row.Ref-1]; begun.Action != row.Action || begun.Outcome != "allowed" {
				t.Errorf("%+v is the end of %+v", row, begun)
			}
		} else if row.Principal == "otto" {
			if row.Kind != rig.Agent {
				t.Errorf("%+v", row)
			}
			done[row.Action] = row.Seq
		}
	}
	if done["exec"] == 0 || done["write_file"] <= done["exec"] {
		t.Errorf("what the agent did: %v in %s", done, out.String())
	}
	if strings.Contains(out.String(), "secret text") || !strings.Contains(out.String(), `"bytes":"13"`) {
		t.Errorf("what was written: %s", out.String())
	}
	last, err := s.Audit(ctxOf(t), r.ID, client.AuditOptions{Tail: true, Limit: 2})
	if err != nil || len(last.Rows) != 2 || last.Rows[1].Seq != int64(len(rows)) {
		t.Errorf("%+v %v", last, err)
	}
	if _, err := s.Audit(ctxOf(t), r.ID, client.AuditOptions{Tail: true, After: 1}); rig.AsProblem(err).Field != "tail" {
		t.Errorf("%v", err)
	}

	// An agent sees the log of the rig that it drove, and not the server's.
	if v, err := agent.VerifyAudit(ctxOf(t), r.ID); err != nil || !v.OK || v.Rows != int64(len(rows)) || v.LastHash != rows[len(rows)-1].Hash {
		t.Errorf("%+v %v", v, err)
	}
	for _, err := range []error{
		func() error { _, err := agent.VerifyAudit(ctxOf(t), ""); return err }(),
		func() error { _, err := agent.Audit(ctxOf(t), "", client.AuditOptions{}); return err }(),
		agent.ExportAudit(ctxOf(t), "", &out),
	} {
		if rig.CodeOf(err) != rig.CodeForbidden {
			t.Errorf("%v", err)
		}
	}
	if v, err := s.VerifyAudit(ctxOf(t), ""); err != nil || !v.OK {
		t.Errorf("%+v %v", v, err)
	}
	if _, err := s.VerifyAudit(ctxOf(t), "0000000000"); rig.CodeOf(err) != rig.CodeNotFound {
		t.Errorf("%v", err)
	}

	// One byte.
	db, err := sql.Open("sqlite", layout(t, dir).Database())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("UPDATE audit_rows SET principal = 'ottp' WHERE log = ? AND seq = ?", r.ID, done["exec"]); err != nil {
		t.Fatal(err)
	}
	if v, err := s.VerifyAudit(ctxOf(t), r.ID); err != nil || v.OK || v.BadSeq != done["exec"] {
		t.Errorf("a changed row: %+v %v", v, err)
	}
}
