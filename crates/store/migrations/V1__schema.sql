-- Runs, their logs and what is asked of people; outward calls; memory; and everything else as records.
-- Times are milliseconds since 1970. `test` is 1 for what belongs to test keys.

CREATE TABLE meta (
    name  TEXT NOT NULL PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE runs (
    id              INTEGER PRIMARY KEY,
    run_id          TEXT    NOT NULL UNIQUE,
    tenant          TEXT    NOT NULL,
    workspace       TEXT,
    test            INTEGER NOT NULL,
    workflow_id     TEXT    NOT NULL,
    scope_id        TEXT,
    -- The standing member that the run is attributed to, what fired it, and who pays.
    roster_id       TEXT,
    trigger_source  TEXT,
    charged_to      TEXT,
    -- The source of a fork or a replay, and how much of its log this run's begins with.
    forked_from     INTEGER REFERENCES runs (id),
    prefix_of       INTEGER REFERENCES runs (id),
    prefix_length   INTEGER NOT NULL DEFAULT 0,
    is_replay       INTEGER NOT NULL DEFAULT 0,
    engine_version  INTEGER NOT NULL,
    stamped_version INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    status          TEXT    NOT NULL,
    version         INTEGER NOT NULL,
    -- The end of the lease while somebody holds the run.
    wake_at         INTEGER,
    -- Set while a child has moved that the holder has not seen.
    wake_requested  INTEGER NOT NULL DEFAULT 0,
    -- Kept until the run is given back, also when the lease is void: that is how a lost holder is noticed.
    holder          TEXT,
    epoch           INTEGER NOT NULL,
    lease_until     INTEGER
) STRICT;
CREATE INDEX runs_due ON runs (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX runs_active_in_scope ON runs (tenant, test, scope_id)
    WHERE scope_id IS NOT NULL AND status NOT IN ('completed', 'failed', 'cancelled');
CREATE INDEX runs_ended ON runs (updated_at)
    WHERE status = 'completed' OR status = 'failed' OR status = 'cancelled';
CREATE INDEX runs_prefixed ON runs (prefix_of) WHERE prefix_of IS NOT NULL;
CREATE INDEX runs_forked ON runs (forked_from) WHERE forked_from IS NOT NULL;
-- Lists are read in the order of an index, whatever they are filtered by.
CREATE INDEX runs_listed ON runs (tenant, test, created_at);
CREATE INDEX runs_by_status ON runs (tenant, test, status, created_at) WHERE status <> 'completed';
CREATE INDEX runs_by_workflow ON runs (tenant, test, workflow_id, created_at);
CREATE INDEX runs_of_member ON runs (tenant, test, roster_id, created_at) WHERE roster_id IS NOT NULL;

CREATE TABLE run_tags (
    run        INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    place      INTEGER NOT NULL,
    tag        TEXT    NOT NULL,
    tenant     TEXT    NOT NULL,
    test       INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (run, place)
) STRICT, WITHOUT ROWID;
CREATE INDEX run_tags_listed ON run_tags (tenant, test, tag, created_at, run);

-- The agents that perform a run's nodes, and the agent of its member.
CREATE TABLE run_agents (
    run        INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    agent      TEXT    NOT NULL,
    tenant     TEXT    NOT NULL,
    test       INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (run, agent)
) STRICT, WITHOUT ROWID;
CREATE INDEX run_agents_listed ON run_agents (tenant, test, agent, created_at, run);

CREATE TABLE definitions (
    id     INTEGER PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,
    source TEXT NOT NULL
) STRICT;

CREATE TABLE births (
    run             INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
    record          TEXT    NOT NULL,
    sealed_inputs   BLOB,
    sealed_delivery BLOB,
    definition      INTEGER NOT NULL REFERENCES definitions (id)
) STRICT;
CREATE INDEX births_of_definition ON births (definition);

CREATE TABLE events (
    position INTEGER PRIMARY KEY,
    run      INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    sequence INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    kind     TEXT    NOT NULL,
    node     TEXT,
    cause    TEXT,
    payload  TEXT    NOT NULL,
    -- What readers may not see of the payload.
    sealed   BLOB,
    UNIQUE (run, sequence)
) STRICT;
CREATE INDEX events_of_usage ON events (run) WHERE kind = 'provider.usage';

CREATE TABLE snapshots (
    run     INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
    version INTEGER NOT NULL,
    body    TEXT    NOT NULL
) STRICT;

CREATE TABLE interrupts (
    run           INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    interrupt_id  TEXT    NOT NULL,
    tenant        TEXT    NOT NULL,
    test          INTEGER NOT NULL,
    node          TEXT    NOT NULL,
    kind          TEXT    NOT NULL,
    key           TEXT    NOT NULL,
    data          TEXT    NOT NULL,
    resume_schema TEXT,
    requested_at  INTEGER NOT NULL,
    expires_at    INTEGER,
    requires_auth INTEGER NOT NULL,
    -- A JSON array of {voter, action}.
    votes         TEXT    NOT NULL,
    PRIMARY KEY (run, interrupt_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX interrupts_listed ON interrupts (tenant, test, requested_at, interrupt_id);

-- The outcomes of idempotent requests.
CREATE TABLE outcomes (
    id         INTEGER PRIMARY KEY,
    key        BLOB    NOT NULL UNIQUE,
    request    BLOB    NOT NULL,
    status     INTEGER NOT NULL,
    body       TEXT    NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;
CREATE INDEX outcomes_expiring ON outcomes (expires_at);

-- Outward calls: claimed before they are made, with their outcome once it is known.
CREATE TABLE effects (
    id         INTEGER PRIMARY KEY,
    effect_id  TEXT    NOT NULL UNIQUE,
    run        INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    claimed_at INTEGER NOT NULL,
    -- Sealed, as is the result: the digest of what was asked for.
    request    BLOB,
    result     BLOB
) STRICT;
CREATE INDEX effects_of_run ON effects (run);

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
CREATE INDEX memory_listed ON memory (tenant, test, first) WHERE superseded_by IS NULL;
CREATE INDEX memory_in_scope ON memory (tenant, test, scope_id, first) WHERE superseded_by IS NULL;
CREATE INDEX memory_under_ref ON memory (tenant, test, memory_ref, first) WHERE superseded_by IS NULL;
CREATE INDEX memory_crowds ON memory (tenant, test, workspace, scope_id, memory_ref, superseded_by, expires_at)
    WHERE superseded_by IS NULL AND expires_at IS NULL;

CREATE TABLE memory_tags (
    tenant   TEXT    NOT NULL,
    test     INTEGER NOT NULL,
    tag      TEXT    NOT NULL,
    first    INTEGER NOT NULL,
    position INTEGER NOT NULL REFERENCES memory (position) ON DELETE CASCADE,
    PRIMARY KEY (tenant, test, tag, first, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX memory_tags_of_row ON memory_tags (position);

CREATE VIRTUAL TABLE memory_text USING fts5 (owner, content, tokenize = 'unicode61 remove_diacritics 0');

-- One typed thing at rest: a member, a schedule, a key, a delivery … The body is sealed JSON.
CREATE TABLE records (
    -- Never given twice: the order in which records were first written.
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    kind      TEXT    NOT NULL,
    key       TEXT    NOT NULL,
    tenant    TEXT    NOT NULL,
    test      INTEGER NOT NULL,
    workspace TEXT,
    version   INTEGER NOT NULL,
    due_at    INTEGER,
    body      BLOB    NOT NULL,
    -- The run that the record goes with, and whether the run must stay as long as the record is there.
    run       TEXT,
    retains   INTEGER NOT NULL DEFAULT 0,
    UNIQUE (kind, key)
) STRICT;
CREATE INDEX records_by_place ON records (kind, tenant, test, key);
CREATE INDEX records_by_run ON records (run, retains) WHERE run IS NOT NULL;
CREATE INDEX records_by_due ON records (kind, due_at) WHERE due_at IS NOT NULL;

-- The values that records are found by.
CREATE TABLE record_index (
    kind   TEXT    NOT NULL,
    name   TEXT    NOT NULL,
    value  TEXT    NOT NULL,
    key    TEXT    NOT NULL,
    record INTEGER NOT NULL REFERENCES records (id) ON DELETE CASCADE,
    PRIMARY KEY (kind, name, value, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX record_index_by_record ON record_index (record);

CREATE TABLE record_blobs (
    record INTEGER PRIMARY KEY REFERENCES records (id) ON DELETE CASCADE,
    bytes  BLOB NOT NULL
) STRICT;

CREATE TABLE counters (
    key   TEXT NOT NULL,
    name  TEXT NOT NULL,
    value REAL NOT NULL,
    PRIMARY KEY (key, name)
) STRICT, WITHOUT ROWID;
