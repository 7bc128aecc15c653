-- Who wants to hear of which events, and what is on its way to them.

CREATE TABLE webhooks (
    id            INTEGER PRIMARY KEY,
    webhook_id    TEXT    NOT NULL UNIQUE,
    tenant        TEXT    NOT NULL,
    workspace     TEXT,
    test          INTEGER NOT NULL,
    url           TEXT    NOT NULL,
    -- JSON arrays.
    events        TEXT    NOT NULL,
    tags          TEXT    NOT NULL,
    durable       INTEGER NOT NULL,
    fingerprint   TEXT    NOT NULL,
    sealed_secret BLOB    NOT NULL,
    created_at    INTEGER NOT NULL,
    -- It hears of events with a greater position.
    since         INTEGER NOT NULL,
    -- JSON; the two columns after it repeat what is searched for.
    circuit       TEXT    NOT NULL,
    rest_until    INTEGER,
    failed        INTEGER NOT NULL,
    epoch         INTEGER NOT NULL,
    -- Set while somebody delivers to it.
    lease_until   INTEGER
) STRICT;

CREATE INDEX webhooks_listed ON webhooks (tenant, test);

-- The last position for which deliveries were made. One row.
CREATE TABLE webhook_cursor (
    only     INTEGER PRIMARY KEY CHECK (only = 1),
    position INTEGER NOT NULL
) STRICT;

INSERT INTO webhook_cursor (only, position) VALUES (1, 0);

-- What is still to be sent, and what was given up. What has arrived is not here.
CREATE TABLE deliveries (
    id       INTEGER PRIMARY KEY,
    webhook  INTEGER NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    event    INTEGER NOT NULL REFERENCES events (position) ON DELETE CASCADE,
    attempts INTEGER NOT NULL,
    -- Null for what was given up.
    due_at   INTEGER,
    dead_at  INTEGER,
    reason   TEXT,
    UNIQUE (webhook, event)
) STRICT;

CREATE INDEX deliveries_due ON deliveries (webhook, due_at, event) WHERE due_at IS NOT NULL;
CREATE INDEX deliveries_dead ON deliveries (webhook, dead_at) WHERE dead_at IS NOT NULL;
CREATE INDEX deliveries_of_event ON deliveries (event);
