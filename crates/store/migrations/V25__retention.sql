-- The run that a fork was made of: it stays as long as the fork does.
ALTER TABLE runs ADD COLUMN forked_from INTEGER REFERENCES runs (id);

UPDATE runs SET forked_from = (
    SELECT source.id FROM births JOIN runs AS source ON source.run_id = births.record ->> '$.fork.source'
    WHERE births.run = runs.id
) WHERE prefix_of IS NOT NULL;

-- What refers to a run must be found before the run can go.
CREATE INDEX runs_prefixed ON runs (prefix_of) WHERE prefix_of IS NOT NULL;
CREATE INDEX runs_forked ON runs (forked_from) WHERE forked_from IS NOT NULL;
-- Those that may go, the oldest first. For a list of values SQLite would build a table with every change of a run.
CREATE INDEX runs_ended ON runs (updated_at)
    WHERE status = 'completed' OR status = 'failed' OR status = 'cancelled';
