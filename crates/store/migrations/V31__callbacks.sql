-- The run whose question a webhook brings to the run's own address; null for those that somebody registered. Such a row
-- is there while its one delivery is on its way.
ALTER TABLE webhooks ADD COLUMN run INTEGER REFERENCES runs (id) ON DELETE CASCADE;

CREATE INDEX webhooks_of_run ON webhooks (run) WHERE run IS NOT NULL;
