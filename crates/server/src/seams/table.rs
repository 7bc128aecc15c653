//! Where each door stands and what it needs: beside the table of the API, so that these stay out of its document.

use axum::http::StatusCode;

use crate::operations::OperationId::{
    SeamAcceptEnvelope, SeamAgentLoop, SeamAttest, SeamAuthorize, SeamBudget, SeamBundle,
    SeamCacheKey, SeamCompactMemory, SeamComposePrompt, SeamConcurrentClaim, SeamConsolidate,
    SeamCrossWorkspaceRead, SeamDeliver, SeamDeployment, SeamDispatch, SeamDistill, SeamEgress,
    SeamEmitReliability, SeamEmitUsage, SeamEvents, SeamExhaustRetries, SeamExpireSnapshots,
    SeamFanOut, SeamFireCommitment, SeamHeartbeat, SeamIngest, SeamInstallGate, SeamLiveInvoke,
    SeamMemoryRoundtrip, SeamMockBudget, SeamMockProgram, SeamModelGate, SeamOwnedRun, SeamPerItem,
    SeamReset, SeamResolvePrompt, SeamRosterFire, SeamSafeFetch, SeamSafeFetchRun, SeamScheduling,
    SeamSeedMemory, SeamSetVariables, SeamSpans, SeamToggle, SeamToolHooks, SeamVariables,
    SeamWorkflow, SeamWorkspace, SeamWrapPrompt,
};
use crate::operations::{Gives, Operation, get, post};

const OK: StatusCode = StatusCode::OK;

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
    post(
        SeamSafeFetchRun,
        "POST /v1/host/sample/http/safe-fetch-run",
        "Fetch an address within a run",
    )
    .needs("runs:create")
    .takes("Object")
    .gives(OK, Gives::Json("Object")),
    // It stores a secret for a while.
    post(SeamEgress, "POST /v1/host/sample/egress/decide", "Send a credential somewhere")
        .needs("admin")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
    post(
        SeamAuthorize,
        "POST /v1/host/sample/authorization/decide",
        "Say whether a principal may do something",
    )
    .needs("admin")
    .takes("Object")
    .gives(OK, Gives::Json("Object")),
    post(SeamFanOut, "POST /v1/host/sample/dispatch/fanout", "Give work to several at once")
        .needs("runs:create")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
    post(SeamPerItem, "POST /v1/host/sample/dispatch/per-item", "Give each worker its own input")
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
