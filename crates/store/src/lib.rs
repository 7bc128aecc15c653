//! Storage: runs, logs and records in SQLite. All SQL is here; domain rules are not.

mod postgres;
mod recall;
mod seal;
mod sealed;
mod sqlite;

pub use postgres::{ConnectError, PostgresStore, SealKey};
pub use sqlite::{OpenError, SqliteStore};
