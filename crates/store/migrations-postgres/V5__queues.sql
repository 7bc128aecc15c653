-- Which runs the same limits count, and which of them goes first. The agents of a run, in order, each on a line.
ALTER TABLE runs ADD COLUMN agents text COLLATE "C" NOT NULL DEFAULT '';
-- The highest goes first; 1000 is kept waiting by no limit.
ALTER TABLE runs ADD COLUMN priority integer NOT NULL DEFAULT 0;

UPDATE runs SET agents = coalesce(
    (SELECT string_agg(agent, chr(10) ORDER BY agent) FROM run_agents WHERE run_agents.run = runs.id), '')
WHERE ended_at IS NULL;
UPDATE runs SET priority = 1000 WHERE ended_at IS NULL AND (status = 'cancelling' OR parent IS NOT NULL);

-- Runs that nobody holds, queue by queue, and those that hosts hold.
CREATE INDEX runs_waiting ON runs (tenant, workflow_id, agents, priority, wake_at, id)
    WHERE lease_until IS NULL AND wake_at IS NOT NULL;
CREATE INDEX runs_held ON runs (tenant, workflow_id, agents) WHERE lease_until IS NOT NULL;
