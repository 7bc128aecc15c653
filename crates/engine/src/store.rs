//! The port to what remembers: runs, their logs, the queue of due work and the outcomes of idempotent requests.

mod batch;
mod inbox;
mod scope;
mod tenure;
mod turns;

pub use batch::{Batch, CounterChange, CounterQuery};
pub use inbox::{InboxFilter, InboxItem, InboxPlace};
pub use scope::{KeyMode, Realm, Scope};
pub use tenure::Tenure;
pub use turns::{Chosen, DueRun, Turns};

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Serialize;

use callboard_core::{Birth, Born, Cause, Entry, Head, InterruptView, Priority};
use callboard_protocol::{
    HostId, MemoryId, NodeId, RosterId, RunId, RunMetrics, RunStatus, Tenant, Timestamp, WorkflowId,
};

use crate::concurrency::{Concurrency, HeldBack, Queue, QueuePlace, Waiting};
use crate::effects::{Begun, EffectClaim, EffectKey, SettledEffect};
use crate::logs::{LogPosition, Window};
use crate::memory::{CrowdedMemory, MemoryQuery, MemoryRecord};
use crate::records::{DueRecords, Key, Kind, Record, RecordQuery, Within};
use crate::retention::Removable;
use crate::roster::Spent;
use crate::wait::{Rest, Wait};

