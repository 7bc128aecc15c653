//! The doors of the protocol's test suite, mounted only where an operator switched them on.
//!
//! They stand behind the same gate as everything else and go through the same code: a door supplies a
//! trigger or a view, never an answer of its own.

mod agent_loop;
mod attest;
mod authorization;
mod budget;
mod claims;
mod compaction;
mod dead_letter;
mod deployment;
mod dispatch;
mod egress;
mod envelopes;
mod fanout;
mod files;
mod heartbeats;
mod identity;
mod install_gate;
mod live_invoke;
mod loose;
mod memory;
mod models;
mod notes;
mod overlay;
mod per_item;
mod prompts;
mod roster;
mod safe_fetch;
mod scheduling;
mod stage;
mod table;
mod tool_hooks;
mod triggers;
mod upkeep;

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use callboard_protocol::{Object, RunId};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::app::Host;
use crate::bundle::{assemble, documents};
use crate::extract::{Named, Sent, Shaped, parse};
use crate::keys::Caller;
use crate::log::read_rest;
use crate::problem::{Code, Problem};
use crate::query::Parameters;
use crate::routes::workflows;
use loose::LooseWorkflow;

pub(crate) use agent_loop::agent_loop;
pub(crate) use attest::attest;
pub(crate) use authorization::authorize;
pub(crate) use budget::budget;
pub(crate) use claims::concurrent_claim;
pub(crate) use compaction::{compact_memory, seed_memory};
pub(crate) use dead_letter::exhaust_retries;
pub(crate) use deployment::deployment;
pub(crate) use dispatch::dispatch;
pub(crate) use egress::decide;
pub(crate) use envelopes::{accept_envelope, emit_reliability, emit_usage};
pub(crate) use fanout::fan_out;
pub(crate) use files::workspace;
pub(crate) use heartbeats::heartbeat;
pub(crate) use identity::{cross_workspace_read, owned_run};
pub(crate) use install_gate::install_gate;
pub(crate) use live_invoke::live_invoke;
pub(crate) use memory::{expire_snapshots, roundtrip};
pub(crate) use models::{cache_key, capability_gate, last_budget, program};
pub(crate) use overlay::Overlay;
pub(crate) use per_item::per_item;
pub(crate) use prompts::{compose_prompt, resolve_prompt, wrap};
pub(crate) use roster::roster_fire;
pub(crate) use safe_fetch::{safe_fetch, safe_fetch_run};
pub(crate) use scheduling::scheduling;
pub(crate) use table::SEAMS;
pub(crate) use tool_hooks::tool_hooks;
pub(crate) use triggers::{trigger_deliver, trigger_ingest};
pub(crate) use upkeep::{consolidate, distill, fire_commitment};

/// Whether the doors are there at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestSeams {
    On,
    Off,
}

const OK: StatusCode = StatusCode::OK;

/// A run that is unknown or somebody else's has no events; the suite probes with one.
pub(crate) async fn events(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(run): Named<RunId>,
    uri: Uri,
) -> Result<Answer, Problem> {
    let query = Parameters::open(&uri)?;
    let page = read_rest(&host, &caller, &run, 0).await?;
    let mut events = documents(&page.map(|page| page.events).unwrap_or_default())?;
    events.extend(envelopes::projected_documents(&host, &caller, &run).await?);
    for name in ["type", "nodeId", "causationId", "correlationId"] {
        let Some(wanted) = query.get(name) else { continue };
        let holds = |place: Option<&Value>| place.and_then(Value::as_str) == Some(wanted);
        events.retain(|event| {
            holds(event.get(name)) || holds(event.get("payload").and_then(|told| told.get(name)))
        });
    }
    Answer::json(OK, &json!({ "events": events }))
}

/// Runs stay: what they are is in their logs.
pub(crate) async fn reset(
    State(host): State<Arc<Host>>,
    caller: Caller,
) -> Result<Answer, Problem> {
    host.overlay.reset();
    let tenant = &caller.scope.tenant;
    host.app.envelopes.forget_projected(tenant).await?;
    if let Some(mock) = &host.app.mock {
        mock.reset(tenant);
    }
    Ok(Answer::of(OK, &json!({ "ok": true })))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Toggle {
    name: Option<String>,
    value: Option<bool>,
    #[serde(default)]
    reset: bool,
}

pub(crate) async fn toggle(
    State(host): State<Arc<Host>>,
    Shaped(body): Shaped<Toggle>,
) -> Result<Answer, Problem> {
    match (body.reset, body.name) {
        (true, _) => host.overlay.reset(),
        (false, Some(name)) => host.overlay.set(name, body.value),
        (false, None) => return Err(Problem::invalid_at("name", "must name a capability")),
    }
    Ok(Answer::of(OK, &json!({ "overlay": host.overlay.shown() })))
}

/// What the host cannot run is a mistake of the definition here, as the suite expects it.
pub(crate) async fn register(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(body): Shaped<LooseWorkflow>,
) -> Result<Answer, Problem> {
    let (id, definition) = body.into_definition()?;
    let stored = workflows::store(&host, &caller, definition.to_string().as_bytes()).await;
    stored.map_err(|problem| match problem.code {
        Code::CapabilityRequired => Problem { code: Code::ValidationError, ..problem },
        _ => problem,
    })?;
    Ok(Answer::of(StatusCode::CREATED, &json!({ "workflowId": id })))
}

pub(crate) async fn variables(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(run): Named<RunId>,
) -> Result<Answer, Problem> {
    let seen = host.app.engine.snapshot(&caller.scope, &run).await?;
    let seen = seen.ok_or_else(|| Problem::no_such("run"))?;
    let snapshot: Object =
        serde_json::from_str(&seen.json).map_err(|error| Problem::internal(&error))?;
    Ok(Answer::of(OK, &json!({ "variables": snapshot.get("variables") })))
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SetVariables {
    #[serde(default)]
    variables: Object,
}

/// Answers with the variables as they are then, also where nothing was to be set.
pub(crate) async fn set_variables(
    State(host): State<Arc<Host>>,
    caller: Caller,
    named: Named<RunId>,
    Sent(body): Sent,
) -> Result<Answer, Problem> {
    let asked = if body.is_empty() { SetVariables::default() } else { parse(&body)? };
    if !asked.variables.is_empty() {
        host.app.engine.set_variables(&caller.scope, &named.0, asked.variables).await?;
    }
    variables(State(host), caller, named).await
}

pub(crate) async fn spans(
    State(host): State<Arc<Host>>,
    caller: Caller,
    uri: Uri,
) -> Result<Answer, Problem> {
    let query = Parameters::open(&uri)?;
    let run = query.get("runId").ok_or_else(|| Problem::invalid_at("runId", "must name a run"))?;
    let run = RunId::from(run);
    let spans = host.app.engine.spans(&caller.scope, &run).await?;
    let mut shown = json!({ "spans": spans.unwrap_or_default() });
    if let Some(spans) = shown["spans"].as_array_mut() {
        spans.extend(envelopes::projected_spans(&host, &caller, &run).await?);
    }
    Answer::json(OK, &shown)
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Export {
    run_id: RunId,
}

pub(crate) async fn bundle(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(body): Shaped<Export>,
) -> Result<Answer, Problem> {
    let bundle = assemble(&host, &caller, &body.run_id, usize::MAX).await?;
    Answer::json(OK, &bundle.ok_or_else(|| Problem::no_such("run"))?)
}
