//! What can be asked of a run, and why it may be refused.

use callboard_protocol::{
    CancelRequested, ChannelName, ChunkMeta, DrainPolicy, Event, Failure, FileVersion,
    MemoryCompacted, MemoryConsolidated, MemoryWritten, NodeCompleted, NodeId, NodeRetried, Object,
    OutputChunk, PauseRequested, Principal, RunCancelled, RunId, RunPaused, RunResumed, RunStarted,
    RunStatus, Timestamp, VersionPinned, WorkflowId,
};

use super::child::ChildUpdate;
use super::fact::AgentFact;
use super::unreadable::Unreadable;
use super::view::Attempt;
use super::write::OutsideWrite;
use super::{Phase, Run, Stage};
use crate::bounds::{weigh, weigh_fields};
use crate::budget::Overdrawn;
use crate::graph::NodeIndex;
use crate::interrupt::{Question, Resolution};
use crate::node::NodeKind;
use crate::secrets::redact_text;

#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// The first holder begins.
    Start,
    /// A new holder goes on where another was lost.
    Adopt,
    /// The first holder of a branch leaves its source's history.
    Branch,
    /// Time has passed, or a batch was cut: do what is due.
    Continue,
    /// An activity has come to its end.
    Finish {
        attempt: Attempt,
        outcome: Outcome,
    },
    /// An activity has something to record while it performs a node.
    RecordFacts {
        attempt: Attempt,
        facts: Vec<Fact>,
    },
    Cancel {
        reason: Option<String>,
        by: Option<Principal>,
        /// The parent that takes this run with it.
        parent: Option<RunId>,
    },
    Pause {
        drain: DrainPolicy,
        reason: Option<String>,
    },
    Resume {
        reason: Option<String>,
    },
    /// A person answers a node's question.
    Resolve(Resolution),
    /// A child is created with this; both happen or neither.
    Dispatch {
        attempt: Attempt,
        child: RunId,
        workflow: WorkflowId,
    },
    /// A child could not be created.
    Undispatch {
        attempt: Attempt,
        workflow: WorkflowId,
        failure: Failure,
    },
    /// A child has moved.
    UpdateChild(ChildUpdate),
    /// A caller from outside writes into one of the run's channels.
    Write(OutsideWrite),
    /// A caller from outside sets variables; only tests do.
    SetVariables(Object),
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    Done {
        outputs: Object,
    },
    Failed {
        failure: Failure,
        class: RetryClass,
    },
    /// A person must be asked first; the answer is an input of the next attempt.
    Suspend(Question),
    /// A service asked to be left alone until then; the next attempt goes on where this one was.
    Later {
        until: Timestamp,
        failure: Failure,
    },
}

/// Whether trying again can help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryClass {
    Retryable,
    Final,
}

/// Something that happened within an attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum Fact {
    /// A piece of streamed text. Its index within the visit makes a repetition harmless.
    Chunk {
        index: u32,
        text: String,
        is_last: bool,
        meta: Option<ChunkMeta>,
    },
    /// A fact of an agent. Its place among the facts of its kind within the visit makes a repetition harmless.
    Agent {
        place: u32,
        fact: AgentFact,
    },
    /// A version that this run keeps for a change in the code.
    Pin {
        change_id: String,
        version: i64,
    },
    /// Something to remember, which is written to the journal with this. Its entry and version make a repetition
    /// harmless.
    Memory(MemoryWritten),
    /// A file that is written with this. Its path and version make a repetition harmless.
    File(FileVersion),
    /// A model is about to be asked. Sent where the run has a budget: with nothing left, the run stops here.
    Calling,
    /// The daily limit of an account that pays for the run is reached: a person is asked.
    Overdrawn(Overdrawn),
    /// Entries have become one; what was written for it is recorded with this, once in a visit.
    Compacted(MemoryCompacted),
    Consolidated(MemoryConsolidated),
}

