-- The member whose day pays for a run: its own, or that of the run above it.
ALTER TABLE runs ADD COLUMN charged_to TEXT;
UPDATE runs SET charged_to = roster_id WHERE roster_id IS NOT NULL;

-- What models were paid on each day (UTC, days since 1970), counted in the append that records the usage.
CREATE TABLE spending (
    tenant        TEXT    NOT NULL,
    test          INTEGER NOT NULL,
    day           INTEGER NOT NULL,
    -- Empty where the run is nobody's.
    member        TEXT    NOT NULL,
    input_tokens  INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cost_usd      REAL    NOT NULL,
    PRIMARY KEY (tenant, test, day, member)
) STRICT, WITHOUT ROWID;

INSERT INTO spending (tenant, test, day, member, input_tokens, output_tokens, cost_usd)
SELECT tenant, test, at / 86400000, coalesce(charged_to, ''), coalesce(sum(payload ->> 'inputTokens'), 0),
    coalesce(sum(payload ->> 'outputTokens'), 0), total(payload ->> 'costEstimateUsd')
FROM events JOIN runs ON runs.id = events.run
WHERE kind = 'provider.usage' AND NOT is_replay
GROUP BY 1, 2, 3, 4;

-- What people have raised a day's ceiling to.
CREATE TABLE budget_raises (
    tenant    TEXT    NOT NULL,
    test      INTEGER NOT NULL,
    day       INTEGER NOT NULL,
    -- Empty for the tenant's own.
    member    TEXT    NOT NULL,
    dimension TEXT    NOT NULL,
    ceiling   REAL    NOT NULL,
    PRIMARY KEY (tenant, test, day, member, dimension)
) STRICT, WITHOUT ROWID;

-- What a member may use in a day. JSON, as readers see it.
CREATE TABLE allowances (
    member     INTEGER PRIMARY KEY REFERENCES roster (id) ON DELETE CASCADE,
    budget     TEXT    NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;
