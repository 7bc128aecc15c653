//! Our side of a conversation with `codex app-server`: initialize, open a thread, have one turn, hang up.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::consent::Asked;
use super::items::Tool;
use crate::backends::codex::{lines, profile};
use crate::backends::rpc::{self, Incoming, give_up, request};
use crate::error::FailureClass;
use crate::json::{self, Fields, Raw};
use crate::options::{Origin, Selector};
use crate::permission::Decision;
use crate::transcript::{Fact, Failure, Mapper, Terminal, Unreadable};

const INITIALIZE: i64 = 1;
const OPEN: i64 = 2;
const TURN: i64 = 3;

/// What a thread must hold to.
#[derive(Debug)]
pub(super) struct Terms {
    pub(super) working_dir: String,
    /// When it asks: `on-request` or `never`.
    pub(super) approval: &'static str,
    pub(super) sandbox: String,
    /// Whether the server was started with a profile that stands for the sandbox and hides paths. To name a sandbox as well
    /// would switch it off.
    pub(super) has_profile: bool,
    /// Whether the sandbox may reach the network.
    pub(super) may_fetch: bool,
    pub(super) model: Option<String>,
}

impl Terms {
    /// Whether a thread was opened as it was asked for: what is set elsewhere may reach further.
    fn are_kept(&self, opened: &Value) -> bool {
        let sandbox = match self.sandbox.as_str() {
            "read-only" => "readOnly",
            "workspace-write" => "workspaceWrite",
            _ => "dangerFullAccess",
        };
        opened["approvalPolicy"] == self.approval
            && opened["approvalsReviewer"] == "user"
            && opened["sandbox"]["type"] == sandbox
            && (!self.has_profile || opened["activePermissionProfile"]["id"] == profile::NAME)
            && (self.may_fetch || opened["sandbox"]["networkAccess"] != true)
    }
}

/// One conversation.
#[derive(Debug)]
pub(super) struct Dialogue {
    prompt: String,
    origin: Origin,
    pub(super) terms: Terms,
    pub(super) thread: Option<String>,
    /// The last message that was completed.
    pub(super) answer: Option<String>,
    /// Messages that have come in pieces.
    pub(super) streamed: BTreeSet<String>,
    /// Tools by the id of their item.
    pub(super) tools: BTreeMap<String, Tool>,
    /// What waits for a decision.
    pub(super) open: BTreeMap<String, Asked>,
}

impl Dialogue {
    pub(super) fn new(prompt: String, origin: Origin, terms: Terms) -> Self {
        Self {
            prompt,
            origin,
            terms,
            thread: None,
            answer: None,
            streamed: BTreeSet::new(),
            tools: BTreeMap::new(),
            open: BTreeMap::new(),
        }
    }

    /// The first message to the server.
    pub(super) fn opening() -> Value {
        let client = json!({
            "name": env!("CARGO_PKG_NAME"), "title": null, "version": env!("CARGO_PKG_VERSION"),
        });
        request(INITIALIZE, "initialize", &json!({ "clientInfo": client }))
    }

    fn answered(&mut self, id: i64, result: &Value, facts: &mut Vec<Fact>) {
        match id {
            INITIALIZE => {
                facts.push(Fact::Answer(json!({ "jsonrpc": "2.0", "method": "initialized" })));
                facts.push(Fact::Answer(self.opens()));
            }
            OPEN => self.opened(result, facts),
            // The turn has begun; its own notifications report its outcome.
            TURN => {}
            _ => facts.push(Fact::Unknown),
        }
    }

    fn opens(&self) -> Value {
        let mut params = json!({
            "cwd": self.terms.working_dir,
            "approvalPolicy": self.terms.approval,
            "approvalsReviewer": "user",
        });
        if !self.terms.has_profile {
            params["sandbox"] = self.terms.sandbox.as_str().into();
        }
        if let Some(model) = &self.terms.model {
            params["model"] = model.as_str().into();
        }
        match &self.origin {
            Origin::Resume(Selector::Id(id)) => {
                params["threadId"] = id.as_str().into();
                params["excludeTurns"] = true.into();
                request(OPEN, "thread/resume", &params)
            }
            // Forks are not offered, and whatever was the last has got its name before.
            _ => request(OPEN, "thread/start", &params),
        }
    }

    fn opened(&mut self, result: &Value, facts: &mut Vec<Fact>) {
        let Some(thread) = result["thread"]["id"].as_str() else {
            return give_up(
                facts,
                Failure::new(FailureClass::Protocol, "the agent opened no session"),
            );
        };
        if !self.terms.are_kept(result) {
            let reason = "codex is set up to do more than was granted";
            return give_up(facts, Failure::new(FailureClass::Permission, reason));
        }
        let input = json!([{ "type": "text", "text": self.prompt, "text_elements": [] }]);
        let params = json!({ "threadId": thread, "input": input });
        facts.push(Fact::Session(thread.to_owned()));
        facts.push(Fact::Answer(request(TURN, "turn/start", &params)));
        self.thread = Some(thread.to_owned());
    }

