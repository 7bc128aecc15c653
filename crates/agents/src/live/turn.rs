//! The conversation with a model, until it answers: every turn asked once, judged, told.

use std::time::Duration;

use serde_json::{Value, json};

use callboard_core::{AgentFact, Fact, Outcome, RetryClass, redact_text};
use callboard_engine::{Call, Effect, OnUnknown, Once, Stumble};
use callboard_protocol::{EnvelopeRefusal, EnvelopeTruncated, Failure, ModelFallback, SecretName};

use super::again::tell_again;
use super::speech::Speech;
use super::{End, Work};
use crate::model::{
    CallOptions, Exhausted, ExhaustedReason, Fault, Message, Model, ModelError, ModelRef,
    ModelRequest, PriceTable, Recovery, RetryAdvice, StopReason, TokenUsage, ToolReply, Tries,
    Turn, Verdict, judge,
};

/// How often a provider that is in trouble is called for one turn.
const MOST_CALLS: u32 = 3;
/// A provider that wants to be left alone for longer is asked by a later attempt.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// As much thinking as a summary holds.
const SUMMARY_CHARS: usize = 2_000;

impl Work<'_> {
    /// Asks, has tools called, asks again: until there is an answer that can be taken.
    pub(super) async fn converse(&mut self, mut request: ModelRequest) -> Result<Value, End> {
        let settings = &self.host.settings;
        let options = CallOptions::of(&self.call.configurable);
        let (most, ceiling) = (settings.schema_rounds, options.ceiling(settings.output_ceiling));
        let (mut made, mut repairs, mut rounds) = (0, 0, 0);
        loop {
            made += 1;
            let turn = self.ask(&mut request).await?;
            let max_output_tokens = request.max_output_tokens;
            let tries = Tries { made, most, repairs, max_output_tokens, ceiling };
            match judge(&turn, self.contract.judged.as_ref(), tries) {
                Verdict::Accepted { value, recovery } => {
                    self.recovered(recovery);
                    return Ok(value);
                }
                Verdict::CallTools => {
                    rounds += 1;
                    if rounds > settings.tool_rounds {
                        let message = format!("the model called tools in {rounds} rounds");
                        return Err(End::Failed(Failure::new("tool_rounds_exceeded", message)));
                    }
                    self.use_tools(&mut request, turn).await?;
                    made = 0;
                }
                Verdict::Refused => {
                    self.tale.note(refusal(&request, &turn));
                    return Err(End::Refused);
                }
                Verdict::RetryLonger { max_output_tokens } => {
                    self.tale.note(truncation(&request, &turn));
                    self.retried(made + 1, ExhaustedReason::Truncation);
                    request = request.longer(max_output_tokens);
                }
                Verdict::Repair { fragment, reason } => {
                    self.retried(made + 1, reason);
                    repairs += 1;
                    request = request.repaired(&fragment);
                }
                Verdict::Exhausted(end) => {
                    if end.reason == ExhaustedReason::Truncation {
                        self.tale.note(truncation(&request, &turn));
                    }
                    return Err(self.exhausted(end));
                }
            }
        }
    }

    /// Tells that an answer was found among other words.
    pub(super) fn recovered(&mut self, recovery: Option<Recovery>) {
        if let Some(recovery) = recovery {
            self.tale.note(AgentFact::Recovered {
                path: recovery.path.as_str().to_owned(),
                byte_offset: recovery.byte_offset as u64,
            });
        }
    }

    pub(super) fn retried(&mut self, attempt: u32, reason: ExhaustedReason) {
        let reason = reason.as_str().to_owned();
        self.tale.note(AgentFact::RetryAttempted { attempt, reason });
    }

    pub(super) fn exhausted(&mut self, end: Exhausted) -> End {
        let (attempts, reason) = (end.attempts, end.reason.as_str().to_owned());
        // A repair is made once, and room has its ceiling: there may be fewer tries than rounds.
        self.tale.note(AgentFact::RetryExhausted { attempts, reason, limit: attempts });
        let (code, what) = match end.reason {
            ExhaustedReason::Truncation => (end.reason.code(), "was cut off"),
            ExhaustedReason::SchemaViolation => {
                ("handoff_return_schema_violation", "does not match the schema of its result")
            }
            ExhaustedReason::ParseError => ("handoff_return_schema_violation", "is not JSON"),
        };
        let message = format!("the model's answer {what}, in {} tries", end.attempts);
        End::Failed(Failure::new(code, message))
    }

    /// One turn, with what is told of it, by the first model that is not in trouble.
    async fn ask(&mut self, request: &mut ModelRequest) -> Result<Turn, End> {
        let turn = loop {
            match self.ask_once(request).await? {
                Asked::Answered(turn) => break turn,
                Asked::Troubled(trouble) => self.fall_back(request, trouble)?,
            }
        };
        let used = self.host.prices.usage_of(&request.model, turn.usage.as_ref());
        self.tale.note(AgentFact::Used(used));
        self.thought(&turn);
        Ok(turn)
    }

    /// Leaves a model for the next one, for the rest of the run. The log says so before that one is asked.
    fn fall_back(&mut self, request: &mut ModelRequest, trouble: Failure) -> Result<(), End> {
        let Some(next) = self.fallbacks.pop_front() else { return Err(End::Failed(trouble)) };
        if next.provider != request.model.provider {
            request.forget_provider();
        }
        let left = std::mem::replace(&mut request.model, next.clone());
        self.tale.note(AgentFact::FellBack(ModelFallback {
            node_id: self.call.attempt.node.clone(),
            model_class: self.agent.agent.manifest.model_class.as_str().to_owned(),
            original_provider: left.provider,
            original_model: left.model,
            fallback_provider: next.provider,
            fallback_model: next.model,
            reason: trouble.code,
        }));
        Ok(())
    }

    /// Asks the model, or learns what came of it before: what is recorded costs nothing.
    async fn ask_once(&mut self, request: &mut ModelRequest) -> Result<Asked, End> {
        let (call, models, prices) = (self.call, &*self.host.models, &self.host.prices);
        let index = self.next_call();
        let attempt = &call.attempt;
        request.call_prefix = format!("{}-{}-{}-{index}", call.run, attempt.node, attempt.visit);
        let ModelRef { provider, model } = request.model.clone();
        let is_priced = self.host.prices.knows(&request.model);
        call.admits_model(&provider, &model, is_priced).await.map_err(End::Failed)?;
        self.tale.tell().await?;
        let (verbosity, credential) = (self.verbosity(), self.credential.clone());
        let (has_next, pause) = (!self.fallbacks.is_empty(), self.host.settings.retry_pause);
        let (on_unknown, is_told) = (OnUnknown::Repeat, self.tale.knows_answer());
        let asks = self.basis.as_ref().map(|basis| basis.compared(request)).unwrap_or_default();
        let effect = Effect { index, provider: &provider, request: &asks, on_unknown, is_told };
        let mut wait = None;
        let asked = call.once(effect, |once| {
            let wait = &mut wait;
            let (request, verbosity) = (&*request, verbosity.clone());
            let credential = credential.clone();
            async move {
                let asking =
                    Asking { call, models, verbosity, credential, has_next, pause, prices };
                asking.turn(request, once, wait).await
            }
        });
        let asked = asked.await;
        if let (Err(_), Some((wait, failure))) = (&asked, wait) {
            return Err(End::Later(Outcome::Later { until: call.now().plus(wait), failure }));
        }
        Asked::read(asked?).map_err(|error| {
            End::Failed(Failure::new("internal_error", format!("a kept turn: {error}")))
        })
    }

    pub(super) fn thought(&mut self, turn: &Turn) {
        let calls = turn.tool_calls.len();
        let reasoning = match (turn.thinking.trim(), turn.text.trim()) {
            ("", _) if turn.stop.is_refusal() => "The model declined.".to_owned(),
            ("", "") if calls > 0 => format!("The model has {calls} tools called."),
            ("", "") => "The model said nothing.".to_owned(),
            ("", text) => text.to_owned(),
            (thinking, _) => thinking.to_owned(),
        };
        self.reasoned(reasoning);
    }

    /// Tells what the agent thought, as far as the run wants to know.
    pub(super) fn reasoned(&mut self, reasoning: String) {
        let Some(verbosity) = self.verbosity() else { return };
        let reasoning = match verbosity.as_str() {
            "full" => reasoning,
            _ => reasoning.chars().take(SUMMARY_CHARS).collect(),
        };
        self.tale.note(AgentFact::Reasoned { reasoning, verbosity: Some(verbosity) });
    }

    /// None where the run wants to hear nothing of what an agent thinks.
    pub(super) fn verbosity(&self) -> Option<String> {
        let wanted = self.call.configurable.get("reasoningVerbosity").and_then(Value::as_str);
        match wanted {
            Some("off") => None,
            Some("full") => Some("full".to_owned()),
            _ => Some("summary".to_owned()),
        }
    }

    /// The next outward call's place in the visit.
    pub(super) fn next_call(&mut self) -> u32 {
        self.calls += 1;
        self.calls - 1
    }

    async fn use_tools(&mut self, request: &mut ModelRequest, turn: Turn) -> Result<(), End> {
        let Turn { text, tool_calls, .. } = turn;
        request.messages.push(Message::Assistant { text, calls: tool_calls.clone() });
        for wanted in tool_calls {
            let content = self.use_tool(&wanted).await?;
            let result = ToolReply { call_id: wanted.id, name: wanted.name, content };
            request.messages.push(Message::Tool { result });
        }
        Ok(())
    }
}

