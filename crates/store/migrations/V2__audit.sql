-- Entries and checkpoints of the audit log are added and never changed or removed.

CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON records
WHEN OLD.kind IN ('audit-entry', 'audit-checkpoint')
BEGIN
    SELECT RAISE(ABORT, 'the audit log is never changed');
END;

CREATE TRIGGER audit_is_not_removed BEFORE DELETE ON records
WHEN OLD.kind IN ('audit-entry', 'audit-checkpoint')
BEGIN
    SELECT RAISE(ABORT, 'nothing is removed from the audit log');
END;
