-- Decisions about a run that did not come to their end: a run with too many of them is given up, so that it cannot
-- stop one start after the other.
CREATE TABLE strikes (
    run   INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
    count INTEGER NOT NULL
) STRICT;
