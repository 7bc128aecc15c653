-- Installed packs by their contents: a version that was removed may come again with other ones, and runs that began
-- with the old ones keep them. Beside each stands through what its contents counted as verified, and for which kind of
-- key it is; those from before are live.
CREATE TABLE packs_by_contents (
    -- A pack of the whole host has an empty tenant.
    host_wide    INTEGER NOT NULL,
    tenant       TEXT    NOT NULL,
    test         INTEGER NOT NULL,
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
    verified_by  TEXT,
    archive      BLOB    NOT NULL,
    PRIMARY KEY (host_wide, tenant, test, name, version, digest)
) STRICT;
-- A signature beside the archive came from a registry, with the digest that was checked.
INSERT INTO packs_by_contents
    (host_wide, tenant, test, name, version, digest, files, signed_by, signature, installed_at, is_removed, verified_by,
     archive)
SELECT host_wide, tenant, 0, name, version, digest, files, signed_by, signature, installed_at, is_removed,
    CASE WHEN signature IS NULL THEN NULL ELSE 'registry' END, archive
FROM packs;
DROP TABLE packs;
ALTER TABLE packs_by_contents RENAME TO packs;
-- One at a time is offered.
CREATE UNIQUE INDEX packs_offered ON packs (host_wide, tenant, test, name, version) WHERE is_removed = 0;

-- What a run cost is read for every line of a list, without reading its log.
CREATE INDEX events_of_usage ON events (run) WHERE kind = 'provider.usage';
