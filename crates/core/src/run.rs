//! The state of one run and the two functions that change it: `decide` and `apply`.
//!
//! `apply` folds one event and never refuses, because an event in the log is a fact. `decide` takes a
//! command, emits what follows from it, and then asks the state again and again which event must come
//! next, until none must. Since that question has one answer for every state, a batch that was cut
//! anywhere is finished by the next decide, and a new holder needs no other way to find its work.

mod agent;
mod announced;
mod answer;
mod artifact;
mod attest;
mod attribution;
mod branch;
mod budget;
mod cause;
mod child;
mod command;
mod cost;
mod dispatch;
mod doubt;
mod each;
mod effort;
mod evaluation;
mod fact;
mod files;
mod flow;
mod fold;
mod give_up;
mod handoff;
mod inputs;
mod interrupt;
mod join;
mod keep;
mod lifecycle;
mod memory;
mod mock_agent;
mod models;
mod next;
mod outcomes;
mod perform;
mod prompts;
mod pure;
mod refusal;
mod replay;
mod retry;
mod stops;
mod supervise;
mod talk;
mod unreadable;
mod values;
mod view;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use callboard_protocol::{Event, Failure, NodeId, Object, Remembered, RunId, Timestamp};

pub use answer::Answered;
pub use cause::Cause;
pub use child::{ChildOrder, ChildUpdate, LiveChild, status_for_parent};
pub use command::{Command, Fact, Outcome, Refusal, RetryClass};
pub use fact::{AgentFact, Invoked, ToolCalled, ToolReturned};
pub use interrupt::InterruptView;
pub use memory::{MemoryView, is_memory_ref, is_summary};
pub use models::{KeptModels, ModelName};
pub use outcomes::OutcomeCounts;
pub use prompts::PromptComparison;
pub use refusal::{ModelTurn, RefusalDivergence, model_turns};
pub use retry::{RetryChange, RetryRefusal, RetryTerms, retry_place};
pub use unreadable::Unreadable;
pub use view::{Attempt, Task};
pub use write::OutsideWrite;

use crate::birth::Birth;
use crate::graph::NodeIndex;
use crate::interrupt::OpenInterrupt;
use crate::mask::Mask;
use crate::node::NodeKind;
use crate::plan::Plan;
use crate::work::{DECISION, Work};
use announced::Announced;
use effort::Effort;
use flow::Flow;
use lifecycle::{Lifecycle, Phase};
use stops::Stops;
use values::Values;

/// How many events one decide may emit. A longer chain owes `Continue`, so that no append grows without bound.
const MAX_BATCH: usize = 256;

/// One event at its place in the log.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub sequence: u64,
    pub at: Timestamp,
    pub event: Event,
    /// What the event answers, where the protocol asks for it. The fold needs none of it.
    pub cause: Option<Cause>,
}

/// One run: a birth record, a plan and the fold of a log.
#[derive(Debug, Clone)]
pub struct Run {
    birth: Arc<Birth>,
    plan: Arc<Plan>,
    version: u64,
    lifecycle: Lifecycle,
    stops: Stops,
    nodes: Vec<NodeState>,
    flow: Flow,
    values: Values,
    /// The runs that nodes of this one have started, in their order.
    children: Vec<child::Child>,
    /// Questions that have been asked and not settled.
    interrupts: BTreeMap<NodeIndex, OpenInterrupt>,
    /// Whether any question was ever asked; most runs ask none.
    has_asked: bool,
    announced: Announced,
    /// The node whose agent works on the run, or did last.
    agent_at: Option<NodeIndex>,
    /// Agents between which control has passed, with no event for it yet.
    owed_handoff: Option<(NodeIndex, NodeIndex)>,
    /// What supervisors have decided, and for whom.
    orchestra: supervise::Orchestra,
    /// What a replay goes through again; empty in every other run.
    script: replay::Script,
    models: models::Models,
    /// Completed visits whose outputs are an artifact, with no event for it yet.
    owed_artifacts: BTreeSet<(NodeIndex, u32)>,
    /// What this run has remembered, with what came from children that completed.
    remembered: BTreeSet<Remembered>,
    /// What was written into the workspace.
    files: files::Files,
    /// What was used of the run's budget.
    account: budget::Account,
    effort: Effort,
}