/// What came of asking one model.
enum Asked {
    Answered(Turn),
    /// It may be asked later, and somebody else now.
    Troubled(Failure),
}

/// The name under which trouble is kept. A turn is kept as it is; a host without fallbacks keeps nothing else.
const TROUBLE: &str = "trouble";

impl Asked {
    fn read(mut kept: Value) -> Result<Self, serde_json::Error> {
        match kept.get_mut(TROUBLE).map(Value::take) {
            Some(trouble) => serde_json::from_value(trouble).map(Self::Troubled),
            None => serde_json::from_value(kept).map(Self::Answered),
        }
    }
}

/// A provider that is asked for one turn.
struct Asking<'a> {
    call: &'a Call,
    models: &'a dyn Model,
    verbosity: Option<String>,
    /// The secret that holds the run's own key.
    credential: Option<SecretName>,
    /// Whether somebody else can be asked when this one is in trouble.
    has_next: bool,
    /// Before the second call.
    pause: Duration,
    prices: &'a PriceTable,
}

impl Asking<'_> {
    /// Calls the provider until it answers or there is no use in it.
    async fn turn(
        &self,
        request: &ModelRequest,
        once: Once,
        long_wait: &mut Option<(Duration, Failure)>,
    ) -> Result<Value, Stumble> {
        self.call.clear_call(|| self.prices.foresee(request)).await?;
        let mut request = request.clone();
        request.idempotency_key = once.id.to_string();
        if let Some(name) = &self.credential {
            request.key = Some(self.call.secret(name).await?);
        }
        if once.was_begun {
            self.close_thinking().await;
        }
        let foreseen = once.perhaps_made.map(|_| self.prices.foresee(&request));
        tell_again(self.call, &once, &request.model.to_string(), foreseen).await;
        let mut pause = self.pause;
        for made in 1.. {
            let attempt = (made > 1).then_some(made - 1);
            let mut speech = Speech::new(self.call, attempt, self.verbosity.clone());
            let error = match self.models.turn(&request, &mut speech).await {
                Ok(turn) => {
                    speech.end(turn.tool_calls.is_empty()).await;
                    return serde_json::to_value(turn).map_err(|error| {
                        stumble(Failure::new("internal_error", error.to_string()))
                    });
                }
                Err(error) => error,
            };
            if speech.is_thinking {
                self.close_thinking().await;
            }
            let failure = self.failure_of(&error);
            let RetryAdvice::Retry { after } = error.advice() else {
                return Err(stumble(failure));
            };
            let wait = after.unwrap_or(pause).max(pause);
            if self.has_next && (wait > LONGEST_WAIT || made == MOST_CALLS) {
                return Ok(json!({ TROUBLE: failure }));
            }
            if wait > LONGEST_WAIT {
                *long_wait = Some((wait, failure.clone()));
                return Err(Stumble { failure, class: RetryClass::Retryable });
            }
            if made == MOST_CALLS {
                return Err(stumble(failure));
            }
            self.call.pause(wait).await;
            pause *= 3;
        }
        Err(stumble(Failure::new("internal_error", "the model was never asked")))
    }

    /// Whoever brought a key of their own learns that it was that one.
    fn failure_of(&self, error: &ModelError) -> Failure {
        let whose = match (&self.credential, error.fault) {
            (Some(name), Fault::Forbidden) => {
                format!("; it is the secret {}", redact_text(name.as_str()))
            }
            _ => String::new(),
        };
        Failure::new(error.code(), format!("{error}{whose}"))
    }

    /// Thinking that broke off is closed as it stands, whether or not the model is asked again.
    async fn close_thinking(&self) {
        let fact = Fact::Agent { place: 0, fact: AgentFact::AskedAgain };
        // An attempt that no longer counts learns so when the turn is to be kept.
        let _ = self.call.tell(vec![fact]).await;
    }
}

/// Asking again brings nothing: the failure is the turn's outcome.
fn stumble(failure: Failure) -> Stumble {
    Stumble { failure, class: RetryClass::Final }
}

fn refusal(request: &ModelRequest, turn: &Turn) -> AgentFact {
    let is_filtered = turn.stop == StopReason::ContentFilter;
    AgentFact::Refused(EnvelopeRefusal {
        node_id: String::new().into(),
        provider: request.model.provider.clone(),
        model: request.model.model.clone(),
        safety_category: is_filtered.then(|| "content_filter".to_owned()),
    })
}

fn truncation(request: &ModelRequest, turn: &Turn) -> AgentFact {
    let tokens = turn.usage.map(|usage: TokenUsage| usage.output);
    AgentFact::Truncated(EnvelopeTruncated {
        node_id: String::new().into(),
        provider: request.model.provider.clone(),
        model: request.model.model.clone(),
        stop_reason: "max_tokens".to_owned(),
        partial_payload_available: Some(!turn.text.is_empty()),
        output_token_count: tokens,
    })
}
