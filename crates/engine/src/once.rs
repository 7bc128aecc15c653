//! Outward calls that are made once: claimed before they are made, their outcome kept before it is used.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use callboard_core::{Outcome, Question, RetryClass};
use callboard_protocol::{Failure, InterruptKind, RunId, Timestamp};

use crate::activity::{Call, Superseded};
use crate::effects::{Begun, EffectClaim, EffectId, EffectKey, RequestDigest};
use crate::patience::{may_pass, wait_after};
use crate::store::StoreError;

/// One outward call of an attempt.
#[derive(Debug, Clone, Copy)]
pub struct Effect<'a> {
    /// Its place among the calls of this visit: the same when the attempt is made again.
    pub index: u32,
    /// Whom it reaches.
    pub provider: &'a str,
    /// What is asked. Another request at this place has diverged from what was recorded.
    pub request: &'a Value,
    pub on_unknown: OnUnknown,
    /// Whether the log holds the outcome already. Then it is made no more: a run that goes on with another's
    /// history takes the outcome from there.
    pub is_recorded: bool,
}

/// What follows when a call was claimed and nobody knows whether it was made.
#[derive(Debug, Clone, Copy)]
pub enum OnUnknown {
    /// Making it twice does no harm, or the far side knows the effect's id.
    Repeat,
    /// The far side is asked whether it was made, by the caller's own means.
    Verify,
    /// A person says what happened. What they say that it came to is kept in the form of an outcome, which this
    /// makes of it.
    Ask(fn(Value) -> Value),
}

/// Why a call that was to be made once has no value.
#[derive(Debug)]
pub enum OnceError {
    /// The attempt no longer counts.
    Superseded,
    /// The attempt ends with this.
    Ended(Outcome),
}

impl From<Superseded> for OnceError {
    fn from(_: Superseded) -> Self {
        Self::Superseded
    }
}

/// How a call failed.
#[derive(Debug, Clone, PartialEq)]
pub struct CallFailure {
    pub failure: Failure,
    pub class: RetryClass,
}

/// What a closure learns about its call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Once {
    /// The idempotency key to send out.
    pub id: EffectId,
    pub(crate) key: EffectKey,
    /// The call may have been made already, then: find out before making it.
    pub perhaps_made: Option<Timestamp>,
    /// Whether an attempt before this one may have recorded the call while it was made, and left that open.
    pub was_begun: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Kept {
    Value(Value),
    Failure(Failure),
}

impl Call {
    /// Makes an outward call, unless its outcome is known. Only final outcomes are kept: a failure that
    /// may pass is no answer, so a retry is not doomed to repeat it.
    pub async fn once<F>(
        &self,
        effect: Effect<'_>,
        make: impl FnOnce(Once) -> F + Send,
    ) -> Result<Value, OnceError>
    where
        F: Future<Output = Result<Value, CallFailure>> + Send,
    {
        let placed = Placed {
            effect,
            id: self.effect_id(effect),
            key: self.effect_key(&self.run, effect.index),
            request: RequestDigest::of(effect.provider, effect.request),
        };
        let perhaps_made = match self.begin(&placed, false).await? {
            Begun::Known(settled) => return kept(&settled.outcome),
            Begun::Fresh | Begun::Unknown { .. } if self.is_past(effect) => {
                return self.inherit(&placed).await;
            }
            Begun::Fresh => None,
            Begun::Unknown { since, .. } => match self.on_unknown(&placed, since).await? {
                Verdict::Make => match self.begin(&placed, true).await? {
                    Begun::Known(settled) => return kept(&settled.outcome),
                    Begun::Fresh | Begun::Unknown { .. } => Some(since),
                },
                Verdict::Settled(outcome) => return outcome,
            },
        };
        let was_begun = perhaps_made.is_some() || !self.forebears.is_empty();
        let Placed { id, key, .. } = placed;
        let once = Once { id, key: key.clone(), perhaps_made, was_begun };
        match make(once.clone()).await {
            Ok(value) => self.settle(&key, Kept::Value(value)).await,
            Err(CallFailure { failure, class: RetryClass::Final }) => {
                self.settle(&key, Kept::Failure(failure)).await
            }
            Err(CallFailure { failure, class: class @ RetryClass::Retryable }) => {
                self.enter_release(&once).await.map_err(|error| self.unstored(&error))?;
                self.settle_as(&key, None).await?;
                Err(OnceError::Ended(Outcome::Failed { failure, class }))
            }
        }
    }

