//! Drives one claimed run: performs what it owes, records what comes of it, and lets go when it rests.

mod decide;
mod sync_children;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::task::{AbortHandle, JoinError, JoinSet};

use callboard_core::{
    Attempt, Command, Entry, Outcome, RetryClass, Run, SpanContext, Task, TraceContext,
};
use callboard_protocol::{Event, Failure, Timestamp};

use crate::activity::{Call, Message, Superseded, Teller, Told, Untold};
use crate::budget::{Budgets, Payers};
use crate::claim::Signals;
use crate::decisions::Undecided;
use crate::engine::{Engine, EngineError, PreparedRun};
use crate::files::FileAccess;
use crate::memory::{MemoryAccess, Shared};
use crate::places::Place;
use crate::record::refuse_unreadable;
use crate::secrets::Resolved;
use crate::store::{Claim, ClaimOrigin, KeyMode, StoreError};
use crate::unprocessable::{Fate, Trial};
use decide::is_at_rest;

/// How often a holder looks for news of its run's children by itself: those that other hosts drive cannot call it.
const CHILDREN_HEARD_EVERY: Duration = Duration::from_secs(2);
/// How long a run rests that this host cannot drive now: no thread is left, or nobody here can read it. Another host or
/// the next build may be able to.
pub(crate) const TRIED_AGAIN_AFTER: Duration = Duration::from_secs(60);
/// Facts that activities of one run may have under way. They wait for the disk anyway.
const TOLD_IN_FLIGHT: usize = 16;

/// Why a driver leaves.
#[derive(Debug)]
enum Left {
    /// The run rests or has ended, and the claim is given back.
    Released,
    /// The host stops.
    Stopping,
    /// Another holder has the run.
    Lost,
    /// What is stored of the run could not be had.
    Unopened(EngineError),
}

struct Driver<'a> {
    engine: Engine,
    claim: Claim,
    run: Box<Run>,
    attempts: JoinSet<(Attempt, Outcome)>,
    in_flight: BTreeMap<Attempt, AbortHandle>,
    resolved: Resolved,
    /// Made with the first attempt: most runs of plain nodes have none.
    voices: Option<Voices>,
    /// Whether children are being looked after: the run does not rest meanwhile.
    is_syncing: bool,
    /// What attempts see of memory.
    memory: Shared,
    /// The first decision is the one that the last holder may not have survived.
    trial: Option<Trial>,
    /// Speaks when a child has something to tell.
    called: Arc<Notify>,
    /// Knows what the run weighs.
    place: &'a mut Place,
}

/// Something to be decided, with the run that begins if it is.
struct Step {
    command: Command,
    child: Option<PreparedRun>,
}

impl From<Command> for Step {
    fn from(command: Command) -> Self {
        Self { command, child: None }
    }
}

/// What activities have to tell.
struct Voices {
    teller: Teller,
    told: mpsc::Receiver<Message>,
}

impl Voices {
    fn new() -> Self {
        let (sender, told) = mpsc::channel(TOLD_IN_FLIGHT);
        Self { teller: Teller(sender), told }
    }

    /// Cancel-safe: what was told and not taken is kept.
    async fn next(voices: &mut Option<Self>) -> Option<Message> {
        voices.as_mut()?.told.recv().await
    }
}

impl Engine {
    /// Drives a claimed run on a task of its own.
    pub(crate) fn spawn_driver(&self, claim: Claim, place: Place) {
        let engine = self.clone();
        self.inner.tasks.spawn(async move { engine.drive_held(claim, place, None).await });
    }

    /// Drives a claimed run to its rest. One that was just created comes with its state.
    pub(crate) async fn drive_held(&self, claim: Claim, mut place: Place, run: Option<Box<Run>>) {
        let (_held, signals) = self.inner.driving.hold(&claim);
        self.drive(&claim, &mut place, run, signals).await;
        drop(place);
        if self.inner.places.was_wanted() {
            self.inner.nudge.notify_one();
        }
    }

