//! The birth record: everything that is decided once, before a run's first event.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use callboard_protocol::{
    ENGINE_VERSION, Evaluated, EventId, FileVersion, ForkMode, InvocationSource, NodeId, Object,
    Owner, Remembered, RosterId, RosterRunInitiated, RunId, Timestamp, TypeId, WorkflowId,
};

use crate::budget::RunBudget;
use crate::confidence::Confidence;
use crate::priority::Priority;
use crate::run::RefusalDivergence;
use crate::stamp::Stamp;
use crate::trace::TraceContext;

/// Written once, in the transaction that creates the run, and never changed.
///
/// Stored as JSON. An old reader ignores fields that it does not know; a new reader defaults those
/// that an old record lacks; nobody writes it twice. `engine_version` decides whether this build
/// may drive the run at all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Birth {
    pub run_id: RunId,
    pub workflow_id: WorkflowId,
    /// The digest of the definition that the run keeps, whatever happens to the workflow later.
    pub definition: String,
    pub owner: Owner,
    /// Whether a test key made it: test keys and live keys do not see each other's runs.
    #[serde(default)]
    pub test: bool,
    /// What the caller sent, with defaults not yet applied.
    #[serde(default)]
    pub inputs: Object,
    #[serde(default)]
    pub configurable: Object,
    #[serde(default)]
    pub tags: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Object>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope_id: Option<String>,
    /// The address that receives the questions of this run and of its descendants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback_url: Option<String>,
    pub created_at: Timestamp,
    pub engine_version: u32,
    /// What a test asked to have stamped on the events instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forced_engine_version: Option<u32>,
    pub limits: RunLimits,
    /// The trace of the caller that created the run, if it sent one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceContext>,
    /// The node that started this run, for a run within a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// Variables that a parent left unset: they have no value here, whatever their declared default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unset: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<Fork>,
    /// The agents that perform nodes of this run, each in the version that it keeps.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub agents: BTreeMap<NodeId, AgentPin>,
    /// The standing member that the run is for, as it was then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attribution: Option<RosterRunInitiated>,
    /// The delivery that started the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Delivered>,
    /// Whether it, or a run above it, was started by or fetches text from outside: no model may take that for orders.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub from_outside: bool,
    /// What the run may use; none is unbounded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<RunBudget>,
    /// The member whose day pays for the run: its own, or that of the run above it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charged_to: Option<RosterId>,
    /// The only scopes of its owner that the run may use, where a parent has narrowed them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal_scope: Option<Vec<String>>,
    /// What the run sees of memory. A run from before there was any sees none.
    #[serde(default)]
    pub memory: MemoryBirth,
    /// The files of its workspace that the run sees, each in the version that stood there when it began. A run from
    /// before there were any sees none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileVersion>,
    /// Absent on a run from before there was a second major.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stamp: Option<Stamp>,
}

/// The memory that a run begins with: nothing that others write later is in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemoryBirth {
    /// Which of the tenant's memories: the caller's scope id, empty for the one that all others share.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub scope_id: String,
    /// The oldest run above this one, itself included: what its members write is seen when they join.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<RunId>,
    /// The journal's position when the run began.
    #[serde(default)]
    pub as_of: u64,
    /// What runs whose history or place this one continues had written by then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<Remembered>,
    /// When the histories that this run continues were left, in order: what stood there then has not expired for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub anchors: Vec<Timestamp>,
}

/// What came in over the trigger bridge, as a run keeps it: for itself and its replays, never for its log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Delivered {
    pub subscription_id: String,
    pub dedup_key: String,
    pub attempt: u32,
    /// A `TriggerEvent`; readers of the run do not see it.
    pub event: Object,
    /// The item of a member's work that came to the top of its queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_id: Option<String>,
}

impl Birth {
    /// The agents that the run is of: those that perform its nodes, and that of the member it is for.
    pub fn agent_ids(&self) -> BTreeSet<&str> {
        let pinned = self.agents.values().map(|pin| pin.agent_id.as_str());
        pinned.chain(self.attribution.iter().map(|told| told.agent_id.as_str())).collect()
    }

    /// How soon it has its turn. A run that another one waits for is never kept waiting: it would wait for itself.
    pub fn rank(&self) -> i32 {
        match &self.parent {
            Some(_) => Priority::AT_ONCE,
            None => Priority::of(&self.configurable).rank(),
        }
    }

