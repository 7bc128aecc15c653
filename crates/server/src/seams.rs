//! The doors of the protocol's test suite, mounted only where an operator switched them on.
//!
//! They stand behind the same gate as everything else and go through the same code: a door supplies a
//! trigger or a view, never an answer of its own.

mod agent_loop;
mod attest;
mod budget;
mod claims;
mod compaction;
mod dead_letter;
mod deployment;
mod dispatch;
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
mod prompts;
mod roster;
mod safe_fetch;
mod scheduling;
mod stage;
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
use crate::operations::OperationId::{
    SeamAcceptEnvelope, SeamAgentLoop, SeamAttest, SeamBudget, SeamBundle, SeamCacheKey,
    SeamCompactMemory, SeamComposePrompt, SeamConcurrentClaim, SeamConsolidate,
    SeamCrossWorkspaceRead, SeamDeliver, SeamDeployment, SeamDispatch, SeamDistill,
    SeamEmitReliability, SeamEmitUsage, SeamEvents, SeamExhaustRetries, SeamExpireSnapshots,
    SeamFanOut, SeamFireCommitment, SeamHeartbeat, SeamIngest, SeamInstallGate, SeamLiveInvoke,
    SeamMemoryRoundtrip, SeamMockBudget, SeamMockProgram, SeamModelGate, SeamOwnedRun, SeamReset,
    SeamResolvePrompt, SeamRosterFire, SeamSafeFetch, SeamScheduling, SeamSeedMemory,
    SeamSetVariables, SeamSpans, SeamToggle, SeamToolHooks, SeamVariables, SeamWorkflow,
    SeamWorkspace, SeamWrapPrompt,
};
use crate::operations::{Gives, Operation, get, post};
use crate::problem::{Code, Problem};
use crate::query::Parameters;
use crate::routes::workflows;
use loose::LooseWorkflow;

pub(crate) use agent_loop::agent_loop;
pub(crate) use attest::attest;
pub(crate) use budget::budget;
pub(crate) use claims::concurrent_claim;
pub(crate) use compaction::{compact_memory, seed_memory};
pub(crate) use dead_letter::exhaust_retries;
pub(crate) use deployment::deployment;
pub(crate) use dispatch::dispatch;
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
pub(crate) use prompts::{compose_prompt, resolve_prompt, wrap};
pub(crate) use roster::roster_fire;
pub(crate) use safe_fetch::safe_fetch;
pub(crate) use scheduling::scheduling;
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

