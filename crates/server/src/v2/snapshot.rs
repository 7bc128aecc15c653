//! A snapshot of the first major as the closed one of the second.

use callboard_core::Born;
use callboard_engine::Seen;
use callboard_protocol::Object;
use serde_json::Value;

use super::payload::{bind_one, failure};
use super::{configurable, id, owner};
use crate::problem::Problem;

/// What both majors show alike.
const SHARED: [&str; 13] = [
    "workflowId",
    "status",
    "currentNodeId",
    "startedAt",
    "completedAt",
    "nodeStates",
    "variables",
    "channels",
    "tags",
    "metadata",
    "agent",
    "runOrchestrator",
    "metrics",
];

/// The run as somebody has seen it.
pub(crate) fn of_seen(seen: &Seen) -> Result<Object, Problem> {
    project(&seen.json, &seen.born, seen.engine_version)
}

pub(crate) fn project(first: &str, born: &Born, engine_version: u32) -> Result<Object, Problem> {
    let unreadable = |error: serde_json::Error| Problem::internal(&error);
    let mut fields: Object = serde_json::from_str(first).map_err(unreadable)?;
    let tenant = born.owner.tenant.as_str();
    let mut told = Object::new();
    bind_one(&mut fields, "runId", |run| id::bound(tenant, run));
    for name in ["runId"].into_iter().chain(SHARED) {
        if let Some(value) = fields.remove(name) {
            told.insert(name.to_owned(), value);
        }
    }
    let mut put = |name: &str, value: Value| drop(told.insert(name.to_owned(), value));
    put("owner", owner::owner(born));
    put("eventLogSchemaVersion", born.era().into());
    put("engineVersion", engine_version.into());
    if let Some(Value::Object(error)) = fields.remove("error") {
        put("error", failure(error, tenant).into());
    }
    if let Some(Value::Object(flat)) = fields.remove("configurable") {
        put("configurable", configurable::nested(flat));
    }
    // The parent of a child is in its ancestry: here stands where a fork came from.
    if let Some(source) = fields.get("fork").and_then(|fork| fork["sourceRunId"].as_str()) {
        put("parentRunId", id::bound(tenant, source).into());
    }
    if let Some(Value::Object(nodes)) = told.get_mut("nodeStates") {
        nodes.values_mut().for_each(|node| tell_node(node, tenant));
    }
    Ok(told)
}

fn tell_node(node: &mut Value, tenant: &str) {
    if let Some(Value::Object(error)) = node.get_mut("error") {
        *error = failure(std::mem::take(error), tenant);
    }
}