    /// The identity of a call: the same on every host that makes this visit.
    pub fn effect_id(&self, effect: Effect<'_>) -> EffectId {
        EffectId::new(&self.tenant, &self.run, &self.attempt, effect.index, effect.provider)
    }

    pub(crate) fn effect_key(&self, run: &RunId, index: u32) -> EffectKey {
        EffectKey::new(&self.tenant, run, &self.attempt, index)
    }

    /// Whether a run made the call whose history this one goes on with.
    fn is_past(&self, effect: Effect<'_>) -> bool {
        effect.is_recorded && !self.forebears.is_empty()
    }

    /// Takes over the outcome of a call in a branch's past. It becomes the branch's own, for those who branch again.
    async fn inherit(&self, placed: &Placed<'_>) -> Result<Value, OnceError> {
        let effect = placed.effect;
        for run in &self.forebears {
            let found = self.store.find_effect(&self.effect_key(run, effect.index)).await;
            if let Some(settled) = found.map_err(|error| self.unstored(&error))? {
                placed.compare(&settled.request)?;
                self.settle_as(&placed.key, Some(settled.outcome.clone())).await?;
                return kept(&settled.outcome);
            }
        }
        let message = format!(
            "what came of a call to {} before this branch began is not known any more; branch from before its node",
            effect.provider
        );
        let failure = Failure::new("replay_source_missing", message);
        Err(OnceError::Ended(Outcome::Failed { failure, class: RetryClass::Final }))
    }

    /// Claims a place. One where something else was asked before is neither taken over nor asked again.
    async fn begin(&self, placed: &Placed<'_>, repeat: bool) -> Result<Begun, OnceError> {
        let begun = self.claim_effect(&placed.key, &placed.request, repeat, None).await?;
        match &begun {
            Begun::Fresh => {}
            Begun::Known(settled) => placed.compare(&settled.request)?,
            Begun::Unknown { request, .. } => placed.compare(request)?,
        }
        Ok(begun)
    }

    pub(crate) async fn claim_effect(
        &self,
        key: &EffectKey,
        request: &RequestDigest,
        repeat: bool,
        outcome: Option<String>,
    ) -> Result<Begun, OnceError> {
        let claim = EffectClaim {
            key: key.clone(),
            request: request.clone(),
            claim: self.claim.clone(),
            at: self.clock.now(),
            repeat,
            outcome,
        };
        let mut failures = 0;
        loop {
            match self.store.begin_effect(&claim).await {
                // Claimed at the very moment of this claim, whose first answer was lost. Without a lost answer it is
                // another executor's.
                Ok(Begun::Unknown { request, since })
                    if failures > 0 && since == claim.at && request == claim.request =>
                {
                    return Ok(Begun::Fresh);
                }
                Err(error) if may_pass(&error) => {
                    tracing::warn!(%error, "the store is away; claiming an effect again");
                    wait_after(&*self.clock, failures).await;
                    failures = failures.saturating_add(1);
                }
                Ok(begun) => return Ok(begun),
                Err(error) => return Err(self.unstored(&error)),
            }
        }
    }

    /// None forgets the claim of a call that may be made again.
    async fn settle_as(&self, key: &EffectKey, outcome: Option<String>) -> Result<(), OnceError> {
        let settled = self.store.settle_effect(&self.claim, key, outcome).await;
        settled.map_err(|error| self.unstored(&error))
    }

    /// What is kept is clean: who uses it after a crash has not resolved what it may repeat.
    async fn settle(&self, key: &EffectKey, mut outcome: Kept) -> Result<Value, OnceError> {
        match &mut outcome {
            Kept::Value(value) => self.redact(value),
            Kept::Failure(failure) => self.resolved.known().redact_failure(failure),
        }
        let text = serde_json::to_string(&outcome).map_err(|error| {
            let failure = Failure::new("internal_error", error.to_string());
            OnceError::Ended(Outcome::Failed { failure, class: RetryClass::Final })
        })?;
        self.settle_as(key, Some(text)).await?;
        opened(outcome)
    }

