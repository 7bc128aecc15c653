-- Which key made a key, and in whose name it votes; null for those that the operator gave or that are from before.
ALTER TABLE keys ADD COLUMN made_by TEXT;
ALTER TABLE keys ADD COLUMN votes_as TEXT;

-- Which key made members and webhooks, noted before they are there. Schedules, triggers and heartbeats say it themselves.
CREATE TABLE makers (
    tenant TEXT    NOT NULL,
    test   INTEGER NOT NULL,
    kind   TEXT    NOT NULL,
    made   TEXT    NOT NULL,
    maker  TEXT    NOT NULL,
    PRIMARY KEY (tenant, test, kind, made)
) STRICT, WITHOUT ROWID;

CREATE INDEX makers_by_key ON makers (tenant, test, maker);
