//! One PostgreSQL database, shared by any number of hosts: every port to the database.
//!
//! No host is special. What decides is compared in the statement that writes (versions, claims, names that are taken),
//! nothing is known from memory but what cannot change, and a frozen host holds no lock.

mod append;
mod census;
mod claim;
mod clock;
mod commit;
mod connect;
mod copy;
mod counters;
mod create;
mod effects;
mod fault;
mod feed;
mod gather;
mod generations;
mod hints;
mod hosts;
mod inbox;
mod latch;
mod list;
mod look;
mod memory;
mod migrate;
mod outcome;
mod quiet;
mod read;
mod records;
mod retention;
mod retry;
mod rows;
mod session;
mod status;
mod text;
mod tls;
mod watch;
mod writer;

pub use connect::{ConnectError, SealKey};
pub(crate) use copy::PostgresCopy;
pub use look::Look;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use callboard_core::Entry;
use callboard_engine::{
    Batch, Begun, Changes, Claim, ClaimRequest, Claimed, Clock, CounterQuery, CrowdedMemory,
    Digest, DueRecords, EffectClaim, EffectKey, Elsewhere, Filter, Found, Generations, Heard,
    HostSeen, InboxFilter, InboxItem, Key, Kind, Listed, LogPosition, MemoryQuery, MemoryRecord,
    Opened, Outcome, Page, Realm, Record, RecordQuery, Removable, Scope, SettledEffect, Spent,
    Standing, Store, StoreError, Window, Within,
};
use callboard_protocol::{MemoryId, RosterId, RunId, Timestamp, hex};

use crate::lock::FolderLock;
use crate::seal::Seal;
use crate::sealed::{SealedAppend, SealedRun, seal_outcome};
use clock::DatabaseClock;
use create::KnownDefinitions;
use gather::Gather;
use hints::Hints;
use retry::Patience;
use session::{Connections, Session};
use writer::Lane;

/// What a lost hint costs.
const POLL_BEHIND_HINTS: Duration = Duration::from_secs(1);
/// Where no hints come, looking is all there is.
const POLL_ALONE: Duration = Duration::from_millis(200);

/// The store that hosts share.
pub struct PostgresStore {
    inner: Arc<Inner>,
    creations: Lane<SealedRun>,
    appends: Lane<SealedAppend>,
    /// The data folder of the host, which is its own.
    folder: Option<FolderLock>,
}

/// What also outlives a caller that goes away.
struct Inner {
    seal: Seal,
    /// For reads, and for what is written alone.
    pool: Connections,
    /// For renewals, which wait for nobody.
    renewals: Connections,
    gathers: Gathers,
    quiet: quiet::Quiet,
    definitions: Arc<KnownDefinitions>,
    changes: Arc<Changes>,
    hints: Arc<Hints>,
    generations: generations::Reader,
    clock: Arc<DatabaseClock>,
    /// Which row of each counter this process adds to.
    slot: i16,
    tasks: TaskTracker,
    closing: CancellationToken,
}

/// Point reads that callers share.
#[derive(Debug, Default)]
struct Gathers {
    records: Gather<records::Named>,
    positions: Gather<memory::Position>,
    pages: Gather<read::PageOf>,
}

impl Inner {
    async fn session(&self) -> Result<Session, StoreError> {
        Session::borrow(&self.pool).await
    }
}

impl Inner {
    fn polls_every(&self) -> Duration {
        if self.hints.is_listening() { POLL_BEHIND_HINTS } else { POLL_ALONE }
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl PostgresStore {
    /// Connects, brings the schema to ours and checks the key. A database that comes late is waited for.
    pub async fn connect(address: &str, key: SealKey) -> Result<Self, ConnectError> {
        connect::connect(address, key).await
    }

    /// Brings the schema to ours, as the first host would; needs no key.
    pub async fn migrate(address: &str) -> Result<(), ConnectError> {
        connect::migrate(&connect::Address::parse(address)?).await.map(drop)
    }

    /// Whether an address can be used, without using it.
    pub fn check_address(address: &str) -> Result<(), ConnectError> {
        connect::Address::parse(address).map(drop)
    }

    /// Keeps other processes out of the host's data folder as long as this store is open.
    #[must_use]
    pub fn holding(self, folder: FolderLock) -> Self {
        Self { folder: Some(folder), ..self }
    }

    /// A name for this database, the same on every host and in no other database.
    pub fn name(&self) -> String {
        hex(&self.inner.seal.derive("name")[..8])
    }

    /// The clock that all hosts of this database share.
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.inner.clock) as _
    }