/// Core's answer to a command that the state does not allow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// What an event said is not known, so nothing that follows from it is.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    #[error("the run has ended: {}", status.as_str())]
    Ended { status: RunStatus },
    #[error("the run has already started")]
    AlreadyStarted,
    #[error("the run is {}, not paused", status.as_str())]
    NotPaused { status: RunStatus },
    #[error("a run that is {} cannot be paused", status.as_str())]
    CannotPause { status: RunStatus, paused_at: Option<Timestamp> },
    /// It will be paused as soon as what is under way has ended.
    #[error("the run is being paused already")]
    PauseUnderWay { status: RunStatus },
    #[error("node {node} asks nothing")]
    NoInterrupt { node: NodeId },
    #[error("node {node} has its answer already")]
    AlreadyResolved { node: NodeId },
    #[error("the answer to node {node} does not fit: {why}")]
    InvalidAnswer { node: NodeId, why: String },
    #[error("the event is not for node {node}: {why}")]
    Uncorrelated { node: NodeId, why: String },
    /// A signed link is not enough for this gate.
    #[error("node {node} takes answers only from a caller with a key")]
    KeyRequired { node: NodeId },
    #[error("only the approvers that node {node} lists may decide")]
    NotAnApprover { node: NodeId },
    /// A caller answers in another's name.
    #[error("node {node} was answered in another's name, which this caller may not do")]
    NotADelegate { node: NodeId },
    #[error("the workflow declares no channel {channel}")]
    UnknownChannel { channel: ChannelName },
    /// The outcome would depend on the order in which writes arrive.
    #[error("channel {channel} uses reducer {reducer}, which forbids writes from outside the run")]
    ForeignWrite {
        channel: ChannelName,
        reducer: String,
        source_engine_id: Option<String>,
        source_run_id: Option<RunId>,
    },
    #[error("channel {channel} takes writes only of the nodes that it lists")]
    NotAWriter {
        channel: ChannelName,
        source_engine_id: Option<String>,
        source_run_id: Option<RunId>,
    },
    #[error("{why}")]
    InvalidWrite { channel: ChannelName, why: String },
    #[error("{name} is a channel, not a variable")]
    NotAVariable { name: String },
    #[error("a replay takes nothing from outside; branch off instead")]
    IsReplay,
    /// A late answer from an attempt that was given up must not move the run.
    #[error("attempt {} of node {} is no longer current", attempt.number, attempt.node)]
    StaleAttempt { attempt: Attempt },
}

impl Run {
    /// The events that a command itself stands for.
    pub(super) fn accept(&self, command: &Command, at: Timestamp) -> Result<Vec<Event>, Refusal> {
        if let Phase::Ended { status, .. } = self.lifecycle.phase {
            return Err(match command {
                Command::Resolve(resolution) if self.plan.index(&resolution.node).is_none() => {
                    Refusal::NoInterrupt { node: resolution.node.clone() }
                }
                _ => Refusal::Ended { status },
            });
        }
        match command {
            // A replay only ever goes on: what began it, stopped it and answered it is in its source.
            Command::Start | Command::Adopt | Command::Branch if self.birth.is_replay() => {
                Ok(Vec::new())
            }
            Command::Pause { .. } if self.birth.is_replay() => {
                Err(Refusal::CannotPause { status: self.status(), paused_at: None })
            }
            Command::Resolve(resolution) if self.birth.is_replay() => {
                Err(Refusal::NoInterrupt { node: resolution.node.clone() })
            }
            Command::Write(_) | Command::SetVariables(_) if self.birth.is_replay() => {
                Err(Refusal::IsReplay)
            }
            Command::Start if self.lifecycle.phase != Phase::Pending => {
                Err(Refusal::AlreadyStarted)
            }
            Command::Start => Ok(self.opening()),
            Command::Adopt => Ok(self.on_adopt()),
            Command::Branch => Ok(self.on_branch()),
            Command::Continue => Ok(Vec::new()),
            Command::Finish { attempt, outcome } => self.on_finish(attempt, outcome, at),
            Command::RecordFacts { attempt, facts } => self.on_facts(attempt, facts),
            Command::Cancel { reason, by, parent } => {
                let request = CancelRequested {
                    reason: said(reason.as_ref()),
                    cancelled_by: by.clone(),
                    parent_run_id: parent.clone(),
                };
                Ok(self.on_cancel(request, at))
            }
            Command::Dispatch { attempt, child, workflow } => {
                self.on_dispatch(attempt, child, workflow)
            }
            Command::Undispatch { attempt, workflow, failure } => {
                self.on_dispatch_failure(attempt, workflow, failure)
            }
            Command::UpdateChild(update) => Ok(self.on_child_update(update)),
            Command::Write(write) => self.on_write(write, at),
            Command::SetVariables(variables) => self.on_set_variables(variables),
            Command::Resolve(resolution) => self.on_answer(resolution, at),
            Command::Pause { drain, reason } => self.on_pause(*drain, reason.as_ref()),
            Command::Resume { reason } => self.on_resume(reason.as_ref()),
        }
    }

