-- +goose Up
-- What a workspace adds to, and removes from, the default egress list of a surface.

CREATE TABLE workspace_egress (
    workspace TEXT NOT NULL REFERENCES workspaces (name) ON DELETE CASCADE,
    surface   TEXT NOT NULL,
    effect    TEXT NOT NULL CHECK (effect IN ('add', 'remove')),
    position  INTEGER NOT NULL,
    pattern   TEXT NOT NULL,
    PRIMARY KEY (workspace, surface, pattern)
) STRICT;

-- +goose Down
DROP TABLE workspace_egress;
