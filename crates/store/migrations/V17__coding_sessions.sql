-- What coding agents need to go on with their sessions on another host. It holds what was said, so it is sealed.
CREATE TABLE coding_sessions (
    run    INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    home   TEXT    NOT NULL,
    sealed BLOB    NOT NULL,
    PRIMARY KEY (run, home)
) STRICT, WITHOUT ROWID;
