-- The files of workspaces: a row for each version, of which none is ever changed but for whether it is the newest.
CREATE TABLE files (
    id           INTEGER PRIMARY KEY,
    tenant       TEXT    NOT NULL,
    test         INTEGER NOT NULL,
    -- Empty where the owner belongs to none.
    workspace    TEXT    NOT NULL,
    path         TEXT    NOT NULL,
    version      INTEGER NOT NULL,
    is_newest    INTEGER NOT NULL,
    is_removed   INTEGER NOT NULL,
    content_type TEXT    NOT NULL,
    written_at   INTEGER NOT NULL,
    -- The run that wrote it or tells of it, and which of its writes it was.
    run_id       TEXT    NOT NULL,
    write_name   TEXT    NOT NULL,
    -- Last, so that a list need not read past it. Null where the file was removed.
    content      TEXT,
    UNIQUE (tenant, test, workspace, path, version),
    UNIQUE (run_id, write_name)
) STRICT;

-- What stands there now.
CREATE INDEX files_standing ON files (tenant, test, workspace, path) WHERE is_newest = 1 AND is_removed = 0;
