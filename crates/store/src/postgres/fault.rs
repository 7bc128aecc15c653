//! Errors of PostgreSQL, and the errors of the store that they become.

use tokio_postgres::error::SqlState;

use callboard_engine::StoreError;

use crate::sealed::unreadable;

/// Either an answer of the store or PostgreSQL misbehaving; the store's port speaks only the first.
#[derive(Debug)]
pub(super) enum Fault {
    Store(StoreError),
    Sql(tokio_postgres::Error),
}

impl Fault {
    pub(super) fn unreadable(what: impl Into<String>, why: impl ToString) -> Self {
        Self::Store(unreadable(what, why))
    }

    pub(super) fn code(&self) -> Option<&SqlState> {
        match self {
            Self::Store(_) => None,
            Self::Sql(error) => error.code(),
        }
    }

    /// Whether the same transaction may come through when it is tried again: two got into each other's way, or a
    /// definition was removed that this process believed to be there.
    pub(super) fn may_pass(&self) -> bool {
        let codes = [
            &SqlState::T_R_SERIALIZATION_FAILURE,
            &SqlState::T_R_DEADLOCK_DETECTED,
            &SqlState::NOT_NULL_VIOLATION,
        ];
        self.code().is_some_and(|code| codes.contains(&code))
    }

    /// What a name that is there already was refused with: the constraint that refused it, and what it says.
    pub(super) fn taken(&self) -> Option<(&str, &str)> {
        let Self::Sql(error) = self else { return None };
        let error = error.as_db_error()?;
        (*error.code() == SqlState::UNIQUE_VIOLATION)
            .then(|| (error.constraint().unwrap_or_default(), error.detail().unwrap_or_default()))
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Store(error) => error,
            Fault::Sql(error) => of_postgres(&error),
        }
    }
}

pub(super) fn of_postgres(error: &tokio_postgres::Error) -> StoreError {
    match error.as_db_error() {
        Some(error) if *error.code() == SqlState::DISK_FULL => StoreError::Full,
        Some(error) if error.code().code().starts_with("XX") => {
            unreadable("the database", error.message())
        }
        Some(error) => {
            StoreError::Unavailable(format!("{} ({})", error.message(), error.code().code()))
        }
        // A value of a type that we did not write.
        None if error.to_string().starts_with("error deserializing") => {
            unreadable("a stored value", error)
        }
        None => StoreError::Unavailable(error.to_string()),
    }
}
