//! One folder with one SQLite database, held by one process: every port to the database.
//!
//! Writes go through one thread that commits them in groups; reads run beside it. Values are
//! serialised and sealed on the caller's side, so that the writing thread only writes.

mod append;
mod backup;
mod census;
mod claim;
mod commit;
mod copy;
mod counters;
mod create;
mod effects;
mod fault;
mod inbox;
mod known;
mod list;
mod logs;
mod mark;
mod memory;
mod migrate;
mod open;
mod outcome;
#[cfg(test)]
mod plans;
mod read;
mod readers;
mod recent;
mod records;
mod rest;
mod retention;
mod rows;
mod short;
mod sizes;
mod status;
mod writer;

pub use backup::Copied;
pub(crate) use copy::SqliteCopy;
pub use open::OpenError;
pub use sizes::Sizes;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::Connection;

use callboard_core::Entry;
use callboard_engine::{
    Batch, Begun, Changes, Claim, ClaimRequest, Claimed, CounterQuery, CrowdedMemory, Digest,
    DueRecords, EffectClaim, EffectKey, Filter, Found, InboxFilter, InboxItem, Key, Kind, Listed,
    LogPosition, MemoryQuery, MemoryRecord, Opened, Outcome, Page, Realm, Record, RecordQuery,
    Removable, Scope, SettledEffect, Spent, Standing, Store, StoreError, Window, Within,
};
use callboard_protocol::{MemoryId, RosterId, RunId, Timestamp, hex};

use crate::lock::FolderLock;
use crate::seal::Seal;
use crate::sealed::seal_outcome;
use known::Known;
use readers::Readers;
use recent::Recent;
use writer::Writer;

/// Longer ones are read each time, so that all that are known stay below 16 MB.
const LONGEST_KNOWN: usize = 64 * 1024;

/// The embedded store. Dropping it finishes what was asked for and frees the folder.
pub struct SqliteStore {
    folder: PathBuf,
    seal: Arc<Seal>,
    changes: Arc<Changes>,
    recent: Arc<Recent>,
    /// Runs that have ended, with where they belong, as they were read last.
    ended: Arc<Known<RunId, (Scope, Found)>>,
    records: Arc<Known<RecordRead, Vec<Record>>>,
    kinds: Arc<records::Kinds>,
    memory: memory::Position,
    readers: Readers,
    writer: Writer,
    /// Freed last, when nothing of ours touches the folder any more.
    _lock: FolderLock,
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// Opens the store in a folder, which is made if it is missing. Blocks while the database is
    /// checked, backed up and migrated. Earlier leases are void: no other process can hold the folder.
    pub fn open(folder: &Path) -> Result<Self, OpenError> {
        open::open(folder, &migrate::runner())
    }

    /// A name for this data folder, the same after every restart and in no other folder.
    pub fn name(&self) -> String {
        hex(&self.seal.derive("name")[..8])
    }

    /// Answers whether the database can be read and the writing thread is there.
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.writer.is_running()?;
        self.readers.read(|db| Ok(db.query_row("SELECT 1", [], |_| Ok(()))?)).await
    }

    /// Reads the whole database and answers what is wrong with it; empty when nothing is.
    pub async fn check(&self) -> Result<Vec<String>, StoreError> {
        self.readers.read(|db| Ok(read::check(db)?)).await
    }

    /// Caps the database file at so many pages. What would grow it further is refused as full.
    pub async fn limit_pages(&self, pages: u32) -> Result<(), StoreError> {
        self.writer.write(move |db| Ok(db.pragma_update(None, "max_page_count", pages)?)).await
    }

    /// Finishes what was asked for and closes the database. Later requests are refused.
    pub async fn shutdown(&self) {
        self.readers.close();
        self.writer.stop().await;
    }
}

/// What of the records was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum RecordRead {
    One(Kind, Key),
    Many(RecordQuery),
}

impl RecordRead {
    fn kind(&self) -> Kind {
        match self {
            Self::One(kind, _) => *kind,
            Self::Many(query) => query.kind,
        }
    }
}