/// Everything that runs need from a database. One contract suite holds for every implementation.
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync {
    /// Writes all of it or nothing. Every expectation is checked in the same transaction, before anything is written.
    async fn commit(&self, batch: Batch) -> Result<(), StoreError>;

    async fn get(&self, kind: Kind, key: &Key) -> Result<Option<Record>, StoreError>;

    async fn scan(&self, query: &RecordQuery) -> Result<Vec<Record>, StoreError>;

    /// The bytes that were kept with a record.
    async fn blob(&self, kind: Kind, key: &Key) -> Result<Option<Arc<[u8]>>, StoreError>;

    /// Reads up to `most` records of a kind that are due by now, the longest due first.
    async fn due(&self, kind: Kind, at: Timestamp, most: usize) -> Result<DueRecords, StoreError>;

    /// Counters with their keys and names, in the order of both.
    async fn counters(&self, of: &CounterQuery) -> Result<Vec<(Key, String, f64)>, StoreError>;

    /// Reads a run for folding, with sealed values opened. Only the engine may see what this returns.
    async fn open(&self, run: &RunId) -> Result<Option<Opened>, StoreError>;

    /// Reads the entries from `version` on, opened, for a holder that fell behind.
    async fn tail(&self, run: &RunId, version: u64) -> Result<Vec<Entry>, StoreError>;

    /// Where runs stand, in the order asked for; none for one that is not there. For the engine alone, as `open`.
    async fn statuses(&self, runs: &[RunId]) -> Result<Vec<Option<Standing>>, StoreError>;

    /// Finds a run that the caller may see.
    async fn find(&self, scope: &Scope, run: &RunId) -> Result<Option<Found>, StoreError>;

    /// Reads public events from sequence `from` on, with where the run stands at the same moment.
    async fn read(
        &self,
        scope: &Scope,
        run: &RunId,
        from: u64,
        limit: usize,
    ) -> Result<Option<Page>, StoreError>;

    /// The place of the newest event of all logs.
    async fn newest(&self) -> Result<LogPosition, StoreError>;

    /// What is visible there of the next `most` events of all tenants. A reader goes on from [`Window::until`], so
    /// that what others do costs it nothing twice.
    async fn read_all(
        &self,
        within: &Within,
        after: LogPosition,
        most: u64,
    ) -> Result<Window, StoreError>;

    /// Lists runs for people, newest first.
    async fn list(&self, scope: &Scope, filter: &Filter) -> Result<Vec<Listed>, StoreError>;

    /// Lists the questions that runs ask, longest waiting first.
    async fn inbox(
        &self,
        scope: &Scope,
        filter: &InboxFilter,
    ) -> Result<Vec<InboxItem>, StoreError>;

    /// What the models of a member's runs were paid that began since then. A replay pays nobody.
    async fn spent(
        &self,
        scope: &Scope,
        member: &RosterId,
        since: Timestamp,
    ) -> Result<Spent, StoreError>;

    /// Takes up to `most` due runs that nobody holds, as [`Turns`] chooses them. Two callers never get the same one, nor
    /// more together than the limits allow.
    async fn claim(&self, request: &ClaimRequest) -> Result<Claimed, StoreError>;

    /// Extends the given claims; answers those that are no longer held.
    async fn renew(&self, claims: &[Claim], until: Timestamp) -> Result<Vec<RunId>, StoreError>;

    /// Gives a claim back without an append; the run is looked at again at `wake_at`. Answers whether that is to be at
    /// once: a child has moved meanwhile, or somebody has appended beyond the version that the holder has seen.
    async fn release(
        &self,
        claim: &Claim,
        seen: Option<u64>,
        wake_at: Option<Timestamp>,
    ) -> Result<bool, StoreError>;

    /// Returns when the run's log may have grown beyond `version`. A hint: it may come early, or for nothing.
    async fn changed(&self, run: &RunId, version: u64);

    /// A secret of this database for one purpose, the same after every restart and on every host.
    fn derive(&self, purpose: &str) -> [u8; 32];

    /// The outcome of an outward call, if it is known. For the engine alone, as `open`.
    async fn find_effect(&self, key: &EffectKey) -> Result<Option<SettledEffect>, StoreError>;

    /// Claims an outward call before it is made, or answers what is known of it. Only the holder of the run may.
    async fn begin_effect(&self, effect: &EffectClaim) -> Result<Begun, StoreError>;

    /// Keeps the outcome of a claimed call; the first one stays. None forgets the claim of a call that had no effect
    /// and may be made again. Only the holder of the run may.
    async fn settle_effect(
        &self,
        claim: &Claim,
        key: &EffectKey,
        outcome: Option<String>,
    ) -> Result<(), StoreError>;

    /// How far the journal of a tenant's memory has come. Every later row of it stands behind this.
    async fn memory_position(&self, realm: &Realm) -> Result<u64, StoreError>;

    /// Finds entries of memory that the caller may see and that have not expired, as `query` orders them.
    async fn recall(
        &self,
        scope: &Scope,
        query: &MemoryQuery,
    ) -> Result<Vec<MemoryRecord>, StoreError>;

    /// Every version of an entry, newest first; none for an entry that the caller may not see.
    async fn memory_history(
        &self,
        scope: &Scope,
        id: &MemoryId,
    ) -> Result<Vec<MemoryRecord>, StoreError>;

    /// Places of every tenant in which more than `most` entries stand that never expire. Those under
    /// [`crate::CONVERSATIONS`] are not looked at.
    async fn crowded_memory(&self, most: u64) -> Result<Vec<CrowdedMemory>, StoreError>;

    /// Removes ended runs of a sort that have not moved for long, with all that is theirs alone, at most `limit` of them,
    /// the oldest first; answers which. A run stays while something may need it: a run above or below it that has not
    /// ended, a fork of it, a record that retains it, or a reader that has read all logs up to `read_until` alone.
    async fn remove_ended(
        &self,
        removable: &Removable,
        read_until: Option<LogPosition>,
        limit: usize,
    ) -> Result<Vec<RunId>, StoreError>;

    /// Finds what an idempotent request came to, unless that has expired.
    async fn outcome(&self, key: &Digest, at: Timestamp) -> Result<Option<Outcome>, StoreError>;
}

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    pub status: RunStatus,
    /// Of the last that held it.
    pub epoch: u64,
}

/// SHA-256 of something; keys of callers are kept only as this.
pub type Digest = [u8; 32];

/// A run to be created. The log of a fork begins with the events of its source, up to the fork.
#[derive(Debug, Clone)]
pub struct NewRun {
    pub birth: Birth,
    /// The birth record's inputs as readers may see them, where that differs.
    pub masked_inputs: Option<callboard_protocol::Object>,
    /// The definition's own text, stored once per digest.
    pub definition: Arc<str>,
    pub head: Head,
    /// The creator drives the run itself, at once.
    pub lease: Option<Lease>,
    /// Refuse the run while another of the same tenant and scope id is active.
    pub exclusive: bool,
    pub outcome: Option<Outcome>,
}

