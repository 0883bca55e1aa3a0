-- +goose Up
-- Who may do what in a workspace ('*': in all of them), and its guardrails.
CREATE TABLE members (
    workspace TEXT NOT NULL,
    principal TEXT NOT NULL,
    role      TEXT NOT NULL,
    PRIMARY KEY (workspace, principal)
) STRICT;

-- Whoever had a token could do what a person, or an agent, can.
INSERT OR IGNORE INTO members (workspace, principal, role)
SELECT '*', name, CASE kind WHEN 'person' THEN 'owner' ELSE 'member' END FROM tokens ORDER BY kind DESC;

CREATE TABLE rules (
    id         TEXT PRIMARY KEY,
    workspace  TEXT NOT NULL,
    class      TEXT NOT NULL,
    effect     TEXT NOT NULL,
    -- '' matches all
    space      TEXT NOT NULL,
    agent      TEXT NOT NULL,
    mode       TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX rules_scope ON rules (workspace, class, space, agent, mode, effect);

ALTER TABLE spaces ADD COLUMN mode TEXT NOT NULL DEFAULT 'normal';

-- +goose Down
ALTER TABLE spaces DROP COLUMN mode;
DROP TABLE rules;
DROP TABLE members;
