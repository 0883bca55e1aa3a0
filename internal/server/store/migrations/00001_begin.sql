-- +goose Up
-- Times are Unix milliseconds; 0 is "never". Secrets are stored as SHA-256 only.

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;

CREATE TABLE workspaces (
    name       TEXT PRIMARY KEY,
    created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE spaces (
    workspace  TEXT NOT NULL REFERENCES workspaces (name) ON DELETE CASCADE,
    name       TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (workspace, name)
) STRICT;

-- Rigs outlive their space here, as a record: no foreign key.
CREATE TABLE rigs (
    id           TEXT PRIMARY KEY,
    workspace    TEXT NOT NULL,
    space        TEXT NOT NULL,
    surface      TEXT NOT NULL,
    engine       TEXT NOT NULL,
    phase        TEXT NOT NULL,
    opened_at    INTEGER NOT NULL,
    closed_at    INTEGER NOT NULL,
    close_reason TEXT NOT NULL,
    -- the whole rig as JSON; the columns above are what queries need
    document     TEXT NOT NULL
) STRICT;
CREATE INDEX rigs_open ON rigs (phase) WHERE phase <> 'closed';
CREATE INDEX rigs_opened_at ON rigs (opened_at DESC);

CREATE TABLE tokens (
    id           TEXT PRIMARY KEY,
    name         TEXT NOT NULL,
    kind         TEXT NOT NULL,
    hash         BLOB NOT NULL UNIQUE,
    created_at   INTEGER NOT NULL,
    last_used_at INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL
) STRICT;

CREATE TABLE sessions (
    hash       BLOB PRIMARY KEY,
    name       TEXT NOT NULL,
    kind       TEXT NOT NULL,
    -- the token that the session descends from, or '': it ends with it
    token      TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;

CREATE TABLE signin_links (
    hash       BLOB PRIMARY KEY,
    name       TEXT NOT NULL,
    kind       TEXT NOT NULL,
    token      TEXT NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;

INSERT INTO workspaces (name, created_at) VALUES ('default', unixepoch() * 1000);
INSERT INTO spaces (workspace, name, created_at) VALUES ('default', 'default', unixepoch() * 1000);

-- +goose Down
DROP TABLE signin_links;
DROP TABLE sessions;
DROP TABLE tokens;
DROP TABLE rigs;
DROP TABLE spaces;
DROP TABLE workspaces;
DROP TABLE meta;
