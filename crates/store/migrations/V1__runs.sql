-- Times are milliseconds since 1970. JSON is text. What is sealed is a blob that only the host's key opens.

-- Facts about this database: who made it, and a value that only the right key opens.
CREATE TABLE meta (
    name  TEXT NOT NULL PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- A run's columns that every append rewrites, so nothing large stands here.
CREATE TABLE runs (
    id              INTEGER PRIMARY KEY,
    run_id          TEXT    NOT NULL UNIQUE,
    tenant          TEXT    NOT NULL,
    workspace       TEXT,
    test            INTEGER NOT NULL,
    workflow_id     TEXT    NOT NULL,
    scope_id        TEXT,
    engine_version  INTEGER NOT NULL,
    stamped_version INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    status          TEXT    NOT NULL,
    version         INTEGER NOT NULL,
    -- The end of the lease while somebody holds the run.
    wake_at         INTEGER,
    -- Kept until the run is given back, also when the lease is void: that is how a lost holder is noticed.
    holder          TEXT,
    epoch           INTEGER NOT NULL,
    lease_until     INTEGER
) STRICT;

-- The queue of due work. Ended and waiting runs are not in it.
CREATE INDEX runs_due ON runs (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX runs_listed ON runs (tenant, test, created_at);
CREATE INDEX runs_active_in_scope ON runs (tenant, test, scope_id)
    WHERE scope_id IS NOT NULL AND status NOT IN ('completed', 'failed', 'cancelled');

-- The text of a definition, once however many runs keep it.
CREATE TABLE definitions (
    id     INTEGER PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,
    source TEXT NOT NULL
) STRICT;

-- Written once per run and read only to fold it.
CREATE TABLE births (
    run           INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
    record        TEXT    NOT NULL,
    sealed_inputs BLOB,
    definition    INTEGER NOT NULL REFERENCES definitions (id)
) STRICT;

CREATE TABLE run_tags (
    run   INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    place INTEGER NOT NULL,
    tag   TEXT    NOT NULL,
    PRIMARY KEY (run, place)
) STRICT, WITHOUT ROWID;

CREATE INDEX run_tags_by_tag ON run_tags (tag, run);

-- The logs. One writer hands out positions in the order of commits.
CREATE TABLE events (
    position INTEGER PRIMARY KEY,
    run      INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    sequence INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    kind     TEXT    NOT NULL,
    node     TEXT,
    payload  TEXT    NOT NULL,
    sealed   BLOB,
    UNIQUE (run, sequence)
) STRICT;

-- The fold of a run that came to rest: a cache, true only while its version is the run's.
CREATE TABLE snapshots (
    run     INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
    version INTEGER NOT NULL,
    body    TEXT    NOT NULL
) STRICT;

-- What idempotent requests came to.
CREATE TABLE outcomes (
    id         INTEGER PRIMARY KEY,
    key        BLOB    NOT NULL UNIQUE,
    request    BLOB    NOT NULL,
    status     INTEGER NOT NULL,
    body       TEXT    NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;

CREATE INDEX outcomes_expiring ON outcomes (expires_at);

CREATE TABLE workflows (
    tenant      TEXT    NOT NULL,
    workflow_id TEXT    NOT NULL,
    source      TEXT    NOT NULL,
    version     INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    PRIMARY KEY (tenant, workflow_id)
) STRICT;

CREATE TABLE keys (
    key_id     TEXT    NOT NULL PRIMARY KEY,
    name       TEXT    NOT NULL,
    tenant     TEXT    NOT NULL,
    workspace  TEXT,
    -- A JSON array; null is every scope.
    scopes     TEXT,
    test       INTEGER NOT NULL,
    digest     BLOB    NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER
) STRICT;
