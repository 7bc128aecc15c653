//! A payload of the log in the seats of the second major. Nothing is dropped: what has no seat is carried under a vendor's
//! name, and where even that is not allowed the event cannot be told.

use callboard_core::Born;
use callboard_protocol::Object;
use serde_json::{Value, json};

use super::seats::{ERROR, Hatch, Seats, seats};
use super::{error_codes, event_names, id, owner};

/// What a node asked last, as the log tells it before an event that needs it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Question {
    /// The payload of its `interrupt.requested`.
    pub(super) request: Option<Object>,
    pub(super) interrupt: Option<String>,
}

/// Members without a seat in an event that takes no others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unseated(pub(super) Vec<String>);

/// Members that hold the id of a run, of a subscription, of an interrupt.
const RUNS: [&str; 6] =
    ["runId", "childRunId", "parentRunId", "sourceRunId", "enqueuedRunId", "evalRunId"];
const SUBSCRIPTIONS: [&str; 2] = ["subscriptionId", "triggerSubscriptionId"];
/// Runs that a refusal names in its details.
const RUNS_OF_DETAILS: [&str; 3] = ["runId", "sourceRunId", "activeRunId"];

/// Begins the name of a member that has no seat.
const VENDOR: &str = "x-callboard-";

/// The payload of a stored event. `first` is its name in the log, `second` the one that is told.
pub(super) fn project(
    (first, second): (&str, &str),
    payload: Value,
    born: &Born,
    asked: &Question,
) -> Result<Value, Unseated> {
    let Value::Object(mut fields) = payload else { return Ok(payload) };
    match first {
        "run.started" => started(&mut fields, born),
        "run.completed" => drop(fields.entry("outputs").or_insert_with(|| json!({}))),
        "agent.promptResolved" => drop(fields.entry("resolved").or_insert(Value::Null)),
        "replay.diverged" => diverged(&mut fields),
        "approval.requested" => fields = request(&fields, asked, "approval"),
        "clarification.requested" => fields = request(&fields, asked, "clarification"),
        "interrupt.resolved" => resolved(&mut fields, born),
        "approval.received" => received(&mut fields, born, asked)?,
        "clarification.resolved" => clarified(&mut fields, born, asked)?,
        _ => {}
    }
    for name in ["error", "lastError"] {
        if let Some(Value::Object(error)) = fields.get_mut(name) {
            *error = failure(std::mem::take(error), born.owner.tenant.as_str());
        }
    }
    bind(&mut fields, born.owner.tenant.as_str());
    match seats(second) {
        Some(seats) => seated(fields, seats).map(Value::Object),
        None => Ok(fields.into()),
    }
}

fn started(fields: &mut Object, born: &Born) {
    fields.insert("owner".to_owned(), owner::owner(born));
    let version = fields.get("engineVersion").and_then(Value::as_str);
    if let Some(version) = version.and_then(|text| text.parse::<u64>().ok()) {
        fields.insert("engineVersion".to_owned(), version.into());
    }
}

fn diverged(fields: &mut Object) {
    let told = fields.get("divergencePoint").and_then(Value::as_str).and_then(event_names::second);
    if let Some(told) = told.map(str::to_owned) {
        fields.insert("divergencePoint".to_owned(), told.into());
    }
}

/// What the two older events tell is in the request beside them; a log without that request tells it in their own words.
fn request(fields: &Object, asked: &Question, kind: &str) -> Object {
    if let Some(request) = &asked.request {
        return request.clone();
    }
    let mut data = fields.clone();
    data.remove("nodeId");
    let key = data.remove("interruptId").unwrap_or_else(|| kind.into());
    Object::from_iter([
        ("kind".to_owned(), kind.into()),
        ("key".to_owned(), key),
        ("data".to_owned(), data.into()),
    ])
}

fn resolved(fields: &mut Object, born: &Born) {
    // The envelope has it.
    fields.remove("runId");
    named(fields, "resolvedBy", "resolvedBy", born);
    if fields.get("kind").and_then(Value::as_str) != Some("approval") {
        return;
    }
    let said = |name: &str| fields.get("resumeValue").and_then(|value| value.get(name)).cloned();
    let late = || fields.get("reason").filter(|reason| *reason == "timeout").cloned();
    let told = [
        ("action", said("action").or_else(late)),
        ("refineFeedback", said("refineFeedback")),
        ("editedArtifactData", said("editedArtifactData")),
    ];
    for (name, value) in told {
        if let Some(value) = value {
            fields.entry(name).or_insert(value);
        }
    }
    decided(fields);
}

