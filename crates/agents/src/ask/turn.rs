//! One turn of a model: made once, by the first provider that does not fail.

use std::time::Duration;

use serde_json::{Value, json};

use callboard_core::{AgentFact, Fact, Outcome, RetryClass, backoff, redact_text};
use callboard_engine::{CallFailure, Effect, OnUnknown, Once};
use callboard_protocol::{Failure, ModelFallback, Object};

use super::{
    Asker, End, Exchange, Speech, reasoning, tell_again, tell_retry, to_record, verbosity,
};
use crate::model::{
    DeltaSink, Fault, ModelError, ModelRequest, RetryAdvice, StopReason, Turn, with_sent,
};

/// How often a failing provider is called for one turn.
const MOST_CALLS: u32 = 3;
/// A provider that wants to be left alone for longer is asked by a later attempt.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

impl Asker<'_> {
    /// One turn, with what is recorded of it, by the first model that does not fail.
    pub(crate) async fn turn(&mut self, exchange: &mut Exchange) -> Result<Turn, End> {
        let mut turn = loop {
            match self.ask_once(exchange).await? {
                Asked::Answered(turn) => break turn,
                Asked::Troubled(trouble) => self.fall_back(&mut exchange.request, trouble)?,
            }
        };
        if turn.stop == StopReason::ToolCalls && !exchange.has_tools {
            turn.stop = StopReason::Stop;
        }
        let used = self.prices.usage_of(&exchange.request.model, turn.usage.as_ref());
        self.facts.push(AgentFact::Used(used));
        if self.is_streamed {
            self.facts.reasoned(reasoning(&turn));
        }
        Ok(turn)
    }

    /// Falls back to the next model, for the rest of the run. This is recorded before that one is called.
    fn fall_back(&mut self, request: &mut ModelRequest, trouble: Failure) -> Result<(), End> {
        let Some(next) = self.fallbacks.pop_front() else { return Err(End::Failed(trouble)) };
        if next.provider != request.model.provider {
            request.forget_provider();
        }
        let left = std::mem::replace(&mut request.model, next.clone());
        self.facts.push(AgentFact::FellBack(ModelFallback {
            node_id: self.call.attempt.node.clone(),
            model_class: self.model_class.as_str().to_owned(),
            original_provider: left.provider,
            original_model: left.model,
            fallback_provider: next.provider,
            fallback_model: next.model,
            reason: trouble.code,
        }));
        Ok(())
    }

    /// Asks the model, or reads its recorded answer, which costs nothing.
    async fn ask_once(&mut self, exchange: &Exchange) -> Result<Asked, End> {
        let (call, index) = (self.call, self.next_call());
        let mut request = exchange.next_request();
        if exchange.has_tools {
            let attempt = &call.attempt;
            request.call_prefix =
                format!("{}-{}-{}-{index}", call.run, attempt.node, attempt.visit);
        }
        let (provider, model) = (request.model.provider.clone(), &request.model.model);
        let is_priced = self.prices.knows(&request.model);
        call.admits_model(&provider, model, is_priced).await?;
        self.facts.flush().await?;
        let asks = exchange.basis.compared(&request);
        // A question asked twice is paid for twice and does no harm.
        let (on_unknown, is_recorded) = (OnUnknown::Repeat, self.facts.knows_answer());
        let effect = Effect { index, provider: &provider, request: &asks, on_unknown, is_recorded };
        let mut long_wait = None;
        let asker = &*self;
        let asked = call.once(effect, |once| asker.call_model(request, once, &mut long_wait)).await;
        if let (Err(_), Some((wait, failure))) = (&asked, long_wait) {
            return Err(End::Later(Outcome::Later { until: call.now().plus(wait), failure }));
        }
        let recorded = asked?;
        self.sent.follow(&recorded);
        Asked::read(recorded).map_err(|error| {
            End::Failed(Failure::new("internal_error", format!("a recorded turn: {error}")))
        })
    }

    /// Calls the provider until it answers or there is no use in it.
    async fn call_model(
        &self,
        mut request: ModelRequest,
        once: Once,
        long_wait: &mut Option<(Duration, Failure)>,
    ) -> Result<Value, CallFailure> {
        let sent = self.sent.difference(&request);
        self.call.clear_call(|| self.prices.foresee(&request)).await?;
        request.idempotency_key = once.id.to_string();
        request.run = Some(self.call.run.clone());
        if let Some(name) = &self.credential {
            request.key = Some(self.call.secret(name).await?);
        }
        if once.was_begun && self.is_streamed {
            self.close_thinking().await;
        }
        let foreseen = once.perhaps_made.map(|_| self.prices.foresee(&request));
        tell_again(self.call, &once, &request.model.to_string(), foreseen).await;
        let mut made = 0;
        loop {
            let pause = backoff(self.retry_pause, LONGEST_WAIT, made);
            self.call.dispatch(&once, made, Some(&request.idempotency_key)).await?;
            made += 1;
            let error = match self.call_provider(&request, made).await {
                Ok(turn) => return Ok(with_sent(to_record(&turn)?, sent)),
                Err(error) => error,
            };
            let failure = self.failure_of(&error, &request);
            let RetryAdvice::Retry { after } = error.advice() else {
                return Err(CallFailure { failure, class: RetryClass::Final });
            };
            let wait = after.unwrap_or(pause).max(pause);
            let is_long = wait > LONGEST_WAIT;
            if is_long || made == MOST_CALLS {
                if !self.fallbacks.is_empty() {
                    return Ok(with_sent(json!({ TROUBLE: failure }), sent));
                }
                if is_long {
                    *long_wait = Some((wait, failure.clone()));
                }
                let class = if is_long { RetryClass::Retryable } else { self.trouble_is };
                return Err(CallFailure { failure, class });
            }
            tell_retry(self.call, &error, &failure, (made, wait)).await;
            self.call.pause(wait).await;
        }
    }

    /// One call, with what the model says on its way into the log.
    async fn call_provider(&self, request: &ModelRequest, made: u32) -> Result<Turn, ModelError> {
        let attempt = (made > 1).then_some(made - 1);
        let mut speech = Speech::new(self.call, attempt, verbosity(self.call));
        let mut nobody = ();
        let sink: &mut dyn DeltaSink = if self.is_streamed { &mut speech } else { &mut nobody };
        let answered = self.models.turn(request, sink).await;
        match &answered {
            Ok(turn) => speech.end(turn.tool_calls.is_empty()).await,
            Err(_) if speech.is_thinking => self.close_thinking().await,
            Err(_) => {}
        }
        answered
    }

    /// A caller that brought a key of its own learns that it was that one. The provider's own words follow.
    fn failure_of(&self, error: &ModelError, request: &ModelRequest) -> Failure {
        let whose = match (&self.credential, error.fault) {
            (Some(name), Fault::Forbidden) => {
                format!("; it is the secret {}", redact_text(name.as_str()))
            }
            _ => String::new(),
        };
        let Some(reason) = error.reason.as_ref().and_then(|reason| reason.shown(request)) else {
            return Failure::new(error.code(), format!("{error}{whose}"));
        };
        let details = Object::from_iter([("providerReason".to_owned(), json!(reason))]);
        Failure::new(error.code(), format!("{error}{whose}: {reason}")).with_details(details)
    }

    /// Thinking that broke off is closed as it stands, whether or not the model is asked again.
    async fn close_thinking(&self) {
        let fact = Fact::Agent { place: 0, fact: AgentFact::AskedAgain };
        // An attempt that no longer counts learns so when the turn is to be recorded.
        let _ = self.call.record(vec![fact]).await;
    }
}

/// The outcome of asking one model.
enum Asked {
    Answered(Turn),
    /// It may succeed later, and another model may succeed now.
    Troubled(Failure),
}

/// The name under which trouble is recorded. A turn is recorded as it is; a host without fallbacks records nothing else.
const TROUBLE: &str = "trouble";

impl Asked {
    fn read(mut recorded: Value) -> Result<Self, serde_json::Error> {
        match recorded.get_mut(TROUBLE).map(Value::take) {
            Some(trouble) => serde_json::from_value(trouble).map(Self::Troubled),
            None => serde_json::from_value(recorded).map(Self::Answered),
        }
    }
}
