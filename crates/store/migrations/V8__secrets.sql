-- Secrets of tenants. The value is sealed, and bound to its tenant and name.
CREATE TABLE secrets (
    tenant     TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    sealed     BLOB    NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;
