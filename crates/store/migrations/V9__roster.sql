-- Standing members. The order of their ids is the order of their hiring.
CREATE TABLE roster (
    id         INTEGER PRIMARY KEY,
    tenant     TEXT    NOT NULL,
    roster_id  TEXT    NOT NULL,
    workspace  TEXT,
    -- Grows by one with every change.
    version    INTEGER NOT NULL,
    -- JSON: the entry as readers see it.
    entry      TEXT    NOT NULL,
    hired_at   INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (tenant, roster_id)
) STRICT;

-- The portfolios once more, by workflow: every fire asks for the owners.
CREATE TABLE roster_workflows (
    tenant      TEXT    NOT NULL,
    workflow_id TEXT    NOT NULL,
    member      INTEGER NOT NULL REFERENCES roster (id) ON DELETE CASCADE,
    PRIMARY KEY (tenant, workflow_id, member)
) STRICT, WITHOUT ROWID;

CREATE INDEX roster_workflows_of_member ON roster_workflows (member);

-- The member that a run is attributed to, for lists. The log says it too, and there it is true.
ALTER TABLE runs ADD COLUMN roster_id TEXT;
-- What fired it for that member.
ALTER TABLE runs ADD COLUMN trigger_source TEXT;

CREATE INDEX runs_of_member ON runs (tenant, test, roster_id, created_at) WHERE roster_id IS NOT NULL;

-- What people put before members. The item is JSON, as readers see it.
CREATE TABLE work_items (
    id      INTEGER PRIMARY KEY,
    member  INTEGER NOT NULL REFERENCES roster (id) ON DELETE CASCADE,
    work_id TEXT    NOT NULL,
    version INTEGER NOT NULL,
    item    TEXT    NOT NULL,
    UNIQUE (member, work_id)
) STRICT;
