//! The port to whatever performs a node outside of core: a model turn, a tool, a coding agent.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot};

use callboard_core::{
    AgentFact, AgentPin, Answered, Attempt, Birth, Fact, KeptModels, Outcome, OutcomeCounts, Pin,
    RunBudget, Task, TraceContext, pin_version,
};
use callboard_protocol::{
    AgentRef, AgentSession, EnvelopeKind, Failure, NodeId, Object, Principal, Remembered, RunId,
    Tenant, Timestamp, TypeId, Workspace,
};

use crate::budget::Payers;
use crate::clock::Clock;
use crate::files::{FileAccess, FileRow};
use crate::memory::{MemoryAccess, MemoryDraft};
use crate::secrets::{Resolved, Secrets};
use crate::store::{Claim, KeyMode, Scope, Store};
use crate::sub_runs::StartChild;

/// Performs one kind of node.
#[async_trait]
pub trait Activity: fmt::Debug + Send + Sync {
    /// Performs one attempt. Dropping the future stops the work.
    async fn perform(&self, call: Call) -> Outcome;

    /// How authors are shown a type that no table describes.
    fn describe(&self) -> Option<serde_json::Value> {
        None
    }

    /// What models answer today to what a node asked in its past, turn by turn, as far as asking costs nothing and
    /// reaches nobody. A replay compares in which turns they refuse.
    async fn rehearse(&self, _past: Past<'_>) -> Vec<EnvelopeKind> {
        Vec::new()
    }

    /// What a node would record of its prompts today, though it asked in the past; none where nobody can say. A replay
    /// compares it with what was recorded.
    async fn prompts(&self, _past: PastTask<'_>) -> Option<Vec<AgentFact>> {
        None
    }
}

/// A node of a run that is to be replayed.
#[derive(Debug, Clone, Copy)]
pub struct Past<'a> {
    pub tenant: &'a Tenant,
    pub node: &'a NodeId,
    pub config: &'a Object,
    pub configurable: &'a Object,
    /// How often a model was asked.
    pub turns: usize,
}

/// One attempt in a run that is to be replayed, as it was begun.
#[derive(Debug, Clone, Copy)]
pub struct PastTask<'a> {
    /// The run that the log names.
    pub run: &'a RunId,
    pub birth: &'a Birth,
    pub task: &'a Task,
    /// The prompts that the definition names for its nodes: kind → ref.
    pub prompt_defaults: Option<&'a Object>,
    pub(crate) secrets: &'a Secrets,
}

/// Which activity performs which node type.
#[derive(Debug, Clone, Default)]
pub struct Activities {
    by_type: BTreeMap<TypeId, Arc<dyn Activity>>,
    agents: Option<Arc<dyn Activity>>,
}

impl Activities {
    #[must_use]
    pub fn with(mut self, type_id: &str, activity: Arc<dyn Activity>) -> Self {
        self.by_type.insert(type_id.into(), activity);
        self
    }

    /// Says who performs nodes that an agent is pinned to.
    #[must_use]
    pub fn with_agents(mut self, activity: Arc<dyn Activity>) -> Self {
        self.agents = Some(activity);
        self
    }

    pub fn find(&self, task: &Task) -> Option<&Arc<dyn Activity>> {
        match task.agent {
            Some(_) => self.agents.as_ref(),
            None => self.by_type.get(&task.type_id),
        }
    }

    pub(crate) fn of_type(&self, type_id: &TypeId) -> Option<&Arc<dyn Activity>> {
        self.by_type.get(type_id)
    }

    /// What is shown of the types that no table describes, by type id.
    pub(crate) fn described(&self) -> Vec<serde_json::Value> {
        self.by_type.values().filter_map(|activity| activity.describe()).collect()
    }

    pub fn types(&self) -> impl Iterator<Item = &TypeId> {
        self.by_type.keys()
    }
}

