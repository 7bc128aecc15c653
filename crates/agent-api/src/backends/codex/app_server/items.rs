//! The items of a turn: messages, reasoning, tools.

use serde_json::Value;

use super::dialogue::Dialogue;
use crate::backends::codex::item::{Item, named};
use crate::facet::ToolFacet;
use crate::json::Fields;
use crate::transcript::Fact;

/// One use of a tool. It is reported once it is known to run: an item exists before it is allowed.
#[derive(Debug, Default)]
pub(super) struct Tool {
    kind: &'static str,
    name: Option<String>,
    is_told: bool,
    pub(super) is_denied: bool,
    /// What it would change, for the person who is asked.
    pub(super) changes: Value,
}

impl Dialogue {
    pub(super) fn started(&mut self, notice: &Fields<'_>, facts: &mut Vec<Fact>) {
        let Some(item) = notice.read::<Item<'_>>("item") else {
            return facts.push(Fact::Unknown);
        };
        if let Some((id, kind)) = tool(&item) {
            // What is said before a tool is used is no answer.
            self.answer = None;
            self.tools.entry(id).or_insert_with(|| Tool {
                kind,
                name: item.string("tool").map(Into::into),
                changes: item.value("changes"),
                ..Tool::default()
            });
        }
    }

    pub(super) fn completed(&mut self, notice: &Fields<'_>, facts: &mut Vec<Fact>) {
        let Some(item) = notice.read::<Item<'_>>("item") else {
            return facts.push(Fact::Unknown);
        };
        match item.string("type").as_deref() {
            Some("agentMessage") => {
                let text = item.text("text");
                if !self.streamed.remove(&item.text("id")) {
                    facts.push(Fact::Text(text.clone()));
                }
                self.answer = Some(text);
            }
            _ => {
                if let Some((id, _)) = tool(&item) {
                    self.started(notice, facts);
                    self.ended(&id, &item, facts);
                }
            }
        }
    }

    /// It prints something, so it was allowed to run.
    pub(super) fn runs(&mut self, notice: &Fields<'_>, facts: &mut Vec<Fact>) {
        self.tell(&notice.text("itemId"), facts);
    }

    /// Tells of a tool once.
    pub(super) fn tell(&mut self, id: &str, facts: &mut Vec<Fact>) {
        let thread = self.thread.clone();
        let Some(tool) = self.tools.get_mut(id).filter(|tool| !tool.is_told) else { return };
        tool.is_told = true;
        let started = ToolFacet::started(tool.kind, tool.name.as_deref(), Some(id));
        facts.push(Fact::ToolStarted(named(started, thread)));
    }

    fn ended(&mut self, id: &str, item: &Item<'_>, facts: &mut Vec<Fact>) {
        let is_declined = item.is_declined();
        let tool = self.tools.entry(id.to_owned()).or_default();
        if is_declined && !tool.is_denied {
            facts.push(Fact::Denied);
        }
        // The use of a tool that was not allowed is not reported.
        if (is_declined || tool.is_denied) && !tool.is_told {
            self.tools.remove(id);
            return;
        }
        self.tell(id, facts);
        let Some(tool) = self.tools.remove(id) else { return };
        let ended = ToolFacet::ended(tool.kind, tool.name.as_deref(), Some(id), item.end());
        facts.push(Fact::ToolEnded(item.weighed(named(ended, self.thread.clone()))));
    }
}

/// The id of an item that is the use of a tool, with what `codex exec` calls it.
fn tool(item: &Item<'_>) -> Option<(String, &'static str)> {
    let kind = match &*item.string("type")? {
        "commandExecution" => "command_execution",
        "fileChange" => "file_change",
        "mcpToolCall" => "mcp_tool_call",
        "webSearch" => "web_search",
        _ => return None,
    };
    Some((item.string("id")?.into_owned(), kind))
}
