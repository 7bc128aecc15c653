//! One folder with one SQLite database, held by one process: every port to the database.
//!
//! Writes go through one thread that commits them in groups; reads run beside it. Values are
//! serialised and sealed on the caller's side, so that the writing thread only writes.

mod annotations;
mod append;
mod budget;
mod claim;
mod coding_sessions;
mod commit;
mod create;
mod deliveries;
mod deployments;
mod effects;
mod envelopes;
mod fault;
mod heartbeats;
mod inbox;
mod known;
mod list;
mod logs;
mod mark;
mod memory;
mod migrate;
mod open;
mod org_chart;
mod outcome;
mod packs;
#[cfg(test)]
mod plans;
mod read;
mod readers;
mod recent;
mod records;
mod registry;
mod retention;
mod roster;
mod rows;
mod secrets;
mod strikes;
mod webhooks;
mod work;
mod writer;

pub use open::OpenError;

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::Connection;

use callboard_core::Entry;
use callboard_engine::{
    Batch, Begun, Changes, Claim, ClaimRequest, Claimed, Crowd, Digest, DueRecords, EffectClaim,
    EffectKey, Filter, Found, InboxFilter, InboxItem, Key, KeyMode, Keys, Kind, LinkSecrets,
    Listed, Made, MemoryQuery, MemoryRecord, Opened, Outcome, Page, Put, Realm, Record,
    RecordChange, RecordQuery, Scope, SettledEffect, Store, StoreError, StoredKey, StoredMember,
    StoredWorkflow, Workflows,
};
use callboard_protocol::{KeyId, MemoryId, RunId, RunStatus, Tenant, Timestamp, WorkflowId, hex};

use crate::seal::Seal;
use known::Known;
use readers::Readers;
use recent::Recent;
use records::SealedChange;
use writer::Writer;

/// Longer definitions are read each time, so that all that are known stay below 16 MB.
const LONGEST_KNOWN: usize = 64 * 1024;

/// A tenant and its own name for a workflow.
type Name = (Scope, WorkflowId);

/// The embedded store. Dropping it finishes what was asked for and frees the folder.
pub struct SqliteStore {
    folder: PathBuf,
    seal: Arc<Seal>,
    changes: Arc<Changes>,
    recent: Arc<Recent>,
    records: Arc<Known<RecordRead, Vec<Record>>>,
    kinds: Arc<records::Kinds>,
    definitions: Arc<Known<Name, StoredWorkflow>>,
    roster: Arc<Known<roster::Asked, Vec<StoredMember>>>,
    memory: memory::Position,
    readers: Readers,
    writer: Writer,
    /// Freed last, when nothing of ours touches the folder any more.
    _locks: [Option<File>; 2],
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// Opens the store in a folder, which is made if it is missing. Blocks while the database is
    /// checked, backed up and migrated. Leases from before are void: nobody else can hold the folder.
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

    async fn statuses(&self, runs: &[RunId]) -> Result<Vec<Option<RunStatus>>, StoreError> {
        let runs = runs.to_vec();
        self.readers.read(move |db| read::statuses(db, &runs)).await
    }

