-- Test keys and live keys have members and secrets of their own. What was there before this is live.
ALTER TABLE roster ADD COLUMN test INTEGER NOT NULL DEFAULT 0;

-- What test keys had put before live members begins for nobody any more, and their queues lead to nobody.
UPDATE work_items SET waits_for = NULL, waits_test = NULL WHERE waits_test;
DELETE FROM trigger_subscriptions WHERE test AND subscription_id GLOB 'work-*';

CREATE TABLE charts (
    tenant     TEXT    NOT NULL,
    test       INTEGER NOT NULL,
    -- Empty for the tenant's own.
    workspace  TEXT    NOT NULL,
    -- Grows by one with every change.
    version    INTEGER NOT NULL,
    chart      TEXT    NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, test, workspace)
) STRICT, WITHOUT ROWID;

INSERT INTO charts SELECT tenant, 0, workspace, version, chart, updated_at FROM org_charts;
DROP TABLE org_charts;
ALTER TABLE charts RENAME TO org_charts;

CREATE TABLE kept_secrets (
    tenant     TEXT    NOT NULL,
    test       INTEGER NOT NULL,
    name       TEXT    NOT NULL,
    -- Bound to its place: tenant, kind of key, name.
    sealed     BLOB    NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, test, name)
) STRICT, WITHOUT ROWID;

INSERT INTO kept_secrets SELECT tenant, 0, name, sealed, created_at, updated_at FROM secrets;
DROP TABLE secrets;
ALTER TABLE kept_secrets RENAME TO secrets;
