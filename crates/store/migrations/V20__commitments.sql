-- What somebody is to be reminded of: rows of memory with their time. Settled ones are gone from here.
CREATE TABLE commitments (
    position INTEGER PRIMARY KEY REFERENCES memory (position) ON DELETE CASCADE,
    due_at   INTEGER NOT NULL
) STRICT;

CREATE INDEX commitments_due ON commitments (due_at, position);
