//! Facts of agents within an attempt, and how often each kind was recorded before.
//!
//! A fact is known by its kind and its place among those of its kind within the visit. An attempt that starts afresh
//! goes through its finished calls again and states the same facts in the same places, so those are skipped. What comes
//! while a model is asked has no place, because no model is asked for the same answer twice: pieces of text and of
//! thinking, and what a coding agent does on its own.

mod reopen;
mod said;

use std::collections::BTreeMap;

use callboard_protocol::{
    AgentDecided, AgentInvocationCompleted, AgentInvocationStarted, AgentPromptResolved,
    AgentReasoned, AgentReasoningDelta, AgentSession, AgentToolCalled, AgentToolReturned,
    AuthorizationDecided, CapBreached, CapKind, EgressDecided, EnvelopeNlToFormatEngaged,
    EnvelopeRecoveryApplied, EnvelopeRefusal, EnvelopeRetryAttempted, EnvelopeRetryExhausted,
    EnvelopeTruncated, Event, Failure, InvocationOutcome, LogAppended, ModelCapabilityInsufficient,
    ModelCapabilitySubstituted, ModelFallback, NodeId, Object, OutputChunk, PromptComposed,
    PromptKind, PromptLayer, ProviderUsage, RunId, ToolStatus,
};
use serde_json::Value;

pub use said::{Invoked, ToolCalled, ToolReturned};

use super::models::KeptModels;
use super::outcomes::OutcomeCounts;
use crate::bounds::flatten;

/// A fact of an agent within an attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentFact {
    Invoked(Invoked),
    PromptResolved {
        kind: PromptKind,
        chain: Vec<PromptLayer>,
        resolved: Option<String>,
    },
    PromptComposed(PromptComposed),
    /// A piece of an answer while it is written.
    Text {
        text: String,
        is_last: bool,
        attempt: Option<u32>,
    },
    /// A piece of thinking while it is thought.
    Thinking {
        delta: String,
        verbosity: Option<String>,
    },
    /// A model is asked again: a block of thinking that a lost host left open is closed as it is, and what came
    /// of tools that a coding agent was using then is not known.
    AskedAgain,
    /// A call goes out again because the host that had sent it was lost, and the outcome of that is unknown.
    SentAgain {
        message: String,
        fields: Object,
    },
    /// A block of thinking has ended, and the turn has not.
    ThoughtPaused,
    /// A coding agent works in a session.
    InSession(AgentSession),
    Reasoned {
        reasoning: String,
        verbosity: Option<String>,
    },
    ToolCalled(ToolCalled),
    ToolReturned(ToolReturned),
    Egress(EgressDecided),
    Authorized(AuthorizationDecided),
    Decided {
        decision: Value,
        confidence: Option<f64>,
    },
    Concluded {
        outcome: InvocationOutcome,
        schema_validated: Option<bool>,
        confidence: Option<f64>,
    },
    Used(ProviderUsage),
    Truncated(EnvelopeTruncated),
    RetryAttempted {
        attempt: u32,
        reason: String,
    },
    RetryExhausted {
        attempts: u32,
        reason: String,
        limit: u32,
    },
    Refused(EnvelopeRefusal),
    Recovered {
        path: String,
        byte_offset: u64,
    },
    /// A model that only chats is asked once more, to put what it said into form.
    Reformatted {
        envelope_type: String,
        calls: u32,
    },
    Substituted(ModelCapabilitySubstituted),
    Insufficient(ModelCapabilityInsufficient),
    FellBack(ModelFallback),
    Noted {
        level: String,
        message: String,
        fields: Object,
    },
}

/// What the log holds of the agents of one node in its current visit.
#[derive(Debug, Clone, Default)]
pub(super) struct RecordedFacts {
    counts: BTreeMap<String, u32>,
    outcomes: OutcomeCounts,
    /// The block of thinking that is open, and how many pieces it has.
    thinking: Option<(String, u32)>,
    /// The invocation that is open.
    invocation: Option<String>,
    /// Where calls of tools stand in the log.
    calls: BTreeMap<String, u64>,
    models: KeptModels,
    /// Calls that were not answered yet, with the name of their tool.
    unanswered: BTreeMap<String, String>,
    /// Where a coding agent works.
    session: Option<AgentSession>,
}

