//! The attempts of the run that is driven: started, joined, dropped when the run does not owe them any more.

use tokio::task::JoinError;

use callboard_core::{Attempt, Command, Outcome, RetryClass, Task, TraceContext};
use callboard_protocol::Failure;

use super::facts::FactChannel;
use super::{Driver, Left};
use crate::activity::Call;
use crate::budget::{Budgets, Payers};
use crate::engine::EngineError;
use crate::files::{FileAccess, Files};
use crate::memory::{Memory, MemoryAccess, Shared};
use crate::store::KeyMode;

impl Driver<'_> {
    pub(super) fn start_attempts(&mut self) {
        if self.run.attempts().all(|attempt| self.in_flight.contains_key(&attempt)) {
            return;
        }
        let tasks: Vec<Task> =
            self.run.tasks().filter(|task| !self.in_flight.contains_key(&task.attempt)).collect();
        for task in tasks {
            let attempt = task.attempt.clone();
            let handle = match self.engine.inner.activities.find(&task).cloned() {
                Some(activity) => {
                    let call = self.call(task);
                    let named = attempt.clone();
                    self.attempts.spawn(async move { (named, activity.perform(call).await) })
                }
                None => {
                    let named = attempt.clone();
                    let message = format!("this host does not run nodes of type {}", task.type_id);
                    let failure = Failure::new("capability_not_provided", message);
                    self.attempts.spawn(async move {
                        (named, Outcome::Failed { failure, class: RetryClass::Final })
                    })
                }
            };
            self.in_flight.insert(attempt, handle);
        }
    }

    /// Records the outcome of an attempt.
    pub(super) async fn join(
        &mut self,
        joined: Result<(Attempt, Outcome), JoinError>,
    ) -> Result<Option<Left>, EngineError> {
        let (attempt, outcome) = match joined {
            Ok(ended) => ended,
            Err(error) => {
                let mut in_flight = self.in_flight.iter();
                let ours = in_flight.find(|(_, handle)| handle.id() == error.id());
                // One that was stopped here is not among them any more; what is left has panicked.
                let Some((attempt, _)) = ours else { return Ok(None) };
                tracing::error!(openwop.node_id = %attempt.node, "an activity panicked");
                let failure = Failure::new("internal_error", "the host could not perform the node");
                (attempt.clone(), Outcome::Failed { failure, class: RetryClass::Final })
            }
        };
        self.in_flight.remove(&attempt);
        self.record(Command::Finish { attempt, outcome }).await
    }

    /// Drops attempts that the run no longer owes.
    pub(super) fn stop_superseded(&mut self) {
        if self.in_flight.is_empty() {
            return;
        }
        let owed: Vec<Attempt> = self.run.attempts().collect();
        self.in_flight.retain(|attempt, handle| {
            let keep = owed.contains(attempt);
            if !keep {
                handle.abort();
            }
            keep
        });
    }

    fn call(&mut self, task: Task) -> Call {
        let fact_sender = self.fact_channel.get_or_insert_with(FactChannel::new).sender.clone();
        let birth = self.run.birth();
        let inner = &self.engine.inner;
        let pinned = task.agent.as_ref().map(|pin| pin.agent_id.clone());
        let agent = pinned.or_else(|| task.named.as_ref().map(|named| named.agent_id.clone()));
        // What a turn sees does not change while the turn lasts.
        let shared = match self.run.memory_of_turn(&task.attempt.node) {
            Some(view) => Shared::holding(view),
            None => self.memory.clone(),
        };
        let attempt = task.attempt.clone();
        let store = &inner.patient_store;
        let files = Files::new(store.clone());
        let files = FileAccess::new(&self.run, attempt.clone(), files, fact_sender.clone());
        let way = (fact_sender.clone(), shared);
        let (journal, clock) = (Memory::new(store.clone()), inner.clock.clone());
        let memory = MemoryAccess::new(&self.run, attempt.clone(), agent, journal, clock, way);
        Call {
            run: birth.run_id.clone(),
            tenant: birth.owner.tenant.clone(),
            mode: KeyMode::of(birth.test),
            principal: birth.owner.principal.clone(),
            principal_scope: birth.principal_scope.clone(),
            attempt: task.attempt,
            type_id: task.type_id,
            config: task.config,
            inputs: task.inputs,
            configurable: birth.configurable.clone(),
            from_outside: birth.from_outside,
            workspace: birth.owner.workspace.clone(),
            prompt_defaults: self.run.prompt_defaults().cloned(),
            agent: task.agent,
            named: task.named,
            facts_recorded: task.facts_recorded,
            answer: task.answer,
            decision: task.decision,
            outcomes: task.outcomes,
            models: task.models,
            session: task.session,
            transcript_window: usize::try_from(birth.limits.transcript_window)
                .unwrap_or(usize::MAX),
            has_called_tools: task.has_called_tools,
            memory,
            files,
            budget: birth.budget.clone(),
            payers: Payers::of(birth, &inner.limits(), Budgets::new(store.clone())),
            trace: TraceContext::below(birth, &attempt.node, attempt.visit),
            forebears: birth.forebears(),
            claim: self.claim.clone(),
            store: store.clone(),
            secrets: inner.secrets.through(store.clone()),
            resolved: self.resolved.clone(),
            pins: self.run.pins().clone(),
            clock: inner.clock.clone(),
            fact_sender,
        }
    }
}
