//! A world in memory: simulated time, scripted activities, and a store that dies on command.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::Notify;

use callboard_core::{ConformanceNodes, Entry, Fact, HostLimits, Outcome as Performed};
use callboard_engine::{
    Activities, Activity, Batch, Begun, Call, Catalog, Claim, ClaimRequest, Claimed, Clock, Crowd,
    Digest, DrivingLimits, DueRecords, EffectClaim, EffectKey, Engine, Filter, Found, Ids,
    InMemoryStore, InboxFilter, InboxItem, Key, KeyMode, Kind, Listed, MemoryQuery, MemoryRecord,
    NoAgents, Opened, Options, Order, Outcome, Page, Parts, Record, RecordQuery, Recorded, Scope,
    SettledEffect, Steady, Store, StoreError, Target,
};
use callboard_protocol::{Event, MemoryId, Object, Owner, RunId, RunStatus, Timestamp};

/// Shorter than the fixtures' own time limits, so that a takeover does not make a run too late.
pub(crate) const LEASE: Duration = Duration::from_secs(3);

/// Tokio's own clock, which the tests pause: when nobody can move, time jumps to the next timer.
#[derive(Debug)]
pub(crate) struct SimClock {
    start: tokio::time::Instant,
    steady: Steady,
    /// How far the clock on the wall was put forward or back, in milliseconds.
    stepped: AtomicI64,
}

impl SimClock {
    pub(crate) fn new() -> Arc<Self> {
        let start = tokio::time::Instant::now();
        Arc::new(Self { start, steady: Steady::new(), stepped: AtomicI64::new(0) })
    }

    /// Puts the clock on the wall forward or back.
    pub(crate) fn step(&self, by_ms: i64) {
        self.stepped.fetch_add(by_ms, Ordering::Relaxed);
    }
}

/// The first instant of every simulation.
pub(crate) const EPOCH_MS: i64 = 1_700_000_000_000;

#[async_trait]
impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        self.steady.read(self.wall(), self.start.elapsed())
    }

    fn counted(&self) -> Timestamp {
        Timestamp::from_millis(EPOCH_MS).plus(self.start.elapsed())
    }

    fn wall(&self) -> Timestamp {
        let stepped = EPOCH_MS + self.stepped.load(Ordering::Relaxed);
        Timestamp::from_millis(stepped).plus(self.start.elapsed())
    }

    async fn sleep_until(&self, at: Timestamp) {
        // Tokio's timers end a year or two ahead; nothing here waits longer.
        let wait = at.since(self.now()).min(Duration::from_secs(86_400 * 365));
        tokio::time::sleep(wait).await;
    }
}

/// Ids that tell their host and their turn.
#[derive(Debug)]
pub(crate) struct CountedIds {
    host: String,
    next: AtomicU64,
}

impl CountedIds {
    pub(crate) fn new(host: &str) -> Arc<Self> {
        Arc::new(Self { host: host.to_owned(), next: AtomicU64::new(0) })
    }
}

impl Ids for CountedIds {
    fn run_id(&self) -> RunId {
        format!("run_{}_{:04}", self.host, self.next.fetch_add(1, Ordering::Relaxed)).into()
    }
}

/// What befalls a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It dies and the append is lost.
    DieBefore(u64),
    /// It dies and the append is on disk, but nobody was told.
    DieAfter(u64),
    /// It sleeps through its lease and then goes on as if nothing had happened.
    Oversleep(u64),
    /// The task that writes panics; the process goes on.
    Panic(u64),
    /// The disk has no room for so many writes.
    FullFor(u64),
    Live,
}

/// One process's view of the shared store.
#[derive(Debug)]
pub(crate) struct DoomedStore {
    pub(crate) inner: Arc<InMemoryStore>,
    fate: Fate,
    appends: AtomicU64,
    is_dead: AtomicBool,
    asleep_until: Mutex<Option<tokio::time::Instant>>,
    pub(crate) died: Notify,
    /// The kind of event that this process cannot read, and how often it was asked to.
    pub(crate) unreadable: Mutex<Option<&'static str>>,
    pub(crate) unread: AtomicU64,
}

