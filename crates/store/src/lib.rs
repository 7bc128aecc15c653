//! What remembers: runs, logs and plain rows in SQLite. SQL lives here and nowhere else; domain rules do not.

mod seal;
mod sqlite;

pub use sqlite::{OpenError, SqliteStore};
