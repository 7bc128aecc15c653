//! Our side of the Agent Client Protocol: initialize, open a session, prompt, hang up.

mod consent;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::backends::rpc::{self, Incoming, NO_SUCH_METHOD, give_up, request};
use crate::error::FailureClass;
use crate::facet::{ToolBytes, ToolEnd, ToolFacet};
use crate::grant::Grant;
use crate::json::{self, Fields, Raw};
use crate::options::{Origin, Selector};
use crate::permission::Decision;
use crate::transcript::{Fact, Failure, Mapper, Terminal, Unreadable};

use consent::Asked;

const INITIALIZE: i64 = 1;
const OPEN: i64 = 2;
const PROMPT: i64 = 3;
/// The protocol's code for a caller who has to log in.
const LOGIN_REQUIRED: i64 = -32000;

/// One conversation. Text that comes before our prompt is history and is not reported again.
#[derive(Debug)]
pub(super) struct Dialogue {
    pub(super) prompt: String,
    pub(super) working_dir: String,
    pub(super) origin: Origin,
    pub(super) grants: BTreeSet<Grant>,
    /// Whether a person decides about what was not granted.
    pub(super) is_attended: bool,
    session: Option<String>,
    prompted: bool,
    answer: String,
    /// Tools by the id of their use, until they end.
    tools: BTreeMap<String, Tool>,
    /// What waits for a decision.
    open: BTreeMap<String, Asked>,
}

#[derive(Debug, Default)]
struct Tool {
    kind: String,
    is_told: bool,
    /// The use of a tool that was not allowed is not reported.
    is_denied: bool,
}

impl Dialogue {
    pub(super) fn new(
        prompt: String,
        working_dir: String,
        origin: Origin,
        grants: BTreeSet<Grant>,
    ) -> Self {
        Self {
            prompt,
            working_dir,
            origin,
            grants,
            is_attended: false,
            session: None,
            prompted: false,
            answer: String::new(),
            tools: BTreeMap::new(),
            open: BTreeMap::new(),
        }
    }

    /// The first message to the agent. We offer it no capability: no files, no terminal.
    pub(super) fn opening() -> Value {
        request(
            INITIALIZE,
            "initialize",
            &json!({
                "protocolVersion": 1,
                "clientCapabilities": {
                    "fs": { "readTextFile": false, "writeTextFile": false },
                    "terminal": false,
                },
            }),
        )
    }

    fn answered(&mut self, id: i64, result: &Value, facts: &mut Vec<Fact>) {
        match id {
            INITIALIZE => self.open(&result["agentCapabilities"], facts),
            OPEN => {
                let session = result["sessionId"].as_str().map(str::to_owned).or_else(|| {
                    match &self.origin {
                        // Resuming keeps the id; forking must name its own.
                        Origin::Resume(Selector::Id(id)) => Some(id.clone()),
                        _ => None,
                    }
                });
                match session {
                    Some(session) => self.send_prompt(session, facts),
                    None => give_up(facts, protocol("the agent opened no session")),
                }
            }
            PROMPT => self.finish(result, facts),
            _ => facts.push(Fact::Unknown),
        }
    }

    /// Opens the session in the way that was asked for, and in no other.
    fn open(&mut self, offered: &Value, facts: &mut Vec<Fact>) {
        let has = |name: &str| offered["sessionCapabilities"][name].is_object();
        let opened = match &self.origin {
            Origin::New => Some(("session/new", None)),
            Origin::Resume(Selector::Id(id)) if has("resume") => Some(("session/resume", Some(id))),
            Origin::Resume(Selector::Id(id)) if offered["loadSession"] == true => {
                Some(("session/load", Some(id)))
            }
            Origin::Fork(Selector::Id(id)) if has("fork") => Some(("session/fork", Some(id))),
            Origin::Resume(_) | Origin::Fork(_) => None,
        };
        let Some((method, session)) = opened else {
            return give_up(facts, unsupported());
        };
        let mut params = json!({ "cwd": self.working_dir, "mcpServers": [] });
        if let Some(session) = session {
            params["sessionId"] = session.as_str().into();
        }
        facts.push(Fact::Answer(request(OPEN, method, &params)));
    }

    fn send_prompt(&mut self, session: String, facts: &mut Vec<Fact>) {
        let params = json!({
            "sessionId": session,
            "prompt": [{ "type": "text", "text": self.prompt }],
        });
        facts.push(Fact::Session(session.clone()));
        facts.push(Fact::Answer(request(PROMPT, "session/prompt", &params)));
        self.session = Some(session);
        self.prompted = true;
    }

