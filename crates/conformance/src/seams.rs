//! The doors of the protocol's test suite, mounted only where an operator switched them on: one row of `table` and one
//! handler each.
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
mod fire;
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
mod second_major;
mod stage;
mod table;
mod tool_hooks;
mod triggers;
mod upkeep;

use std::any::Any;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use callboard_protocol::{Object, RunId};
use callboard_server::Operation;
use callboard_server::extend::{
    Answer, Caller, Code, Host, Named, Parameters, Problem, Seams, Sent, Shaped, assemble,
    documents, parse, read_rest, workflows,
};
use serde::Deserialize;
use serde_json::{Value, json};

use loose::LooseWorkflow;

use agent_loop::agent_loop;
use attest::attest;
use authorization::authorize;
use budget::budget;
use claims::concurrent_claim;
use compaction::{compact_memory, seed_memory};
use dead_letter::exhaust_retries;
use deployment::deployment;
use dispatch::dispatch;
use egress::decide;
use envelopes::{accept_envelope, emit_reliability, emit_usage};
use fanout::fan_out;
use files::workspace;
use fire::fire_seam;
use heartbeats::heartbeat;
use identity::{cross_workspace_read, owned_run};
use install_gate::install_gate;
use live_invoke::live_invoke;
use memory::{expire_snapshots, roundtrip};
use models::{cache_key, capability_gate, last_budget, program};
use overlay::Overlay;
use per_item::per_item;
use prompts::{compose_prompt, resolve_prompt, wrap};
use roster::roster_fire;
use safe_fetch::{safe_fetch, safe_fetch_run};
use scheduling::scheduling;
use second_major::{receive_delivery, retry_effect, seed_log};
use table::DOORS;
use tool_hooks::tool_hooks;
use triggers::{trigger_deliver, trigger_ingest};
use upkeep::{consolidate, distill, fire_commitment};

/// Everything that the suite may ask of one host beside the API, and what it has switched off there.
#[derive(Debug, Default)]
struct SuiteDoors {
    overlay: Overlay,
}

impl Seams for SuiteDoors {
    fn operations(&self) -> &'static [Operation] {
        &DOORS
    }

    fn check_workflow(&self, definition: &[u8]) -> Result<(), Problem> {
        self.overlay.check(definition)
    }
}

/// The doors of one host, with nothing switched off yet.
pub fn doors() -> Option<Arc<dyn Seams>> {
    Some(Arc::new(SuiteDoors::default()))
}

/// What tests have switched off on this host.
fn overlay(host: &Host) -> Result<&Overlay, Problem> {
    let seams = host.app.seams.as_deref().map(|seams| seams as &dyn Any);
    let doors = seams.and_then(|seams| seams.downcast_ref::<SuiteDoors>());
    Ok(&doors.ok_or_else(|| Problem::no_such("path"))?.overlay)
}

const OK: StatusCode = StatusCode::OK;

/// A run that is unknown or somebody else's has no events; the suite probes with one.
async fn events(
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
async fn reset(State(host): State<Arc<Host>>, caller: Caller) -> Result<Answer, Problem> {
    overlay(&host)?.reset();
    let tenant = &caller.scope.tenant;
    host.app.envelopes.forget_projected(tenant).await?;
    if let Some(mock) = &host.app.mock {
        mock.reset(tenant);
    }
    Ok(Answer::of(OK, &json!({ "ok": true })))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Toggle {
    name: Option<String>,
    value: Option<bool>,
    #[serde(default)]
    reset: bool,
}

async fn toggle(
    State(host): State<Arc<Host>>,
    Shaped(body): Shaped<Toggle>,
) -> Result<Answer, Problem> {
    let overlay = overlay(&host)?;
    if body.reset {
        overlay.reset();
    } else {
        let unnamed = || Problem::invalid_at("name", "must name a capability");
        overlay.set(body.name.ok_or_else(unnamed)?, body.value);
    }
    Ok(Answer::of(OK, &json!({ "overlay": overlay.shown() })))
}

/// What the host cannot run is a mistake of the definition here, as the suite expects it.
async fn register(
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

async fn variables(
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
struct SetVariables {
    #[serde(default)]
    variables: Object,
}

/// Answers with the variables as they are then, also where nothing was to be set.
async fn set_variables(
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

async fn spans(State(host): State<Arc<Host>>, caller: Caller, uri: Uri) -> Result<Answer, Problem> {
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
struct Export {
    run_id: RunId,
}

async fn bundle(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(body): Shaped<Export>,
) -> Result<Answer, Problem> {
    let bundle = assemble(&host, &caller, &body.run_id, usize::MAX).await?;
    Answer::json(OK, &bundle.ok_or_else(|| Problem::no_such("run"))?)
}