impl DoomedStore {
    pub(crate) fn new(inner: Arc<InMemoryStore>, fate: Fate) -> Arc<Self> {
        Arc::new(Self {
            inner,
            fate,
            appends: AtomicU64::new(0),
            is_dead: AtomicBool::new(false),
            asleep_until: Mutex::default(),
            died: Notify::new(),
            unreadable: Mutex::default(),
            unread: AtomicU64::new(0),
        })
    }

    /// Spoils what this process cannot read.
    fn spoil(&self, entries: &mut [Entry]) {
        let unreadable = self.unreadable.lock().ok().and_then(|kind| *kind);
        let mut spoilt = 0;
        for entry in entries.iter_mut().filter(|entry| Some(entry.event.kind()) == unreadable) {
            let node = entry.event.node_id().cloned();
            entry.event = Event::read(entry.event.kind(), node, Value::from("of another build"));
            spoilt = 1;
        }
        self.unread.fetch_add(spoilt, Ordering::Relaxed);
    }

    pub(crate) fn appends(&self) -> u64 {
        self.appends.load(Ordering::Relaxed)
    }

    async fn die(&self) -> ! {
        self.is_dead.store(true, Ordering::Relaxed);
        self.died.notify_one();
        std::future::pending().await
    }

    /// Writes, unless the process meets its fate at this write.
    pub(crate) async fn write<T>(
        &self,
        write: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.live().await;
        let ordinal = self.appends.fetch_add(1, Ordering::Relaxed) + 1;
        match self.fate {
            Fate::DieBefore(at) if at == ordinal => self.die().await,
            Fate::DieAfter(at) if at == ordinal => {
                write.await?;
                self.die().await
            }
            Fate::Oversleep(at) if at == ordinal => {
                let until = tokio::time::Instant::now() + LEASE * 3;
                self.asleep_until.lock().map(|mut asleep| *asleep = Some(until)).ok();
                self.live().await;
                write.await
            }
            Fate::Panic(at) if at == ordinal => panic!("on command"),
            Fate::FullFor(writes) if ordinal <= writes => Err(StoreError::Full),
            _ => write.await,
        }
    }

    /// A dead process does nothing more, and one that is asleep does nothing now.
    pub(crate) async fn live(&self) {
        if self.is_dead.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        let asleep_until = self.asleep_until.lock().ok().and_then(|until| *until);
        if let Some(until) = asleep_until {
            tokio::time::sleep_until(until).await;
        }
    }
}

#[async_trait]
impl Store for DoomedStore {
    async fn commit(&self, batch: Batch) -> Result<(), StoreError> {
        if batch.appends.is_empty() && batch.records.is_empty() {
            self.live().await;
            return self.inner.commit(batch).await;
        }
        self.write(self.inner.commit(batch)).await
    }

    async fn get(&self, kind: Kind, key: &Key) -> Result<Option<Record>, StoreError> {
        self.live().await;
        self.inner.get(kind, key).await
    }

    async fn scan(&self, query: &RecordQuery) -> Result<Vec<Record>, StoreError> {
        self.live().await;
        self.inner.scan(query).await
    }

    async fn due(&self, kind: Kind, at: Timestamp, most: usize) -> Result<DueRecords, StoreError> {
        self.live().await;
        self.inner.due(kind, at, most).await
    }

    async fn open(&self, run: &RunId) -> Result<Option<Opened>, StoreError> {
        self.live().await;
        let mut opened = self.inner.open(run).await?;
        opened.iter_mut().for_each(|opened| self.spoil(&mut opened.entries));
        Ok(opened)
    }

    async fn tail(&self, run: &RunId, version: u64) -> Result<Vec<Entry>, StoreError> {
        self.live().await;
        let mut tail = self.inner.tail(run, version).await?;
        self.spoil(&mut tail);
        Ok(tail)
    }

    async fn statuses(&self, runs: &[RunId]) -> Result<Vec<Option<RunStatus>>, StoreError> {
        self.live().await;
        self.inner.statuses(runs).await
    }

