//! What is copied: the tables and columns that both databases have, in an order in which each row finds what it refers
//! to. What one of them keeps beside it is made anew from these.

/// How a column is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    Number,
    /// Narrower in PostgreSQL.
    Small,
    Flag,
    Real,
    Text,
    Bytes,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) kept: Kept,
}

impl Column {
    /// The column as a number, text or bytes in either database.
    fn read(self) -> String {
        match self.kept {
            Kept::Small => format!("CAST({} AS BIGINT)", self.name),
            Kept::Flag => format!("CAST(CAST({} AS INTEGER) AS BIGINT)", self.name),
            Kept::Number | Kept::Real | Kept::Text | Kept::Bytes => self.name.to_owned(),
        }
    }

    /// What PostgreSQL is given.
    pub(crate) fn array(self) -> &'static str {
        match self.kept {
            Kept::Number | Kept::Small | Kept::Flag => "bigint[]",
            Kept::Real => "double precision[]",
            Kept::Text => "text[]",
            Kept::Bytes => "bytea[]",
        }
    }

    /// What it keeps of that.
    pub(crate) fn taken(self, place: usize) -> String {
        match self.kept {
            Kept::Small => format!("CAST(c{place} AS INTEGER)"),
            Kept::Flag => format!("c{place} <> 0"),
            Kept::Number | Kept::Real | Kept::Text | Kept::Bytes => format!("c{place}"),
        }
    }
}

pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) columns: &'static [(&'static str, Kept)],
    /// Where it is not all rows of the table by that name, with the columns in this order.
    pub(crate) sqlite: Option<&'static str>,
    pub(crate) postgres: Option<&'static str>,
}

pub(crate) fn columns(table: &Table) -> impl Iterator<Item = Column> + '_ {
    table.columns.iter().map(|(name, kept)| Column { name, kept: *kept })
}

impl Table {
    pub(crate) fn select(&self, own: Option<&str>) -> String {
        let columns: Vec<String> = columns(self).map(Column::read).collect();
        format!("SELECT {} FROM {}", columns.join(", "), own.unwrap_or(self.name))
    }
}

const fn plain(name: &'static str, columns: &'static [(&'static str, Kept)]) -> Table {
    Table { name, columns, sqlite: None, postgres: None }
}

use Kept::{Bytes, Flag, Number, Real, Small, Text};

/// A run that is held, or whose child has moved, is due at once in the copy: nobody holds it there.
const SQLITE_RUNS: &str = "(SELECT runs.*, CASE WHEN status IN ('completed', 'failed', 'cancelled') THEN NULL
         WHEN lease_until IS NOT NULL OR wake_requested = 1 THEN updated_at ELSE wake_at END AS due_at FROM runs)";
const POSTGRES_RUNS: &str = "(SELECT runs.*, CASE WHEN ended_at IS NOT NULL THEN NULL
         WHEN lease_until IS NOT NULL OR EXISTS (SELECT 1 FROM wakes WHERE wakes.run = runs.id)
         THEN updated_at ELSE wake_at END AS due_at FROM runs) AS runs";

/// In their order; what has no place yet comes last, as it would get one.
const POSTGRES_EVENTS: &str = "(SELECT feed.last - feed.count + 1 + events.sequence - feed.first AS position, events.*
         FROM (SELECT last, run, first, count FROM log_feed
               UNION ALL
               SELECT ((SELECT position FROM log_clock) + sum(count) OVER (ORDER BY id))::bigint, run, first, count
               FROM log_pending) AS feed
         JOIN events ON events.run = feed.run AND events.sequence >= feed.first
             AND events.sequence < feed.first + feed.count
         ORDER BY 1) AS events";

