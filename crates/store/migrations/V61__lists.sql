-- Every filter of the list of runs leads through an index that has the list's order, so that a page costs what it shows
-- however many runs there are. Most runs are completed: those are found in the list itself.
CREATE INDEX runs_by_status ON runs (tenant, test, status, created_at) WHERE status <> 'completed';
CREATE INDEX runs_by_workflow ON runs (tenant, test, workflow_id, created_at);

DROP INDEX run_tags_by_tag;
ALTER TABLE run_tags ADD COLUMN tenant TEXT NOT NULL DEFAULT '';
ALTER TABLE run_tags ADD COLUMN test INTEGER NOT NULL DEFAULT 0;
ALTER TABLE run_tags ADD COLUMN created_at INTEGER NOT NULL DEFAULT 0;
CREATE INDEX run_tags_listed ON run_tags (tenant, test, tag, created_at, run);

DROP INDEX run_agents_by_agent;
ALTER TABLE run_agents ADD COLUMN tenant TEXT NOT NULL DEFAULT '';
ALTER TABLE run_agents ADD COLUMN test INTEGER NOT NULL DEFAULT 0;
ALTER TABLE run_agents ADD COLUMN created_at INTEGER NOT NULL DEFAULT 0;
CREATE INDEX run_agents_listed ON run_agents (tenant, test, agent, created_at, run);
