package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"rigs/internal/rig"
	"rigs/internal/server/store/db"
)

// hash is one of SHA-256, of a row or of what stands before the first one.
type hash [sha256.Size]byte

func (h hash) String() string { return hex.EncodeToString(h[:]) }

// netstring appends s as a netstring: its length in bytes, a colon, s, a comma.
// A sequence of netstrings can be read in one way only.
func netstring(b []byte, s string) []byte {
	b = strconv.AppendInt(b, int64(len(s)), 10)
	b = append(b, ':')
	b = append(b, s...)
	return append(b, ',')
}

func netstrings(of ...string) []byte {
	var b []byte
	for _, s := range of {
		b = netstring(b, s)
	}
	return b
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// genesis is what stands before the first row of a log: it binds the log's name.
func genesis(log string) hash { return sha256.Sum256(netstrings("rigs audit log 1", log)) }

// when is a row's time as it is hashed: exactly as it is in JSON.
func when(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// rowHash is the hash of r, without regard to r.Hash, after a row with hash prev.
func rowHash(prev hash, r *rig.AuditRow) hash {
	b := netstrings("rigs audit row 1", prev.String(), r.RigID, number(r.Seq), when(r.Time), r.Principal, string(r.Kind),
		r.Action, string(r.Class), r.Outcome, number(r.Ref), strconv.Itoa(len(r.Detail)))
	for _, k := range slices.Sorted(maps.Keys(r.Detail)) {
		b = netstring(netstring(b, k), r.Detail[k])
	}
	return sha256.Sum256(b)
}

// marshalDetail is the one spelling of d in the database.
func marshalDetail(d map[string]string) (string, error) {
	if len(d) == 0 {
		return "", nil
	}
	b, err := json.Marshal(d) // sorts the names
	return string(b), err
}

// toRow is r as it stands in the database.
func toRow(r *rig.AuditRow, h hash) (db.InsertAuditRowParams, error) {
	d, err := marshalDetail(r.Detail)
	return db.InsertAuditRowParams{
		Log: r.RigID, Seq: r.Seq, Time: r.Time.UnixMilli(), Principal: r.Principal, Kind: string(r.Kind), Action: r.Action,
		Class: string(r.Class), Outcome: r.Outcome, Ref: r.Ref, Detail: d, Hash: h[:],
	}, err
}

// fromRow reads a row of the database. An error says that it is not one that was
// written; what could be read of it is returned all the same.
func fromRow(d *db.AuditRow) (rig.AuditRow, error) {
	r := rig.AuditRow{
		RigID: d.Log, Seq: d.Seq, Time: time.UnixMilli(d.Time).UTC(), Principal: d.Principal, Kind: rig.PrincipalKind(d.Kind), Action: d.Action,
		Class: rig.Class(d.Class), Outcome: d.Outcome, Ref: d.Ref, Hash: hex.EncodeToString(d.Hash),
	}
	if d.Detail == "" {
		return r, nil
	}
	err := json.Unmarshal([]byte(d.Detail), &r.Detail)
	if err != nil {
		r.Detail = map[string]string{"unreadable": d.Detail}
		return r, fmt.Errorf("its detail cannot be read: %w", err)
	}
	// Another spelling of the same would hash the same.
	if s, err := marshalDetail(r.Detail); err != nil || s != d.Detail {
		return r, errors.New("its detail is spelled otherwise")
	}
	return r, nil
}
