//! Drives one claimed run: performs its outstanding work, records the outcomes, and releases it when it waits.

mod attempts;
mod decide;
mod facts;
mod held;
mod state;
mod sync_children;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};

use callboard_core::{Attempt, Command, Outcome, Run};
use callboard_protocol::Timestamp;

use crate::activity::Message;
use crate::engine::{Engine, EngineError, PreparedRun};
use crate::memory::Shared;
use crate::places::Place;
use crate::secrets::Resolved;
use crate::store::{Claim, ClaimOrigin};
use crate::unprocessable::Trial;
use decide::is_at_rest;
use facts::FactChannel;
pub(crate) use held::Granted;

/// How often a holder looks by itself how its run's children stand: those that other hosts drive cannot call it.
const CHILDREN_SYNCED_EVERY: Duration = Duration::from_secs(2);
/// How long a run rests that this host cannot drive now: no thread is left, or nobody here can read it. Another host or
/// the next build may be able to.
pub(crate) const TRIED_AGAIN_AFTER: Duration = Duration::from_secs(60);

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
    fact_channel: Option<FactChannel>,
    /// Whether children are being looked after: the run does not rest meanwhile.
    is_syncing: bool,
    /// What attempts see of memory.
    memory: Shared,
    /// The first decision is the one that the last holder may not have survived.
    trial: Option<Trial>,
    /// Notified when a child has changed.
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

impl Driver<'_> {
    async fn go(mut self) -> Result<Left, EngineError> {
        let first = self.first_command();
        self.memory.set(self.run.memory_view());
        // Children may have moved before this claim: the run must not rest before they were looked at.
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
            wakes_at = wakes_at.min(clock.now().plus(CHILDREN_SYNCED_EVERY));
        }
        let called = self.called.clone();
        // Each branch either owns what it yields or is a hint: losing one loses nothing.
        tokio::select! {
            biased;
            Some(joined) = self.attempts.join_next() => self.join(joined).await,
            Some(message) = FactChannel::next(&mut self.fact_channel) => self.take(message).await,
            () = stop.cancelled() => self.stop().await,
            // Children are looked at before anything else is waited for.
            () = called.notified() => Ok(None),
            () = store.changed(&run, self.run.version()) => self.catch_up().await,
            () = clock.sleep_until(wakes_at) => self.record(Command::Continue).await,
        }
    }

    async fn take(&mut self, message: Message) -> Result<Option<Left>, EngineError> {
        match message {
            Message::Facts(sent) => self.record_facts(sent).await,
            Message::StartChild(order) => self.start_child(order).await,
            Message::ChildUpdates(synced) => self.receive_child_updates(synced).await,
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
                Some(message) = FactChannel::next(&mut self.fact_channel) => {
                    if let Some(left) = self.take(message).await? {
                        return Ok(Some(left));
                    }
                }
            }
        }
        self.release().await;
        Ok(Some(Left::Stopping))
    }

    /// An answer or cancel may come between the last look and this: what was not seen is looked at again.
    async fn release(&self) {
        let wake_at = self.run.head().wake_at;
        self.engine.release(&self.claim, Some(self.run.version()), wake_at).await;
    }
}