/// A table beside the other, so that what is no part of the API stays out of its document.
pub(crate) static SEAMS: &[Operation] = &[
    get(SeamEvents, "GET /v1/host/sample/test/runs/{runId}/events", "Read a log by type or node")
        .needs("runs:read")
        .gives(OK, Gives::Json("Object")),
    get(SeamVariables, "GET /v1/host/sample/test/runs/{runId}/variables", "Read variables")
        .needs("runs:read")
        .gives(OK, Gives::Json("Object")),
    post(SeamSetVariables, "POST /v1/host/sample/test/runs/{runId}/variables", "Set variables")
        .needs("runs:create")
        .may_take("Object")
        .gives(OK, Gives::Json("Object")),
    get(SeamSpans, "GET /v1/host/sample/test/otel/spans", "Read the spans of a run")
        .needs("runs:read")
        .gives(OK, Gives::Json("Object")),
    post(
        SeamConcurrentClaim,
        "POST /v1/host/sample/test/idempotency/concurrent-claim",
        "Let several executors reach one outward call",
    )
    .needs("runs:create")
    .takes("Object")
    .gives(OK, Gives::Json("Object")),
    get(SeamOwnedRun, "GET /v1/host/sample/identity/owned-run", "Start a run and read whose it is")
        .needs("runs:create")
        .gives(OK, Gives::Json("Object")),
    post(
        SeamCrossWorkspaceRead,
        "POST /v1/host/sample/identity/cross-workspace-read",
        "Read a run of another workspace",
    )
    .needs("runs:create")
    .may_take("Object")
    .gives(OK, Gives::Json("Object")),
    post(SeamBundle, "POST /v1/host/sample/test/debug-bundle/export", "Export a run")
        .needs("runs:read")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
    post(SeamLiveInvoke, "POST /v1/host/sample/agents/live-invoke", "Invoke an agent live")
        .needs("runs:create")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
    post(SeamDispatch, "POST /v1/host/sample/agents/{agentId}/dispatch", "Dispatch an agent once")
        .needs("runs:create")
        .may_take("Object")
        .gives(OK, Gives::Json("Object")),
    post(SeamInstallGate, "POST /v1/host/sample/packs/install-gate", "Judge a pack's runtime")
        .needs("packs:install")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
    post(SeamRosterFire, "POST /v1/host/sample/roster/fire", "Fire a member's workflow")
        .needs("runs:create")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
    post(SeamBudget, "POST /v1/host/sample/budget/run", "Ask a model under a budget")
        .needs("runs:create")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
    post(SeamHeartbeat, "POST /v1/host/sample/heartbeat/tick", "Let a heartbeat see something")
        .needs("runs:create")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
    post(SeamToolHooks, "POST /v1/host/sample/toolhooks/invoke", "Ask the gate before tools")
        .needs("runs:create")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
    post(
        SeamSafeFetch,
        "POST /v1/host/sample/http/safe-fetch",
        "Fetch an address through the guard",
    )
    .needs("runs:create")
    .takes("Object")
    .gives(OK, Gives::Json("Object")),
    post(SeamFanOut, "POST /v1/host/sample/dispatch/fanout", "Give work to several at once")
        .needs("runs:create")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
    post(SeamReset, "POST /v1/host/sample/test/reset", "Forget what tests have set")
        .needs("admin")
        .may_take("Object")
        .gives(OK, Gives::Json("Object")),
    post(SeamToggle, "POST /v1/host/sample/test/capability-toggle", "Pretend to lack a capability")
        .needs("admin")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
    post(SeamWorkflow, "POST /v1/host/sample/workflows", "Register a workflow in a few words")
        .needs("workflows:write")
        .takes("Object")
        .gives(StatusCode::CREATED, Gives::Json("Object")),
    post(
        SeamDeliver,
        "POST /v1/host/sample/trigger-bridge/deliver",
        "Play a scenario of deliveries",
    )
    .needs("triggers:write")
    .takes("Object")
    .gives(OK, Gives::Json("Object")),
    post(SeamIngest, "POST /v1/host/sample/trigger-bridge/ingest", "Take something in and show it")
        .needs("triggers:write")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
    post(
        SeamExhaustRetries,
        "POST /v1/host/sample/deadletter/exhaust",
        "Let a run use up its retries",
    )
    .needs("runs:create")
    .takes("Object")
    .gives(OK, Gives::Json("Object")),
    post(SeamScheduling, "POST /v1/host/sample/scheduling/tick", "Let slots come due")
        .needs("triggers:write")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
    post(
        SeamDeployment,
        "POST /v1/host/sample/agents/deployment-transition",
        "Play a scenario of deployments",
    )
    .needs("admin")
    .takes("Object")
    .gives(OK, Gives::Json("Object")),
    post(SeamResolvePrompt, "POST /v1/host/sample/prompt/resolve", "Say which prompt applies")
        .needs("manifest:read")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
    post(SeamComposePrompt, "POST /v1/host/sample/prompt/compose", "Fill in a prompt")
        .needs("manifest:read")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
    post(SeamWrapPrompt, "POST /v1/host/sample/test/llm-prompt-wrap", "Mark a stranger's words")
        .needs("manifest:read")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
    post(
        SeamMockProgram,
        "POST /v1/host/sample/test/mock-ai/program",
        "Say what the mock provider answers",
    )
    .needs("runs:create")
    .takes("Object")
    .gives(OK, Gives::Json("Object")),
    post(
        SeamExpireSnapshots,
        "POST /v1/host/sample/test/memory/expire-snapshots",
        "Let go of what a run saw of memory",
    )
    .needs("admin")
    .takes("Object")
    .gives(StatusCode::NO_CONTENT, Gives::Nothing),
    post(
        SeamMemoryRoundtrip,
        "POST /v1/host/sample/test/memory/cross-run-ttl-roundtrip",
        "Let a child remember something for a while, and its parent see it",
    )
    .needs("runs:create")
    .takes("Object")
    .gives(OK, Gives::Json("Object")),
    post(SeamAgentLoop, "POST /v1/host/sample/agentloop/run", "Let a supervisor take its turns")
        .needs("runs:create")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
    post(SeamWorkspace, "POST /v1/host/sample/workspace/op", "Use a workspace of somebody's")
        .needs("workspace:write")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
    post(SeamAttest, "POST /v1/host/sample/subrun/attest", "Take over what a child leaves")
        .needs("runs:create")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
    post(SeamFireCommitment, "POST /v1/host/sample/commitment/fire", "Keep a promise that is due")
        .needs("runs:create")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
    post(SeamDistill, "POST /v1/host/sample/memory/distill", "Distil memory within a budget")
        .needs("runs:create")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
    post(
        SeamConsolidate,
        "POST /v1/host/sample/memory/consolidate",
        "Make entries one that say the same",
    )
    .needs("runs:create")
    .takes("Object")
    .gives(OK, Gives::Json("Object")),
    // The suite knows these two by other names than the rest.
    post(SeamSeedMemory, "POST /v1/test/memory/seed", "Remember something")
        .needs("runs:create")
        .takes("Object")
        .gives(StatusCode::CREATED, Gives::Json("Object")),
    post(SeamCompactMemory, "POST /v1/test/memory/compact", "Put together what is remembered")
        .needs("runs:create")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
    post(SeamCacheKey, "POST /v1/host/sample/test/llm-cache-key", "Compute the key of a request")
        .needs("manifest:read")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
    post(
        SeamModelGate,
        "POST /v1/host/sample/test/evaluate-model-capability-gate",
        "Judge demands on a model",
    )
    .needs("manifest:read")
    .takes("Object")
    .gives(OK, Gives::Json("Object")),
    post(SeamAcceptEnvelope, "POST /v1/host/sample/envelope/accept", "Judge an envelope")
        .needs("runs:create")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
    post(
        SeamEmitUsage,
        "POST /v1/host/sample/test/emit-provider-usage",
        "Project a report of usage",
    )
    .needs("runs:create")
    .takes("Object")
    .gives(OK, Gives::Json("Object")),
    post(
        SeamEmitReliability,
        "POST /v1/host/sample/test/emit-envelope-reliability",
        "Project an event about an answer",
    )
    .needs("runs:create")
    .takes("Object")
    .gives(OK, Gives::Json("Object")),
    get(
        SeamMockBudget,
        "GET /v1/host/sample/test/mock-ai/last-dispatch-budget",
        "Read the budget of the mock provider's last turn",
    )
    .needs("runs:read")
    .gives(OK, Gives::Json("Object")),
];

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
