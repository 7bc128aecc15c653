//! What of the discovery document one caller can use (RFC 0011).

use serde_json::{Value, json};

use super::Document;
use crate::keys::{Caller, EVERY_SCOPE, RoleOrigin, RoleTable};
use crate::operations::Access;
use crate::problem::Problem;
use crate::routes::operations;
use crate::scopes::SCOPES;

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
    pub(crate) fn scoped(&self, caller: &Caller, roles: &RoleTable) -> Result<Value, Problem> {
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
        let realm = caller.scope.realm();
        let known = roles.names(&realm).into_iter().filter_map(|name| {
            let (origin, scopes) = roles.find(&realm, &name)?;
            if origin == RoleOrigin::Protocol {
                // Everybody sees those.
                return None;
            }
            let all = || SCOPES.iter().map(|scope| (*scope).to_owned()).collect();
            let scopes = if scopes.contains(EVERY_SCOPE) { all() } else { scopes };
            Some(json!({ "role": name, "scopes": scopes }))
        });
        let known: Vec<Value> = known.collect();
        for families in ["/authorization/roles", "/capabilities/authorization/roles"] {
            if let Some(shown) = root.pointer_mut(families).and_then(Value::as_array_mut) {
                shown.extend(known.iter().cloned());
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
