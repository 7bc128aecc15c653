//! One run of a program: what it prints, as steps, until it has ended.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::Value;

use callboard_agent_api::bounds::TRUNCATED;
use callboard_agent_api::{
    AgentCompletion, AgentError, AgentEvent, AgentEventKind, AgentRunRequest, AttendedRun,
    CliBackend, FailureClass, Grant, Permission, PermissionRequest, session_id,
};
use callboard_agents::{
    Begin, CodingDecision, CodingError, CodingFault, CodingPermission, CodingReport, CodingTask,
    Step, StepSink,
};

use super::held::{Held, Waiting};
use super::{failed, kinds, usage};

/// An agent that prints nothing for so long has said what it had to say for now.
const QUIET: Duration = Duration::from_millis(100);

/// An answer that is there already needs a moment to be given, however short programs are held.
const MOMENT: Duration = Duration::from_secs(10);

/// Listens for one task.
pub(super) struct Listener<'a> {
    pub(super) backend: &'a CliBackend,
    pub(super) grants: &'a BTreeSet<Grant>,
    pub(super) task: &'a CodingTask<'a>,
    pub(super) held: &'a Held,
    /// How long a program is held while a person is asked.
    pub(super) hold: Duration,
}

/// What was said since the agent last used a tool, and in which session.
#[derive(Default)]
pub(super) struct Heard {
    text: String,
    thinking: String,
    session: Option<String>,
}

impl fmt::Debug for Heard {
    /// Leaves out what was said.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heard").field("session", &self.session).finish_non_exhaustive()
    }
}

impl Listener<'_> {
    /// Dropping this drops the run's handle, which ends the program.
    pub(super) async fn run(
        &self,
        request: AgentRunRequest,
        steps: &mut dyn StepSink,
    ) -> Result<CodingReport, CodingError> {
        let hold = match self.task.decision {
            Some(_) => self.hold.max(MOMENT),
            None => self.hold,
        };
        let started = self.backend.run_attended(request, hold).await;
        let run = started.map_err(|error| failed(self.task.kind, &error))?;
        let worked = self.listen(run, Heard::default(), self.task.decision, steps).await;
        worked.map_err(|error| self.failed(&error))
    }

    /// Agents of the operator's own turn out what they offer when they are asked.
    fn failed(&self, error: &AgentError) -> CodingError {
        let kind = self.task.kind;
        let cannot_resume = error.class() == Some(FailureClass::InvalidRequest)
            && self.task.begin != Begin::Fresh
            && kinds::find(kind).is_none();
        if cannot_resume {
            let message = "it cannot resume a session that was stopped";
            return CodingError::new(kind, CodingFault::SessionMissing, message);
        }
        failed(kind, error)
    }

    /// Continues with a program that was kept waiting. None: it ended before it got the answer.
    pub(super) async fn go_on(
        &self,
        waiting: Waiting,
        decision: CodingDecision<'_>,
        steps: &mut dyn StepSink,
    ) -> Result<Option<CodingReport>, CodingError> {
        let Waiting { run, heard, request } = waiting;
        if !run.decisions.decide(&request, permission(decision)).await {
            return Ok(None);
        }
        match self.listen(run, heard, None, steps).await {
            Err(error) if error.class() == Some(FailureClass::Permission) => Ok(None),
            other => other.map(Some).map_err(|error| failed(self.task.kind, &error)),
        }
    }

    /// Reads until the program has ended, or asks for something that is not decided yet.
    async fn listen(
        &self,
        mut run: AttendedRun,
        mut heard: Heard,
        mut decision: Option<CodingDecision<'_>>,
        steps: &mut dyn StepSink,
    ) -> Result<CodingReport, AgentError> {
        let mut is_quiet = true;
        loop {
            // Losing the wait is fine: an event that was not read yet stays in the stream.
            let next = run.control.handle.events.next();
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
            if let Some(asked) = PermissionRequest::of(&event) {
                // A decision is for one use of what it was about, in whatever program.
                if let Some(decided) = decision.take_if(|decision| is_about(decision, &asked)) {
                    run.decisions.decide(&asked.id, permission(decided)).await;
                    continue;
                }
                return Ok(self.hold(run, heard, asked));
            }
            if let Some(step) = self.step(event, &mut heard) {
                steps.tell(step).await;
            }
        }
        Ok(self.report(run.control.handle.completion.await?, heard))
    }

    fn hold(&self, run: AttendedRun, heard: Heard, asked: PermissionRequest) -> CodingReport {
        let PermissionRequest { id: request, tool, title, input, is_whole } = asked;
        let (id, session) = (self.task.effect.to_owned(), heard.session.clone());
        let waiting = Waiting { run, heard, request };
        self.held.keep(id.clone(), (self.task.tenant, self.task.run), waiting);
        let asks = Some(CodingPermission { id, tool, title, input, is_whole });
        CodingReport { session, asks, ..CodingReport::default() }
    }

    /// Status, intermediate errors and unknown lines stay out of the log.
    fn step(&self, event: AgentEvent, heard: &mut Heard) -> Option<Step> {
        match event.kind {
            AgentEventKind::TextOutput => {
                let text = event.text?;
                heard.text.push_str(&text);
                Some(Step::Text(text))
            }
            AgentEventKind::Status => match event.data.as_ref().and_then(session_id) {
                Some(id) => {
                    heard.session = Some(id.to_owned());
                    Some(Step::Session(id.to_owned()))
                }
                None if event.channel.as_deref() == Some(AgentEvent::THINKING) => {
                    let text = event.message?;
                    heard.thinking.push_str(&text);
                    Some(Step::Thinking(text))
                }
                None => None,
            },
            AgentEventKind::ToolCall => {
                let tool = self.called(event.data.as_ref()?)?;
                heard.text.clear();
                heard.thinking.clear();
                Some(tool)
            }
            AgentEventKind::ToolResult => returned(event.data.as_ref()?),
            AgentEventKind::Error | AgentEventKind::Unknown => None,
        }
    }

    /// A tool that was not granted is denied by the agent itself, and such a call is not recorded.
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
        let counted = usage::read(self.task.kind, &data["usage"], self.task.spent);
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
            asks: None,
        }
    }
}

fn permission(decision: CodingDecision<'_>) -> Permission {
    if decision.is_allowed { Permission::Granted } else { Permission::Denied }
}

/// Only what was seen whole can be known again.
fn is_about(decision: &CodingDecision<'_>, asked: &PermissionRequest) -> bool {
    let known = decision.permission;
    known.is_whole
        && asked.is_whole
        && (&known.tool, &known.title, &known.input) == (&asked.tool, &asked.title, &asked.input)
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
