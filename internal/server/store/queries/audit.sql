-- name: InsertAuditRow :exec
INSERT INTO audit_rows (log, seq, time, principal, kind, action, class, outcome, ref, detail, hash)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: AuditRows :many
SELECT * FROM audit_rows WHERE log = sqlc.arg(log) AND seq > sqlc.arg(after) ORDER BY seq LIMIT sqlc.arg(most);

-- name: DeleteAuditRows :execrows
DELETE FROM audit_rows WHERE log = sqlc.arg(log) AND seq <= sqlc.arg(up_to);

-- name: LastAuditRow :one
SELECT seq, hash FROM audit_rows WHERE log = ? ORDER BY seq DESC LIMIT 1;

-- name: AuditHead :one
SELECT * FROM audit_heads WHERE log = ?;

-- name: AuditHeads :many
SELECT * FROM audit_heads ORDER BY log;

-- name: PutAuditHead :exec
INSERT INTO audit_heads (log, first_seq, anchor, last_seq, last_hash, broken_at, key_id, mac) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (log) DO UPDATE SET
    first_seq = excluded.first_seq, anchor = excluded.anchor, last_seq = excluded.last_seq,
    last_hash = excluded.last_hash, broken_at = excluded.broken_at,
    key_id = excluded.key_id, mac = excluded.mac;

-- name: DeleteAuditHead :exec
DELETE FROM audit_heads WHERE log = ?;

-- name: AuditSeal :one
SELECT * FROM audit_seals WHERE key_id = ?;

-- name: PutAuditSeal :exec
INSERT INTO audit_seals (key_id, commits, sum, mac) VALUES (?, ?, ?, ?)
ON CONFLICT (key_id) DO UPDATE SET commits = excluded.commits, sum = excluded.sum, mac = excluded.mac;