/// Who holds a run, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub host: HostId,
    pub until: Timestamp,
}

/// A held run. The epoch grows with every new holder, so a holder that overslept is recognised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    pub run: RunId,
    pub host: HostId,
    pub epoch: u64,
    pub origin: ClaimOrigin,
}

/// How a holder came to a run. A store keeps the name of a holder until the run is released, also when it
/// voids leases at boot: that is how the next holder learns that the last one was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimOrigin {
    /// Nobody held it: it is new, or was released.
    Free,
    /// Its last holder never gave it back, and work in flight died with that holder.
    Lost,
}

impl Claim {
    /// The epoch of a claim that was granted with the run's creation.
    pub const FIRST_EPOCH: u64 = 1;
}

#[derive(Debug, Clone)]
pub struct ClaimRequest {
    pub host: HostId,
    pub at: Timestamp,
    /// What shows which leases have ended: leases go by a clock that nobody puts forward.
    pub lapsed_at: Timestamp,
    pub until: Timestamp,
    pub most: usize,
    /// The most runs that one tenant may hold here, with those that are taken now.
    pub share: usize,
    /// How many runs tenants hold here already.
    pub held: BTreeMap<Tenant, usize>,
    /// How many runs may be held on all hosts together.
    pub limits: Arc<Concurrency>,
}

/// What a claim scan found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claimed {
    pub claims: Vec<Claim>,
    /// Whose they are, in the same order.
    pub tenants: Vec<Tenant>,
    /// Whether others are due that were not taken.
    pub has_more: bool,
    /// When the next run that is not due yet becomes so.
    pub next: Option<Timestamp>,
    /// What the others wait for.
    pub held_back: HeldBack,
}

/// One append.
#[derive(Debug, Clone)]
pub struct Append {
    pub run: RunId,
    /// How many events the log must hold already.
    pub expected: u64,
    /// The claim under which this is written; none for what comes from outside a claim.
    pub fence: Option<Fence>,
    pub rows: Vec<Row>,
    pub head: Head,
    /// The fold, serialised, when the run comes to rest here.
    pub snapshot: Option<String>,
    /// Every question that the run asks after this append, as readers may see it; none leaves them as they were.
    pub interrupts: Option<Vec<InterruptView>>,
    pub outcome: Option<Outcome>,
    /// Runs that begin with this append.
    pub children: Vec<NewRun>,
    /// A run that waits for what is appended here, to be claimed again at once.
    pub wakes: Option<RunId>,
}

/// A claim to check in an append, and what becomes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    pub claim: Claim,
    /// Whether the holder keeps the run until then or gives it back with this append.
    pub then: Then,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// The head's own `wake_at` is not stored; the run becomes due when the lease ends.
    Hold { until: Timestamp },
    /// The head's `wake_at` is stored and the lease is gone.
    Release,
}

/// One event as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub at: Timestamp,
    pub kind: String,
    pub node: Option<NodeId>,
    /// JSON, as readers may see it.
    pub payload: String,
    /// JSON, as the fold must see it, where that differs; sealed at rest.
    pub private: Option<String>,
    pub cause: Option<Cause>,
}

/// A run for folding.
#[derive(Debug, Clone)]
pub struct Opened {
    pub birth: Birth,
    pub definition: Arc<str>,
    pub entries: Vec<Entry>,
}

/// A run that exists for its caller.
#[derive(Debug, Clone)]
pub struct Found {
    pub status: RunStatus,
    /// How many events the log holds.
    pub version: u64,
    pub engine_version: u32,
    pub born: Born,
    /// The stored fold, if it has seen every event.
    pub snapshot: Option<String>,
}

/// Events of one run, in order, and where the run stood at the moment of reading.
#[derive(Debug, Clone)]
pub struct Page {
    pub status: RunStatus,
    /// How many events the log held.
    pub version: u64,
    pub events: Vec<Recorded>,
}

/// One stored event as readers get it. Serialises as the protocol's `RunEventDoc`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    pub run: RunId,
    pub sequence: u64,
    pub at: Timestamp,
    pub kind: String,
    pub node: Option<NodeId>,
    pub payload: String,
    pub engine_version: u32,
    pub cause: Option<Cause>,
}

