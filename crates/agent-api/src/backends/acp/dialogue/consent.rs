//! Permission requests of an ACP agent, and their answers.

use serde_json::{Value, json};

use super::Dialogue;
use crate::backends::rpc::{answer, not_offered};
use crate::grant::Grant;
use crate::json::{self, Raw};
use crate::permission::{Permission, PermissionRequest};
use crate::transcript::Fact;

/// A question of the agent, with the answers that it offers.
#[derive(Debug)]
pub(super) struct Asked {
    id: Value,
    call: Option<String>,
    options: Value,
}

impl Dialogue {
    pub(super) fn asked(
        &mut self,
        id: &Value,
        method: &str,
        params: Raw<'_>,
        facts: &mut Vec<Fact>,
    ) {
        if method != "session/request_permission" {
            return facts.push(Fact::Answer(not_offered(id)));
        }
        let mut params: Value = json::read(params).unwrap_or_default();
        let asked = Asked {
            id: id.clone(),
            call: params["toolCall"]["toolCallId"].as_str().map(str::to_owned),
            options: params["options"].take(),
        };
        let wanted = &params["toolCall"];
        let kind = match (wanted["kind"].as_str(), &asked.call) {
            (Some(kind), _) => kind.to_owned(),
            // What was said before need not be said again.
            (None, Some(call)) => {
                self.tools.get(call).map(|tool| tool.kind.clone()).unwrap_or_default()
            }
            (None, None) => String::new(),
        };
        if self.grants(&kind) {
            return self.reply(&asked, Permission::Granted, facts);
        }
        if !self.is_attended {
            return self.reply(&asked, Permission::Denied, facts);
        }
        let name = id.to_string();
        let title = wanted["title"].as_str().unwrap_or_default();
        // What the tool would be given, in the agent's own form.
        let input = json::picked(wanted, &["rawInput", "content", "locations"]);
        facts.push(Fact::Asked(PermissionRequest::new(name.clone(), &kind, title, input)));
        self.open.insert(name, asked);
    }

    /// An agent that does not offer what was decided gets no permission.
    pub(super) fn reply(&mut self, asked: &Asked, permission: Permission, facts: &mut Vec<Fact>) {
        let wanted = match permission {
            Permission::Granted => "allow_once",
            Permission::Denied => "reject_once",
        };
        let options = asked.options.as_array().into_iter().flatten();
        let option = options
            .filter(|option| option["kind"] == wanted)
            .find_map(|option| option["optionId"].as_str());
        let outcome = match option {
            Some(option) => json!({ "outcome": "selected", "optionId": option }),
            None => json!({ "outcome": "cancelled" }),
        };
        if permission == Permission::Denied || option.is_none() {
            facts.push(Fact::Denied);
            if let Some(call) = &asked.call {
                self.tools.entry(call.clone()).or_default().is_denied = true;
            }
        }
        facts.push(Fact::Answer(answer(&asked.id, &json!({ "outcome": outcome }))));
    }

    fn grants(&self, kind: &str) -> bool {
        let needed = match kind {
            "read" | "search" => Grant::ReadFiles,
            "edit" | "delete" | "move" => Grant::WriteFiles,
            "fetch" => Grant::FetchWeb,
            "execute" => Grant::Shell,
            _ => return false,
        };
        self.grants.contains(&needed)
    }
}
