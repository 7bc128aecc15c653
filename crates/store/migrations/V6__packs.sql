-- Installed packs. The archive stands last, so that reading the other columns does not touch it.
CREATE TABLE packs (
    -- A pack of the whole host has an empty tenant.
    host_wide    INTEGER NOT NULL,
    tenant       TEXT    NOT NULL,
    name         TEXT    NOT NULL,
    version      TEXT    NOT NULL,
    digest       BLOB    NOT NULL,
    -- A JSON object: SHA-256 in hexadecimal by path.
    files        TEXT    NOT NULL,
    signed_by    TEXT,
    signature    BLOB,
    installed_at INTEGER NOT NULL,
    -- Not offered any more, but there for runs that keep it.
    is_removed   INTEGER NOT NULL DEFAULT 0,
    archive      BLOB    NOT NULL,
    PRIMARY KEY (host_wide, tenant, name, version)
) STRICT;