impl RecordedFacts {
    pub(super) fn fold(&mut self, event: &Event, sequence: u64) {
        self.models.fold(event);
        self.outcomes.fold(event);
        match event {
            Event::AgentReasoningDelta(payload) => {
                let (text, pieces) = self.thinking.get_or_insert_default();
                text.push_str(&payload.delta);
                *pieces += 1;
                return;
            }
            Event::AgentReasoned(payload) => {
                self.thinking = None;
                if payload.torn {
                    return;
                }
            }
            Event::AgentInvocationStarted(payload) => {
                self.invocation = Some(payload.invocation_id.clone());
            }
            Event::AgentInvocationCompleted(_) => self.invocation = None,
            Event::AgentToolCalled(payload) => {
                self.calls.insert(payload.call_id.clone(), sequence);
                self.unanswered.insert(payload.call_id.clone(), payload.tool_name.clone());
            }
            Event::AgentToolReturned(payload) => {
                self.unanswered.remove(&payload.call_id);
            }
            Event::AgentSession(payload) => {
                self.session = Some(payload.clone());
                return;
            }
            Event::LogAppended(payload) if is_sent_again(payload) => return,
            _ => {}
        }
        *self.counts.entry(event.kind().to_owned()).or_default() += 1;
    }

    pub(super) fn outcomes(&self) -> OutcomeCounts {
        self.outcomes
    }

    pub(super) fn models(&self) -> &KeptModels {
        &self.models
    }

    pub(super) fn session(&self) -> Option<&AgentSession> {
        self.session.as_ref()
    }

    pub(super) fn has_called_tools(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Where the call stands that a tool has answered.
    pub(super) fn called(&self, call_id: &str) -> Option<u64> {
        self.calls.get(call_id).copied()
    }
}

/// What marks a call that went out again.
const SENT_AGAIN: &str = "call_sent_again";

fn is_sent_again(payload: &LogAppended) -> bool {
    payload.fields.get("code").and_then(Value::as_str) == Some(SENT_AGAIN)
}

/// The events of facts, one after the other.
#[derive(Debug)]
pub(super) struct FactWriter<'a> {
    pub(super) run: &'a RunId,
    pub(super) node: NodeId,
    /// None where no agent performs the node: then only what any call of a model comes to can be recorded.
    pub(super) agent: Option<String>,
    /// How many invocations the node has had in the whole run.
    pub(super) invocations: u32,
    pub(super) recorded: RecordedFacts,
}

