//! The database of a host: a file in its data folder, or a PostgreSQL that other hosts use as well.

use std::path::Path;
use std::sync::Arc;

use callboard_engine::{Census, Clock, Elsewhere, Store, StoreError, SystemClock, audited};
use callboard_protocol::Tenant;
use callboard_server::{NotReady, Readiness};
use callboard_store::{ConnectError, FolderLock, OpenError, PostgresStore, SealKey, SqliteStore};

use super::Settings;
use crate::disk;
use crate::exit::CommandError;

/// Names the key that opens sealed values, where it is not in the data folder.
pub(crate) const SEAL_KEY: &str = "CALLBOARD_SEAL_KEY";

#[derive(Debug, Clone)]
pub(crate) enum Database {
    /// One process owns the folder.
    Embedded(Arc<SqliteStore>),
    /// This process is one of several; its folder is its own all the same.
    Shared(Arc<PostgresStore>),
}

impl Database {
    pub(super) async fn open(settings: &Settings) -> Result<Self, CommandError> {
        let folder = settings.data.as_path();
        let unopened = |error: OpenError| unopened(folder, &error);
        let Some(address) = &settings.database_url else {
            return Ok(Self::Embedded(Arc::new(SqliteStore::open(folder).map_err(unopened)?)));
        };
        // A start that cannot succeed makes no folder.
        PostgresStore::check_address(address).map_err(|error| unconnected(&error))?;
        let lock = FolderLock::take(folder).map_err(unopened)?;
        let store = PostgresStore::connect(address, seal_key(settings.variable, folder)).await;
        let store = store.map_err(|error| unconnected(&error))?;
        Ok(Self::Shared(Arc::new(store.holding(lock))))
    }

    /// The store through which everything is written, and with it the audit log.
    pub(super) fn store(&self) -> Arc<dyn Store> {
        let store: Arc<dyn Store> = match self {
            Self::Embedded(store) => Arc::clone(store) as _,
            Self::Shared(store) => Arc::clone(store) as _,
        };
        audited(store, self.clock())
    }

    /// Hosts of one database go by its clock, so that no machine's clock takes a run from another host.
    pub(super) fn clock(&self) -> Arc<dyn Clock> {
        match self {
            Self::Embedded(_) => Arc::new(SystemClock),
            Self::Shared(store) => store.clock(),
        }
    }

    pub(super) fn elsewhere(&self) -> Option<Arc<dyn Elsewhere>> {
        match self {
            Self::Embedded(_) => None,
            Self::Shared(store) => Some(Arc::clone(store) as _),
        }
    }

    pub(super) fn name(&self) -> String {
        match self {
            Self::Embedded(store) => store.name(),
            Self::Shared(store) => store.name(),
        }
    }

    /// What operators watch of it.
    pub(super) async fn census(&self) -> Result<Census, StoreError> {
        let clock = self.clock();
        let (now, counted) = (clock.now(), clock.counted());
        match self {
            Self::Embedded(store) => store.census(now, counted).await,
            Self::Shared(store) => store.census(now, counted).await,
        }
    }

    /// How many runs of each tenant there are.
    pub(super) async fn stored_runs(&self) -> Result<Vec<(Tenant, u64)>, StoreError> {
        match self {
            Self::Embedded(store) => store.stored_runs().await,
            Self::Shared(store) => store.stored_runs().await,
        }
    }

    async fn ping(&self) -> Result<(), StoreError> {
        match self {
            Self::Embedded(store) => store.ping().await,
            Self::Shared(store) => store.ping().await,
        }
    }

    pub(super) async fn shutdown(&self) {
        match self {
            Self::Embedded(store) => store.shutdown().await,
            Self::Shared(store) => store.shutdown().await,
        }
    }
}

/// The key of the environment, or that of the data folder.
pub(crate) fn seal_key(variable: fn(&str) -> Option<String>, folder: &Path) -> SealKey {
    match variable(SEAL_KEY) {
        Some(digits) => SealKey::of_digits(digits.trim()),
        None => SealKey::in_folder(folder),
    }
}

pub(crate) fn unconnected(error: &ConnectError) -> CommandError {
    let what = error.to_string();
    match error {
        // What was typed is wrong, whatever the database is like.
        ConnectError::Address { .. } => CommandError::usage(what),
        _ => CommandError::failed(what),
    }
    .hint(error.hint())
}

/// A database does not always report that the disk is full; the disk does.
pub(crate) fn unopened(folder: &Path, error: &OpenError) -> CommandError {
    let failed = CommandError::failed(error.to_string());
    let could_be_full = match error {
        OpenError::Folder { .. }
        | OpenError::Key { .. }
        | OpenError::Backup { .. }
        | OpenError::Copy { .. }
        | OpenError::Migration { .. }
        | OpenError::Database { .. } => true,
        OpenError::InUse { .. }
        | OpenError::Damaged { .. }
        | OpenError::Newer { .. }
        | OpenError::KeyMissing { .. }
        | OpenError::WrongKey { .. } => false,
    };
    match disk::free_bytes(folder).filter(|free| could_be_full && *free < disk::LEAST_SPACE) {
        Some(free) => failed.hint(format!(
            "the disk has only {} KiB left: make room, or choose another folder with --data",
            free / 1024
        )),
        None => failed.hint(error.hint()),
    }
}

/// Ready is who can reach the database.
#[async_trait::async_trait]
impl Readiness for Database {
    async fn check(&self) -> Result<(), NotReady> {
        self.ping().await.map_err(|error| NotReady(error.to_string()))
    }
}
