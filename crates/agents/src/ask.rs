//! The loop that calls a model until its answer is valid: each turn is made once, validated and recorded.

mod again;
mod facts;
mod speech;
mod turn;

use std::collections::VecDeque;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use callboard_core::{AgentFact, Outcome, RetryClass};
use callboard_engine::{Call, CallFailure, OnceError, Superseded};
use callboard_protocol::{EnvelopeRefusal, EnvelopeTruncated, Failure, ModelClass, SecretName};

use crate::model::{
    Exhausted, ExhaustedReason, Model, ModelRef, ModelRequest, PriceTable, RequestBasis,
    SentRequest, StopReason, Tries, Turn, Verdict, judge,
};
use crate::pack::Schema;

pub(crate) use again::{tell_again, tell_retry};
pub(crate) use facts::FactBuffer;
pub(crate) use speech::{Speech, reasoning, verbosity};

/// The wait before a failing provider is called again; each later wait is twice the one before.
pub(crate) const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Calls models for one attempt at a node.
pub(crate) struct Asker<'a> {
    pub(crate) call: &'a Call,
    pub(crate) models: &'a dyn Model,
    pub(crate) prices: &'a PriceTable,
    pub(crate) facts: FactBuffer<'a>,
    pub(crate) model_class: ModelClass,
    /// Whether the log gets what a model says and thinks, while it does.
    pub(crate) is_streamed: bool,
    /// The wait before a failing provider is called for the second time.
    pub(crate) retry_pause: Duration,
    /// Whether the node may be retried where a provider keeps failing.
    pub(crate) trouble_is: RetryClass,
    /// The secret that holds the run's own key.
    pub(crate) credential: Option<SecretName>,
    /// The models to fall back to, in this order.
    pub(crate) fallbacks: VecDeque<ModelRef>,
    /// How many places for outward calls this visit has used so far.
    pub(crate) calls: u32,
    /// What the visit's models were sent last.
    pub(crate) sent: SentRequest,
}

/// One question, with its tries so far.
pub(crate) struct Exchange {
    /// What is asked, without the words that ask for a repair.
    pub(crate) request: ModelRequest,
    /// The words that ask for a repair of the answer before.
    pub(crate) repair: Option<String>,
    /// What the requests of the visit are compared by.
    pub(crate) basis: RequestBasis,
    /// What the answer must match; none where any text will do.
    pub(crate) schema: Option<Schema>,
    pub(crate) repairs: Repairs,
    /// Whether calls of tools can be answered. If not, what counts is what was said.
    pub(crate) has_tools: bool,
    /// How often the model was asked since tools were called last.
    pub(crate) made: u32,
    /// The limit `schemaRounds`.
    pub(crate) rounds: u32,
    /// How far the budget of an answer may be raised that was cut off.
    pub(crate) ceiling: u32,
}

/// Which answers that do not fit are sent back with the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repairs {
    Never,
    /// The first one. Its repair stays part of the question.
    Once,
    /// All of them, within `schemaRounds`. An answer that was cut off is asked for without any repair.
    EachTry,
}

/// What the asker's caller goes on with.
pub(crate) enum Reply {
    Answer(Value),
    /// The model wants tools called before it answers.
    CallTools(Turn),
    /// No answer could be taken; this was the last.
    Exhausted(Exhausted, Turn),
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum End {
    /// The attempt no longer counts, or a recorded outcome ends it.
    Once(OnceError),
    /// Something has to happen first: what was begun stays open.
    Later(Outcome),
    Failed(Failure),
    Refused,
}

impl From<Superseded> for End {
    fn from(_: Superseded) -> Self {
        Self::Once(OnceError::Superseded)
    }
}

impl From<CallFailure> for End {
    /// What may be there later leaves open what was begun.
    fn from(CallFailure { failure, class }: CallFailure) -> Self {
        match class {
            RetryClass::Final => Self::Failed(failure),
            RetryClass::Retryable => {
                Self::Once(OnceError::Ended(Outcome::Failed { failure, class }))
            }
        }
    }
}

impl From<OnceError> for End {
    fn from(error: OnceError) -> Self {
        Self::Once(error)
    }
}

impl From<Failure> for End {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl<'a> Asker<'a> {
    /// Asks in silence for a node that may be tried again.
    pub(crate) fn new(call: &'a Call, models: &'a dyn Model, prices: &'a PriceTable) -> Self {
        Self {
            call,
            models,
            prices,
            facts: FactBuffer::new(call),
            model_class: ModelClass::General,
            is_streamed: false,
            retry_pause: RETRY_PAUSE,
            trouble_is: RetryClass::Retryable,
            credential: None,
            fallbacks: VecDeque::new(),
            calls: 0,
            sent: SentRequest::default(),
        }
    }

