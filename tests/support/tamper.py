"""Changes or drops a row of the audit log in a database file: FILE change|drop SEQUENCE. Lets runs have ended that many
days earlier: FILE age DAYS."""

import sqlite3
import sys

file, how, sequence = sys.argv[1:]
db = sqlite3.connect(file)
if how == "age":
    db.execute("UPDATE runs SET updated_at = updated_at - ? * 86400000", [int(sequence)])
    db.commit()
    sys.exit(0)
db.executescript("DROP TRIGGER IF EXISTS audit_is_not_changed; DROP TRIGGER IF EXISTS audit_is_not_removed;")
row = "kind = 'audit-entry' AND key LIKE '%" + sequence.zfill(20) + "'"
changed = db.execute(f"DELETE FROM records WHERE {row}" if how == "drop" else f"UPDATE records SET body = x'00' WHERE {row}")
db.commit()
sys.exit(0 if changed.rowcount == 1 else 1)
