//! Errors of SQLite, and the errors of the store that they become.

use rusqlite::{ErrorCode, ffi};

use callboard_engine::StoreError;

use crate::sealed::unreadable;

/// Either an answer of the store or SQLite misbehaving; the store's ports speak only the first.
#[derive(Debug)]
pub(super) enum Fault {
    Store(StoreError),
    Sql(rusqlite::Error),
}

impl Fault {
    pub(super) fn unreadable(what: impl Into<String>, why: impl ToString) -> Self {
        Self::Store(unreadable(what, why))
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Store(error) => error,
            Fault::Sql(error) => of_sqlite(&error),
        }
    }
}

/// The same failure for one of several requests that shared it.
pub(super) fn of_sqlite(error: &rusqlite::Error) -> StoreError {
    match error {
        rusqlite::Error::SqliteFailure(failure, _) if is_full(*failure) => StoreError::Full,
        rusqlite::Error::SqliteFailure(failure, _) if is_damage(failure.code) => {
            StoreError::Unreadable { what: "the database".to_owned(), why: error.to_string() }
        }
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::Utf8Error(..) => {
            StoreError::Unreadable { what: "a stored value".to_owned(), why: error.to_string() }
        }
        _ => StoreError::Unavailable(error.to_string()),
    }
}

fn is_full(failure: ffi::Error) -> bool {
    // The index of the write-ahead log grows on the same disk, but SQLite calls that an I/O error.
    failure.code == ErrorCode::DiskFull || failure.extended_code == ffi::SQLITE_IOERR_SHMSIZE
}

pub(super) fn is_damage(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
}
