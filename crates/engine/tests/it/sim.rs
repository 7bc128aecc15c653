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
    Activities, Activity, Batch, Call, Catalog, Clock, DrivingLimits, Engine, Ids, InMemoryStore,
    InboxFilter, Intercept, InterceptedStore, KeyMode, Kind, NoAgents, Options, Order, Parts,
    RecordChange, RecordWrite, Recorded, Scope, Secrets, Steady, Store, StoreCall, StoreError,
    Target,
};
use callboard_protocol::{Event, Object, Owner, RunId, Timestamp};

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
pub(crate) type DoomedStore = InterceptedStore<Doom>;

pub(crate) fn doomed_store(inner: Arc<InMemoryStore>, fate: Fate) -> Arc<DoomedStore> {
    let doom = Doom { inner: inner.clone(), ..Doom::new(fate) };
    Arc::new(InterceptedStore::new(inner, Arc::new(doom)))
}

/// What befalls one process at its writes: batches with events or records, and the calls it makes outside.
#[derive(Debug)]
pub(crate) struct Doom {
    pub(crate) inner: Arc<InMemoryStore>,
    fate: Fate,
    writes: AtomicU64,
    /// Attempts at deliveries whose outcome was written.
    settled: AtomicU64,
    is_dead: AtomicBool,
    /// Whether the process dies once the write under way is on disk.
    dies_after: AtomicBool,
    asleep_until: Mutex<Option<tokio::time::Instant>>,
    pub(crate) died: Notify,
    /// The kind of event that this process cannot read, and how often it was asked to.
    pub(crate) unreadable: Mutex<Option<&'static str>>,
    pub(crate) unread: AtomicU64,
}

impl Doom {
    fn new(fate: Fate) -> Self {
        Self {
            inner: Arc::default(),
            fate,
            writes: AtomicU64::new(0),
            settled: AtomicU64::new(0),
            is_dead: AtomicBool::new(false),
            dies_after: AtomicBool::new(false),
            asleep_until: Mutex::default(),
            died: Notify::new(),
            unreadable: Mutex::default(),
            unread: AtomicU64::new(0),
        }
    }

    pub(crate) fn appends(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    pub(crate) fn settled_deliveries(&self) -> u64 {
        self.settled.load(Ordering::Relaxed)
    }

    async fn die(&self) -> ! {
        self.is_dead.store(true, Ordering::Relaxed);
        self.died.notify_one();
        std::future::pending().await
    }

    /// A dead process does nothing more, and one that is asleep does nothing now.
    async fn live(&self) {
        if self.is_dead.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        let asleep_until = self.asleep_until.lock().ok().and_then(|until| *until);
        if let Some(until) = asleep_until {
            tokio::time::sleep_until(until).await;
        }
    }
}

/// Whether a fate counts it: what is only looked at, claimed or remembered is not.
fn is_counted(call: &StoreCall<'_>) -> bool {
    let writes = |batch: &Batch| !batch.appends.is_empty() || !batch.records.is_empty();
    call.batch.map_or(matches!(call.name, "begin_effect" | "settle_effect"), writes)
}

#[async_trait]
impl Intercept for Doom {
    async fn before(&self, call: &StoreCall<'_>) -> Result<(), StoreError> {
        self.live().await;
        if !is_counted(call) {
            return Ok(());
        }
        let ordinal = self.writes.fetch_add(1, Ordering::Relaxed) + 1;
        self.dies_after.store(self.fate == Fate::DieAfter(ordinal), Ordering::Relaxed);
        match self.fate {
            Fate::DieBefore(at) if at == ordinal => self.die().await,
            Fate::Oversleep(at) if at == ordinal => {
                let until = tokio::time::Instant::now() + LEASE * 3;
                self.asleep_until.lock().map(|mut asleep| *asleep = Some(until)).ok();
                self.live().await;
                Ok(())
            }
            Fate::Panic(at) if at == ordinal => panic!("on command"),
            Fate::FullFor(writes) if ordinal <= writes => Err(StoreError::Full),
            _ => Ok(()),
        }
    }

    async fn after(&self, call: &StoreCall<'_>) -> Result<(), StoreError> {
        if call.batch.is_some_and(|batch| batch.records.iter().any(settles_delivery)) {
            self.settled.fetch_add(1, Ordering::Relaxed);
        }
        if is_counted(call) && self.dies_after.load(Ordering::Relaxed) {
            self.die().await;
        }
        Ok(())
    }

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
}

fn settles_delivery(change: &RecordChange) -> bool {
    matches!(change.kind, Kind::WebhookDelivery | Kind::Callback)
        && matches!(change.write, RecordWrite::Delete)
}

/// An activity that tells three chunks, a second apart, and ends.
#[derive(Debug)]
pub(crate) struct Chatter;

#[async_trait]
impl Activity for Chatter {
    async fn perform(&self, call: Call) -> Performed {
        for index in call.facts_recorded..3 {
            call.pause(Duration::from_secs(1)).await;
            let fact = Fact::Chunk {
                index,
                text: format!("word {index} "),
                is_last: index == 2,
                meta: None,
            };
            if call.record(vec![fact]).await.is_err() {
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
    let secrets = Secrets::new(workflows.clone());
    let mut catalog = Catalog::new(workflows, ConformanceNodes::On);
    for definition in definitions {
        catalog.load(definition).unwrap_or_else(|error| panic!("{error}\n{definition}"));
    }
    let engine = Engine::new(Parts {
        store,
        catalog,
        activities,
        directory: Arc::new(NoAgents),
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
