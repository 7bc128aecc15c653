//! The ledger of outward calls: what left the host, attempt by attempt, and nothing of what was said.

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use callboard_core::RetryClass;
use callboard_protocol::{Failure, NodeId, RunId, RunStatus, Timestamp};

use crate::activity::Call;
use crate::effects::{EffectId, EffectKey};
use crate::engine::{Engine, EngineError};
use crate::once::{CallFailure, Once, kept_failure};
use crate::records::{Expected, Key, Kind, RecordChange, RecordQuery, Within, retry_moved};
use crate::store::{Batch, Scope, StoreError};

/// What the calls of one run are found by.
const RUN: &str = "run";
/// Calls of one run that are shown. Runs with more have loops without end, and show some of theirs.
const MOST_CALLS: usize = 20_000;

/// One attempt of one outward call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerRow {
    pub effect: EffectId,
    pub node: NodeId,
    /// Starts at one.
    pub attempt: u32,
    pub state: EffectState,
    pub at: Timestamp,
    /// The idempotency key that went out with it.
    pub provider_key: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EffectState {
    /// Under way.
    Claimed,
    /// Its outcome was kept.
    Completed,
    /// It failed in a way that may pass: the call is free to be made again.
    Released,
    /// Nobody was there to see how it ended.
    Escaped,
}

/// The attempts of one call. Removed with the run.
#[derive(Serialize, Deserialize)]
struct Body {
    effect: String,
    /// Where the outcome is.
    place: String,
    node: NodeId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    provider_key: Option<String>,
    attempts: Vec<Attempted>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Attempted {
    at: Timestamp,
    state: EffectState,
}

fn key(run: &RunId, effect: &EffectId) -> Key {
    Key::of([run.as_str(), effect.as_str()])
}

impl Call {
    /// Enters an attempt of a call into the ledger, right before it leaves. `before` is how often this claim of it was
    /// sent already, each time in vain.
    pub async fn dispatch(
        &self,
        once: &Once,
        before: u32,
        provider_key: Option<&str>,
    ) -> Result<(), CallFailure> {
        let at = self.now();
        let ended = match once.perhaps_made {
            Some(_) if before == 0 => EffectState::Escaped,
            Some(_) | None => EffectState::Released,
        };
        // Only the holder enters. An entry that is found when it is made again is one whose answer was lost.
        let known = OnceLock::new();
        let entered = self.enter(once, |body| {
            body.provider_key = provider_key.map(str::to_owned);
            if *known.get_or_init(|| body.attempts.len()) == body.attempts.len() {
                end_last(&mut body.attempts, ended);
                body.attempts.push(Attempted { at, state: EffectState::Claimed });
            }
        });
        entered.await.map_err(|error| {
            tracing::warn!(%error, run = %self.run, node = %self.attempt.node, "call not entered");
            let failure = Failure::new("service_unavailable", "the call could not be recorded");
            CallFailure { failure, class: RetryClass::Retryable }
        })
    }

    /// Enters that a call came to nothing and may be made again. A call that never left has no entry.
    pub(crate) async fn enter_release(&self, once: &Once) -> Result<(), StoreError> {
        let kept = self.store.get(Kind::EffectLedger, &key(&self.run, &once.id)).await?;
        if kept.is_none() {
            return Ok(());
        }
        self.enter(once, |body| end_last(&mut body.attempts, EffectState::Released)).await
    }

