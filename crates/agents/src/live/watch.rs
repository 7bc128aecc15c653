//! Steps of a coding agent, recorded while it works.

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde_json::json;

use callboard_core::{AgentFact, Fact, ToolCalled, ToolReturned};
use callboard_engine::Call;
use callboard_protocol::{AgentSession, Failure, Object, Timestamp, ToolStatus};

use crate::ask::Speech;
use crate::coding::{CODING_PROVIDER, Step, StepSink};
use crate::model::{Delta, DeltaSink};

/// Facts that have no place among those of their kind are never known already.
const NO_PLACE: u32 = u32::MAX;

/// Watches one task.
pub(super) struct Watch<'a> {
    call: &'a Call,
    kind: &'a str,
    /// The outward call that the task is.
    index: u32,
    speech: Speech<'a>,
    /// Tools that are being used: their name, and since when.
    used: BTreeMap<String, (String, Timestamp)>,
}

impl<'a> Watch<'a> {
    pub(super) fn new(
        call: &'a Call,
        kind: &'a str,
        index: u32,
        verbosity: Option<String>,
    ) -> Self {
        let speech = Speech::new(call, None, verbosity);
        Self { call, kind, index, speech, used: BTreeMap::new() }
    }

    /// Closes what an attempt before left open.
    pub(super) async fn begin(&mut self, was_begun: bool) {
        if was_begun {
            self.record(AgentFact::AskedAgain).await;
        }
    }

    /// Records what is left. A tool call that was still open has failed.
    pub(super) async fn end(&mut self, is_last: bool) {
        self.speech.end(is_last).await;
        for id in self.used.keys().cloned().collect::<Vec<_>>() {
            self.returned(id, Err("the coding agent stopped while the tool was used")).await;
        }
    }

    /// Returns once it is on disk. An attempt that no longer counts learns so from its next outward call.
    async fn record(&self, fact: AgentFact) {
        let _ = self.call.record(vec![Fact::Agent { place: NO_PLACE, fact }]).await;
    }

    /// Ids of tools are unique within a session only, and a session may be resumed.
    fn call_id(&self, id: &str) -> String {
        let (call, attempt) = (self.call, &self.call.attempt);
        let (visit, number) = (attempt.visit, attempt.number);
        format!("{}-{}-{visit}.{number}-{}-{id}", call.run, attempt.node, self.index)
    }

    async fn called(&mut self, id: String, tool: String) {
        self.speech.end(false).await;
        if std::mem::take(&mut self.speech.is_thinking) {
            self.record(AgentFact::ThoughtPaused).await;
        }
        let tool = format!("{CODING_PROVIDER}:{}.{tool}", self.kind);
        let fact = AgentFact::ToolCalled(ToolCalled {
            tool: tool.clone(),
            call_id: self.call_id(&id),
            inputs: None,
            args_hash: None,
            principal: self.call.principal.as_ref().map(ToString::to_string),
            transport: "native".to_owned(),
        });
        self.record(fact).await;
        self.used.insert(id, (tool, self.call.now()));
    }

    async fn returned(&mut self, id: String, result: Result<Object, &str>) {
        // What was never called here cannot return.
        let Some((tool, since)) = self.used.remove(&id) else { return };
        self.speech.end(false).await;
        let took = self.call.now().since(since);
        let status = if result.is_ok() { ToolStatus::Ok } else { ToolStatus::Error };
        let returned = ToolReturned {
            tool,
            call_id: self.call_id(&id),
            result: result.map(Into::into).map_err(|message| Failure::new("tool_failed", message)),
            status,
            duration_ms: Some(u64::try_from(took.as_millis()).unwrap_or(u64::MAX)),
        };
        self.record(AgentFact::ToolReturned(returned)).await;
    }
}

#[async_trait]
impl StepSink for Watch<'_> {
    async fn pause(&mut self) {
        self.speech.end(false).await;
    }

    async fn tell(&mut self, step: Step) {
        match step {
            Step::Session(session_id) => {
                let session = AgentSession {
                    node_id: self.call.attempt.node.clone(),
                    coding_agent: self.kind.to_owned(),
                    session_id,
                    call: self.index,
                };
                self.record(AgentFact::InSession(session)).await;
            }
            Step::Text(text) => self.speech.tell(Delta::Text(text)).await,
            Step::Thinking(text) => self.speech.tell(Delta::Thinking(text)).await,
            Step::ToolCalled { id, tool } => self.called(id, tool).await,
            Step::ToolReturned { id, has_failed: true, .. } => {
                self.returned(id, Err("the coding agent's tool failed")).await;
            }
            Step::ToolReturned { id, has_failed: false, bytes, exit_code } => {
                let mut outcome = Object::from_iter([("bytes".to_owned(), json!(bytes))]);
                if let Some(code) = exit_code {
                    outcome.insert("exitCode".to_owned(), json!(code));
                }
                self.returned(id, Ok(outcome)).await;
            }
        }
    }
}
