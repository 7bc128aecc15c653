-- What tenants remember: a journal of versions. Content is never changed here; it is superseded, or forgotten.
CREATE TABLE memory (
    -- Never given twice, also when what stood there was forgotten: a run's view is a position.
    position      INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant        TEXT    NOT NULL,
    workspace     TEXT,
    test          INTEGER NOT NULL,
    scope_id      TEXT    NOT NULL,
    memory_ref    TEXT    NOT NULL,
    entry_id      TEXT    NOT NULL,
    version       INTEGER NOT NULL,
    -- The position of the entry's first version: its place in a list.
    first         INTEGER NOT NULL,
    -- The position of the next version.
    superseded_by INTEGER,
    -- The oldest run above the one that wrote this.
    family        TEXT,
    content       TEXT    NOT NULL,
    -- JSON, as are author and sources.
    tags          TEXT    NOT NULL,
    created_at    INTEGER NOT NULL,
    written_at    INTEGER NOT NULL,
    expires_at    INTEGER,
    author        TEXT    NOT NULL,
    sources       TEXT    NOT NULL,
    UNIQUE (tenant, test, entry_id, version)
) STRICT;

CREATE INDEX memory_placed ON memory (tenant, test, scope_id, memory_ref, first);
-- What stands there now, for people.
CREATE INDEX memory_listed ON memory (tenant, test, first) WHERE superseded_by IS NULL;
CREATE INDEX memory_in_scope ON memory (tenant, test, scope_id, first) WHERE superseded_by IS NULL;
CREATE INDEX memory_under_ref ON memory (tenant, test, memory_ref, first) WHERE superseded_by IS NULL;

CREATE TABLE memory_tags (
    tenant   TEXT    NOT NULL,
    test     INTEGER NOT NULL,
    tag      TEXT    NOT NULL,
    first    INTEGER NOT NULL,
    position INTEGER NOT NULL REFERENCES memory (position) ON DELETE CASCADE,
    PRIMARY KEY (tenant, test, tag, first, position)
) STRICT, WITHOUT ROWID;

-- A cascade must find the tags of a row.
CREATE INDEX memory_tags_of_row ON memory_tags (position);

-- The owner is a word of its own, so that a search reads no other tenant's rows.
CREATE VIRTUAL TABLE memory_text USING fts5 (owner, content, tokenize = 'unicode61 remove_diacritics 0');

-- Set when what a run saw of memory was let go of: it cannot be forked any more.
ALTER TABLE runs ADD COLUMN is_memory_expired INTEGER NOT NULL DEFAULT 0;
