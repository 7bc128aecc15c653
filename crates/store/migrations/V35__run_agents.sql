-- The agents that a run is of: those that perform its nodes, and that of the member it is for.
CREATE TABLE run_agents (
    run   INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    agent TEXT    NOT NULL,
    PRIMARY KEY (run, agent)
) STRICT, WITHOUT ROWID;

CREATE INDEX run_agents_by_agent ON run_agents (agent, run);

INSERT INTO run_agents (run, agent)
    SELECT births.run, pins.value ->> '$.agentId' FROM births, json_each(births.record, '$.agents') AS pins
    UNION
    SELECT run, record ->> '$.attribution.agentId' FROM births WHERE record ->> '$.attribution.agentId' IS NOT NULL;
