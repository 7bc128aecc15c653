-- What people say of runs. Beside the logs, never in them; gone with the run.
CREATE TABLE annotations (
    id   INTEGER PRIMARY KEY,
    run  INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    body TEXT    NOT NULL
) STRICT;

CREATE INDEX annotations_of_run ON annotations (run);