/// One attempt, with all that the activity may know and the one way to record progress.
#[derive(Debug)]
pub struct Call {
    pub run: RunId,
    pub tenant: Tenant,
    pub(crate) mode: KeyMode,
    /// Who created the run.
    pub principal: Option<Principal>,
    /// The only scopes of theirs that the run may use, where a parent has narrowed them.
    pub principal_scope: Option<Vec<String>>,
    pub attempt: Attempt,
    pub type_id: TypeId,
    pub config: Object,
    pub inputs: Object,
    pub configurable: Object,
    /// Whether strangers' words may be among the inputs.
    pub from_outside: bool,
    /// The workspace of the run's owner.
    pub workspace: Option<Workspace>,
    /// The prompts that the definition names for its nodes: kind → ref.
    pub prompt_defaults: Option<Object>,
    /// The agent that is to perform it, in the version that the run keeps.
    pub agent: Option<AgentPin>,
    /// The agent that the definition names, installed or not.
    pub named: Option<AgentRef>,
    /// How many facts earlier attempts of this visit have recorded: those need not be recorded again.
    pub facts_recorded: u32,
    /// How the last question of an earlier attempt was settled.
    pub answer: Option<Answered>,
    /// The last of those answers that was not about a budget: it still holds when one is asked for afterwards.
    pub decision: Option<Answered>,
    /// How many outcomes of outward calls this visit has recorded before this attempt.
    pub outcomes: OutcomeCounts,
    /// Which models the visit must go on with.
    pub models: KeptModels,
    /// Where a coding agent worked in an earlier attempt of this visit.
    pub session: Option<AgentSession>,
    /// How many entries of its earlier turns the agent is shown.
    pub transcript_window: usize,
    /// Whether an agent has called a tool in this visit, as far as that was recorded before this attempt.
    pub has_called_tools: bool,
    pub memory: MemoryAccess,
    /// The files of the run's workspace.
    pub files: FileAccess,
    /// What the run may use.
    pub(crate) budget: Option<RunBudget>,
    /// Who pays for it by the day.
    pub(crate) payers: Payers,
    /// The place in the run's trace that whatever this calls belongs under.
    pub trace: TraceContext,
    /// The runs whose histories this one goes on with, the latest first.
    pub(crate) forebears: Vec<RunId>,
    pub(crate) claim: Claim,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) secrets: Secrets,
    pub(crate) resolved: Resolved,
    pub(crate) pins: BTreeMap<String, i64>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) fact_sender: FactSender,
}

impl Call {
    /// Under which the run is driven.
    pub fn claim(&self) -> &Claim {
        &self.claim
    }

    /// Where the run belongs, and so what it can name.
    pub fn scope(&self) -> Scope {
        let (tenant, workspace) = (self.tenant.clone(), self.workspace.clone());
        Scope { tenant, workspace, mode: self.mode }
    }

    /// Records facts and returns once they are on disk. An error means that this attempt no longer counts.
    pub async fn record(&self, facts: Vec<Fact>) -> Result<(), Superseded> {
        match self.fact_sender.send(self.attempt.clone(), facts, Kept::default()).await {
            Ok(()) => Ok(()),
            Err(Unrecorded::Superseded(_) | Unrecorded::Moved) => Err(Superseded),
        }
    }

    /// Which side of a change in the code this run is on. The first answer is the newest and is kept for good.
    pub async fn version(
        &mut self,
        change_id: &str,
        min: i64,
        max: i64,
    ) -> Result<i64, VersionError> {
        match pin_version(&self.pins, change_id, min, max)? {
            Pin::Known(version) => Ok(version),
            Pin::New(version) => {
                self.record(vec![Fact::Pin { change_id: change_id.to_owned(), version }]).await?;
                self.pins.insert(change_id.to_owned(), version);
                Ok(version)
            }
        }
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Waits, on the engine's clock.
    pub async fn pause(&self, duration: std::time::Duration) {
        self.clock.sleep_until(self.clock.now().plus(duration)).await;
    }
}

/// Why an activity got no version.
#[derive(Debug, thiserror::Error)]
pub enum VersionError {
    #[error(transparent)]
    Superseded(#[from] Superseded),
    /// The attempt must fail with this.
    #[error("{}", .0.message)]
    OutOfRange(Failure),
}

impl From<Failure> for VersionError {
    fn from(failure: Failure) -> Self {
        Self::OutOfRange(failure)
    }
}

/// The run has moved on without this attempt: cancelled, paused, or taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the attempt is no longer the run's current one")]
pub struct Superseded;

/// What an activity has to say to the driver.
#[derive(Debug)]
pub(crate) enum Message {
    Facts(SentFacts),
    StartChild(StartChild),
    /// Answered once the run knows what its children have come to.
    ChildUpdates(oneshot::Sender<()>),
}

/// Facts on their way to the driver.
#[derive(Debug)]
pub(crate) struct SentFacts {
    pub(crate) attempt: Attempt,
    pub(crate) facts: Vec<Fact>,
    pub(crate) kept: Kept,
    pub(crate) recorded: oneshot::Sender<Result<(), Unrecorded>>,
}

/// What is written together with facts.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub(crate) memory: Vec<(Remembered, MemoryDraft)>,
    pub(crate) files: Vec<FileRow>,
}

impl Kept {
    pub(crate) fn file(row: FileRow) -> Self {
        Self { memory: Vec::new(), files: vec![row] }
    }
}

/// Why a fact was not recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unrecorded {
    Superseded(Superseded),
    /// An entry of memory or a file has moved on.
    Moved,
}

/// The way of an attempt's facts to the driver, which records them.
#[derive(Debug, Clone)]
pub(crate) struct FactSender(pub(crate) mpsc::Sender<Message>);

impl FactSender {
    pub(crate) async fn send(
        &self,
        attempt: Attempt,
        facts: Vec<Fact>,
        kept: Kept,
    ) -> Result<(), Unrecorded> {
        let gone = Unrecorded::Superseded(Superseded);
        let (recorded, answer) = oneshot::channel();
        let message = Message::Facts(SentFacts { attempt, facts, kept, recorded });
        self.0.send(message).await.map_err(|_| gone)?;
        answer.await.map_err(|_| gone)?
    }
}
