-- Who may start runs from outside, and what came in.
CREATE TABLE trigger_subscriptions (
    id              INTEGER PRIMARY KEY,
    subscription_id TEXT    NOT NULL UNIQUE,
    tenant          TEXT    NOT NULL,
    workspace       TEXT,
    test            INTEGER NOT NULL,
    source          TEXT    NOT NULL,
    workflow_id     TEXT    NOT NULL,
    roster_id       TEXT,
    state           TEXT    NOT NULL,
    -- Grows by one with every change.
    version         INTEGER NOT NULL,
    -- JSON; its format is the business of crates/engine.
    body            TEXT    NOT NULL,
    sealed_secret   BLOB,
    -- The secret before, for as long as senders may still use it.
    sealed_previous BLOB,
    previous_until  INTEGER
) STRICT;

CREATE INDEX trigger_subscriptions_listed ON trigger_subscriptions (tenant, test);

-- What came in: waiting to become a run, a run already, or given up. Kept for as long as it must not come twice.
CREATE TABLE arrivals (
    id           INTEGER PRIMARY KEY,
    arrival_id   TEXT    NOT NULL UNIQUE,
    subscription INTEGER NOT NULL REFERENCES trigger_subscriptions (id) ON DELETE CASCADE,
    dedup_key    TEXT    NOT NULL,
    attempts     INTEGER NOT NULL,
    version      INTEGER NOT NULL,
    received_at  INTEGER NOT NULL,
    -- Set while it waits.
    due_at       INTEGER,
    -- Set once it is a run.
    run_id       TEXT,
    delivered_at INTEGER,
    -- Set once it is given up.
    reason       TEXT,
    dead_at      INTEGER,
    error        TEXT,
    sealed_event BLOB,
    UNIQUE (subscription, dedup_key)
) STRICT;

CREATE INDEX arrivals_due ON arrivals (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX arrivals_delivered ON arrivals (delivered_at) WHERE delivered_at IS NOT NULL;
CREATE INDEX arrivals_dead ON arrivals (subscription, dead_at) WHERE dead_at IS NOT NULL;
