-- +goose Up
-- The audit logs: one for each rig, and the server's own, whose name is ''. What
-- the columns mean, and what of them is hashed how, is in docs/audit.md.

CREATE TABLE audit_rows (
    log       TEXT NOT NULL,
    seq       INTEGER NOT NULL,
    time      INTEGER NOT NULL,
    principal TEXT NOT NULL,
    kind      TEXT NOT NULL,
    action    TEXT NOT NULL,
    class     TEXT NOT NULL,
    outcome   TEXT NOT NULL,
    ref       INTEGER NOT NULL,
    -- an object of strings as JSON, its names in order; '' for none
    detail    TEXT NOT NULL,
    hash      BLOB NOT NULL,
    PRIMARY KEY (log, seq)
) STRICT, WITHOUT ROWID;

-- Where each log begins and ends. Logs outlive their rigs: no foreign key.
CREATE TABLE audit_heads (
    log       TEXT PRIMARY KEY,
    -- the first row that is kept, and the hash of the one before it
    first_seq INTEGER NOT NULL,
    anchor    BLOB NOT NULL,
    last_seq  INTEGER NOT NULL,
    last_hash BLOB NOT NULL,
    -- the first row that was written after this head was found changed; 0: never
    broken_at INTEGER NOT NULL,
    -- the key of the MAC
    key_id    TEXT NOT NULL,
    mac       BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- What all heads come to, for each key that they were sealed with.
CREATE TABLE audit_seals (
    key_id  TEXT PRIMARY KEY,
    commits INTEGER NOT NULL,
    sum     BLOB NOT NULL,
    mac     BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE audit_seals;
DROP TABLE audit_heads;
DROP TABLE audit_rows;