impl FactWriter<'_> {
    /// The events that a fact stands for: none if it was recorded before.
    pub(super) fn events_of(&mut self, place: u32, fact: &AgentFact) -> Vec<Event> {
        let mut events = Vec::new();
        if matches!(fact, AgentFact::AskedAgain) {
            events.extend(self.forsaken());
        }
        let Some(event) = self.event(fact) else { return events };
        let has_place = !matches!(
            fact,
            AgentFact::Text { .. }
                | AgentFact::Thinking { .. }
                | AgentFact::AskedAgain
                | AgentFact::SentAgain { .. }
                | AgentFact::ThoughtPaused
                | AgentFact::InSession(_)
        );
        let known = self.recorded.counts.get(event.kind()).copied().unwrap_or_default();
        if has_place && place < known {
            return events;
        }
        if matches!(event, Event::AgentInvocationStarted(_)) {
            self.invocations += 1;
        }
        self.recorded.fold(&event, 0);
        events.push(event);
        if let AgentFact::RetryExhausted { attempts, limit, .. } = fact {
            events.push(Event::CapBreached(CapBreached {
                kind: CapKind::Schema,
                limit: u64::from(*limit).into(),
                observed: u64::from(*attempts).into(),
                node_id: Some(self.node.clone()),
                details: None,
            }));
        }
        events
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each fact")]
    fn event(&self, fact: &AgentFact) -> Option<Event> {
        let (node_id, agent_id) = (Some(self.node.clone()), self.agent.clone());
        let node = self.node.clone();
        Some(match fact.clone() {
            AgentFact::Invoked(invoked) => self.started(agent_id?, invoked),
            AgentFact::PromptResolved { kind, chain, resolved } => {
                Event::AgentPromptResolved(AgentPromptResolved {
                    node_id: node,
                    kind,
                    agent_id,
                    chain,
                    resolved,
                })
            }
            AgentFact::PromptComposed(composed) => {
                Event::PromptComposed(PromptComposed { node_id: node, ..composed })
            }
            AgentFact::Text { text, is_last, attempt } => Event::OutputChunk(OutputChunk {
                node_id: node,
                run_id: self.run.clone(),
                chunk: text,
                is_last,
                meta: None,
                attempt,
            }),
            AgentFact::Thinking { delta, verbosity } => {
                let sequence = self.recorded.thinking.as_ref().map_or(0, |(_, pieces)| *pieces);
                Event::AgentReasoningDelta(AgentReasoningDelta {
                    node_id,
                    agent_id: agent_id?,
                    delta,
                    sequence,
                    verbosity,
                })
            }
            AgentFact::AskedAgain | AgentFact::ThoughtPaused => {
                let (reasoning, _) = self.recorded.thinking.clone()?;
                let verbosity = None;
                Event::AgentReasoned(AgentReasoned {
                    node_id,
                    agent_id: agent_id?,
                    reasoning,
                    verbosity,
                    torn: true,
                })
            }
            AgentFact::Reasoned { reasoning, verbosity } => Event::AgentReasoned(AgentReasoned {
                node_id,
                agent_id: agent_id?,
                reasoning,
                verbosity,
                torn: false,
            }),
            AgentFact::InSession(session) => {
                let session = AgentSession { node_id: node, ..session };
                // A session that goes on says so again.
                if self.recorded.session.as_ref() == Some(&session) {
                    return None;
                }
                Event::AgentSession(session)
            }
            AgentFact::ToolCalled(called) => self.called(agent_id?, called),
            AgentFact::ToolReturned(returned) => self.returned(agent_id?, returned),
            AgentFact::Egress(decided) => {
                Event::EgressDecided(EgressDecided { node_id, ..decided })
            }
            AgentFact::Authorized(decided) => {
                Event::AuthorizationDecided(AuthorizationDecided { node_id, ..decided })
            }
            AgentFact::Decided { decision, confidence } => Event::AgentDecided(AgentDecided {
                node_id,
                agent_id: agent_id?,
                decision,
                confidence,
            }),
            AgentFact::Concluded { outcome, schema_validated, confidence } => {
                Event::AgentInvocationCompleted(AgentInvocationCompleted {
                    node_id,
                    invocation_id: self.recorded.invocation.clone().unwrap_or_default(),
                    agent_id: agent_id?,
                    outcome,
                    schema_validated,
                    confidence,
                })
            }
            AgentFact::Used(usage) => Event::ProviderUsage(ProviderUsage { node_id, ..usage }),
            AgentFact::Truncated(truncated) => {
                Event::EnvelopeTruncated(EnvelopeTruncated { node_id: node, ..truncated })
            }
            AgentFact::RetryAttempted { attempt, reason } => {
                Event::EnvelopeRetryAttempted(EnvelopeRetryAttempted {
                    node_id: node,
                    attempt,
                    reason,
                })
            }
            AgentFact::RetryExhausted { attempts, reason, .. } => {
                Event::EnvelopeRetryExhausted(EnvelopeRetryExhausted {
                    node_id: node,
                    total_attempts: attempts,
                    final_reason: reason,
                })
            }
            AgentFact::Refused(refusal) => {
                Event::EnvelopeRefusal(EnvelopeRefusal { node_id: node, ..refusal })
            }
            AgentFact::Recovered { path, byte_offset } => {
                let byte_offset = Some(byte_offset);
                Event::EnvelopeRecoveryApplied(EnvelopeRecoveryApplied {
                    node_id: node,
                    path,
                    byte_offset,
                })
            }
            AgentFact::Reformatted { envelope_type, calls } => {
                Event::EnvelopeNlToFormatEngaged(EnvelopeNlToFormatEngaged {
                    node_id: node,
                    original_envelope_type: envelope_type,
                    fallback_calls: Some(calls),
                })
            }
            AgentFact::Substituted(substituted) => {
                Event::ModelCapabilitySubstituted(ModelCapabilitySubstituted {
                    node_id: node,
                    ..substituted
                })
            }
            AgentFact::Insufficient(insufficient) => {
                Event::ModelCapabilityInsufficient(ModelCapabilityInsufficient {
                    node_id: node,
                    ..insufficient
                })
            }
            AgentFact::FellBack(fallback) => {
                Event::ModelFallback(ModelFallback { node_id: node, ..fallback })
            }
            AgentFact::SentAgain { message, mut fields } => {
                fields.insert("code".to_owned(), SENT_AGAIN.into());
                Event::LogAppended(LogAppended {
                    node_id,
                    level: "warn".to_owned(),
                    message,
                    fields,
                })
            }
            AgentFact::Noted { level, message, fields } => {
                Event::LogAppended(LogAppended { node_id, level, message, fields })
            }
        })
    }

    fn started(&self, agent_id: String, invoked: Invoked) -> Event {
        let (resolved_provider, resolved_model) = invoked.model.unzip();
        Event::AgentInvocationStarted(AgentInvocationStarted {
            node_id: Some(self.node.clone()),
            invocation_id: format!("{}:{}:{}", self.run, self.node, self.invocations),
            agent_id,
            source: invoked.source,
            model_class: Some(invoked.model_class),
            resolved_model,
            resolved_provider,
            resolved_agent_version: Some(invoked.version),
            resolved_channel: invoked.channel,
            tool_surface_count: invoked.tools,
            memory_bound: invoked.memory,
        })
    }

    /// Every call gets its return, also when the host was lost in between.
    fn forsaken(&mut self) -> Vec<Event> {
        let Some(agent_id) = self.agent.clone() else { return Vec::new() };
        let why = "the host was lost while the tool was used";
        let calls = std::mem::take(&mut self.recorded.unanswered);
        let events: Vec<Event> = calls
            .iter()
            .map(|(call_id, tool)| self.unknown(agent_id.clone(), call_id, tool, why))
            .collect();
        events.iter().for_each(|event| self.recorded.fold(event, 0));
        events
    }

    /// The next event that closes what the agent has open where its node is stopped from outside: a call that
    /// nobody waits for, a block of thinking, the invocation.
    pub(super) fn loose_end(&self) -> Option<Event> {
        let (agent_id, _) = (self.agent.clone()?, self.recorded.invocation.as_ref()?);
        if let Some((call_id, tool)) = self.recorded.unanswered.first_key_value() {
            return Some(self.unknown(agent_id, call_id, tool, "the node ended before the tool"));
        }
        let (outcome, schema_validated, confidence) = (InvocationOutcome::Failed, None, None);
        self.event(&AgentFact::ThoughtPaused)
            .or_else(|| self.event(&AgentFact::Concluded { outcome, schema_validated, confidence }))
    }

    /// All of them, one after the other.
    pub(super) fn loose_ends(mut self) -> Vec<Event> {
        let next = || {
            let event = self.loose_end()?;
            self.recorded.fold(&event, 0);
            Some(event)
        };
        std::iter::from_fn(next).collect()
    }

    fn unknown(&self, agent_id: String, call_id: &str, tool: &str, why: &str) -> Event {
        let returned = ToolReturned {
            tool: tool.to_owned(),
            call_id: call_id.to_owned(),
            result: Err(Failure::new("outcome_unknown", why)),
            status: ToolStatus::Error,
            duration_ms: None,
        };
        self.returned(agent_id, returned)
    }

    fn called(&self, agent_id: String, mut called: ToolCalled) -> Event {
        called.inputs.iter_mut().for_each(flatten);
        Event::AgentToolCalled(AgentToolCalled {
            node_id: Some(self.node.clone()),
            agent_id,
            tool_name: called.tool,
            call_id: called.call_id,
            inputs: called.inputs,
            args_hash: called.args_hash,
            principal: called.principal,
            transport: Some(called.transport),
        })
    }

    fn returned(&self, agent_id: String, returned: ToolReturned) -> Event {
        let (outcome, error) = match returned.result {
            Ok(mut outcome) => {
                flatten(&mut outcome);
                (Some(outcome), None)
            }
            Err(error) => (None, Some(error)),
        };
        Event::AgentToolReturned(AgentToolReturned {
            node_id: Some(self.node.clone()),
            agent_id,
            tool_name: returned.tool,
            call_id: returned.call_id,
            outcome,
            error,
            status: Some(returned.status),
            duration_ms: returned.duration_ms,
        })
    }
}
