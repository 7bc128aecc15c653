//! Storage: runs, logs and records in SQLite. All SQL is here; domain rules are not.

mod seal;
mod sqlite;

pub use sqlite::{OpenError, SqliteStore};
