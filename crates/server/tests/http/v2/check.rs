//! What every answer of the second major must be, as far as its schemas are at hand.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::given::Reply;

fn folder() -> Option<PathBuf> {
    crate::schemas::openwop().map(|folder| folder.join("schemas-v2"))
}

fn data(name: &str) -> Option<Value> {
    let text = std::fs::read(folder()?.join(name)).expect("the file");
    Some(serde_json::from_slice(&text).expect("JSON"))
}

/// Schemas refer to each other by file name; one that is not there is that of the first major, or allows everything.
struct Files(PathBuf);

impl jsonschema::Retrieve for Files {
    fn retrieve(
        &self,
        uri: &jsonschema::Uri<String>,
    ) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        let name = uri.as_str().rsplit('/').next().unwrap_or_default();
        let older = self.0.join("../schemas").join(name);
        let text = std::fs::read(self.0.join(name)).or_else(|_| std::fs::read(older));
        Ok(text.map_or(json!({}), |text| serde_json::from_slice(&text).unwrap_or_default()))
    }
}

fn valid(schema: &Value, value: &Value, what: &str) {
    let Some(folder) = folder() else { return };
    let options = jsonschema::options().with_retriever(Files(folder));
    let validator = options.build(schema).expect("a schema");
    let errors: Vec<String> = validator
        .iter_errors(value)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{what}: {errors:#?}\n{value:#}");
}

fn id(kind: &str, value: &Value) {
    let schema =
        json!({ "$ref": format!("https://openwop.dev/spec/v2/ids.schema.json#/$defs/{kind}") });
    valid(&schema, value, kind);
}

fn closed(value: &Value, required: &[&str], optional: &[&str]) {
    let fields = value.as_object().unwrap_or_else(|| panic!("no object: {value}"));
    for name in required {
        assert!(fields.contains_key(*name), "{name} is missing: {value:#}");
    }
    for name in fields.keys() {
        let known = required.contains(&name.as_str()) || optional.contains(&name.as_str());
        assert!(known, "{name} has no place: {value:#}");
    }
}

/// V-16: links lead to the run, without a version.
pub(crate) fn created(body: &Value) {
    closed(body, &["runId", "status", "eventsUrl"], &["statusUrl"]);
    id("runId", &body["runId"]);
    let segment = super::segment(body["runId"].as_str().expect("an id"));
    assert_eq!(body["eventsUrl"], format!("/runs/{segment}/events"));
    assert_eq!(body["statusUrl"], format!("/runs/{segment}"));
}

pub(crate) fn polled(body: &Value) {
    closed(body, &["runId", "events", "lastSequence", "status", "isTerminal"], &[]);
    id("runId", &body["runId"]);
    for one in body["events"].as_array().expect("events") {
        event(one);
        assert_eq!(one["runId"], body["runId"]);
    }
}

/// V-22, V-24; floor: event-type-closed, for every event of the second major that these tests see.
pub(crate) fn event(event: &Value) {
    closed(
        event,
        &["eventId", "runId", "type", "payload", "timestamp", "sequence", "schemaVersion"],
        &["nodeId", "engineVersion", "causationId"],
    );
    id("eventId", &event["eventId"]);
    id("runId", &event["runId"]);
    for (member, kind) in [("nodeId", "nodeId"), ("causationId", "eventId")] {
        if let Some(value) = event.get(member) {
            id(kind, value);
        }
    }
    assert!(event["engineVersion"].is_u64(), "{event}");
    assert!(event["schemaVersion"].as_u64().is_some_and(|version| version >= 1));
    let Some(map) = data("event-codemap.json") else { return };
    let name = event["type"].as_str().expect("a type");
    let known = map["v1ToV2"].as_object().expect("a map").values().any(|known| known == name);
    assert!(known || name.starts_with("callboard."), "{name} is no event of the second major");
    let (Some(seats), payload) = (data("payload-seats.json"), &event["payload"]) else { return };
    if let Some(row) = seats.get(name) {
        seated(row, payload, name);
    }
    for member in ["error", "lastError"] {
        if payload.get(member).is_some_and(Value::is_object) {
            seated(&seats["_error"], &payload[member], name);
            code(&payload[member]["code"]);
        }
    }
    if name.ends_with(".requested") && !name.starts_with("callboard.") {
        let schema = data("suspend-request.schema.json").expect("the schema");
        valid(&schema, payload, name);
    }
    for member in ["runId", "childRunId", "parentRunId", "sourceRunId", "interruptId"] {
        if let Some(value) = payload.get(member) {
            id("runId", value);
        }
    }
    if let Some(owner) = payload.get("owner") {
        self::owner(owner);
    }
    if let Some(by) = payload.get("resolvedBy") {
        subject(by);
    }
}

/// V-24: the names and seats of many events.
pub(crate) fn seats(events: &[Value]) {
    let (Some(map), Some(seats)) = (data("event-codemap.json"), data("payload-seats.json")) else {
        return;
    };
    let known: Vec<&Value> = map["v1ToV2"].as_object().expect("a map").values().collect();
    for event in events {
        let name = event["type"].as_str().expect("a type");
        assert!(known.contains(&&event["type"]) || name.starts_with("callboard."), "{name}");
        if let Some(row) = seats.get(name) {
            seated(row, &event["payload"], name);
        }
    }
}

fn seated(row: &Value, payload: &Value, name: &str) {
    let fields = payload.as_object().unwrap_or_else(|| panic!("{name}: {payload}"));
    let list = |member: &str| -> Vec<&str> {
        row[member].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    };
    for required in list("required") {
        assert!(fields.contains_key(required), "{name}: {required} is missing in {payload}");
    }
    for key in fields.keys().map(String::as_str) {
        let has_seat = list("required").contains(&key) || list("optional").contains(&key);
        let is_vendors = ["x-", "openwop-", "vendor."].iter().any(|begin| key.starts_with(begin));
        let fits = has_seat || row["hatch"] == "open" || (row["hatch"] == true && is_vendors);
        assert!(fits, "{name}: {key} has no seat in {payload}");
    }
}

fn code(code: &Value) {
    let Some(schema) = data("error-envelope.schema.json") else { return };
    valid(&json!({ "oneOf": schema["properties"]["error"]["oneOf"] }), code, "code");
}

/// V-13.
pub(crate) fn owner(owner: &Value) {
    closed(owner, &["tenant", "subject"], &["workspace"]);
    id("tenantId", &owner["tenant"]);
    subject(&owner["subject"]);
}

fn subject(subject: &Value) {
    closed(subject, &["issuer", "subjectId", "tenant", "lane", "kind"], &["keyClass", "actor"]);
    id("subjectId", &subject["subjectId"]);
    let lanes = ["api-key", "workload", "anonymous"];
    assert!(lanes.contains(&subject["lane"].as_str().expect("a lane")), "{subject}");
    let kinds = ["user", "agent", "anonymous", "workload"];
    assert!(kinds.contains(&subject["kind"].as_str().expect("a kind")), "{subject}");
}

/// V-17.
pub(crate) fn snapshot(snapshot: &Value) {
    closed(
        snapshot,
        &["runId", "workflowId", "status", "owner", "eventLogSchemaVersion"],
        &[
            "currentNodeId",
            "startedAt",
            "completedAt",
            "nodeStates",
            "variables",
            "channels",
            "error",
            "engineVersion",
            "tags",
            "metadata",
            "configurable",
            "agent",
            "runOrchestrator",
            "metrics",
            "parentRunId",
            "interrupt",
        ],
    );
    id("runId", &snapshot["runId"]);
    id("workflowId", &snapshot["workflowId"]);
    owner(&snapshot["owner"]);
    assert!(snapshot["engineVersion"].is_u64());
    if let Some(parent) = snapshot.get("parentRunId") {
        id("runId", parent);
    }
    if let Some(error) = snapshot.get("error") {
        code(&error["code"]);
    }
    if let (Some(options), Some(schema)) = (snapshot.get("configurable"), configurable()) {
        valid(&schema, options, "configurable");
    }
}

/// As it is stored, but for the one type that is taken for an error there.
fn configurable() -> Option<Value> {
    let mut schema = data("configurable.schema.json")?;
    schema["properties"]["run"]["properties"]["escalationThreshold"]["type"] = json!("number");
    Some(schema)
}

/// V-31: content-free, and each attempt of each call once.
pub(crate) fn ledger(body: &Value) {
    closed(body, &["runId", "effects"], &[]);
    id("runId", &body["runId"]);
    let mut seen = std::collections::BTreeSet::new();
    for row in body["effects"].as_array().expect("a list") {
        closed(
            row,
            &["effectId", "nodeId", "attempt", "keying", "state", "at"],
            &["invocationId", "providerKey"],
        );
        id("effectId", &row["effectId"]);
        id("nodeId", &row["nodeId"]);
        assert!(row["attempt"].as_u64().is_some_and(|attempt| attempt >= 1), "{row}");
        assert!(["business-identity", "activity-recipe"].iter().any(|it| row["keying"] == **it));
        let states = ["claimed", "completed", "released", "escaped"];
        assert!(states.iter().any(|state| row["state"] == **state), "{row}");
        assert!(seen.insert((row["effectId"].to_string(), row["attempt"].to_string())), "{row}");
    }
}

/// V-02, V-32: a registered code with its status, or a vendor's; no advice in the details.
pub(crate) fn refusal(reply: &Reply) {
    assert_eq!(reply.header("openwop-version"), "2.0", "{reply:?}");
    let Some(schema) = data("error-envelope.schema.json") else { return };
    let code = reply.error();
    let kept = ["signature_invalid", "subscription_not_active"].contains(&code);
    if !kept {
        valid(&schema, &reply.json, "error envelope");
    }
    if let Some(status) = schema["x-openwop-http-status"].get(code) {
        assert_eq!(status.as_u64(), Some(reply.status.into()), "{code}");
    }
    for advice in ["retryAfter", "retryAfterMs", "retryAfterSeconds"] {
        assert!(reply.json["details"].get(advice).is_none(), "{reply:?}");
    }
    let asks_for_key = !reply.header("www-authenticate").is_empty();
    assert_eq!(asks_for_key, reply.status == 401, "{reply:?}");
}

/// V-10: nothing of the text is the id of the first major, alone or in a link.
pub(crate) fn without_bare(body: &Value, bare: &str) {
    match body {
        Value::String(text) => {
            let is_bare =
                text == bare || text.contains(&format!("/{bare}/")) || text.contains("/v1/");
            assert!(!is_bare, "{text} in {body}");
        }
        Value::Array(items) => items.iter().for_each(|item| without_bare(item, bare)),
        Value::Object(fields) => fields.values().for_each(|value| without_bare(value, bare)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The keys that the discovery document may have at its root: families, and the others.
pub(crate) fn capability_keys() -> Option<(Vec<String>, Vec<String>)> {
    let keys = data("capability-keys.json")?;
    let list = |name: &str| -> Vec<String> {
        let items = keys[name].as_array().into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    Some((list("families"), list("metadata")))
}
