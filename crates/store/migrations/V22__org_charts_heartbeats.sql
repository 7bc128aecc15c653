-- Who stands where: one chart for each owner. The chart is JSON, as readers see it.
CREATE TABLE org_charts (
    tenant     TEXT    NOT NULL,
    -- Empty for the tenant's own.
    workspace  TEXT    NOT NULL,
    -- Grows by one with every change.
    version    INTEGER NOT NULL,
    chart      TEXT    NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, workspace)
) STRICT, WITHOUT ROWID;

-- What is looked at again and again, and what was seen last.
CREATE TABLE heartbeats (
    id           INTEGER PRIMARY KEY,
    heartbeat_id TEXT    NOT NULL,
    tenant       TEXT    NOT NULL,
    workspace    TEXT,
    test         INTEGER NOT NULL,
    workflow_id  TEXT    NOT NULL,
    roster_id    TEXT,
    -- Grows by one with every change.
    version      INTEGER NOT NULL,
    -- Null while it is paused.
    wake_at      INTEGER,
    -- JSON; its format is the business of crates/engine.
    state        TEXT    NOT NULL,
    UNIQUE (tenant, test, heartbeat_id)
) STRICT;

-- The queue of due looks. However many heartbeats there are, a scan reads those that are due.
CREATE INDEX heartbeats_due ON heartbeats (wake_at) WHERE wake_at IS NOT NULL;