    fn finish(&mut self, result: &Value, facts: &mut Vec<Fact>) {
        self.open.clear();
        let (usage, quota) = (&result["usage"], &result["_meta"]["quota"]["token_count"]);
        let count = |ours: &str, theirs: &str| usage[ours].as_u64().or(quota[theirs].as_u64());
        facts.push(Fact::Usage(json!({
            "input_tokens": count("inputTokens", "input_tokens"),
            "output_tokens": count("outputTokens", "output_tokens"),
        })));
        let failure = match result["stopReason"].as_str() {
            Some("end_turn") => {
                let final_text = Some(std::mem::take(&mut self.answer));
                facts.push(Fact::Ended(Terminal::Succeeded { final_text }));
                return facts.push(Fact::HangUp);
            }
            Some("max_turn_requests") => {
                Failure::new(FailureClass::TurnLimit, "the agent reached its limit of turns")
            }
            Some("max_tokens") => protocol("the answer was cut off at its limit of tokens"),
            Some("refusal") => Failure::refused(),
            _ => protocol("the agent stopped for no known reason"),
        };
        give_up(facts, failure);
    }

    fn refused(&self, id: i64, error: &Value, facts: &mut Vec<Fact>) {
        let message = error["message"].as_str().unwrap_or_default();
        let detail = error["data"].to_string();
        let continues = self.origin != Origin::New;
        let missing = message.to_ascii_lowercase().contains("not found")
            || detail.to_ascii_lowercase().contains("not found");
        let failure = match error["code"].as_i64() {
            Some(NO_SUCH_METHOD) => unsupported(),
            Some(LOGIN_REQUIRED) => Failure::new(FailureClass::Auth, "the agent asks for a login"),
            _ if id == OPEN && continues && missing => Failure::session_not_found(),
            _ => match json::http_status(message).or_else(|| json::http_status(&detail)) {
                Some(status) => Failure::http(status),
                None => Failure::new(FailureClass::Crashed, "the agent reported a failure"),
            },
        };
        give_up(facts, failure);
    }

    fn update(&mut self, params: Raw<'_>, facts: &mut Vec<Fact>) {
        let notice: Fields<'_> = json::read(params).unwrap_or_default();
        let Some(update) = notice.read::<Fields<'_>>("update") else {
            return facts.push(Fact::Unknown);
        };
        if !self.prompted {
            return;
        }
        let text = || update.value("content")["text"].as_str().unwrap_or_default().to_owned();
        match update.string("sessionUpdate").as_deref() {
            Some("agent_message_chunk") => {
                let text = text();
                self.answer.push_str(&text);
                facts.push(Fact::Text(text));
            }
            Some("tool_call" | "tool_call_update") => self.tool(&update, facts),
            Some("agent_thought_chunk") => {
                let text = text();
                if !text.is_empty() {
                    facts.push(Fact::Thinking(text));
                }
            }
            Some("plan") => facts.push(Fact::Status("the plan changed".into())),
            Some(
                "user_message_chunk"
                | "available_commands_update"
                | "usage_update"
                | "current_mode_update"
                | "session_info_update"
                | "config_option_update",
            ) => {}
            _ => facts.push(Fact::Unknown),
        }
    }

    /// The title of a tool's use contains its input; only its kind is reported, once it is no longer pending.
    fn tool(&mut self, update: &Fields<'_>, facts: &mut Vec<Fact>) {
        let id = update.text("toolCallId");
        if !self.tools.contains_key(&id) {
            self.answer.clear();
        }
        let tool = self.tools.entry(id.clone()).or_default();
        if let Some(kind) = update.string("kind") {
            tool.kind = kind.into_owned();
        }
        let end = match update.string("status").as_deref() {
            Some("in_progress") => None,
            Some("completed") => Some(ToolEnd::Completed),
            Some("failed") => Some(ToolEnd::Failed),
            _ => return,
        };
        if tool.is_denied && !tool.is_told {
            return;
        }
        if !std::mem::replace(&mut tool.is_told, true) {
            let started = ToolFacet::started("tool_use", Some(&tool.kind), Some(&id));
            facts.push(Fact::ToolStarted(started));
        }
        if let Some(end) = end {
            let mut ended = ToolFacet::ended("tool_result", Some(&tool.kind), Some(&id), end);
            ended.bytes = ToolBytes { result: update.bytes("rawOutput"), ..ToolBytes::default() };
            facts.push(Fact::ToolEnded(ended));
        }
    }
}

impl Mapper for Dialogue {
    fn read(&mut self, line: &str, facts: &mut Vec<Fact>) -> Result<(), Unreadable> {
        match rpc::read(line)? {
            Incoming::Notice { method, params } if method == "session/update" => {
                self.update(params, facts);
            }
            Incoming::Request { id, method, params } => self.asked(&id, &method, params, facts),
            Incoming::Result { id, result } => self.answered(id, &result, facts),
            Incoming::Error { id, error } => self.refused(id, &error, facts),
            Incoming::Notice { .. } | Incoming::Unknown => facts.push(Fact::Unknown),
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

fn unsupported() -> Failure {
    Failure::new(FailureClass::InvalidRequest, "the agent does not offer what the session needs")
}

fn protocol(message: &'static str) -> Failure {
    Failure::new(FailureClass::Protocol, message)
}