    /// Answers whether the database can be read.
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.inner.session().await?.rows("SELECT 1", &[]).await?;
        Ok(())
    }

    /// Returns what other hosts have said since the last call, as soon as there is something.
    pub async fn heard(&self) -> Heard {
        self.hints().heard().await
    }

    /// How often it is looked at what other hosts have written: hints may get lost, and some networks carry none.
    pub fn polls_every(&self) -> Duration {
        self.inner.polls_every()
    }

    fn hints(&self) -> &Hints {
        &self.inner.hints
    }

    /// Finishes what was asked for and closes the connections. Later requests are refused.
    pub async fn shutdown(&self) {
        self.creations.close();
        self.appends.close();
        self.inner.pool.close();
        self.inner.renewals.close();
        self.inner.closing.cancel();
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }
}

#[async_trait]
impl Elsewhere for PostgresStore {
    async fn generations(&self) -> Result<Generations, StoreError> {
        self.inner.generations.read(&self.inner).await
    }

    async fn hosts(&self) -> Result<Vec<HostSeen>, StoreError> {
        self.list_hosts().await
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn commit(&self, batch: Batch) -> Result<(), StoreError> {
        self.commit_batch(batch).await
    }

    async fn get(&self, kind: Kind, key: &Key) -> Result<Option<Record>, StoreError> {
        let named = records::Named { kind, key: key.clone() };
        self.inner.gathers.records.ask(&self.inner, &named).await
    }

    async fn scan(&self, query: &RecordQuery) -> Result<Vec<Record>, StoreError> {
        let session = self.inner.session().await?;
        Ok(records::scan(&session, &self.inner.seal, query).await?)
    }

    async fn blob(&self, kind: Kind, key: &Key) -> Result<Option<Arc<[u8]>>, StoreError> {
        let session = self.inner.session().await?;
        Ok(records::blob(&session, &self.inner.seal, kind, key).await?)
    }

    async fn due(&self, kind: Kind, at: Timestamp, most: usize) -> Result<DueRecords, StoreError> {
        let writes = match self.inner.quiet.known(kind, at) {
            Ok(none) => return Ok(none),
            Err(writes) => writes,
        };
        let session = self.inner.session().await?;
        let due = records::due(&session, &self.inner.seal, kind, at, most).await?;
        self.inner.quiet.found(kind, writes, &due);
        Ok(due)
    }

    async fn counters(&self, of: &CounterQuery) -> Result<Vec<(Key, String, f64)>, StoreError> {
        Ok(counters::read(&self.inner.session().await?, of).await?)
    }

    async fn open(&self, run: &RunId) -> Result<Option<Opened>, StoreError> {
        Ok(read::open(&self.inner.session().await?, &self.inner.seal, run).await?)
    }

    async fn tail(&self, run: &RunId, version: u64) -> Result<Vec<Entry>, StoreError> {
        Ok(read::tail(&self.inner.session().await?, &self.inner.seal, run, version).await?)
    }

    async fn statuses(&self, runs: &[RunId]) -> Result<Vec<Option<Standing>>, StoreError> {
        Ok(read::statuses(&self.inner.session().await?, runs).await?)
    }

    async fn find(&self, scope: &Scope, run: &RunId) -> Result<Option<Found>, StoreError> {
        Ok(read::find(&self.inner.session().await?, scope, run).await?)
    }

    async fn read(
        &self,
        scope: &Scope,
        run: &RunId,
        from: u64,
        limit: usize,
    ) -> Result<Option<Page>, StoreError> {
        let page = read::PageOf { scope: scope.clone(), run: run.clone(), from, most: limit };
        self.inner.gathers.pages.ask(&self.inner, &page).await
    }

    async fn newest(&self) -> Result<LogPosition, StoreError> {
        Ok(feed::newest(&self.inner.session().await?).await?)
    }

    async fn read_all(
        &self,
        within: &Within,
        after: LogPosition,
        most: u64,
    ) -> Result<Window, StoreError> {
        Ok(feed::read(&self.inner.session().await?, within, after, most).await?)
    }

    async fn list(&self, scope: &Scope, filter: &Filter) -> Result<Vec<Listed>, StoreError> {
        Ok(list::list(&self.inner.session().await?, scope, filter).await?)
    }

    async fn inbox(
        &self,
        scope: &Scope,
        filter: &InboxFilter,
    ) -> Result<Vec<InboxItem>, StoreError> {
        Ok(inbox::list(&self.inner.session().await?, scope, filter).await?)
    }

    async fn spent(
        &self,
        scope: &Scope,
        member: &RosterId,
        since: Timestamp,
    ) -> Result<Spent, StoreError> {
        Ok(list::spent(&self.inner.session().await?, scope, member, since).await?)
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Claimed, StoreError> {
        let mut patience = Patience::default();
        loop {
            match claim::claim(&self.inner.session().await?, request).await {
                Err(fault) if patience.lasts(&fault).await => {}
                claimed => return Ok(claimed?),
            }
        }
    }

    async fn renew(&self, claims: &[Claim], until: Timestamp) -> Result<Vec<RunId>, StoreError> {
        let session = Session::borrow(&self.inner.renewals).await?;
        Ok(claim::renew(&session, claims, until).await?)
    }

    async fn release(
        &self,
        claim: &Claim,
        seen: Option<u64>,
        wake_at: Option<Timestamp>,
    ) -> Result<bool, StoreError> {
        let session = self.inner.session().await?;
        let is_due = claim::release(&session, claim, seen, wake_at).await?;
        // Who gives a run back that is due, as a host does that stops, need not be the one that takes it.
        if is_due || wake_at.is_some_and(|at| at <= self.inner.clock.now()) {
            self.hints().due();
        }
        Ok(is_due)
    }

    /// What was heard here last may be behind another host's append; the look at what is watched mends that.
    async fn changed(&self, run: &RunId, version: u64) {
        let mut listener = self.inner.changes.listen(run);
        let stored = match listener.known() {
            Some(known) => Ok(known),
            None => match self.inner.session().await {
                Ok(session) => read::version(&session, run).await.map(|stored| stored.unwrap_or(0)),
                Err(error) => Err(error.into()),
            },
        };
        // Whoever cannot read the version learns why when it reads the log, so this comes early.
        if stored.is_ok_and(|stored| stored <= version) {
            listener.beyond(version).await;
        }
    }

    fn derive(&self, purpose: &str) -> [u8; 32] {
        self.inner.seal.derive(purpose)
    }

    async fn find_effect(&self, key: &EffectKey) -> Result<Option<SettledEffect>, StoreError> {
        Ok(effects::find(&self.inner.session().await?, &self.inner.seal, key).await?)
    }

    async fn begin_effect(&self, effect: &EffectClaim) -> Result<Begun, StoreError> {
        Ok(effects::begin(&self.inner.session().await?, &self.inner.seal, effect).await?)
    }

    async fn settle_effect(
        &self,
        claim: &Claim,
        key: &EffectKey,
        outcome: Option<String>,
    ) -> Result<(), StoreError> {
        let seal = &self.inner.seal;
        let sealed = outcome.map(|outcome| seal_outcome(seal, key, &outcome)).transpose()?;
        Ok(effects::settle(&self.inner.session().await?, claim, key, sealed.as_deref()).await?)
    }

    async fn memory_position(&self, realm: &Realm) -> Result<u64, StoreError> {
        self.inner.gathers.positions.ask(&self.inner, &memory::Position(realm.clone())).await
    }

    async fn recall(
        &self,
        scope: &Scope,
        query: &MemoryQuery,
    ) -> Result<Vec<MemoryRecord>, StoreError> {
        Ok(memory::recall(&self.inner.session().await?, scope, query).await?)
    }

    async fn memory_history(
        &self,
        scope: &Scope,
        id: &MemoryId,
    ) -> Result<Vec<MemoryRecord>, StoreError> {
        Ok(memory::history(&self.inner.session().await?, scope, id).await?)
    }

    async fn crowded_memory(&self, most: u64) -> Result<Vec<CrowdedMemory>, StoreError> {
        Ok(memory::crowded(&self.inner.session().await?, most).await?)
    }

    async fn remove_ended(
        &self,
        removable: &Removable,
        read_until: Option<LogPosition>,
        limit: usize,
    ) -> Result<Vec<RunId>, StoreError> {
        let session = self.inner.session().await?;
        retention::prepare(&session).await?;
        session.begin().await?;
        let removed = retention::remove(&session, removable, read_until, limit).await?;
        session.commit().await?;
        Ok(removed)
    }

    async fn outcome(&self, key: &Digest, at: Timestamp) -> Result<Option<Outcome>, StoreError> {
        Ok(outcome::find(&self.inner.session().await?, key, at).await?)
    }
}
