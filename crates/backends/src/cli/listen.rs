//! One run of a program: what it prints, as steps, until it has ended.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::Value;

use callboard_agent_api::bounds::TRUNCATED;
use callboard_agent_api::{
    AgentBackend as _, AgentCompletion, AgentEvent, AgentEventKind, AgentRunRequest, CliBackend,
    Grant, session_id,
};
use callboard_agents::{CodingError, CodingReport, Errand, Step, StepSink};

use super::{failed, usage};

/// An agent that prints nothing for so long has said what it had to say for now.
const QUIET: Duration = Duration::from_millis(100);

/// Listens for one errand.
pub(super) struct Listener<'a> {
    pub(super) backend: &'a CliBackend,
    pub(super) grants: &'a BTreeSet<Grant>,
    pub(super) errand: &'a Errand<'a>,
}

/// What was said since the agent last used a tool.
#[derive(Default)]
struct Heard {
    text: String,
    thinking: String,
}

impl Listener<'_> {
    /// Dropping this drops the run's handle, which ends the program.
    pub(super) async fn run(
        &self,
        request: AgentRunRequest,
        steps: &mut dyn StepSink,
    ) -> Result<CodingReport, CodingError> {
        let kind = self.errand.kind;
        let started = self.backend.run_control(request).await;
        let mut run = started.map_err(|error| failed(kind, &error))?;
        let mut heard = Heard::default();
        let mut is_quiet = true;
        loop {
            // Losing the wait is fine: an event that was not read yet stays in the stream.
            let next = run.handle.events.next();
            let event = match tokio::time::timeout(QUIET, next).await {
                Ok(Some(event)) => event,
                Ok(None) => break,
                Err(_) => {
                    if !std::mem::replace(&mut is_quiet, true) {
                        steps.pause().await;
                    }
                    continue;
                }
            };
            is_quiet = false;
            if let Some(step) = self.step(event, &mut heard) {
                steps.tell(step).await;
            }
        }
        let completion = run.handle.completion.await.map_err(|error| failed(kind, &error))?;
        Ok(self.report(completion, heard))
    }

    /// Status, errors on the way and lines that nobody knows stay outside of the log.
    fn step(&self, event: AgentEvent, heard: &mut Heard) -> Option<Step> {
        match event.kind {
            AgentEventKind::TextOutput => {
                let text = event.text?;
                heard.text.push_str(&text);
                Some(Step::Text(text))
            }
            AgentEventKind::Status => match event.data.as_ref().and_then(session_id) {
                Some(id) => Some(Step::Session(id.to_owned())),
                None if event.channel.as_deref() == Some(AgentEvent::THINKING) => {
                    let text = event.message?;
                    heard.thinking.push_str(&text);
                    Some(Step::Thinking(text))
                }
                None => None,
            },
            AgentEventKind::ToolCall => {
                let tool = self.called(event.data.as_ref()?)?;
                *heard = Heard::default();
                Some(tool)
            }
            AgentEventKind::ToolResult => returned(event.data.as_ref()?),
            AgentEventKind::Error | AgentEventKind::Unknown => None,
        }
    }

    /// A tool that was not granted is denied by the agent itself, and nothing tells of such a call.
    fn called(&self, data: &Value) -> Option<Step> {
        let facet = &data["tool"];
        if facet["phase"] != "start" {
            return None;
        }
        let tool = facet["tool_name"].as_str().or_else(|| facet["kind"].as_str())?;
        let is_granted = self.backend.is_granted(self.grants, tool);
        is_granted.then(|| Step::ToolCalled { id: id_of(facet), tool: tool.to_owned() })
    }

    fn report(&self, completion: AgentCompletion, heard: Heard) -> CodingReport {
        let data = completion.data.unwrap_or_default();
        let counted = usage::read(self.errand.kind, &data["usage"], self.errand.spent);
        // A final text that was cut is whole in what was heard.
        let text = completion.final_text.filter(|text| !text.ends_with(TRUNCATED));
        CodingReport {
            text: text.unwrap_or(heard.text),
            thinking: heard.thinking,
            session: session_id(&data).map(str::to_owned),
            usage: counted.usage,
            session_usage: counted.session,
            cost_usd: counted.cost_usd,
            denials: data["permission_denials"].as_u64().unwrap_or_default(),
        }
    }
}

fn returned(data: &Value) -> Option<Step> {
    let facet = &data["tool"];
    let has_failed = match facet["phase"].as_str()? {
        "complete" => false,
        "fail" => true,
        _ => return None,
    };
    let sizes = ["stdout", "stderr", "diff", "result"].map(|side| facet["bytes"][side].as_u64());
    Some(Step::ToolReturned {
        id: id_of(facet),
        has_failed,
        bytes: sizes.into_iter().flatten().sum(),
        exit_code: facet["exit_code"].as_i64(),
    })
}

/// An agent that gives no ids uses its tools one after the other.
fn id_of(facet: &Value) -> String {
    facet["tool_use_id"].as_str().unwrap_or("tool").to_owned()
}
