-- Where a secret may be sent, and until when, as JSON. Null: it was stored for the host's own use.
ALTER TABLE secrets ADD COLUMN provenance TEXT;
