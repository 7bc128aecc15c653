//! What is in a database, counted: its schema, its size, its rows. Looking changes nothing and needs no key.

/// The tables that both databases have, in the order in which they are shown.
pub(crate) const TABLES: [&str; 15] = [
    "runs",
    "births",
    "definitions",
    "events",
    "snapshots",
    "interrupts",
    "effects",
    "outcomes",
    "run_tags",
    "run_agents",
    "memory",
    "records",
    "record_index",
    "record_blobs",
    "counters",
];

pub(crate) const RUNS: &str = "SELECT status, count(*) FROM runs GROUP BY status ORDER BY status";
pub(crate) const RECORDS: &str = "SELECT kind, count(*) FROM records GROUP BY kind ORDER BY kind";

pub(crate) fn count(table: &str) -> String {
    format!("SELECT count(*) FROM {table}")
}

/// Nothing that is counted is below zero.
pub(crate) fn unsigned(count: i64) -> u64 {
    count.unsigned_abs()
}

/// A database as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Where it is, without user and password.
    pub database: String,
    /// None before the first start.
    pub schema: Option<i32>,
    /// The schema that this build brings a database to.
    pub known_schema: i32,
    /// What it takes on its disk.
    pub bytes: u64,
    /// Rows of each table.
    pub tables: Vec<(&'static str, u64)>,
    /// Runs of each status.
    pub runs: Vec<(String, u64)>,
    /// Records of each kind.
    pub records: Vec<(String, u64)>,
}
