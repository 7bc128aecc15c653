-- Typed things at rest beside the runs. The store compares versions and knows no rules.
CREATE TABLE records (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    tenant TEXT NOT NULL,
    test INTEGER NOT NULL,
    workspace TEXT,
    version INTEGER NOT NULL,
    due_at INTEGER,
    body BLOB NOT NULL,
    -- The run that the record goes with, and whether the run must stay as long as the record is there.
    run TEXT,
    retains INTEGER NOT NULL DEFAULT 0,
    UNIQUE (kind, key)
);
CREATE INDEX records_by_place ON records (kind, tenant, test, key);
CREATE INDEX records_by_run ON records (run, retains) WHERE run IS NOT NULL;
CREATE INDEX records_by_due ON records (kind, due_at) WHERE due_at IS NOT NULL;

-- Values that records are found by.
CREATE TABLE record_index (
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    key TEXT NOT NULL,
    record INTEGER NOT NULL REFERENCES records (id) ON DELETE CASCADE,
    PRIMARY KEY (kind, name, value, key)
) WITHOUT ROWID;
CREATE INDEX record_index_by_record ON record_index (record);