    /// The run at the top of this one's family, as far as it is known.
    pub fn root(&self) -> &RunId {
        let Some(parent) = &self.parent else { return &self.run_id };
        parent.root.as_ref().unwrap_or(&parent.run_id)
    }

    /// The name that the delivery which starts the run gets with it: that of the event which will record it. Once the
    /// log is written, the log says.
    pub fn delivery_id(&self) -> EventId {
        let before = Opening::ALL.into_iter().take_while(|one| *one != Opening::Delivery);
        let place = before.filter(|one| self.opens_with(*one)).count();
        EventId::of(&self.run_id, place as u64)
    }

    fn opens_with(&self, one: Opening) -> bool {
        match one {
            Opening::Start => true,
            Opening::Attribution => self.attribution.is_some(),
            Opening::Budget => self.budget.is_some(),
            Opening::Delivery => self.delivery.is_some(),
        }
    }
}

/// What a log begins with, once each, in the order of [`Opening::ALL`]: what is written and what is said of it before
/// come from this one list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opening {
    Start,
    /// For whom the run is.
    Attribution,
    /// What it may use.
    Budget,
    /// What delivered it.
    Delivery,
}

impl Opening {
    pub(crate) const ALL: [Self; 4] =
        [Self::Start, Self::Attribution, Self::Budget, Self::Delivery];
}

/// An installed agent, as a run keeps it whatever is installed later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentPin {
    pub agent_id: String,
    pub version: String,
    /// Which contents the version had. Records from before versions could be replaced do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integrity: Option<String>,
    /// The deployment channel that led to this version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    #[serde(default)]
    pub task: TaskSource,
    /// The name of the standing member that it acts as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persona: Option<String>,
    #[serde(default)]
    pub source: InvocationSource,
}

/// Where an agent's task comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskSource {
    /// The node's ports.
    #[default]
    Ports,
    /// What the caller sent with the run.
    Inputs,
}

/// Who waits for this run's end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Parent {
    pub run_id: RunId,
    pub workflow_id: WorkflowId,
    pub node_id: NodeId,
    /// How many runs lie above this one.
    pub depth: u32,
    /// The run at the top of all. Records from before families were counted name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<RunId>,
    /// Which of the runs below that one this is, in the order of their births.
    #[serde(default)]
    pub place: u64,
    /// The type of that node. Records from before others could start runs do not say.
    #[serde(default = "sub_workflow")]
    pub cause: TypeId,
}

fn sub_workflow() -> TypeId {
    "core.subWorkflow".into()
}

/// Where a run left the history of another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fork {
    pub source: RunId,
    /// Events of the source before this one are this run's own history.
    pub from: u64,
    /// How many events the source had when it was forked; what it records later is not looked at.
    pub until: u64,
    pub mode: ForkMode,
    /// The run whose id a replay keeps in payloads and keys, and a branch finds in those right before it.
    pub origin: RunId,
    /// Where the source's log had left the histories of earlier runs, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<Departure>,
    /// Where a replay ends early because a model refuses that did not before, or no longer refuses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<RefusalDivergence>,
    /// The source's events of prompts that would differ today. An old reader that does not know of them
    /// replays without recording that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prompts: Vec<u64>,
    /// The nodes that a retry does again; none in any other fork. An old reader that does not know of them ends the
    /// run as its source ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// By their place in the history, what the edge conditions of completed nodes come to in the definition of this
    /// run, where that is another than the one under which the history was recorded.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub evaluated: BTreeMap<u64, Evaluated>,
}

/// The event with which a branch went on live, after the history of another run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Departure {
    pub at: u64,
    /// The run whose id stands in payloads and keys before that.
    pub left: RunId,
    /// The nodes that were done again from there on, where the branch was a retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
}

/// What a retry does again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Retry {
    pub nodes: Vec<RetriedNode>,
}

/// A node that is done again, with all that depends on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RetriedNode {
    pub node_id: NodeId,
    pub visit: RetriedVisit,
}

/// How much of a node is done again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RetriedVisit {
    /// All of it, in a visit of its own.
    New,
    /// What comes after the last outward call that was answered: another attempt at the visit that failed.
    Same,
}

