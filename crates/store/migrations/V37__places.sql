-- What runs are made from belongs to one kind of key, and to a workspace or to its whole tenant. What was there before
-- this is live and the whole tenant's. An empty workspace stands for the tenant.
CREATE TABLE placed_workflows (
    tenant      TEXT    NOT NULL,
    test        INTEGER NOT NULL,
    workspace   TEXT    NOT NULL,
    workflow_id TEXT    NOT NULL,
    source      TEXT    NOT NULL,
    version     INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    PRIMARY KEY (tenant, test, workspace, workflow_id)
) STRICT;

INSERT INTO placed_workflows
    SELECT tenant, 0, '', workflow_id, source, version, updated_at FROM workflows;
-- Whoever registered a workflow last has its schedules: they go on where they are.
INSERT OR IGNORE INTO placed_workflows
    SELECT workflows.tenant, schedules.test, coalesce(schedules.workspace, ''), workflows.workflow_id, source,
           workflows.version, workflows.updated_at
    FROM workflows JOIN schedules
        ON schedules.tenant = workflows.tenant AND schedules.workflow_id = workflows.workflow_id
    WHERE schedules.trigger_id IS NOT NULL;
DROP TABLE workflows;
ALTER TABLE placed_workflows RENAME TO workflows;

CREATE TABLE placed_prompts (
    tenant     TEXT    NOT NULL,
    test       INTEGER NOT NULL,
    workspace  TEXT    NOT NULL,
    template   TEXT    NOT NULL,
    -- Counts the versions of a template from zero, so that a change is one comparison.
    place      INTEGER NOT NULL,
    -- JSON, as the protocol writes a PromptTemplate.
    body       TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, test, workspace, template, place)
) STRICT, WITHOUT ROWID;

INSERT INTO placed_prompts
    SELECT tenant, 0, workspace, template, place, body, created_at FROM prompt_templates;
DROP TABLE prompt_templates;
ALTER TABLE placed_prompts RENAME TO prompt_templates;

CREATE TABLE placed_secrets (
    tenant     TEXT    NOT NULL,
    test       INTEGER NOT NULL,
    workspace  TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    -- Bound to its place: tenant, kind of key, workspace, name.
    sealed     BLOB    NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, test, workspace, name)
) STRICT, WITHOUT ROWID;

INSERT INTO placed_secrets SELECT tenant, test, '', name, sealed, created_at, updated_at FROM secrets;
DROP TABLE secrets;
ALTER TABLE placed_secrets RENAME TO secrets;

CREATE TABLE placed_deployments (
    tenant     TEXT    NOT NULL,
    test       INTEGER NOT NULL,
    agent      TEXT    NOT NULL,
    -- Grows by one with every change.
    version    INTEGER NOT NULL,
    -- JSON; its format is the business of crates/agents.
    state      TEXT    NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, test, agent)
) STRICT;

INSERT INTO placed_deployments SELECT tenant, 0, agent, version, state, updated_at FROM deployments;
DROP TABLE deployments;
ALTER TABLE placed_deployments RENAME TO deployments;