    async fn enter(&self, once: &Once, change: impl Fn(&mut Body)) -> Result<(), StoreError> {
        retry_moved(|| async {
            let key = key(&self.run, &once.id);
            let kept = self.store.get(Kind::EffectLedger, &key).await?;
            let mut body = match &kept {
                Some(record) => record.read::<Body>()?,
                None => Body {
                    effect: once.id.as_str().to_owned(),
                    place: once.key.as_str().to_owned(),
                    node: self.attempt.node.clone(),
                    provider_key: None,
                    attempts: Vec::new(),
                },
            };
            change(&mut body);
            let entry = RecordChange::put(Kind::EffectLedger, key, self.scope(), &body)?
                .expecting(Expected::of(kept.as_ref()))
                .indexed(RUN, self.run.as_str())
                .of_run(&self.run);
            let batch = Batch { claims: vec![self.claim.clone()], ..Batch::of_records([entry]) };
            self.store.commit(batch).await
        })
        .await
    }
}

fn end_last(attempts: &mut [Attempted], state: EffectState) {
    if let Some(last) = attempts.last_mut().filter(|last| last.state == EffectState::Claimed) {
        last.state = state;
    }
}

impl Engine {
    /// Every attempt of every outward call of a run, in the order of the calls; none if there is no such run for the
    /// caller.
    pub async fn ledger(
        &self,
        scope: &Scope,
        run: &RunId,
    ) -> Result<Option<Vec<LedgerRow>>, EngineError> {
        let Some(found) = self.store().find(scope, run).await? else { return Ok(None) };
        let status = found.status;
        let query = RecordQuery::all(Kind::EffectLedger, Within::Everywhere);
        let mut calls = self.store().scan(&query.with(RUN, run.as_str()).limit(MOST_CALLS)).await?;
        calls.sort_by_key(|record| record.position);
        let mut rows = Vec::new();
        for record in calls {
            let mut body: Body = record.read()?;
            if body.attempts.last().is_some_and(|last| last.state == EffectState::Claimed) {
                let settled =
                    self.store().find_effect(&EffectKey::stored(body.place.clone())).await?;
                let outcome = settled.as_ref().map(|settled| settled.outcome.as_str());
                end_last(&mut body.attempts, last_state(outcome, status));
            }
            rows.extend(rows_of(body));
        }
        Ok(Some(rows))
    }
}

/// How the last attempt of a call stands. An outcome that says that nobody knows it is none.
fn last_state(outcome: Option<&str>, run: RunStatus) -> EffectState {
    let is_unknown = |code: String| code == "outcome_unknown";
    match outcome {
        Some(outcome) if kept_failure(outcome).is_some_and(is_unknown) => EffectState::Escaped,
        Some(_) => EffectState::Completed,
        None if run.is_terminal() => EffectState::Escaped,
        None => EffectState::Claimed,
    }
}

fn rows_of(body: Body) -> impl Iterator<Item = LedgerRow> {
    let effect = EffectId::stored(body.effect);
    body.attempts.into_iter().zip(1..).map(move |(attempted, attempt)| LedgerRow {
        effect: effect.clone(),
        node: body.node.clone(),
        attempt,
        state: attempted.state,
        at: attempted.at,
        provider_key: body.provider_key.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_attempt_stands_as_its_outcome_and_its_run_say() {
        let unknown = r#"{"failure":{"code":"outcome_unknown","message":"m"}}"#;
        let refused = r#"{"failure":{"code":"http_400","message":"m"}}"#;
        for (outcome, run, state) in [
            (None, RunStatus::Running, EffectState::Claimed),
            (None, RunStatus::Cancelled, EffectState::Escaped),
            (Some(r#"{"value":1}"#), RunStatus::Running, EffectState::Completed),
            (Some(refused), RunStatus::Failed, EffectState::Completed),
            (Some(unknown), RunStatus::Failed, EffectState::Escaped),
        ] {
            assert_eq!(last_state(outcome, run), state, "{outcome:?} {run:?}");
        }
    }

    #[test]
    fn only_an_attempt_that_is_under_way_ends() {
        let at = Timestamp::from_millis(1);
        let mut attempts = [Attempted { at, state: EffectState::Claimed }];
        end_last(&mut attempts, EffectState::Released);
        end_last(&mut attempts, EffectState::Escaped);
        assert_eq!(attempts[0].state, EffectState::Released);
    }
}