impl SqliteStore {
    /// What is read much more often than it changes is answered from memory until it does.
    async fn read_records(&self, read: RecordRead) -> Result<Vec<Record>, StoreError> {
        if !self.kinds.has(read.kind()) {
            return Ok(Vec::new());
        }
        let seal = Arc::clone(&self.seal);
        let asked = read.clone();
        let from_disk = self.readers.read(move |db| match &asked {
            RecordRead::One(kind, key) => Ok(Vec::from_iter(records::get(db, &seal, *kind, key)?)),
            RecordRead::Many(query) => records::scan(db, &seal, query),
        });
        if !read.kind().is_cached() {
            return from_disk.await;
        }
        let since = match self.records.find(&read) {
            Ok(records) => return Ok(records),
            Err(since) => since,
        };
        let records = from_disk.await?;
        if records.iter().map(|record| record.body.len()).sum::<usize>() <= LONGEST_KNOWN {
            self.records.keep(since, read, records.clone());
        }
        Ok(records)
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        // The writer must close last: only a connection that may write can put the database in order.
        self.readers.close();
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn commit(&self, batch: Batch) -> Result<(), StoreError> {
        self.commit_batch(batch).await
    }

    async fn get(&self, kind: Kind, key: &Key) -> Result<Option<Record>, StoreError> {
        Ok(self.read_records(RecordRead::One(kind, key.clone())).await?.pop())
    }

    async fn scan(&self, query: &RecordQuery) -> Result<Vec<Record>, StoreError> {
        self.read_records(RecordRead::Many(query.clone())).await
    }

    async fn blob(&self, kind: Kind, key: &Key) -> Result<Option<Arc<[u8]>>, StoreError> {
        let (key, seal) = (key.clone(), Arc::clone(&self.seal));
        self.readers.read(move |db| records::blob(db, &seal, kind, &key)).await
    }

    async fn due(&self, kind: Kind, at: Timestamp, most: usize) -> Result<DueRecords, StoreError> {
        if !self.kinds.has(kind) {
            return Ok(DueRecords::default());
        }
        let seal = Arc::clone(&self.seal);
        self.readers.read(move |db| records::due(db, &seal, kind, at, most)).await
    }

    async fn open(&self, run: &RunId) -> Result<Option<Opened>, StoreError> {
        let (run, seal) = (run.clone(), Arc::clone(&self.seal));
        self.readers.read(move |db| read::open(db, &seal, &run)).await
    }

    async fn tail(&self, run: &RunId, version: u64) -> Result<Vec<Entry>, StoreError> {
        let (run, seal) = (run.clone(), Arc::clone(&self.seal));
        self.readers.read(move |db| read::tail(db, &seal, &run, version)).await
    }

    async fn statuses(&self, runs: &[RunId]) -> Result<Vec<Option<Standing>>, StoreError> {
        let runs = runs.to_vec();
        self.readers.read(move |db| read::statuses(db, &runs)).await
    }

    async fn counters(&self, of: &CounterQuery) -> Result<Vec<(Key, String, f64)>, StoreError> {
        let of = of.clone();
        self.readers.read(move |db| counters::read(db, &of)).await
    }

    async fn find(&self, scope: &Scope, run: &RunId) -> Result<Option<Found>, StoreError> {
        if let Some(found) = self.recent.find(scope, run).await {
            return Ok(Some(found));
        }
        let since = match self.ended.find(run) {
            Ok((place, found)) if scope.includes(&place) => return Ok(Some(found)),
            Ok(_) => None,
            Err(since) => Some(since),
        };
        let (visible_in, name) = (scope.clone(), run.clone());
        let found = self.readers.read(move |db| read::find(db, &visible_in, &name)).await?;
        if let (Some(since), Some(found)) = (since, &found)
            && found.status.is_terminal()
            && found.snapshot.as_ref().is_some_and(|snapshot| snapshot.len() <= LONGEST_KNOWN)
        {
            let place = Scope::of_owner(&found.born.owner, scope.mode);
            self.ended.keep(since, run.clone(), (place, found.clone()));
        }
        Ok(found)
    }

    async fn read(
        &self,
        scope: &Scope,
        run: &RunId,
        from: u64,
        limit: usize,
    ) -> Result<Option<Page>, StoreError> {
        if let Some(page) = self.recent.page(scope, run, from, limit).await {
            return Ok(Some(page));
        }
        let (scope, run) = (scope.clone(), run.clone());
        self.readers.read(move |db| read::page(db, &scope, &run, from, limit)).await
    }

    async fn newest(&self) -> Result<LogPosition, StoreError> {
        self.readers.read(logs::newest).await
    }

    async fn read_all(
        &self,
        within: &Within,
        after: LogPosition,
        most: u64,
    ) -> Result<Window, StoreError> {
        let within = within.clone();
        self.readers.read(move |db| logs::read(db, &within, after, most)).await
    }

    async fn list(&self, scope: &Scope, filter: &Filter) -> Result<Vec<Listed>, StoreError> {
        let (scope, filter) = (scope.clone(), filter.clone());
        self.readers.read(move |db| list::list(db, &scope, &filter)).await
    }

    async fn inbox(
        &self,
        scope: &Scope,
        filter: &InboxFilter,
    ) -> Result<Vec<InboxItem>, StoreError> {
        let (scope, filter) = (scope.clone(), filter.clone());
        self.readers.read(move |db| inbox::list(db, &scope, &filter)).await
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Claimed, StoreError> {
        let request = request.clone();
        self.writer.write(move |db| claim::claim(db, &request)).await
    }

    async fn renew(&self, claims: &[Claim], until: Timestamp) -> Result<Vec<RunId>, StoreError> {
        let claims = claims.to_vec();
        self.writer.write(move |db| claim::renew(db, &claims, until)).await
    }

    async fn release(
        &self,
        claim: &Claim,
        seen: Option<u64>,
        wake_at: Option<Timestamp>,
    ) -> Result<bool, StoreError> {
        let claim = claim.clone();
        self.writer.write(move |db| claim::release(db, &claim, seen, wake_at)).await
    }

    async fn changed(&self, run: &RunId, version: u64) {
        let mut listener = self.changes.listen(run);
        let stored = match listener.known() {
            Some(known) => Ok(known),
            None => {
                let id = run.clone();
                self.readers.read(move |db| read::version(db, &id)).await
            }
        };
        // Whoever cannot read the version learns why when it reads the log, so this comes early.
        if stored.is_ok_and(|stored| stored <= version) {
            listener.beyond(version).await;
        }
    }

    fn derive(&self, purpose: &str) -> [u8; 32] {
        self.seal.derive(purpose)
    }

    async fn find_effect(&self, key: &EffectKey) -> Result<Option<SettledEffect>, StoreError> {
        let (key, seal) = (key.clone(), Arc::clone(&self.seal));
        self.readers.read(move |db| effects::find(db, &seal, &key)).await
    }

    async fn begin_effect(&self, effect: &EffectClaim) -> Result<Begun, StoreError> {
        let (effect, seal) = (effect.clone(), Arc::clone(&self.seal));
        self.writer.write(move |db| effects::begin(db, &seal, &effect)).await
    }

    async fn settle_effect(
        &self,
        claim: &Claim,
        key: &EffectKey,
        outcome: Option<String>,
    ) -> Result<(), StoreError> {
        let sealed = outcome.map(|outcome| seal_outcome(&self.seal, key, &outcome)).transpose()?;
        let (claim, key) = (claim.clone(), key.clone());
        self.writer.write(move |db| effects::settle(db, &claim, &key, sealed.as_deref())).await
    }

    async fn memory_position(&self, _: &Realm) -> Result<u64, StoreError> {
        Ok(self.memory.get())
    }

    async fn recall(
        &self,
        scope: &Scope,
        query: &MemoryQuery,
    ) -> Result<Vec<MemoryRecord>, StoreError> {
        let (scope, query) = (scope.clone(), query.clone());
        self.readers.read(move |db| memory::recall(db, &scope, &query)).await
    }

    async fn memory_history(
        &self,
        scope: &Scope,
        id: &MemoryId,
    ) -> Result<Vec<MemoryRecord>, StoreError> {
        let (scope, id) = (scope.clone(), id.clone());
        self.readers.read(move |db| memory::history(db, &scope, &id)).await
    }

    async fn crowded_memory(&self, most: u64) -> Result<Vec<CrowdedMemory>, StoreError> {
        self.readers.read(move |db| memory::crowded(db, most)).await
    }

    async fn remove_ended(
        &self,
        removable: &Removable,
        read_until: Option<LogPosition>,
        limit: usize,
    ) -> Result<Vec<RunId>, StoreError> {
        let (recent, known) = (Arc::clone(&self.recent), Arc::clone(&self.records));
        let ended = Arc::clone(&self.ended);
        let removable = removable.clone();
        let remove =
            move |db: &Connection, (): &()| retention::remove(db, &removable, read_until, limit);
        let forget = move |(), gone: Vec<RunId>| {
            gone.iter().for_each(|run| recent.forget(run));
            known.forget(|_| !gone.is_empty());
            ended.forget(|_| !gone.is_empty());
            gone
        };
        self.writer.write_then((), remove, forget).await
    }

    async fn spent(
        &self,
        scope: &Scope,
        member: &RosterId,
        since: Timestamp,
    ) -> Result<Spent, StoreError> {
        let (scope, member) = (scope.clone(), member.clone());
        self.readers.read(move |db| list::spent(db, &scope, &member, since)).await
    }

    async fn outcome(&self, key: &Digest, at: Timestamp) -> Result<Option<Outcome>, StoreError> {
        let key = *key;
        self.readers.read(move |db| outcome::find(db, &key, at)).await
    }
}
