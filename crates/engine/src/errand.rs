//! Runs that a node of another run starts and waits for: one per effect, whoever asks for it how often.

use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use callboard_core::{Birth, Inadmissible, Run, RunBudget};
use callboard_protocol::{NodeId, Object, RunId, RunStatus, WorkflowId};

use crate::effects::EffectId;
use crate::engine::{Engine, EngineError, Inner, only_once};
use crate::order::{Order, Target};
use crate::store::{Digest, Scope, StoreError};

/// How many runs may lie between a run and the first that sent somebody.
const MAX_DEPTH: u64 = 8;
/// Where a run keeps how deep it lies. A caller who writes it himself only shortens his own way.
const DEPTH: &str = "callboard.errandDepth";
/// Longer than any run that could ask again.
const REMEMBERED: Duration = Duration::from_secs(366 * 86_400);

/// A workflow that a node wants to have run.
#[derive(Debug, Clone)]
pub struct Errand<'a> {
    pub run: &'a RunId,
    pub node: &'a NodeId,
    pub effect: &'a EffectId,
    pub workflow: &'a WorkflowId,
    pub inputs: Object,
}

/// How a run that was sent ended, as readers may see it.
#[derive(Debug, Clone, PartialEq)]
pub struct Homecoming {
    pub status: RunStatus,
    /// The payload of the run's last event.
    pub last: Object,
}

/// An engine that others hold without keeping it alive.
#[derive(Debug, Clone)]
pub struct WeakEngine(Weak<Inner>);

impl WeakEngine {
    pub fn upgrade(&self) -> Option<Engine> {
        self.0.upgrade().map(|inner| Engine { inner })
    }
}

impl Engine {
    pub fn downgrade(&self) -> WeakEngine {
        WeakEngine(Arc::downgrade(&self.inner))
    }

    /// Starts the run, for the same owner as the one that sends it. The same effect again finds the same run.
    pub async fn send(&self, errand: Errand<'_>) -> Result<RunId, EngineError> {
        let above = self.open(errand.run).await?;
        let above = above.ok_or_else(|| EngineError::UnknownRun(errand.run.clone()))?;
        let birth = above.birth();
        if birth.principal_scope.is_some() {
            // A run of its own would have all the rights that this one was to go without.
            return Err(EngineError::Inadmissible(Inadmissible {
                code: "forbidden",
                path: String::new(),
                message: "a run with narrowed rights starts no other".to_owned(),
                details: Object::new(),
            }));
        }
        let depth = birth.metadata.as_ref().and_then(|kept| kept.get(DEPTH));
        let depth = depth.and_then(Value::as_u64).unwrap_or(0) + 1;
        if depth > MAX_DEPTH {
            return Err(EngineError::Inadmissible(Inadmissible {
                code: "recursion_limit_exceeded",
                path: String::new(),
                message: format!("runs send runs more than {MAX_DEPTH} deep"),
                details: Object::new(),
            }));
        }
        let sender = json!({ "runId": errand.run, "nodeId": errand.node });
        let order = Order {
            inputs: errand.inputs,
            metadata: Some(Object::from_iter([
                (DEPTH.to_owned(), depth.into()),
                ("callboard.sentBy".to_owned(), sender),
            ])),
            forced_engine_version: birth.forced_engine_version,
            ..Order::new(
                Target::Workflow(errand.workflow.clone()),
                birth.owner.clone(),
                Scope::of(birth).mode,
            )
        };
        let once = only_once(key_of(errand.effect), self.inner.clock.now().plus(REMEMBERED));
        let newborn = self.conceive_with(order, |below| hand_down(&above, below)).await?;
        let sent = match self.bring_up(newborn, Some(once)).await {
            Ok(done) => done.run,
            Err(EngineError::Store(StoreError::AlreadyDone(outcome))) => outcome.body.into(),
            Err(error) => return Err(error),
        };
        let (engine, scope) = (self.clone(), Scope::of(birth));
        let (sender, run) = (errand.run.clone(), sent.clone());
        self.inner.tasks.spawn(async move {
            engine.cancel_with_sender(&scope, &sender, &run).await;
        });
        Ok(sent)
    }

    /// Cancels a run with the one that sent it: nobody waits for it any more. Whoever takes the sender over sends
    /// again, and so watches again.
    async fn cancel_with_sender(&self, scope: &Scope, sender: &RunId, run: &RunId) {
        let cancelled = self.inner.stop.run_until_cancelled(async {
            let store = &self.inner.store;
            loop {
                let (above, below) =
                    (store.find(scope, sender).await?, store.find(scope, run).await?);
                let Some((above, below)) = above.zip(below) else { return Ok(()) };
                match (above.head.status, below.head.status) {
                    (_, ended) if ended.is_terminal() => return Ok(()),
                    (RunStatus::Cancelled, _) => {
                        let reason = Some("the run that sent it was cancelled".to_owned());
                        return self.cancel(scope, run, reason, None, None).await.map(drop);
                    }
                    // It gave up waiting and said that the run goes on.
                    (ended, _) if ended.is_terminal() => return Ok(()),
                    _ => {}
                }
                // Losing either branch is fine: both are read again.
                tokio::select! {
                    () = store.changed(sender, above.head.version) => {}
                    () = store.changed(run, below.head.version) => {}
                }
            }
        });
        if let Some(Err(error)) = cancelled.await {
            let error: EngineError = error;
            tracing::warn!(%error, %run, "not cancelled with the run that sent it");
        }
    }

    /// Waits until a run that was sent by another has ended.
    pub async fn homecoming(&self, sender: &RunId, run: &RunId) -> Result<Homecoming, EngineError> {
        let unknown = || EngineError::UnknownRun(run.clone());
        let scope = self.scope_of(sender).await?.ok_or_else(unknown)?;
        loop {
            let found = self.inner.store.find(&scope, run).await?.ok_or_else(unknown)?;
            let version = found.head.version;
            if found.head.status.is_terminal() {
                let last = version.saturating_sub(1);
                let page =
                    self.inner.store.read(&scope, run, last, 1).await?.ok_or_else(unknown)?;
                let last = page.events.last().map(|event| event.payload.as_str());
                let last = last.and_then(|payload| serde_json::from_str(payload).ok());
                return Ok(Homecoming { status: page.status, last: last.unwrap_or_default() });
            }
            self.inner.store.changed(run, version).await;
        }
    }
}

/// What holds above holds below: who pays and how much is left, and that what strangers said is not less strange.
fn hand_down(above: &Run, below: &mut Birth) {
    let birth = above.birth();
    below.from_outside = birth.from_outside;
    below.charged_to = below.charged_to.take().or_else(|| birth.charged_to.clone());
    if let Some(budget) = &birth.budget {
        let limits = above.budget_left().unwrap_or(budget.limits);
        below.budget = Some(RunBudget { limits, ..budget.clone() });
    }
}

/// Apart from the keys of callers, which are digests of other things.
fn key_of(effect: &EffectId) -> Digest {
    let mut hash = Sha256::new();
    hash.update("callboard:errand\0");
    hash.update(effect.as_str());
    hash.finalize().into()
}
