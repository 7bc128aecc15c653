-- Entries and checkpoints of the audit log are added and never changed or removed.

CREATE FUNCTION keep_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit log is never changed, and nothing is removed from it';
END
$$;

CREATE TRIGGER audit_is_kept BEFORE UPDATE OR DELETE ON records
FOR EACH ROW WHEN (OLD.kind IN ('audit-entry', 'audit-checkpoint'))
EXECUTE FUNCTION keep_audit();
