//! What of the discovery document one caller can use (RFC 0011).

use serde_json::Value;

use super::Document;
use crate::keys::Caller;
use crate::operations::Access;
use crate::problem::Problem;
use crate::routes::operations;

/// Which operations a family is used by: a caller that may use none of them is not shown it.
const USED_BY: [(&str, &str); 9] = [
    ("workspace", "/v1/host/workspace/files"),
    ("webhooks", "/v1/webhooks"),
    ("triggerBridge", "/v1/trigger-subscriptions"),
    ("scheduling", "/v1/host/callboard/schedules"),
    ("heartbeat", "/v1/host/callboard/heartbeats"),
    ("secrets", "/v1/host/callboard/secrets"),
    ("feedback", "/v1/runs/{runId}/annotations"),
    ("replay", "/v1/runs/{runId}:fork"),
    ("debugBundle", "/v1/runs/{runId}/debug-bundle"),
];

impl Document {
    /// The same without the families that a caller can do nothing with.
    pub(crate) fn scoped(&self, caller: &Caller) -> Result<Value, Problem> {
        let mut root: Value =
            serde_json::from_slice(&self.bytes).map_err(|error| Problem::internal(&error))?;
        for (family, path) in USED_BY {
            let mut uses = operations().filter(|operation| operation.path.starts_with(path));
            let is_open = |access: Access| match access {
                Access::Public | Access::Link => true,
                Access::Anyone(scope) | Access::Scope(scope) => caller.may(scope),
                Access::OneOf(scopes) => scopes.iter().any(|scope| caller.may(scope)),
            };
            if !uses.any(|operation| is_open(operation.access)) {
                forget(&mut root, family);
                forget(&mut root["capabilities"], family);
            }
        }
        Ok(root)
    }
}

fn forget(families: &mut Value, name: &str) {
    if let Some(fields) = families.as_object_mut() {
        fields.remove(name);
    }
}