    fn on_resume(&self, reason: Option<&String>) -> Result<Vec<Event>, Refusal> {
        match self.lifecycle.phase {
            Phase::Paused { .. } => {
                Ok(vec![Event::RunResumed(RunResumed { reason: said(reason) })])
            }
            Phase::Pending | Phase::Running | Phase::Ended { .. } => {
                Err(Refusal::NotPaused { status: self.status() })
            }
        }
    }

    pub(super) fn started(&self) -> Event {
        let birth = &self.birth;
        Event::RunStarted(RunStarted {
            workflow_id: birth.workflow_id.clone(),
            inputs: birth.inputs.clone(),
            transport: Some("rest".into()),
            engine_version: Some(birth.stamped_version().to_string()),
            owner: Some(birth.owner.clone()),
            tags: birth.tags.clone(),
            metadata: birth.metadata.clone(),
        })
    }

    fn on_adopt(&self) -> Vec<Event> {
        let mut events = self.opening();
        if self.lifecycle.phase == Phase::Running {
            let reason = Some("taken over from a lost holder".into());
            events.push(Event::RunResumed(RunResumed { reason }));
        }
        events
    }

    fn on_finish(
        &self,
        attempt: &Attempt,
        outcome: &Outcome,
        at: Timestamp,
    ) -> Result<Vec<Event>, Refusal> {
        let index = self.current(attempt)?;
        let supervises = self.plan.node(index).kind == NodeKind::Supervisor;
        let came_to = match outcome {
            Outcome::Done { outputs } if supervises => self.ruled(index, outputs),
            Outcome::Done { outputs } => self.completed(index, outputs.clone(), at),
            Outcome::Failed { failure, class } => {
                self.failed_or_retried(index, failure.clone(), *class)
            }
            Outcome::Suspend(question) => match weigh(&question.data) {
                Ok(_) => self.asked(index, question.clone()),
                Err(failure) => self.failed_or_retried(index, failure, RetryClass::Final),
            },
            Outcome::Later { until, failure } => Event::NodeRetried(NodeRetried {
                node_id: self.node_id(index),
                attempt: self.nodes[index].attempt + 1,
                delay_ms: super::millis(until.since(at)),
                last_error: Some(failure.clone()),
                postponed: true,
            }),
        };
        // A failure without an event of its own, as where the agent is gone, leaves its invocation open.
        let mut events = match came_to {
            Event::NodeFailed(_) => self.fact_writer(index).loose_ends(),
            _ => Vec::new(),
        };
        events.push(came_to);
        Ok(events)
    }

    fn on_facts(&self, attempt: &Attempt, facts: &[Fact]) -> Result<Vec<Event>, Refusal> {
        let index = self.current(attempt)?;
        let mut known = self.nodes[index].facts;
        let mut events: Vec<Event> = Vec::new();
        let mut fact_writer = self.fact_writer(index);
        for fact in facts {
            if let Fact::Agent { place, fact } = fact {
                events.extend(fact_writer.events_of(*place, fact));
            } else if let Fact::Calling = fact {
                events.extend(self.barred_call(index));
            } else if let Fact::Overdrawn(over) = fact {
                events.extend(self.overdrawn(index, over));
            } else if let Some(event) = self.fact(index, known, fact) {
                let is_named = matches!(
                    event,
                    Event::VersionPinned(_) | Event::MemoryWritten(_) | Event::WorkspaceUpdated(_)
                );
                known += u32::from(!is_named);
                if !events.iter().any(|earlier| is_same_named(earlier, &event)) {
                    events.push(event);
                }
            }
        }
        let calls =
            events.iter().filter(|event| matches!(event, Event::AgentToolCalled(_))).count();
        events.extend(self.barred_tools(index, calls as u64));
        Ok(events)
    }

    /// The event of a fact that is new to a visit which has recorded `known` of them.
    fn fact(&self, index: NodeIndex, known: u32, fact: &Fact) -> Option<Event> {
        let node_id = self.node_id(index);
        match fact {
            Fact::Chunk { index, .. } if *index < known => None,
            Fact::Chunk { text, is_last, meta, .. } => Some(Event::OutputChunk(OutputChunk {
                node_id,
                run_id: self.told_id().clone(),
                chunk: text.clone(),
                is_last: *is_last,
                meta: meta.clone(),
                attempt: None,
            })),
            Fact::Agent { .. } | Fact::Calling | Fact::Overdrawn(_) => None,
            Fact::Pin { change_id, .. } if self.values.pins.contains_key(change_id) => None,
            Fact::Pin { change_id, version } => Some(Event::VersionPinned(VersionPinned {
                change_id: change_id.clone(),
                version: *version,
                node_id: Some(node_id),
            })),
            Fact::Memory(written) => self.memory_fact(written),
            Fact::File(file) => self.file_fact(index, file),
            Fact::Compacted(_) | Fact::Consolidated(_) if known > 0 => None,
            Fact::Compacted(payload) => Some(Event::MemoryCompacted(MemoryCompacted {
                node_id: Some(node_id),
                ..payload.clone()
            })),
            Fact::Consolidated(payload) => Some(Event::MemoryConsolidated(MemoryConsolidated {
                node_id: Some(node_id),
                ..payload.clone()
            })),
        }
    }

