-- Which runs the same limits count, and which of them goes first. The agents of a run, in order, each on a line.
ALTER TABLE runs ADD COLUMN agents TEXT NOT NULL DEFAULT '';
-- The highest goes first; 1000 is kept waiting by no limit.
ALTER TABLE runs ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;

UPDATE runs SET agents = coalesce(
    (SELECT group_concat(agent, char(10)) FROM
        (SELECT agent FROM run_agents WHERE run_agents.run = runs.id ORDER BY agent)), '')
WHERE wake_at IS NOT NULL OR status NOT IN ('completed', 'failed', 'cancelled');
UPDATE runs SET priority = 1000
WHERE status NOT IN ('completed', 'failed', 'cancelled') AND (status = 'cancelling' OR EXISTS
    (SELECT 1 FROM births WHERE births.run = runs.id AND births.record ->> 'parent' IS NOT NULL));

-- Runs that nobody holds, queue by queue, and those that hosts hold.
CREATE INDEX runs_waiting ON runs (tenant, workflow_id, agents, priority, wake_at)
    WHERE lease_until IS NULL AND wake_at IS NOT NULL;
CREATE INDEX runs_held ON runs (tenant, workflow_id, agents) WHERE lease_until IS NOT NULL;