    #[tracing::instrument(name = "run.drive", skip_all, fields(
        openwop.run_id = %claim.run, epoch = claim.epoch, openwop.tenant_id, trace_id
    ))]
    async fn drive(
        &self,
        claim: &Claim,
        place: &mut Place,
        run: Option<Box<Run>>,
        signals: Signals,
    ) {
        let (mut claim, mut run) = (claim.clone(), run);
        loop {
            let trial = if run.is_none() { self.try_out(&claim).await } else { None };
            if self.give_up_if_fatal(&claim, trial.as_ref()).await == Fate::GivenUp {
                return;
            }
            let counted = trial.as_ref().map(|trial| trial.strikes);
            match self.drive_until_left(&claim, place, run.take(), trial, &signals).await {
                Ok(Left::Unopened(error)) => return self.park(&claim, counted, &error).await,
                Ok(left) => return tracing::debug!(?left, "run left"),
                Err(EngineError::Unprocessable { why: why @ Undecided::NoThreads, .. }) => {
                    tracing::error!(%why, "run not driven now");
                    let later = self.inner.clock.now().plus(TRIED_AGAIN_AFTER);
                    return self.release(&claim, None, Some(later)).await;
                }
                Err(error @ EngineError::Unprocessable { why: Undecided::Unreadable(_), .. }) => {
                    return self.park(&claim, counted, &error).await;
                }
                Err(EngineError::Unprocessable { why, .. }) => {
                    if self.judge(&claim, &why, counted).await == Fate::GivenUp {
                        return;
                    }
                    // What was being performed ended with the driver.
                    claim.origin = ClaimOrigin::Lost;
                }
                Err(error) => {
                    // The claim runs out by itself, and whoever takes the run next reads the truth.
                    return tracing::error!(
                        error = &error as &dyn std::error::Error,
                        "run not driven further by this holder"
                    );
                }
            }
        }
    }

    async fn drive_until_left(
        &self,
        claim: &Claim,
        place: &mut Place,
        run: Option<Box<Run>>,
        trial: Option<Trial>,
        signals: &Signals,
    ) -> Result<Left, EngineError> {
        let mut room = None;
        let run = match run {
            Some(run) => Ok(Some(run)),
            None => {
                room = self.inner.places.room().await;
                Box::pin(self.open(&claim.run)).await
            }
        };
        let run = match run {
            Ok(Some(run)) => run,
            Ok(None) => return Ok(Left::Released),
            Err(error @ EngineError::Unprocessable { .. }) => return Err(error),
            Err(error) => return Ok(Left::Unopened(error)),
        };
        self.inner.parked.forget(&claim.run);
        place.weigh(run.weight());
        drop(room);
        let said = tracing::Span::current();
        if !said.is_disabled() {
            said.record("openwop.tenant_id", run.birth().owner.tenant.as_str());
            said.record("trace_id", SpanContext::of_run(run.birth()).trace_id);
        }
        let driver = Driver {
            engine: self.clone(),
            claim: claim.clone(),
            run,
            attempts: JoinSet::new(),
            in_flight: BTreeMap::new(),
            resolved: Resolved::over(self.inner.secrets.of_host()),
            voices: None,
            is_syncing: false,
            memory: Shared::default(),
            trial,
            called: signals.called.clone(),
            place,
        };
        // Large, and wrapped several times: only its address is moved.
        match signals.lost.run_until_cancelled(Box::pin(driver.go())).await {
            Some(outcome) => outcome,
            None => {
                tracing::warn!("claim lost; the run goes on elsewhere");
                Ok(Left::Lost)
            }
        }
    }

    /// A child that was just written is driven at once; a scan would find it too.
    fn drive_child(&self, child: PreparedRun) {
        self.run_created(child.run.birth());
        if let Some((claim, place)) = child.claim {
            let engine = self.clone();
            let run = Some(child.run);
            self.inner.tasks.spawn(async move { engine.drive_held(claim, place, run).await });
        }
    }
}