impl Fork {
    /// A fork of this run before its event `from`, of `until` that it has.
    pub fn of(source: &Birth, mode: ForkMode, from: u64, until: u64) -> Self {
        let departures = source.fork.iter().flat_map(Self::departures);
        let evaluated = source.fork.iter().flat_map(|fork| &fork.evaluated);
        let is_past = |place: u64| mode == ForkMode::Replay || place < from;
        let origin = match mode {
            ForkMode::Replay => source.told_id(until).clone(),
            ForkMode::Branch => source.author(from.saturating_sub(1)),
        };
        Self {
            source: source.run_id.clone(),
            from,
            until,
            mode,
            origin,
            earlier: departures.filter(|one| is_past(one.at)).collect(),
            refusal: None,
            prompts: Vec::new(),
            retry: None,
            evaluated: evaluated
                .filter(|(place, _)| is_past(**place))
                .map(|(place, evaluated)| (*place, evaluated.clone()))
                .collect(),
        }
    }

    /// Where the log leaves other runs' histories, the fork's own departure included.
    pub(crate) fn departures(&self) -> impl Iterator<Item = Departure> {
        let is_own = self.mode == ForkMode::Branch && self.from > 0;
        let own = is_own.then(|| Departure {
            at: self.from,
            left: self.origin.clone(),
            retry: self.retry.clone(),
        });
        self.earlier.iter().cloned().chain(own)
    }

    /// What was done again from this place of the log on; the outer is none where no history is left there.
    pub(crate) fn departure_at(&self, place: u64) -> Option<Option<&Retry>> {
        if self.mode == ForkMode::Branch && self.from > 0 && self.from == place {
            return Some(self.retry.as_ref());
        }
        let departure = self.earlier.iter().find(|departure| departure.at == place);
        departure.map(|departure| departure.retry.as_ref())
    }
}

/// The limits in force for one run, resolved when it is created so that a later configuration cannot move them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunLimits {
    pub node_executions: u64,
    pub duration_ms: u64,
    /// Turns of supervisors. Records from before there were any never reach it.
    #[serde(default = "u64_max")]
    pub loop_iterations: u64,
    /// How sure a supervisor must be to be followed without asking.
    #[serde(default = "protocol_floor")]
    pub confidence_floor: Confidence,
    /// The protocol's execution model that the log follows. Records from before it had a choice follow the second.
    #[serde(default = "second_model")]
    pub execution_model: u32,
    /// How much an agent is shown of what it said in its earlier turns. Records from before it could be narrowed show
    /// the most.
    #[serde(default = "widest_window")]
    pub transcript_window: u64,
}

/// The first execution model whose logs count the turns of supervisors.
pub(crate) const COUNTS_TURNS: u32 = 5;

fn widest_window() -> u64 {
    crate::admission::WIDEST_WINDOW
}

fn second_model() -> u32 {
    2
}

fn u64_max() -> u64 {
    u64::MAX
}

fn protocol_floor() -> Confidence {
    Confidence::FLOOR
}

impl Birth {
    /// The version that events of this run carry.
    pub fn stamped_version(&self) -> u32 {
        self.forced_engine_version.unwrap_or(self.engine_version)
    }

    /// The run id inside payloads and keys at this place of the log: a replay says what its source said.
    pub fn told_id(&self, place: u64) -> &RunId {
        let Some(fork) = self.fork.as_ref().filter(|fork| fork.mode == ForkMode::Replay) else {
            return &self.run_id;
        };
        let departure = fork.earlier.iter().find(|departure| place < departure.at);
        departure.map_or(&fork.origin, |departure| &departure.left)
    }

    /// The run whose event stands at this place of the log; it may be one whose history this run continues.
    fn author(&self, place: u64) -> RunId {
        let mut departures = self.fork.iter().flat_map(Fork::departures);
        let departure = departures.find(|departure| place < departure.at);
        departure.map_or_else(|| self.told_id(u64::MAX).clone(), |departure| departure.left)
    }

    /// The runs whose histories this run goes on with, the latest first: what they did there is this run's past.
    pub fn forebears(&self) -> Vec<RunId> {
        let departures = self.fork.iter().flat_map(Fork::departures);
        let mut runs: Vec<RunId> = departures.map(|departure| departure.left).collect();
        runs.reverse();
        runs
    }

    pub fn is_replay(&self) -> bool {
        self.fork.as_ref().is_some_and(|fork| fork.mode == ForkMode::Replay)
    }

    /// Whether a newer build than this one started the run.
    pub fn is_from_the_future(&self) -> bool {
        self.engine_version > ENGINE_VERSION
    }
}
