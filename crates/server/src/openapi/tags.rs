//! The groups that generators make modules of.

use callboard_protocol::Object;
use serde_json::{Value, json};

/// What has no row below.
const HOST: &str = "host";

/// A tag, what it holds, and the first parts of the paths that belong to it.
const TAGS: &[(&str, &str, &[&str])] = &[
    (HOST, "The host: what it offers, how it fares, who may use it.", &[]),
    (
        "runs",
        "Runs, from their creation to what they left behind.",
        &["runs", "kept-runs", "events"],
    ),
    (
        "inbox",
        "What runs ask people, and the answers.",
        &["inbox", "interrupts", "interrupt-links"],
    ),
    (
        "workflows",
        "Definitions, and the node types that they are made of.",
        &["workflows", "nodes"],
    ),
    ("agents", "Agents and which of their versions serve.", &["agents"]),
    ("packs", "The archives that agents come in.", &["packs"]),
    ("prompts", "Prompt templates.", &["prompts"]),
    ("tools", "What agents can call.", &["tools"]),
    ("roster", "Standing members, their work and their places.", &["roster", "org-chart", "chat"]),
    ("memory", "What runs remember.", &["memory"]),
    ("files", "The files of a workspace.", &["workspace"]),
    ("schedules", "Runs at set times.", &["schedules"]),
    ("heartbeats", "Runs when something outside changes.", &["heartbeats"]),
    ("triggers", "Runs when something comes in.", &["trigger-subscriptions"]),
    ("webhooks", "Events that are sent out.", &["webhooks", "callback-secret"]),
    ("keys", "API keys.", &["keys", "whoami"]),
    ("secrets", "What runs may use and nobody may read.", &["secrets"]),
    ("audit", "The signed log of changes.", &["audit"]),
];

/// The tag of an operation.
pub(super) fn of(path: &str) -> &'static str {
    let own = path.strip_prefix("/v1/").or_else(|| path.strip_prefix('/')).unwrap_or_default();
    let own =
        own.strip_prefix("host/callboard/").or_else(|| own.strip_prefix("host/")).unwrap_or(own);
    let first = own.split(['/', ':']).next().unwrap_or_default();
    let found = TAGS.iter().find(|(_, _, parts)| parts.contains(&first));
    found.map_or(HOST, |(tag, _, _)| *tag)
}

/// The tags that these paths use, in the order of the table.
pub(super) fn described(paths: &Object) -> Vec<Value> {
    let is_used = |tag: &str| {
        let mut operations = paths.values().filter_map(Value::as_object).flat_map(Object::values);
        operations.any(|operation| operation["tags"][0] == tag)
    };
    let used = TAGS.iter().filter(|(tag, _, _)| is_used(tag));
    used.map(|(name, description, _)| json!({ "name": name, "description": description })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_belongs_to_what_it_is_about() {
        for (path, tag) in [
            ("/v1/runs/{runId}:pause", "runs"),
            ("/v1/host/callboard/runs:retry", "runs"),
            ("/runs", "runs"),
            ("/v1/host/workspace/files/{path}", "files"),
            ("/v1/host/callboard/trigger-subscriptions", "triggers"),
            ("/v1/openapi.json", HOST),
            ("/.well-known/openwop", HOST),
        ] {
            assert_eq!(of(path), tag, "{path}");
        }
    }
}