    pub(super) fn current(&self, attempt: &Attempt) -> Result<NodeIndex, Refusal> {
        let stale = || Refusal::StaleAttempt { attempt: attempt.clone() };
        let index = self.plan.index(&attempt.node).ok_or_else(stale)?;
        let state = &self.nodes[index];
        let kind = self.kind(index);
        let is_current = state.stage == Stage::Active
            && state.visit == attempt.visit
            && state.attempt == attempt.number
            && (!kind.is_pure() || kind.waits_for_children());
        if is_current { Ok(index) } else { Err(stale()) }
    }

    fn on_cancel(&self, request: CancelRequested, at: Timestamp) -> Vec<Event> {
        let mut events = self.opening();
        if self.stops.cancel.is_some() {
            return events;
        }
        events.push(match self.flow.active.is_empty() {
            true => Event::RunCancelled(self.cancellation(&request, at)),
            false => Event::CancelRequested(request),
        });
        events
    }

    pub(super) fn cancellation(&self, request: &CancelRequested, at: Timestamp) -> RunCancelled {
        RunCancelled {
            reason: request.reason.clone(),
            cancelled_by: request.cancelled_by.clone(),
            duration_ms: self.lifecycle.duration_ms(at),
            parent_run_id: request.parent_run_id.clone(),
        }
    }

    fn on_pause(&self, drain: DrainPolicy, reason: Option<&String>) -> Result<Vec<Event>, Refusal> {
        let paused_at =
            if let Phase::Paused { since } = self.lifecycle.phase { Some(since) } else { None };
        let status = self.status();
        if paused_at.is_some() || status == RunStatus::Cancelling || status.is_waiting() {
            return Err(Refusal::CannotPause { status, paused_at });
        }
        if self.stops.drain.is_some() {
            return Err(Refusal::PauseUnderWay { status });
        }
        let (reason, mut events) = (said(reason), self.opening());
        if drain == DrainPolicy::DrainCurrentNode && self.is_busy() {
            events.push(Event::PauseRequested(PauseRequested { reason }));
        } else {
            events.push(Event::RunPaused(RunPaused { reason, drain_policy: drain }));
        }
        Ok(events)
    }

    /// A node's end, which is a failure where the run cannot keep what it came to.
    pub(super) fn completed(&self, index: NodeIndex, outputs: Object, at: Timestamp) -> Event {
        if let Err(failure) = weigh_fields(&outputs).and_then(|weight| self.has_room(weight)) {
            return self.failed_or_retried(index, failure, RetryClass::Final);
        }
        let started = self.nodes[index].started_at.unwrap_or(at);
        Event::NodeCompleted(NodeCompleted {
            node_id: self.node_id(index),
            outputs,
            duration_ms: super::millis(at.since(started)),
            evaluated: None,
        })
    }

    /// Whether some node is in the middle of something that a drain waits for.
    pub(super) fn is_busy(&self) -> bool {
        // A child goes its own way; its end is recorded after the pause.
        self.flow.active.iter().any(|index| {
            self.nodes[*index].stage == Stage::Active && !self.kind(*index).waits_for_children()
        })
    }
}

/// A reason as it goes into the log, which keeps nobody's credentials.
fn said(reason: Option<&String>) -> Option<String> {
    reason.map(|reason| redact_text(reason))
}

/// Whether two facts that need no index, because they have names, are the same.
fn is_same_named(earlier: &Event, later: &Event) -> bool {
    match (earlier, later) {
        (Event::VersionPinned(earlier), Event::VersionPinned(later)) => {
            earlier.change_id == later.change_id
        }
        (Event::MemoryWritten(earlier), Event::MemoryWritten(later)) => {
            earlier.remembered() == later.remembered()
        }
        (Event::WorkspaceUpdated(earlier), Event::WorkspaceUpdated(later)) => {
            earlier.file() == later.file()
        }
        _ => false,
    }
}
