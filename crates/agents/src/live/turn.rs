//! The conversation with a model, until it answers: every turn asked once, judged, told.

use std::time::Duration;

use serde_json::Value;

use callboard_core::{AgentFact, Fact, Outcome, RetryClass};
use callboard_engine::{Call, Effect, OnUnknown, Once, Stumble};
use callboard_protocol::{EnvelopeRefusal, EnvelopeTruncated, Failure, SecretName};

use super::speech::Speech;
use super::{End, Work};
use crate::model::{
    Exhausted, ExhaustedReason, Message, Model, ModelError, ModelRef, ModelRequest, RetryAdvice,
    StopReason, TokenUsage, ToolReply, Tries, Turn, Verdict, judge,
};

/// How often a provider that is in trouble is called for one turn.
const MOST_CALLS: u32 = 3;
/// Before the second call; each later wait is three times the one before.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// A provider that wants to be left alone for longer is asked by a later attempt.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// As much thinking as a summary holds.
const SUMMARY_CHARS: usize = 2_000;

impl Work<'_> {
    /// Asks, has tools called, asks again: until there is an answer that can be taken.
    pub(super) async fn converse(&mut self, mut request: ModelRequest) -> Result<Value, End> {
        let settings = &self.host.settings;
        let (most, ceiling) = (settings.schema_rounds, settings.output_ceiling);
        let (mut made, mut repairs, mut rounds) = (0, 0, 0);
        loop {
            made += 1;
            let turn = self.ask(&mut request).await?;
            let max_output_tokens = request.max_output_tokens;
            let tries = Tries { made, most, repairs, max_output_tokens, ceiling };
            match judge(&turn, self.contract.judged.as_ref(), tries) {
                Verdict::Accepted { value, recovery } => {
                    if let Some(recovery) = recovery {
                        self.tale.note(AgentFact::Recovered {
                            path: recovery.path.as_str().to_owned(),
                            byte_offset: recovery.byte_offset as u64,
                        });
                    }
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
                    return Err(self.exhausted(end, most));
                }
            }
        }
    }

    fn retried(&mut self, attempt: u32, reason: ExhaustedReason) {
        let reason = reason.as_str().to_owned();
        self.tale.note(AgentFact::RetryAttempted { attempt, reason });
    }

    fn exhausted(&mut self, end: Exhausted, limit: u32) -> End {
        let reason = end.reason.as_str().to_owned();
        self.tale.note(AgentFact::RetryExhausted { attempts: end.attempts, reason, limit });
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

    /// One turn, with what is told of it. Asked once: a recorded turn costs nothing.
    async fn ask(&mut self, request: &mut ModelRequest) -> Result<Turn, End> {
        let (call, models) = (self.call, &*self.host.models);
        let index = self.next_call();
        let attempt = &call.attempt;
        request.call_prefix = format!("{}-{}-{}-{index}", call.run, attempt.node, attempt.visit);
        let ModelRef { provider, model } = request.model.clone();
        let is_priced = self.host.prices.knows(&request.model);
        call.admits_model(&provider, &model, is_priced).await.map_err(End::Failed)?;
        self.tale.tell().await?;
        let (verbosity, credential) = (self.verbosity(), self.credential.clone());
        let effect = Effect { index, provider: &provider, on_unknown: OnUnknown::Repeat };
        let mut wait = None;
        let asked =
            call.once(effect, |once| {
                let wait = &mut wait;
                let (request, verbosity) = (&*request, verbosity.clone());
                let credential = credential.clone();
                async move {
                    Asking { call, models, verbosity, credential }.turn(request, once, wait).await
                }
            });
        let asked = asked.await;
        if let (Err(_), Some((wait, failure))) = (&asked, wait) {
            return Err(End::Later(Outcome::Later { until: call.now().plus(wait), failure }));
        }
        let turn: Turn = serde_json::from_value(asked?).map_err(|error| {
            End::Failed(Failure::new("internal_error", format!("a kept turn: {error}")))
        })?;
        let usage = turn.usage.unwrap_or_default();
        let priced = self.host.prices.usage(&request.model, &usage, None);
        self.tale.note(AgentFact::Used(match turn.usage {
            Some(_) => priced,
            // What nobody counted has no price.
            None => callboard_protocol::ProviderUsage {
                cost_estimate_usd: None,
                currency: None,
                ..priced
            },
        }));
        self.thought(&turn);
        Ok(turn)
    }

    fn thought(&mut self, turn: &Turn) {
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
    fn verbosity(&self) -> Option<String> {
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

/// A provider that is asked for one turn.
struct Asking<'a> {
    call: &'a Call,
    models: &'a dyn Model,
    verbosity: Option<String>,
    /// The secret that holds the run's own key.
    credential: Option<SecretName>,
}

impl Asking<'_> {
    /// Calls the provider until it answers or there is no use in it.
    async fn turn(
        &self,
        request: &ModelRequest,
        once: Once,
        long_wait: &mut Option<(Duration, Failure)>,
    ) -> Result<Value, Stumble> {
        self.call.clear_call().await?;
        let mut request = request.clone();
        request.idempotency_key = once.id.to_string();
        if let Some(name) = &self.credential {
            request.key = Some(self.call.secret(name).await?);
        }
        let mut is_torn = once.perhaps_made.is_some();
        let mut pause = FIRST_WAIT;
        for made in 1.. {
            if is_torn {
                let fact = Fact::Agent { place: 0, fact: AgentFact::AskedAgain };
                // An attempt that no longer counts learns so when the turn is to be kept.
                let _ = self.call.tell(vec![fact]).await;
            }
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
            is_torn = speech.is_thinking;
            let RetryAdvice::Retry { after } = error.advice() else {
                return Err(stumble(failure_of(&error)));
            };
            let wait = after.unwrap_or(pause).max(pause);
            if wait > LONGEST_WAIT {
                *long_wait = Some((wait, failure_of(&error)));
                return Err(Stumble { failure: failure_of(&error), class: RetryClass::Retryable });
            }
            if made == MOST_CALLS {
                return Err(stumble(failure_of(&error)));
            }
            self.call.pause(wait).await;
            pause *= 3;
        }
        Err(stumble(Failure::new("internal_error", "the model was never asked")))
    }
}

fn failure_of(error: &ModelError) -> Failure {
    Failure::new(error.code(), error.to_string())
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