impl Driver<'_> {
    async fn go(mut self) -> Result<Left, EngineError> {
        let first = self.first_command();
        self.memory.set(self.run.memory_view());
        // Children may have moved before this claim: the run must not rest before they were heard.
        self.is_syncing = !self.run.live_children().is_empty();
        let left = self.record(first).await?;
        if self.trial.take().is_some() {
            self.engine.absolve(&self.claim.run).await;
        }
        match left {
            Some(left) => Ok(left),
            // Many runs end with their first step; those need not carry room for the others.
            None => Box::pin(self.go_on()).await,
        }
    }

    async fn go_on(mut self) -> Result<Left, EngineError> {
        let mut left = None;
        while left.is_none() {
            if self.is_syncing || self.run.has_children_to_sync() {
                // Few runs have children; the others need not carry room for this.
                left = Box::pin(self.sync_children()).await?;
            }
            if left.is_none() {
                self.start_attempts();
                left = self.wait().await?;
            }
        }
        Ok(left.unwrap_or(Left::Released))
    }

    fn first_command(&self) -> Command {
        let version = self.run.version();
        let fork = self.run.birth().fork.as_ref();
        match self.claim.origin {
            _ if version == 0 => Command::Start,
            _ if fork.is_some_and(|fork| fork.from == version) => Command::Branch,
            ClaimOrigin::Lost => Command::Adopt,
            ClaimOrigin::Free => Command::Continue,
        }
    }

    /// Waits for whatever happens first, and records it.
    async fn wait(&mut self) -> Result<Option<Left>, EngineError> {
        let clock = self.engine.inner.clock.clone();
        let store = self.engine.inner.store.clone();
        let stop = self.engine.inner.stop.clone();
        let run = self.run.id().clone();
        // A wait without end still lets the other branches win.
        let mut wakes_at = self.run.wakes_at().unwrap_or_else(|| Timestamp::from_millis(i64::MAX));
        if !self.run.live_children().is_empty() {
            wakes_at = wakes_at.min(clock.now().plus(CHILDREN_HEARD_EVERY));
        }
        let called = self.called.clone();
        // Each branch either owns what it yields or is a hint: losing one loses nothing.
        tokio::select! {
            biased;
            Some(joined) = self.attempts.join_next() => self.join(joined).await,
            Some(message) = Voices::next(&mut self.voices) => self.take(message).await,
            () = stop.cancelled() => self.stop().await,
            // Children are heard before anything else is waited for.
            () = called.notified() => Ok(None),
            () = store.changed(&run, self.run.version()) => self.catch_up().await,
            () = clock.sleep_until(wakes_at) => self.record(Command::Continue).await,
        }
    }

    /// Records what came of an attempt.
    async fn join(
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

    async fn take(&mut self, message: Message) -> Result<Option<Left>, EngineError> {
        match message {
            Message::Facts(told) => self.tell(told).await,
            Message::StartChild(order) => self.start_child(order).await,
            Message::ChildUpdates(heard) => self.receive_child_updates(heard).await,
        }
    }

    async fn tell(&mut self, told: Told) -> Result<Option<Left>, EngineError> {
        let is_current = self.run.attempts().any(|attempt| attempt == told.attempt);
        if !is_current {
            // Its sender may be gone; then there is nobody to tell.
            let _gone = told.recorded.send(Err(Untold::Superseded(Superseded)));
            return Ok(None);
        }
        let attempt = told.attempt.clone();
        let command = Command::Tell { attempt: told.attempt, facts: told.facts };
        let left = match self.record_all(vec![command.into()], told.kept).await {
            Err(EngineError::Store(StoreError::Moved { .. })) => {
                // What was decided is not written; the attempt goes on and may decide anew.
                self.read_again().await?;
                let _gone = told.recorded.send(Err(Untold::Moved));
                return Ok(None);
            }
            recorded => recorded?,
        };
        let still_current = self.run.attempts().any(|owed| owed == attempt);
        let superseded = Err(Untold::Superseded(Superseded));
        let _gone = told.recorded.send(if still_current { Ok(()) } else { superseded });
        Ok(left)
    }

    /// Somebody else appended: cancel, pause, an answer.
    async fn catch_up(&mut self) -> Result<Option<Left>, EngineError> {
        let entries = self.engine.inner.store.tail(self.run.id(), self.run.version()).await?;
        refuse_unreadable(self.run.id(), &entries)?;
        let fold = move |run: &mut Run| {
            entries.iter().for_each(|entry| run.apply(entry));
            entries
        };
        let entries = self.with_run(fold).await?;
        self.share_memory(&entries);
        self.stop_superseded();
        if self.run.status().is_terminal() {
            return Ok(Some(Left::Released));
        }
        self.record(Command::Continue).await
    }

    async fn read_again(&mut self) -> Result<(), EngineError> {
        let id = self.run.id().clone();
        if let Some(run) = self.engine.open(&id).await? {
            self.run = run;
            self.memory.set(self.run.memory_view());
        }
        self.stop_superseded();
        Ok(())
    }

    /// The store could not write. What was decided is dropped; the same command is decided anew.
    async fn read_again_later(&mut self) -> Result<(), EngineError> {
        let clock = self.engine.inner.clock.clone();
        loop {
            clock.sleep_until(clock.now().plus(Duration::from_secs(1))).await;
            match self.read_again().await {
                Err(EngineError::Store(StoreError::Full | StoreError::Unavailable(_))) => {}
                outcome => return outcome,
            }
        }
    }

    /// Nothing to record: stay, or give the run back.
    async fn rest(&mut self, now: Timestamp) -> Result<Option<Left>, EngineError> {
        if !is_at_rest(&self.run, now, self.is_syncing) {
            return Ok(None);
        }
        self.release().await;
        Ok(Some(Left::Released))
    }

    /// The host stops: give the run back, once what is being performed has come to something or time is up.
    async fn stop(&mut self) -> Result<Option<Left>, EngineError> {
        let hurry = self.engine.inner.hurry.clone();
        if !self.in_flight.is_empty() {
            tokio::select! {
                () = hurry.cancelled() => {}
                Some(joined) = self.attempts.join_next() => {
                    if let Some(left) = self.join(joined).await? {
                        return Ok(Some(left));
                    }
                }
                Some(message) = Voices::next(&mut self.voices) => {
                    if let Some(left) = self.take(message).await? {
                        return Ok(Some(left));
                    }
                }
            }
        }
        self.release().await;
        Ok(Some(Left::Stopping))
    }

    /// Somebody may answer or cancel between the last look and this: what was not seen is looked at again.
    async fn release(&self) {
        let wake_at = self.run.head().wake_at;
        self.engine.release(&self.claim, Some(self.run.version()), wake_at).await;
    }

    fn start_attempts(&mut self) {
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

    /// Lets attempts see what was just remembered, here or by a child that completed.
    fn share_memory(&self, entries: &[Entry]) {
        let remembers =
            |entry: &Entry| matches!(entry.event, Event::MemoryWritten(_) | Event::ChildChanged(_));
        if entries.iter().any(remembers) {
            self.memory.set(self.run.memory_view());
        }
    }

    fn call(&mut self, task: Task) -> Call {
        let teller = self.voices.get_or_insert_with(Voices::new).teller.clone();
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
        let files = inner.files.clone();
        let files = FileAccess::new(&self.run, attempt.clone(), files, teller.clone());
        let way = (teller.clone(), shared);
        let (journal, clock) = (inner.memory.clone(), inner.clock.clone());
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
            told: task.told,
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
            payers: Payers::of(
                birth,
                &inner.options.limits,
                Budgets::new(Arc::clone(&inner.store)),
            ),
            trace: TraceContext::below(birth, &attempt.node, attempt.visit),
            forebears: birth.forebears(),
            claim: self.claim.clone(),
            store: self.engine.inner.store.clone(),
            secrets: self.engine.inner.secrets.clone(),
            resolved: self.resolved.clone(),
            pins: self.run.pins().clone(),
            clock: self.engine.inner.clock.clone(),
            teller,
        }
    }

    /// Drops attempts that the run no longer owes.
    fn stop_superseded(&mut self) {
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
}