/// Which runs a list shows. Empty fields filter nothing.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    pub status: Option<RunStatus>,
    pub workflow: Option<WorkflowId>,
    /// An agent that runs are of.
    pub agent: Option<String>,
    /// The standing member that runs are attributed to.
    pub member: Option<RosterId>,
    pub tag: Option<String>,
    /// This run alone.
    pub run: Option<RunId>,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
    /// Only runs that stand after this one in the list.
    pub before: Option<RunId>,
    pub limit: usize,
}

/// One line of a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Listed {
    pub run_id: RunId,
    pub workflow_id: WorkflowId,
    pub status: RunStatus,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// The standing member that the run is attributed to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub roster_id: Option<RosterId>,
    /// What fired it for that member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trigger_source: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// What models have used so far, as the run's snapshot says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<RunMetrics>,
    /// Which of its tenant's runs goes first.
    #[serde(skip_serializing_if = "is_usual")]
    pub priority: &'static str,
    /// Why it waits, as [`Listed::judged`] says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<Wait>,
    /// What that follows from.
    #[serde(skip)]
    pub rest: Rest,
}

impl Listed {
    /// The line with why the run waits.
    #[must_use]
    pub fn judged(mut self, tenant: &Tenant, now: Timestamp, waiting: &Waiting) -> Self {
        let wait = self.rest.wait(self.status, self.updated_at, now);
        let (workflow, agents) = (self.workflow_id.clone(), std::mem::take(&mut self.rest.agents));
        let queue = Queue { tenant: tenant.clone(), workflow, agents };
        let place = QueuePlace { queue, rank: self.rest.rank };
        self.wait = waiting.explain(&self.run_id, self.rest.is_held, &place, wait);
        self.priority = Priority::of_rank(self.rest.rank).unwrap_or_default().as_str();
        self
    }
}

fn is_usual(priority: &str) -> bool {
    priority.is_empty() || priority == Priority::Normal.as_str()
}

/// What an idempotent request came to, kept so that its repetition gets the same answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub key: Digest,
    /// What was asked; another request under the same key is refused.
    pub request: Digest,
    pub status: u16,
    pub body: String,
    pub expires_at: Timestamp,
}

/// The machine misbehaving, or another writer having been faster. Each variant asks the caller for something else.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The log has moved on: read the tail and decide again.
    #[error("the log of {run} has moved on")]
    Conflict { run: RunId },
    /// Another writer changed it first: read it and decide again.
    #[error("{what} has moved on")]
    Moved { what: String },
    /// Another host holds the run: stop driving it.
    #[error("the lease on {run} is lost")]
    LeaseLost { run: RunId },
    /// Another run of the same scope is active.
    #[error("run {active} is already active in this scope")]
    ScopeBusy { active: RunId },
    /// The same idempotent request was finished before: answer as it did.
    #[error("the request was already carried out")]
    AlreadyDone(Box<Outcome>),
    /// The disk is full: refuse writes, go on reading.
    #[error("no space left for the database")]
    Full,
    /// Try later.
    #[error("the database cannot be reached: {0}")]
    Unavailable(String),
    /// A stored value cannot be read: an operator must look.
    #[error("{what} cannot be read: {why}")]
    Unreadable { what: String, why: String },
}

#[cfg(test)]
mod tests {
    /// Every method is written once per database and once for simulations: a new one needs a reason that a record,
    /// a batch or a query cannot be.
    #[test]
    fn the_port_has_at_most_thirty_methods() {
        let source = include_str!("store.rs");
        let port = source.split_once("pub trait Store").map_or("", |(_, rest)| rest);
        let port = port.split_once("\n}\n").map_or("", |(port, _)| port);
        let methods: Vec<&str> = port
            .lines()
            .filter_map(|line| line.trim().trim_start_matches("async ").strip_prefix("fn "))
            .filter_map(|line| line.split('(').next())
            .collect();
        assert!(methods.contains(&"commit") && methods.contains(&"derive"), "{methods:?}");
        assert!(methods.len() <= 30, "{}: {methods:?}", methods.len());
    }
}
