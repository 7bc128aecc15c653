-- What runs ask and nobody has settled, as readers may see it. Rewritten with every append that opens, moves or
-- settles a question of the run, so it is never behind the log. Tenant and mode stand here too, for the index.
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

-- Questions that were open before this table was there, from the logs of runs that go on.
INSERT INTO interrupts
SELECT
    runs.id,
    runs.run_id || '-' || asked.sequence,
    runs.tenant,
    runs.test,
    asked.node,
    asked.payload ->> 'kind',
    asked.payload ->> 'key',
    asked.payload -> 'data',
    asked.payload -> 'resumeSchema',
    asked.at,
    asked.at + (asked.payload ->> 'timeoutMs'),
    EXISTS (
        SELECT 1
        FROM births
        JOIN definitions ON definitions.id = births.definition, json_each(definitions.source, '$.nodes') AS nodes
        WHERE births.run = runs.id
            AND nodes.value ->> 'id' = asked.node
            AND nodes.value ->> '$.config.profile' = 'openwop-interrupt-auth-required'
    ),
    (
        SELECT json_group_array(json_object('voter', votes.payload ->> 'voter', 'action', votes.payload ->> 'action'))
        FROM events AS votes
        WHERE votes.run = runs.id AND votes.kind = 'callboard.vote'
            AND votes.payload ->> 'interruptId' = runs.run_id || '-' || asked.sequence
    )
FROM runs
JOIN events AS asked ON asked.run = runs.id AND asked.kind = 'interrupt.requested' AND asked.node IS NOT NULL
WHERE runs.status NOT IN ('completed', 'failed', 'cancelled')
    AND NOT EXISTS (
        SELECT 1 FROM events AS later
        WHERE later.run = runs.id AND later.node = asked.node AND later.sequence > asked.sequence
            AND later.kind IN (
                'interrupt.resolved', 'approval.received', 'clarification.resolved', 'node.cancelled', 'node.skipped'
            )
    );
