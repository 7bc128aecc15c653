-- Which versions of an agent serve, for each tenant: one row per agent, so that a change is one comparison.
CREATE TABLE deployments (
    tenant     TEXT    NOT NULL,
    agent      TEXT    NOT NULL,
    -- Grows by one with every change.
    version    INTEGER NOT NULL,
    -- JSON; its format is the business of crates/agents.
    state      TEXT    NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, agent)
) STRICT;
