-- When runs are to be started, and which slots have started theirs.
CREATE TABLE schedules (
    id            INTEGER PRIMARY KEY,
    schedule_id   TEXT    NOT NULL UNIQUE,
    tenant        TEXT    NOT NULL,
    workspace     TEXT,
    test          INTEGER NOT NULL,
    workflow_id   TEXT    NOT NULL,
    roster_id     TEXT,
    -- Set for those that the workflow's own definition declares.
    trigger_id    TEXT,
    -- Grows by one with every change.
    version       INTEGER NOT NULL,
    -- Null while it is paused or done.
    wake_at       INTEGER,
    -- JSON; its format is the business of crates/engine.
    state         TEXT    NOT NULL,
    sealed_inputs BLOB    NOT NULL
) STRICT;

-- The queue of due schedules. However many there are, a look reads those that are due.
CREATE INDEX schedules_due ON schedules (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX schedules_listed ON schedules (tenant, test, schedule_id);
CREATE INDEX schedules_declared ON schedules (tenant, workflow_id) WHERE trigger_id IS NOT NULL;

-- One run for each slot, whoever fires it. No key of a caller leads here.
CREATE TABLE schedule_fires (
    schedule INTEGER NOT NULL REFERENCES schedules (id) ON DELETE CASCADE,
    slot     INTEGER NOT NULL,
    run_id   TEXT    NOT NULL,
    PRIMARY KEY (schedule, slot)
) STRICT, WITHOUT ROWID;