    async fn find(&self, scope: &Scope, run: &RunId) -> Result<Option<Found>, StoreError> {
        self.live().await;
        self.inner.find(scope, run).await
    }

    async fn read(
        &self,
        scope: &Scope,
        run: &RunId,
        from: u64,
        limit: usize,
    ) -> Result<Option<Page>, StoreError> {
        self.live().await;
        self.inner.read(scope, run, from, limit).await
    }

    async fn list(&self, scope: &Scope, filter: &Filter) -> Result<Vec<Listed>, StoreError> {
        self.live().await;
        self.inner.list(scope, filter).await
    }

    async fn inbox(
        &self,
        scope: &Scope,
        filter: &InboxFilter,
    ) -> Result<Vec<InboxItem>, StoreError> {
        self.live().await;
        self.inner.inbox(scope, filter).await
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Claimed, StoreError> {
        self.live().await;
        self.inner.claim(request).await
    }

    async fn renew(&self, claims: &[Claim], until: Timestamp) -> Result<Vec<RunId>, StoreError> {
        self.live().await;
        self.inner.renew(claims, until).await
    }

    async fn release(
        &self,
        claim: &Claim,
        seen: Option<u64>,
        wake_at: Option<Timestamp>,
    ) -> Result<bool, StoreError> {
        self.live().await;
        self.inner.release(claim, seen, wake_at).await
    }

    async fn strike(&self, run: &RunId) -> Result<u32, StoreError> {
        self.live().await;
        self.inner.strike(run).await
    }

    async fn absolve(&self, run: &RunId) -> Result<(), StoreError> {
        self.live().await;
        self.inner.absolve(run).await
    }

    async fn struck(&self) -> Result<Vec<(RunId, u32)>, StoreError> {
        self.live().await;
        self.inner.struck().await
    }

    async fn changed(&self, run: &RunId, version: u64) {
        self.live().await;
        self.inner.changed(run, version).await;
    }

    async fn find_effect(&self, key: &EffectKey) -> Result<Option<SettledEffect>, StoreError> {
        self.live().await;
        self.inner.find_effect(key).await
    }

    async fn begin_effect(&self, effect: &EffectClaim) -> Result<Begun, StoreError> {
        self.write(self.inner.begin_effect(effect)).await
    }

    async fn settle_effect(&self, key: &EffectKey, outcome: String) -> Result<(), StoreError> {
        self.write(self.inner.settle_effect(key, outcome)).await
    }

    async fn abandon_effect(&self, key: &EffectKey) -> Result<(), StoreError> {
        self.live().await;
        self.inner.abandon_effect(key).await
    }

    async fn memory_position(&self) -> Result<u64, StoreError> {
        self.live().await;
        self.inner.memory_position().await
    }
    async fn recall(
        &self,
        scope: &Scope,
        query: &MemoryQuery,
    ) -> Result<Vec<MemoryRecord>, StoreError> {
        self.live().await;
        self.inner.recall(scope, query).await
    }
    async fn memory_history(
        &self,
        scope: &Scope,
        id: &MemoryId,
    ) -> Result<Vec<MemoryRecord>, StoreError> {
        self.live().await;
        self.inner.memory_history(scope, id).await
    }
    async fn crowded_memory(&self, most: u64) -> Result<Vec<Crowd>, StoreError> {
        self.live().await;
        self.inner.crowded_memory(most).await
    }
    async fn remove_ended(
        &self,
        before: Timestamp,
        limit: usize,
    ) -> Result<Vec<RunId>, StoreError> {
        self.live().await;
        self.inner.remove_ended(before, limit).await
    }
    async fn outcome(&self, key: &Digest, at: Timestamp) -> Result<Option<Outcome>, StoreError> {
        self.live().await;
        self.inner.outcome(key, at).await
    }
}

/// An activity that tells three chunks, a second apart, and ends.
#[derive(Debug)]
pub(crate) struct Chatter;

#[async_trait]
impl Activity for Chatter {
    async fn perform(&self, call: Call) -> Performed {
        for index in call.told..3 {
            call.pause(Duration::from_secs(1)).await;
            let fact = Fact::Chunk {
                index,
                text: format!("word {index} "),
                is_last: index == 2,
                meta: None,
            };
            if call.tell(vec![fact]).await.is_err() {
                return Performed::Done { outputs: Object::new() };
            }
        }
        Performed::Done {
            outputs: Object::from_iter([("text".to_owned(), Value::from("three words"))]),
        }
    }
}

/// One host on a store of its own or shared.
pub(crate) fn host(
    name: &str,
    store: Arc<DoomedStore>,
    clock: Arc<SimClock>,
    definitions: &[String],
) -> Engine {
    let activities = Activities::default().with("core.ai.callPrompt", Arc::new(Chatter));
    let workflows = store.inner.clone();
    host_with(name, store, workflows, clock, definitions, activities)
}

/// A host that performs what a test wants performed.
pub(crate) fn host_with(
    name: &str,
    store: Arc<dyn Store>,
    workflows: Arc<InMemoryStore>,
    clock: Arc<SimClock>,
    definitions: &[String],
    activities: Activities,
) -> Engine {
    let driving = DrivingLimits::default();
    host_limited(name, store, workflows, clock, definitions, activities, driving)
}

/// The same with limits of its own.
pub(crate) fn host_limited(
    name: &str,
    store: Arc<dyn Store>,
    workflows: Arc<InMemoryStore>,
    clock: Arc<SimClock>,
    definitions: &[String],
    activities: Activities,
    driving: DrivingLimits,
) -> Engine {
    let roster = workflows.clone();
    let secrets = workflows.clone();
    let mut catalog = Catalog::new(workflows, ConformanceNodes::On);
    for definition in definitions {
        catalog.load(definition).unwrap_or_else(|error| panic!("{error}\n{definition}"));
    }
    let engine = Engine::new(Parts {
        store,
        catalog,
        activities,
        directory: Arc::new(NoAgents),
        roster,
        secrets,
        clock,
        ids: CountedIds::new(name),
        options: Options {
            host: name.into(),
            lease: LEASE,
            heartbeat: LEASE / 3,
            driving,
            limits: HostLimits { max_run_duration_ms: 86_400_000, ..HostLimits::default() },
        },
    });
    engine.start();
    engine
}

pub(crate) fn scope() -> Scope {
    Scope { tenant: "default".into(), workspace: None, mode: KeyMode::Live }
}

pub(crate) fn order(workflow: &str, inputs: Object, configurable: Object) -> Order {
    let target = Target::Workflow(workflow.into());
    let owner = Owner { tenant: "default".into(), workspace: None, principal: None };
    Order { inputs, configurable, ..Order::new(target, owner, KeyMode::Live) }
}

/// Waits for the run's end and returns its log.
pub(crate) async fn ended(store: &InMemoryStore, run: &RunId) -> Vec<Recorded> {
    loop {
        let page = store.read(&scope(), run, 0, usize::MAX).await;
        let page = page
            .unwrap_or_else(|error| panic!("{error}"))
            .unwrap_or_else(|| panic!("{run} is gone"));
        if page.status.is_terminal() {
            return page.events;
        }
        store.changed(run, page.version).await;
    }
}

/// Where the protocol's fixtures are, if they are beside the project; whoever requires them stops without them.
pub(crate) fn fixtures() -> Option<PathBuf> {
    let folder =
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/openwop/fixtures"));
    let required =
        std::env::var("CALLBOARD_TEST_REQUIRE").is_ok_and(|parts| parts.contains("openwop"));
    assert!(folder.is_dir() || !required, "the protocol's fixtures are required and missing");
    folder.is_dir().then_some(folder)
}

/// The nodes whose questions stand in the inbox.
pub(crate) async fn open_questions(store: &InMemoryStore) -> Vec<String> {
    let filter = InboxFilter { limit: usize::MAX, ..InboxFilter::default() };
    let items = store.inbox(&scope(), &filter).await.unwrap_or_else(|error| panic!("{error}"));
    items.into_iter().map(|item| item.interrupt.node.to_string()).collect()
}