fn received(fields: &mut Object, born: &Born, asked: &Question) -> Result<(), Unseated> {
    named(fields, "decidedBy", "resolvedBy", born);
    fields.entry("kind").or_insert_with(|| "approval".into());
    if fields.get("action").is_some_and(|action| action == "timeout") {
        fields.entry("reason").or_insert_with(|| "timeout".into());
    }
    decided(fields);
    answers(fields, asked)
}

fn clarified(fields: &mut Object, born: &Born, asked: &Question) -> Result<(), Unseated> {
    named(fields, "answeredBy", "resolvedBy", born);
    fields.entry("kind").or_insert_with(|| "clarification".into());
    if let Some(answers) = fields.remove("answers") {
        fields.insert("resumeValue".to_owned(), json!({ "answers": answers }));
    }
    answers(fields, asked)
}

/// Logs from before it was recorded have the question's id with the question.
fn answers(fields: &mut Object, asked: &Question) -> Result<(), Unseated> {
    if fields.contains_key("interruptId") {
        return Ok(());
    }
    let id = asked.interrupt.clone().ok_or_else(|| Unseated(vec!["interruptId".to_owned()]))?;
    fields.insert("interruptId".to_owned(), id.into());
    Ok(())
}

fn named(fields: &mut Object, from: &str, to: &str, born: &Born) {
    if let Some(Value::String(principal)) = fields.get(from) {
        let subject = owner::decider(born, principal);
        fields.remove(from);
        fields.insert(to.to_owned(), subject);
    }
}

fn decided(fields: &mut Object) {
    let decision = match fields.get("action").and_then(Value::as_str) {
        Some("accept" | "edit-accept") => "granted",
        Some("reject" | "timeout") => "rejected",
        _ => return,
    };
    fields.insert("decision".to_owned(), decision.into());
}

/// Why something failed, with a code of the second major.
pub(super) fn failure(mut error: Object, tenant: &str) -> Object {
    let code = error.get("code").and_then(Value::as_str).unwrap_or_default().to_owned();
    let told = error_codes::projected(&code);
    let mut details = match error.remove("details") {
        Some(Value::Object(details)) => details,
        Some(other) => Object::from_iter([("details".to_owned(), other)]),
        None => Object::new(),
    };
    bind_details(&mut details, tenant);
    if told.is_altered {
        details.insert("code".to_owned(), code.as_str().into());
    }
    if code == "approval_rejected" {
        error.entry("retryable").or_insert(false.into());
    }
    error.insert("code".to_owned(), told.code.into());
    error.entry("message").or_insert_with(|| "".into());
    if !details.is_empty() {
        error.insert("details".to_owned(), details.into());
    }
    // An error takes every member under a vendor's name.
    seated(error, ERROR).unwrap_or_default()
}

pub(super) fn bind_details(details: &mut Object, tenant: &str) {
    for name in RUNS_OF_DETAILS {
        bind_one(details, name, |id| id::bound(tenant, id));
    }
}

fn bind(fields: &mut Object, tenant: &str) {
    for name in RUNS.into_iter().chain(SUBSCRIPTIONS) {
        bind_one(fields, name, |id| id::bound(tenant, id));
    }
    bind_one(fields, "interruptId", |id| id::of_interrupt(tenant, id));
}

pub(super) fn bind_one(fields: &mut Object, name: &str, bound: impl FnOnce(&str) -> String) {
    if let Some(Value::String(id)) = fields.get_mut(name) {
        *id = bound(id);
    }
}

fn seated(fields: Object, seats: Seats) -> Result<Object, Unseated> {
    let mut told = Object::new();
    let mut standing = Vec::new();
    for (name, value) in fields {
        match seats.hatch {
            _ if seats.has(&name) => drop(told.insert(name, value)),
            Hatch::Vendor if is_vendors(&name) => drop(told.insert(name, value)),
            Hatch::Vendor => drop(told.insert(format!("{VENDOR}{name}"), value)),
            Hatch::Closed | Hatch::Open => standing.push(name),
        }
    }
    if standing.is_empty() { Ok(told) } else { Err(Unseated(standing)) }
}

fn is_vendors(name: &str) -> bool {
    ["openwop-", "x-", "vendor."].iter().any(|prefix| name.starts_with(prefix))
}
