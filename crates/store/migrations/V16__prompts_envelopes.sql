-- Prompt templates of tenants: one row per version, and a version is never written over.
CREATE TABLE prompt_templates (
    tenant     TEXT    NOT NULL,
    -- Empty for those of the whole tenant.
    workspace  TEXT    NOT NULL,
    template   TEXT    NOT NULL,
    -- Counts the versions of a template from zero, so that a change is one comparison.
    place      INTEGER NOT NULL,
    -- JSON, as the protocol writes a PromptTemplate.
    body       TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, workspace, template, place)
) STRICT, WITHOUT ROWID;

-- What became of envelopes: asked again, also by a new process, the answer is the same.
CREATE TABLE envelopes (
    tenant      TEXT NOT NULL,
    run         TEXT NOT NULL,
    correlation TEXT NOT NULL,
    kind        TEXT NOT NULL,
    -- JSON; its format is the business of crates/agents.
    outcome     TEXT NOT NULL,
    PRIMARY KEY (tenant, run, correlation)
) STRICT, WITHOUT ROWID;

-- Events that were projected onto a run, beside its own log.
CREATE TABLE projected_events (
    id     INTEGER PRIMARY KEY,
    tenant TEXT    NOT NULL,
    run    TEXT    NOT NULL,
    at     INTEGER NOT NULL,
    body   TEXT    NOT NULL
) STRICT;

CREATE INDEX projected_events_of_run ON projected_events (tenant, run, id);