/// Every table of a copy.
pub(crate) const TABLES: &[Table] = &[
    Table {
        name: "meta",
        columns: &[("name", Text), ("value", Bytes)],
        sqlite: Some("meta WHERE name IN ('key_check', 'created_by')"),
        postgres: Some("meta WHERE name IN ('key_check', 'created_by')"),
    },
    plain("definitions", &[("id", Number), ("digest", Text), ("source", Text)]),
    Table {
        name: "runs",
        columns: &[
            ("id", Number),
            ("run_id", Text),
            ("tenant", Text),
            ("workspace", Text),
            ("test", Flag),
            ("workflow_id", Text),
            ("scope_id", Text),
            ("roster_id", Text),
            ("trigger_source", Text),
            ("charged_to", Text),
            ("forked_from", Number),
            ("prefix_of", Number),
            ("prefix_length", Number),
            ("is_replay", Flag),
            ("engine_version", Small),
            ("stamped_version", Small),
            ("created_at", Number),
            ("updated_at", Number),
            ("status", Text),
            ("version", Number),
            ("due_at", Number),
            ("holder", Text),
            ("epoch", Number),
            ("agents", Text),
            ("priority", Small),
        ],
        sqlite: Some(SQLITE_RUNS),
        postgres: Some(POSTGRES_RUNS),
    },
    plain(
        "run_tags",
        &[
            ("run", Number),
            ("place", Small),
            ("tag", Text),
            ("tenant", Text),
            ("test", Flag),
            ("created_at", Number),
        ],
    ),
    plain(
        "run_agents",
        &[
            ("run", Number),
            ("agent", Text),
            ("tenant", Text),
            ("test", Flag),
            ("created_at", Number),
        ],
    ),
    plain(
        "births",
        &[
            ("run", Number),
            ("record", Text),
            ("sealed_inputs", Bytes),
            ("sealed_delivery", Bytes),
            ("definition", Number),
        ],
    ),
    Table {
        name: "events",
        columns: &[
            ("position", Number),
            ("run", Number),
            ("sequence", Number),
            ("at", Number),
            ("kind", Text),
            ("node", Text),
            ("cause", Text),
            ("payload", Text),
            ("sealed", Bytes),
        ],
        sqlite: Some("events ORDER BY position"),
        postgres: Some(POSTGRES_EVENTS),
    },
    plain("snapshots", &[("run", Number), ("version", Number), ("body", Text)]),
    plain(
        "interrupts",
        &[
            ("run", Number),
            ("interrupt_id", Text),
            ("tenant", Text),
            ("test", Flag),
            ("node", Text),
            ("kind", Text),
            ("key", Text),
            ("data", Text),
            ("resume_schema", Text),
            ("requested_at", Number),
            ("expires_at", Number),
            ("requires_auth", Flag),
            ("votes", Text),
        ],
    ),
    plain(
        "outcomes",
        &[
            ("key", Bytes),
            ("request", Bytes),
            ("status", Small),
            ("body", Text),
            ("expires_at", Number),
        ],
    ),
    plain(
        "effects",
        &[
            ("effect_id", Text),
            ("run", Number),
            ("claimed_at", Number),
            ("request", Bytes),
            ("result", Bytes),
        ],
    ),
    plain(
        "memory",
        &[
            ("position", Number),
            ("tenant", Text),
            ("test", Flag),
            ("content", Text),
            ("workspace", Text),
            ("scope_id", Text),
            ("memory_ref", Text),
            ("entry_id", Text),
            ("version", Number),
            ("first", Number),
            ("superseded_by", Number),
            ("family", Text),
            ("tags", Text),
            ("created_at", Number),
            ("written_at", Number),
            ("expires_at", Number),
            ("author", Text),
            ("sources", Text),
        ],
    ),
    plain(
        "memory_tags",
        &[("tenant", Text), ("test", Flag), ("tag", Text), ("first", Number), ("position", Number)],
    ),
    plain(
        "records",
        &[
            ("id", Number),
            ("kind", Text),
            ("key", Text),
            ("tenant", Text),
            ("test", Flag),
            ("workspace", Text),
            ("version", Number),
            ("due_at", Number),
            ("body", Bytes),
            ("run", Text),
            ("retains", Flag),
        ],
    ),
    plain(
        "record_index",
        &[("kind", Text), ("name", Text), ("value", Text), ("key", Text), ("record", Number)],
    ),
    plain("record_blobs", &[("record", Number), ("bytes", Bytes)]),
    Table {
        name: "counters",
        columns: &[("key", Text), ("name", Text), ("value", Real)],
        sqlite: None,
        postgres: Some(
            "(SELECT key, name, sum(value) AS value FROM counters GROUP BY key, name) AS counters",
        ),
    },
];
