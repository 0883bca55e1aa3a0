-- name: WorkspaceEgress :many
SELECT surface, effect, pattern FROM workspace_egress WHERE workspace = ? ORDER BY surface, effect, position;

-- name: InsertWorkspaceEgress :exec
INSERT INTO workspace_egress (workspace, surface, effect, position, pattern) VALUES (?, ?, ?, ?, ?);

-- name: DeleteWorkspaceEgress :exec
DELETE FROM workspace_egress WHERE workspace = ?;
