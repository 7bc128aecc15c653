-- Set when somebody appended what a held run waits for: whoever gives the run back makes it due at once.
ALTER TABLE runs ADD COLUMN is_poked INTEGER NOT NULL DEFAULT 0;
-- A fork's history up to this length is the log of another run.
ALTER TABLE runs ADD COLUMN prefix_of INTEGER REFERENCES runs (id);
ALTER TABLE runs ADD COLUMN prefix_length INTEGER NOT NULL DEFAULT 0;
-- A replay: nothing of it leaves the host.
ALTER TABLE runs ADD COLUMN is_replay INTEGER NOT NULL DEFAULT 0;

-- Outward calls: claimed before they are made, settled with what came of them.
CREATE TABLE effects (
    id         INTEGER PRIMARY KEY,
    effect_id  TEXT    NOT NULL UNIQUE,
    run        INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    claimed_at INTEGER NOT NULL,
    -- Sealed JSON; none while nobody knows what came of the call.
    result     BLOB
) STRICT;

CREATE INDEX effects_of_run ON effects (run);
