-- What calls of models that are under way may use, in the order of their ids. It counts while the run goes on in the
-- hands of whoever set it aside, and goes with the row of the log that ends the call.
CREATE TABLE set_aside (
    id            INTEGER PRIMARY KEY,
    run           INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    node          TEXT    NOT NULL,
    epoch         INTEGER NOT NULL,
    day           INTEGER NOT NULL,
    input_tokens  INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cost_usd      REAL    NOT NULL,
    UNIQUE (run, node)
) STRICT;