#[derive(Debug, Clone, Default)]
struct NodeState {
    stage: Stage,
    visit: u32,
    attempt: u32,
    /// Failed attempts of this visit; fresh starts after a pause or a takeover are not failures.
    failures: u32,
    /// Facts recorded within this visit: writes of a pure node, chunks of an activity.
    facts: u32,
    /// What agents have reported within this visit.
    recorded: fact::RecordedFacts,
    /// How often agents have begun to work on the node in the whole run.
    invocations: u32,
    /// What the ports held when the attempt started.
    inputs: Object,
    /// Why the ports could not be resolved.
    unresolved: Option<Failure>,
    outputs: Object,
    /// The last settled question of this visit.
    resumed: Option<Answered>,
    /// The last one that was not about a budget.
    decided: Option<Answered>,
    /// How many questions the node has asked in the whole run.
    asked: u32,
    /// The run that this visit has started, by its place among the children.
    child: Option<usize>,
    /// The conversation that this visit holds.
    talk: Option<talk::Talk>,
    /// What a supervisor has decided in this visit.
    ruling: Option<supervise::Ruling>,
    /// The recorded checksum of the outputs of this visit's child.
    attested: Option<String>,
    /// What this visit has remembered.
    remembered: Vec<Remembered>,
    /// The decision that this visit carries out.
    dispatching: Option<dispatch::Dispatching>,
    started_at: Option<Timestamp>,
    ended_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Default, PartialEq)]
enum Stage {
    /// Not reached, or re-opened by a loop.
    #[default]
    Waiting,
    Active,
    /// Was active when a pause or a takeover stopped it; starts afresh.
    Interrupted,
    Retrying {
        not_before: Timestamp,
    },
    /// Waits for an answer; nobody is held meanwhile.
    Suspended,
    Completed,
    Failed(Failure),
    Skipped,
    Cancelled,
}

impl Stage {
    fn is_settled(&self) -> bool {
        matches!(self, Self::Completed | Self::Failed(_) | Self::Skipped | Self::Cancelled)
    }
}

/// What becomes of a node whose upstreams have decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Start,
    Skip,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LoopState {
    iterations: u32,
    turn: Turn,
    /// Whether it would have gone round again, had its bound let it.
    is_cut: bool,
}

impl LoopState {
    const FRESH: Self = Self { iterations: 0, turn: Turn::Open, is_cut: false };
}

/// Where a loop stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// Some node of its body is still to settle.
    Open,
    /// Everything settled and an edge leads back: the header starts again.
    Again,
    /// An edge leads back, but the bound is reached; that is to be recorded.
    Limit,
    /// It will not go round again: what follows the loop may run.
    Closed,
}

impl Run {
    /// A run before its first event.
    pub fn new(birth: Arc<Birth>, plan: Arc<Plan>) -> Self {
        let mut run = Self::unopened(birth, plan);
        run.open_variables();
        run.values.given = run.values.taken;
        run
    }

    /// Something small to leave in a run's place while the run itself is elsewhere. It holds nothing, and is not to be
    /// looked at.
    pub fn stand_in(&self) -> Self {
        Self::unopened(self.birth.clone(), self.plan.clone())
    }

    fn unopened(birth: Arc<Birth>, plan: Arc<Plan>) -> Self {
        Self {
            version: 0,
            lifecycle: Lifecycle::of(&birth),
            stops: Stops::default(),
            nodes: vec![NodeState::default(); plan.nodes().len()],
            flow: Flow::of(&plan),
            values: Values::of(&birth),
            children: Vec::new(),
            interrupts: BTreeMap::new(),
            has_asked: false,
            announced: Announced::default(),
            agent_at: None,
            owed_handoff: None,
            orchestra: supervise::Orchestra::default(),
            script: replay::Script::default(),
            models: models::Models::default(),
            owed_artifacts: BTreeSet::new(),
            remembered: BTreeSet::new(),
            files: files::Files::default(),
            account: budget::Account::default(),
            effort: Effort::default(),
            birth,
            plan,
        }
    }

