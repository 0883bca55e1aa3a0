-- name: ListMembers :many
SELECT * FROM members ORDER BY workspace, principal;

-- name: PutMember :exec
INSERT INTO members (workspace, principal, role) VALUES (?, ?, ?)
ON CONFLICT (workspace, principal) DO UPDATE SET role = excluded.role;

-- name: DeleteMember :execrows
DELETE FROM members WHERE workspace = ? AND principal = ?;

-- name: DeleteMembersOf :exec
DELETE FROM members WHERE workspace = ?;

-- name: ListRules :many
SELECT * FROM rules ORDER BY created_at, id;

-- name: InsertRule :execrows
INSERT INTO rules (id, workspace, class, effect, space, agent, mode, created_at, created_by)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING;

-- name: DeleteRule :execrows
DELETE FROM rules WHERE id = ? AND workspace = ?;

-- name: DeleteRulesOf :exec
DELETE FROM rules WHERE workspace = ?;

-- name: DeleteRulesOfSpace :exec
DELETE FROM rules WHERE workspace = ? AND space = ?;

-- name: SetSpaceMode :execrows
UPDATE spaces SET mode = ? WHERE workspace = ? AND name = ?;

-- name: ReadOnlySpaces :many
SELECT workspace, name FROM spaces WHERE mode = 'readOnly';
