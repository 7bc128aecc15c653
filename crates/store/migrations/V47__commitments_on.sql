-- The heartbeat that somebody waits for to be reminded; until it sees a change, due_at is beyond any time.
ALTER TABLE commitments ADD COLUMN due_on TEXT;
CREATE INDEX commitments_on ON commitments (due_on) WHERE due_on IS NOT NULL;
