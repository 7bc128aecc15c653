//! Storage: runs, logs and records in SQLite or PostgreSQL. All SQL is here; domain rules are not.

mod copy;
mod lock;
mod postgres;
mod recall;
mod seal;
mod sealed;
mod sqlite;
mod status;

pub use copy::{CopiedTable, CopyEnd, CopyError, copy};
pub use lock::FolderLock;
pub use postgres::{ConnectError, Look, PostgresStore, SealKey};
pub use sqlite::{Copied, OpenError, Sizes, SqliteStore};
pub use status::Status;