    async fn on_unknown(
        &self,
        placed: &Placed<'_>,
        since: Timestamp,
    ) -> Result<Verdict, OnceError> {
        let Placed { effect, id, key, .. } = placed;
        match effect.on_unknown {
            OnUnknown::Repeat | OnUnknown::Verify => Ok(Verdict::Make),
            OnUnknown::Ask(said) => {
                // An answer is for this claim alone: one that a later crash left open is asked about anew.
                let subject = subject(*effect, id, since);
                let answer = self.answer.as_ref();
                let answer = answer.filter(|answer| answer.data["payload"] == subject);
                match answer.and_then(|answer| answer.value.as_ref()) {
                    None => Err(OnceError::Ended(Outcome::Suspend(question(subject)))),
                    Some(answer) => match answer["action"].as_str() {
                        Some("repeat") => Ok(Verdict::Make),
                        Some("done") => {
                            let outcome = Kept::Value(said(answer["result"].clone()));
                            Ok(Verdict::Settled(self.settle(key, outcome).await))
                        }
                        _ => {
                            let message = format!("nobody knows what came of effect {id}");
                            let failure = Failure::new("outcome_unknown", message);
                            Ok(Verdict::Settled(self.settle(key, Kept::Failure(failure)).await))
                        }
                    },
                }
            }
        }
    }

    /// What follows for an attempt when the store has refused something. A store that is away was waited for.
    pub(crate) fn unstored(&self, error: &StoreError) -> OnceError {
        if let StoreError::LeaseLost { .. } = error {
            return OnceError::Superseded;
        }
        tracing::warn!(%error, run = %self.run, node = %self.attempt.node, "effect not recorded");
        let failure = Failure::new("service_unavailable", "the outcome could not be recorded");
        OnceError::Ended(Outcome::Failed { failure, class: RetryClass::Retryable })
    }
}

/// A call, with all that it is known by.
struct Placed<'a> {
    effect: Effect<'a>,
    id: EffectId,
    key: EffectKey,
    request: RequestDigest,
}

impl Placed<'_> {
    /// Refuses to go on where the same place was used for another request.
    fn compare(&self, recorded: &RequestDigest) -> Result<(), OnceError> {
        if self.request.agrees(recorded) {
            return Ok(());
        }
        let Effect { index, provider, .. } = self.effect;
        let message = format!(
            "outward call {index} of this visit was recorded for another request than the one that now goes to \
             {provider}: it is neither made again nor is its outcome used"
        );
        let failure = Failure::new("request_diverged", message);
        Err(OnceError::Ended(Outcome::Failed { failure, class: RetryClass::Final }))
    }
}

enum Verdict {
    Make,
    Settled(Result<Value, OnceError>),
}

fn kept(outcome: &str) -> Result<Value, OnceError> {
    match serde_json::from_str(outcome) {
        Ok(outcome) => opened(outcome),
        Err(error) => {
            let failure = Failure::new("internal_error", format!("a kept outcome: {error}"));
            Err(OnceError::Ended(Outcome::Failed { failure, class: RetryClass::Final }))
        }
    }
}

/// What a kept outcome came to; none for one that failed or cannot be read.
pub(crate) fn kept_value(outcome: &str) -> Option<Value> {
    match serde_json::from_str(outcome) {
        Ok(Kept::Value(value)) => Some(value),
        Ok(Kept::Failure(_)) | Err(_) => None,
    }
}

/// The code of the failure that was kept as an outcome.
pub(crate) fn kept_failure(outcome: &str) -> Option<String> {
    match serde_json::from_str(outcome) {
        Ok(Kept::Failure(failure)) => Some(failure.code),
        Ok(Kept::Value(_)) | Err(_) => None,
    }
}

fn opened(outcome: Kept) -> Result<Value, OnceError> {
    match outcome {
        Kept::Value(value) => Ok(value),
        Kept::Failure(failure) => {
            Err(OnceError::Ended(Outcome::Failed { failure, class: RetryClass::Final }))
        }
    }
}

fn subject(effect: Effect<'_>, id: &EffectId, since: Timestamp) -> Value {
    let provider = effect.provider;
    let title =
        format!("A call to {provider} may have been made before its host was lost. Was it?");
    json!({ "title": title, "provider": provider, "effectId": id.as_str(), "since": since })
}

/// What a person is asked about a call whose outcome nobody knows.
fn question(subject: Value) -> Question {
    let schema = json!({
        "type": "object",
        "required": ["action"],
        "properties": {
            "action": { "enum": ["repeat", "done", "fail"] },
            "result": {}
        }
    });
    Question {
        kind: InterruptKind::Custom,
        data: json!({ "customKind": "callboard.outcome-unknown", "payload": subject }),
        resume_schema: schema.as_object().cloned(),
        timeout_ms: None,
    }
}
