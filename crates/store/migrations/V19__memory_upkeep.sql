-- Places that hold many entries are found by counting here, not by reading what they hold. The last two columns are
-- always empty; with them SQLite need not look into the table.
CREATE INDEX memory_crowds ON memory (tenant, test, workspace, scope_id, memory_ref, superseded_by, expires_at)
    WHERE superseded_by IS NULL AND expires_at IS NULL;