    /// Folds a whole log.
    pub fn replay(birth: Arc<Birth>, plan: Arc<Plan>, log: &[Entry]) -> Self {
        let mut run = Self::new(birth, plan);
        for entry in log {
            run.apply(entry);
        }
        run
    }

    /// Carries out a command: emits its events and all that must follow, applying as it emits.
    ///
    /// A refusal leaves the run as it was. When the returned entries cannot be appended, drop the value.
    pub fn decide(&mut self, command: &Command, now: Timestamp) -> Result<Vec<Entry>, Refusal> {
        if let Some(unreadable) = &self.stops.unreadable {
            return Err(Refusal::Unreadable(unreadable.clone()));
        }
        // A clock that jumped back must not make the log do so.
        let at = now.max(self.lifecycle.updated_at);
        let mut batch = Vec::new();
        let events = self.accept(command, at)?;
        self.effort.decided = 0;
        for event in events {
            self.emit(event, at, &mut batch);
        }
        while batch.len() < MAX_BATCH && self.effort.decided < DECISION {
            let mut work = Work::default();
            let Some((event, at)) = self.follow_up(at, &mut work) else { break };
            self.effort.decided += work.spent();
            self.emit(event, at, &mut batch);
        }
        Ok(batch)
    }

    /// How much work the last decision was: at most [`MOST_WORK`](crate::MOST_WORK).
    pub fn decided_work(&self) -> u64 {
        self.effort.decided
    }

    /// What must come next, and when it happens.
    fn follow_up(&self, at: Timestamp, work: &mut Work) -> Option<(Event, Timestamp)> {
        if self.is_rehearsing() {
            self.rehearsed(work)
        } else {
            self.next(at, work).map(|event| (event, at))
        }
    }

    /// The event's payload as readers may see it, if the fold must see another.
    pub fn masked(&self, event: &Event) -> Option<Value> {
        self.mask().payload(event)
    }

    /// The inputs as readers may see them, if they hold something sensitive.
    pub fn masked_inputs(&self) -> Option<Object> {
        self.mask().inputs(&self.birth.inputs)
    }

    pub fn id(&self) -> &RunId {
        &self.birth.run_id
    }

    pub fn birth(&self) -> &Arc<Birth> {
        &self.birth
    }

    /// How many events the run has folded.
    pub fn version(&self) -> u64 {
        self.version
    }

    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// The versions that were pinned so far, by change id.
    pub fn pins(&self) -> &BTreeMap<String, i64> {
        &self.values.pins
    }

    fn emit(&mut self, event: Event, at: Timestamp, batch: &mut Vec<Entry>) {
        let cause = self.cause(&event);
        let mut entry = Entry { sequence: self.version, at, event, cause };
        self.apply(&entry);
        if let Some(evaluated) = self.effort.evaluated.take() {
            entry.event.keep_evaluated(evaluated);
        }
        self.effort.decided += self.effort.step.spent() + self.weighing();
        batch.push(entry);
    }

    fn mask(&self) -> Mask<'_> {
        Mask { plan: &self.plan, sensitive: &self.values.sensitive }
    }

    /// How a node comes to its end in this run: one that an agent performs is performed, whatever its type. Once an
    /// agent that supervises has decided, the rest is the run's.
    fn kind(&self, index: NodeIndex) -> NodeKind {
        let node = self.plan.node(index);
        let is_pinned = self.birth.agents.contains_key(&node.node.id);
        let is_performed = is_pinned && self.nodes[index].ruling.is_none();
        if is_performed { NodeKind::Activity } else { node.kind }
    }

    /// The try that a node is at.
    fn attempt(&self, index: NodeIndex) -> Attempt {
        let state = &self.nodes[index];
        Attempt { node: self.node_id(index), visit: state.visit, number: state.attempt }
    }

    /// Whether the run was cancelled, broke a limit, cannot be folded or was ended by its supervisor: it stops its
    /// nodes, then itself.
    fn is_ending(&self) -> bool {
        self.stops.ends_the_run() || self.orchestra.ended_by.is_some()
    }

    fn node_id(&self, index: NodeIndex) -> NodeId {
        self.plan.node(index).node.id.clone()
    }
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