    async fn find(&self, scope: &Scope, run: &RunId) -> Result<Option<Found>, StoreError> {
        let (scope, run) = (scope.clone(), run.clone());
        self.readers.read(move |db| read::find(db, &scope, &run)).await
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

    async fn strike(&self, run: &RunId) -> Result<u32, StoreError> {
        let run = run.clone();
        self.writer.write(move |db| strikes::strike(db, &run)).await
    }

    async fn absolve(&self, run: &RunId) -> Result<(), StoreError> {
        let run = run.clone();
        self.writer.write(move |db| strikes::absolve(db, &run)).await
    }

    async fn struck(&self) -> Result<Vec<(RunId, u32)>, StoreError> {
        self.readers.read(strikes::struck).await
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

    async fn find_effect(&self, key: &EffectKey) -> Result<Option<SettledEffect>, StoreError> {
        let (key, seal) = (key.clone(), Arc::clone(&self.seal));
        self.readers.read(move |db| effects::find(db, &seal, &key)).await
    }

    async fn begin_effect(&self, effect: &EffectClaim) -> Result<Begun, StoreError> {
        let (effect, seal) = (effect.clone(), Arc::clone(&self.seal));
        self.writer.write(move |db| effects::begin(db, &seal, &effect)).await
    }

    async fn settle_effect(&self, key: &EffectKey, outcome: String) -> Result<(), StoreError> {
        let sealed = self.seal.seal(&effects::place(key), &outcome).map_err(|error| {
            StoreError::Unavailable(format!(
                "the outcome of effect {key} cannot be sealed: {error}"
            ))
        })?;
        let key = key.clone();
        self.writer.write(move |db| effects::settle(db, &key, &sealed)).await
    }

    async fn abandon_effect(&self, key: &EffectKey) -> Result<(), StoreError> {
        let key = key.clone();
        self.writer.write(move |db| effects::abandon(db, &key)).await
    }

    async fn memory_position(&self) -> Result<u64, StoreError> {
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

    async fn crowded_memory(&self, most: u64) -> Result<Vec<Crowd>, StoreError> {
        self.readers.read(move |db| memory::crowded(db, most)).await
    }

    async fn remove_ended(
        &self,
        before: Timestamp,
        limit: usize,
    ) -> Result<Vec<RunId>, StoreError> {
        let (recent, known) = (Arc::clone(&self.recent), Arc::clone(&self.records));
        let remove = move |db: &Connection, (): &()| retention::remove(db, before, limit);
        let forget = move |(), gone: Vec<RunId>| {
            gone.iter().for_each(|run| recent.forget(run));
            known.forget(|_| !gone.is_empty());
            gone
        };
        self.writer.write_then((), remove, forget).await
    }

    async fn outcome(&self, key: &Digest, at: Timestamp) -> Result<Option<Outcome>, StoreError> {
        let key = *key;
        self.readers.read(move |db| outcome::find(db, &key, at)).await
    }
}

#[async_trait]
impl Workflows for SqliteStore {
    async fn workflow(
        &self,
        place: &Scope,
        id: &WorkflowId,
    ) -> Result<Option<StoredWorkflow>, StoreError> {
        let name = (place.clone(), id.clone());
        let since = match self.definitions.find(&name) {
            Ok(workflow) => return Ok(Some(workflow)),
            Err(since) => since,
        };
        let (place, id) = name.clone();
        let read = self.readers.read(move |db| registry::workflow(db, &place, &id)).await?;
        if let Some(workflow) = read.as_ref().filter(|read| read.source.len() <= LONGEST_KNOWN) {
            self.definitions.keep(since, name, workflow.clone());
        }
        Ok(read)
    }

    async fn workflows(&self, place: &Scope) -> Result<Vec<StoredWorkflow>, StoreError> {
        let place = place.clone();
        self.readers.read(move |db| registry::workflows(db, &place)).await
    }

    async fn put_workflow(
        &self,
        place: &Scope,
        id: &WorkflowId,
        source: Arc<str>,
        records: Vec<RecordChange>,
        at: Timestamp,
    ) -> Result<Put, StoreError> {
        let sealed = SealedChange::seal_all(records, &self.seal)?;
        let (known, name) = (Arc::clone(&self.definitions), (place.clone(), id.clone()));
        let write = move |db: &Connection, (place, id): &Name| {
            records::check(db, &sealed)?;
            records::apply(db, &sealed)?;
            registry::put_workflow(db, place, id, &source, at)
        };
        let forget = move |name: Name, put| {
            known.forget(|known| *known == name);
            put
        };
        self.writer.write_then(name, write, forget).await
    }

    async fn delete_workflow(
        &self,
        place: &Scope,
        id: &WorkflowId,
        records: Vec<RecordChange>,
    ) -> Result<bool, StoreError> {
        let sealed = SealedChange::seal_all(records, &self.seal)?;
        let (known, name) = (Arc::clone(&self.definitions), (place.clone(), id.clone()));
        let write = move |db: &Connection, (place, id): &Name| {
            records::check(db, &sealed)?;
            let is_deleted = registry::delete_workflow(db, place, id)?;
            if is_deleted {
                records::apply(db, &sealed)?;
            }
            Ok(is_deleted)
        };
        let forget = move |name: Name, deleted| {
            known.forget(|known| *known == name);
            deleted
        };
        self.writer.write_then(name, write, forget).await
    }
}

#[async_trait]
impl Keys for SqliteStore {
    async fn all_keys(&self) -> Result<Vec<StoredKey>, StoreError> {
        self.readers.read(registry::all_keys).await
    }

    async fn put_key(&self, key: StoredKey) -> Result<(), StoreError> {
        self.writer.write(move |db| registry::put_key(db, &key)).await
    }

    async fn revoke_key(
        &self,
        tenant: &Tenant,
        id: &KeyId,
        at: Timestamp,
    ) -> Result<bool, StoreError> {
        let (tenant, id) = (tenant.clone(), id.clone());
        self.writer.write(move |db| registry::revoke_key(db, &tenant, &id, at)).await
    }

    async fn note_maker(&self, realm: &Realm, made: Made, maker: &KeyId) -> Result<(), StoreError> {
        let (realm, maker) = (realm.clone(), maker.clone());
        self.writer.write(move |db| registry::note_maker(db, &realm, &made, &maker)).await
    }

    async fn noted_of(&self, realm: &Realm, maker: &KeyId) -> Result<Vec<Made>, StoreError> {
        let (realm, maker) = (realm.clone(), maker.clone());
        self.readers.read(move |db| registry::noted_of(db, &realm, &maker)).await
    }
}

#[async_trait]
impl LinkSecrets for SqliteStore {
    async fn link_generation(&self, realm: &Realm) -> Result<u32, StoreError> {
        let realm = realm.clone();
        self.readers.read(move |db| registry::link_generation(db, &realm)).await
    }

    async fn rotate_links(&self, realm: &Realm) -> Result<u32, StoreError> {
        let realm = realm.clone();
        self.writer.write(move |db| registry::rotate_links(db, &realm)).await
    }

    fn link_secret(&self, realm: &Realm, generation: u32) -> [u8; 32] {
        let Realm { tenant, mode } = realm;
        self.seal.derive(&match mode {
            KeyMode::Live => format!("interrupt links/{generation}/{tenant}"),
            KeyMode::Test => format!("interrupt links of test keys/{generation}/{tenant}"),
        })
    }
}