    fn refused(&self, id: i64, error: &Value, facts: &mut Vec<Fact>) {
        let message = error["message"].as_str().unwrap_or_default();
        let is_missing = id == OPEN
            && self.origin != Origin::New
            && (message.contains("no rollout found") || message.contains("thread not found"));
        let failure =
            if is_missing { Failure::session_not_found() } else { lines::failure(message) };
        give_up(facts, failure);
    }

    fn noticed(&mut self, method: &str, params: Raw<'_>, facts: &mut Vec<Fact>) {
        let notice: Fields<'_> = json::read(params).unwrap_or_default();
        let thread = notice.string("threadId");
        // Codex may have others work for it; what they say is between them.
        if thread.is_some() && thread.as_deref() != self.thread.as_deref() {
            return;
        }
        match method {
            "item/agentMessage/delta" => {
                self.streamed.insert(notice.text("itemId"));
                facts.push(Fact::Text(notice.text("delta")));
            }
            "item/reasoning/summaryTextDelta" => {
                facts.push(Fact::Thinking(notice.text("delta")));
            }
            "item/started" => self.started(&notice, facts),
            "item/completed" => self.completed(&notice, facts),
            "item/commandExecution/outputDelta" => self.runs(&notice, facts),
            "thread/tokenUsage/updated" => {
                facts.push(Fact::Usage(usage(&notice.value("tokenUsage"))))
            }
            "turn/started" => facts.push(Fact::Status("turn started".into())),
            "turn/completed" => self.finish(&notice.value("turn"), facts),
            "error" => {
                let again = notice.read("willRetry").unwrap_or_default();
                let said =
                    if again { "connecting to the model again" } else { "the turn has a problem" };
                facts.push(Fact::Status(said.into()));
            }
            "warning" | "configWarning" | "deprecationNotice" => {
                facts.push(Fact::Status("codex warns".into()));
            }
            "serverRequest/resolved" => {
                self.open.remove(&notice.value("requestId").to_string());
            }
            method if is_noise(method) => {}
            _ => facts.push(Fact::Unknown),
        }
    }

    fn finish(&mut self, turn: &Value, facts: &mut Vec<Fact>) {
        self.open.clear();
        match turn["status"].as_str() {
            Some("completed") => {
                facts.push(Fact::Status("turn completed".into()));
                let final_text = self.answer.take();
                facts.push(Fact::Ended(Terminal::Succeeded { final_text }));
                facts.push(Fact::HangUp);
            }
            Some("failed") => give_up(facts, failure(&turn["error"])),
            _ => give_up(facts, Failure::new(FailureClass::Crashed, "the turn was interrupted")),
        }
    }
}

impl Mapper for Dialogue {
    fn read(&mut self, line: &str, facts: &mut Vec<Fact>) -> Result<(), Unreadable> {
        match rpc::read(line)? {
            Incoming::Notice { method, params } => self.noticed(&method, params, facts),
            Incoming::Request { id, method, params } => self.asked(&id, &method, params, facts),
            Incoming::Result { id, result } => self.answered(id, &result, facts),
            Incoming::Error { id, error } => self.refused(id, &error, facts),
            Incoming::Unknown => facts.push(Fact::Unknown),
        }
        Ok(())
    }

    fn decide(&mut self, decision: &Decision, facts: &mut Vec<Fact>) {
        if let Some(asked) = self.open.remove(&decision.id) {
            self.reply(&asked, decision.permission, facts);
        }
    }

    fn asks(&self) -> bool {
        !self.open.is_empty()
    }

    fn ends_when_told(&self) -> bool {
        true
    }
}

/// What clients draw, and nothing else.
fn is_noise(method: &str) -> bool {
    let families = ["thread/", "account/", "turn/", "item/", "mcpServer/", "remoteControl/"];
    families.iter().any(|family| method.starts_with(family))
}

/// The status of the provider's answer stands in one of many shapes, or in the words.
fn failure(error: &Value) -> Failure {
    let shapes = error["codexErrorInfo"].as_object().into_iter().flatten();
    let mut statuses = shapes.filter_map(|(_, shape)| shape["httpStatusCode"].as_u64());
    match statuses.next().and_then(|status| u16::try_from(status).ok()) {
        Some(status) => Failure::http(status),
        None => lines::failure(error["message"].as_str().unwrap_or_default()),
    }
}

/// Of the whole thread, not of this turn alone.
fn usage(usage: &Value) -> Value {
    let total = &usage["total"];
    json!({
        "input_tokens": total["inputTokens"].as_u64(),
        "output_tokens": total["outputTokens"].as_u64(),
        "cached_input_tokens": total["cachedInputTokens"].as_u64(),
        "cumulative": true,
    })
}
