-- name: ListWorkspaces :many
SELECT w.name, w.created_at,
       (SELECT count(*) FROM spaces s WHERE s.workspace = w.name) AS spaces
FROM workspaces w ORDER BY w.name;

-- name: HasWorkspace :one
SELECT count(*) FROM workspaces WHERE name = ?;

-- name: InsertWorkspace :execrows
INSERT INTO workspaces (name, created_at) VALUES (?, ?) ON CONFLICT DO NOTHING;

-- name: DeleteWorkspace :execrows
DELETE FROM workspaces WHERE name = ?;

-- name: ListSpaces :many
SELECT * FROM spaces WHERE workspace = ? ORDER BY name;

-- name: InsertSpace :execrows
INSERT INTO spaces (workspace, name, created_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING;

-- name: DeleteSpace :execrows
DELETE FROM spaces WHERE workspace = ? AND name = ?;

-- name: HasSpace :one
SELECT count(*) FROM spaces WHERE workspace = ? AND name = ?;

-- name: UpsertRig :exec
INSERT INTO rigs (id, workspace, space, surface, engine, phase, opened_at, closed_at, close_reason, document)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET
    phase = excluded.phase, closed_at = excluded.closed_at,
    close_reason = excluded.close_reason, document = excluded.document;

-- name: OpenRigs :many
SELECT document FROM rigs WHERE phase <> 'closed' ORDER BY opened_at;

-- name: ClosedRigs :many
SELECT document FROM rigs
WHERE phase = 'closed'
  AND (sqlc.arg(workspace) = '' OR workspace = sqlc.arg(workspace))
  AND (sqlc.arg(space) = '' OR space = sqlc.arg(space))
ORDER BY opened_at DESC, id LIMIT sqlc.arg(most);

-- name: ClosedRigsByPrefix :many
SELECT document FROM rigs
WHERE phase = 'closed' AND substr(id, 1, length(sqlc.arg(prefix))) = sqlc.arg(prefix)
LIMIT 2;

-- name: TrimRigs :exec
DELETE FROM rigs WHERE phase = 'closed' AND id NOT IN
    (SELECT r.id FROM rigs r WHERE r.phase = 'closed' ORDER BY r.opened_at DESC LIMIT sqlc.arg(keep));

-- name: InsertToken :exec
INSERT INTO tokens (id, name, kind, hash, created_at, last_used_at, expires_at) VALUES (?, ?, ?, ?, ?, 0, ?);

-- name: ListTokens :many
SELECT id, name, kind, created_at, last_used_at, expires_at FROM tokens
WHERE expires_at = 0 OR expires_at > sqlc.arg(now) ORDER BY created_at, id;

-- name: TokenByHash :one
SELECT * FROM tokens WHERE hash = ?;

-- name: TouchToken :exec
UPDATE tokens SET last_used_at = ? WHERE id = ?;

-- name: DeleteToken :execrows
DELETE FROM tokens WHERE id = ?;

-- name: DeleteSessionsOfToken :exec
DELETE FROM sessions WHERE token = ? AND token <> '';

-- name: DeleteLinksOfToken :exec
DELETE FROM signin_links WHERE token = ? AND token <> '';

-- name: InsertSession :exec
INSERT INTO sessions (hash, name, kind, token, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?);

-- name: SessionByHash :one
SELECT * FROM sessions WHERE hash = ?;

-- name: DeleteSession :exec
DELETE FROM sessions WHERE hash = ?;

-- name: InsertLink :exec
INSERT INTO signin_links (hash, name, kind, token, expires_at) VALUES (?, ?, ?, ?, ?);

-- name: TakeLink :one
DELETE FROM signin_links WHERE hash = ? RETURNING *;

-- name: DeleteExpired :exec
DELETE FROM sessions WHERE expires_at <> 0 AND expires_at <= ?;

-- name: DeleteExpiredLinks :exec
DELETE FROM signin_links WHERE expires_at <= ?;

-- name: DeleteExpiredTokens :exec
DELETE FROM tokens WHERE expires_at <> 0 AND expires_at <= ?;
