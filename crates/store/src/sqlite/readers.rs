//! Connections that only read, beside the writer: SQLite's write-ahead log keeps either from waiting for the other.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use callboard_engine::StoreError;

use super::fault::Fault;

/// How many reads run at once. Reads are short and mostly from memory, so a few keep two cores busy
/// while one of them waits for the disk; each costs a page cache.
pub(super) const READERS: usize = 4;

pub(super) struct Readers {
    idle: Arc<Mutex<Vec<Connection>>>,
    permits: Arc<Semaphore>,
}

impl Readers {
    pub(super) fn new(connections: Vec<Connection>) -> Self {
        let permits = Arc::new(Semaphore::new(connections.len()));
        Self { idle: Arc::new(Mutex::new(connections)), permits }
    }

    /// Runs `work` on a thread that may block. Everything that it reads is of one moment.
    pub(super) async fn read<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    {
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| closed())?;
        let db = lock(&self.idle).pop().ok_or_else(closed)?;
        let borrowed = Borrowed { db: Some(db), idle: Arc::clone(&self.idle), permit };
        let reading = tokio::task::spawn_blocking(move || borrowed.read(work));
        reading.await.map_err(|error| StoreError::Unavailable(error.to_string()))?
    }

    /// Closes the idle connections; one in use closes when its read ends.
    pub(super) fn close(&self) {
        self.permits.close();
        lock(&self.idle).clear();
    }
}

/// A borrowed connection. Returned whatever happens to the read, and before the next reader is admitted;
/// closed with the last read when the pool has been closed meanwhile.
struct Borrowed {
    db: Option<Connection>,
    idle: Arc<Mutex<Vec<Connection>>>,
    permit: OwnedSemaphorePermit,
}

impl Borrowed {
    fn read<T>(self, work: impl FnOnce(&Connection) -> Result<T, Fault>) -> Result<T, StoreError> {
        let db = self.db.as_ref().ok_or_else(closed)?;
        let execute = |sql| db.prepare_cached(sql)?.execute([]).map_err(Fault::Sql);
        execute("BEGIN")?;
        let result = work(db);
        execute("COMMIT")?;
        Ok(result?)
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        // A read that broke down has left its moment open: the next one must not see it.
        let is_whole = self
            .db
            .as_ref()
            .is_some_and(|db| db.is_autocommit() || db.execute_batch("ROLLBACK").is_ok());
        if is_whole && !self.permit.semaphore().is_closed() {
            lock(&self.idle).extend(self.db.take());
        }
    }
}

fn lock(idle: &Mutex<Vec<Connection>>) -> MutexGuard<'_, Vec<Connection>> {
    // Pushing and popping cannot leave a vector half-changed.
    idle.lock().unwrap_or_else(PoisonError::into_inner)
}

fn closed() -> StoreError {
    StoreError::Unavailable("the store has been closed".to_owned())
}