    /// Asks, and asks again for another form of the answer, until the caller has something to do.
    pub(crate) async fn ask(&mut self, exchange: &mut Exchange) -> Result<Reply, End> {
        loop {
            let turn = self.turn(exchange).await?;
            if let Some(reply) = self.judge(exchange, turn)? {
                return Ok(reply);
            }
        }
    }

    /// Judges the exchange's next turn. None where the model is to be asked again.
    pub(crate) fn judge(
        &mut self,
        exchange: &mut Exchange,
        turn: Turn,
    ) -> Result<Option<Reply>, End> {
        exchange.made += 1;
        match judge(&turn, exchange.schema.as_ref(), exchange.tries()) {
            Verdict::Accepted { value, recovery } => {
                if let Some(recovery) = recovery {
                    self.facts.push(AgentFact::Recovered {
                        path: recovery.path.as_str().to_owned(),
                        byte_offset: recovery.byte_offset as u64,
                    });
                }
                return Ok(Some(Reply::Answer(value)));
            }
            Verdict::CallTools => return Ok(Some(Reply::CallTools(turn))),
            Verdict::Refused => return Err(self.refused(&exchange.request.model, turn.stop)),
            Verdict::RetryLonger { max_output_tokens } => {
                self.truncated(&exchange.request.model, &turn);
                self.retried(exchange.made + 1, ExhaustedReason::Truncation);
                exchange.request.max_output_tokens = max_output_tokens;
                if exchange.repairs == Repairs::EachTry {
                    exchange.repair = None;
                }
            }
            Verdict::Repair { fragment, reason } => {
                self.retried(exchange.made + 1, reason);
                exchange.repair = Some(fragment);
            }
            Verdict::Exhausted(end) => {
                if end.reason == ExhaustedReason::Truncation {
                    self.truncated(&exchange.request.model, &turn);
                }
                return Ok(Some(Reply::Exhausted(end, turn)));
            }
        }
        Ok(None)
    }

    /// The rejected answer stays out of the failure: it may repeat the prompt.
    pub(crate) fn refused(&mut self, model: &ModelRef, stop: StopReason) -> End {
        let is_filtered = stop == StopReason::ContentFilter;
        self.facts.push(AgentFact::Refused(EnvelopeRefusal {
            node_id: self.call.attempt.node.clone(),
            provider: model.provider.clone(),
            model: model.model.clone(),
            safety_category: is_filtered.then(|| "content_filter".to_owned()),
        }));
        End::Refused
    }

    fn truncated(&mut self, model: &ModelRef, turn: &Turn) {
        self.facts.push(AgentFact::Truncated(EnvelopeTruncated {
            node_id: self.call.attempt.node.clone(),
            provider: model.provider.clone(),
            model: model.model.clone(),
            stop_reason: "max_tokens".to_owned(),
            partial_payload_available: Some(!turn.text.is_empty()),
            output_token_count: turn.usage.map(|usage| usage.output),
        }));
    }

    fn retried(&mut self, attempt: u32, reason: ExhaustedReason) {
        let reason = reason.as_str().to_owned();
        self.facts.push(AgentFact::RetryAttempted { attempt, reason });
    }

    /// Records that no answer could be taken within the limit.
    pub(crate) fn exhausted(&mut self, end: Exhausted, limit: u32) {
        let (attempts, reason) = (end.attempts, end.reason.as_str().to_owned());
        self.facts.push(AgentFact::RetryExhausted { attempts, reason, limit });
    }

    /// The next outward call's place in the visit.
    pub(crate) fn next_call(&mut self) -> u32 {
        self.calls += 1;
        self.calls - 1
    }
}

impl Exchange {
    pub(crate) fn tries(&self) -> Tries {
        let may_repair = match self.repairs {
            Repairs::Never => false,
            Repairs::Once => self.repair.is_none(),
            Repairs::EachTry => true,
        };
        Tries {
            made: self.made,
            most: self.rounds,
            may_repair,
            max_output_tokens: self.request.max_output_tokens,
            ceiling: self.ceiling,
        }
    }

    /// The request as the model gets it next.
    fn next_request(&self) -> ModelRequest {
        let request = self.request.clone();
        match &self.repair {
            Some(fragment) => request.repaired(fragment),
            None => request,
        }
    }
}

/// The outcome of an outward call, as it is recorded.
pub(crate) fn to_record(outcome: &impl Serialize) -> Result<Value, CallFailure> {
    serde_json::to_value(outcome).map_err(|error| CallFailure {
        failure: Failure::new("internal_error", error.to_string()),
        class: RetryClass::Final,
    })
}
