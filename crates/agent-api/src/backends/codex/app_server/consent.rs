//! Permission requests of Codex before it leaves its sandbox, and their answers.

use serde_json::{Value, json};

use super::dialogue::Dialogue;
use crate::backends::rpc::{answer, not_offered};
use crate::json::{self, Raw};
use crate::permission::{Permission, PermissionRequest};
use crate::transcript::Fact;

/// A question of the server.
#[derive(Debug)]
pub(super) struct Asked {
    id: Value,
    item: String,
}

impl Dialogue {
    pub(super) fn asked(
        &mut self,
        id: &Value,
        method: &str,
        params: Raw<'_>,
        facts: &mut Vec<Fact>,
    ) {
        let params: Value = json::read(params).unwrap_or_default();
        let item = params["itemId"].as_str().unwrap_or_default().to_owned();
        let name = id.to_string();
        let wanted = match method {
            "item/commandExecution/requestApproval" => command(name.clone(), &params),
            "item/fileChange/requestApproval" => {
                let changes = self.tools.get(&item).map(|tool| tool.changes.clone());
                change(name.clone(), &params, changes.unwrap_or_default())
            }
            // A permission for the whole turn is more than one use.
            "item/permissions/requestApproval" => {
                facts.push(Fact::Denied);
                return facts.push(Fact::Answer(answer(id, &json!({ "permissions": {} }))));
            }
            _ => return facts.push(Fact::Answer(not_offered(id))),
        };
        let asked = Asked { id: id.clone(), item };
        if self.terms.approval == "never" {
            return self.reply(&asked, Permission::Denied, facts);
        }
        facts.push(Fact::Asked(wanted));
        self.open.insert(name, asked);
    }

    /// Allows this once, or has Codex go on without.
    pub(super) fn reply(&mut self, asked: &Asked, permission: Permission, facts: &mut Vec<Fact>) {
        let decision = match permission {
            Permission::Granted => {
                self.tell(&asked.item, facts);
                "accept"
            }
            Permission::Denied => {
                facts.push(Fact::Denied);
                self.tools.entry(asked.item.clone()).or_default().is_denied = true;
                "decline"
            }
        };
        facts.push(Fact::Answer(answer(&asked.id, &json!({ "decision": decision }))));
    }
}

/// Why it is wanted stays out: the model words that anew each time, and the same must be known again.
fn command(id: String, params: &Value) -> PermissionRequest {
    let title = params["command"].as_str().unwrap_or_default();
    let input = json::picked(params, &["kind", "command", "cwd", "networkApprovalContext"]);
    PermissionRequest::new(id, "command_execution", title, input)
}

fn change(id: String, params: &Value, changes: Value) -> PermissionRequest {
    let paths: Vec<&str> =
        changes.as_array().into_iter().flatten().filter_map(|it| it["path"].as_str()).collect();
    let title = paths.join(", ");
    let mut wanted = json!({ "grantRoot": params["grantRoot"] });
    wanted["changes"] = changes;
    let input = json::picked(&wanted, &["grantRoot", "changes"]);
    PermissionRequest::new(id, "file_change", &title, input)
}
