//! Where each door stands and what it needs: beside the table of the API, so that these stay out of its document.

use axum::http::StatusCode;

use super as seams;
use crate::operations::{Family, Gives, get, post};

const OK: StatusCode = StatusCode::OK;

pub(crate) static SEAMS: Family = Family::new(|| {
    vec![
        get(
            "seamEvents",
            seams::events,
            "GET /v1/host/sample/test/runs/{runId}/events",
            "Read a log by type or node",
        )
        .needs("runs:read")
        .gives(OK, Gives::Json("Object")),
        get(
            "seamVariables",
            seams::variables,
            "GET /v1/host/sample/test/runs/{runId}/variables",
            "Read variables",
        )
        .needs("runs:read")
        .gives(OK, Gives::Json("Object")),
        post(
            "seamSetVariables",
            seams::set_variables,
            "POST /v1/host/sample/test/runs/{runId}/variables",
            "Set variables",
        )
        .needs("runs:create")
        .may_take("Object")
        .gives(OK, Gives::Json("Object")),
        get(
            "seamSpans",
            seams::spans,
            "GET /v1/host/sample/test/otel/spans",
            "Read the spans of a run",
        )
        .needs("runs:read")
        .gives(OK, Gives::Json("Object")),
        post(
            "seamConcurrentClaim",
            seams::concurrent_claim,
            "POST /v1/host/sample/test/idempotency/concurrent-claim",
            "Let several executors reach one outward call",
        )
        .needs("runs:create")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
        get(
            "seamOwnedRun",
            seams::owned_run,
            "GET /v1/host/sample/identity/owned-run",
            "Start a run and read whose it is",
        )
        .needs("runs:create")
        .gives(OK, Gives::Json("Object")),
        post(
            "seamCrossWorkspaceRead",
            seams::cross_workspace_read,
            "POST /v1/host/sample/identity/cross-workspace-read",
            "Read a run of another workspace",
        )
        .needs("runs:create")
        .may_take("Object")
        .gives(OK, Gives::Json("Object")),
        post(
            "seamBundle",
            seams::bundle,
            "POST /v1/host/sample/test/debug-bundle/export",
            "Export a run",
        )
        .needs("runs:read")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
        post(
            "seamLiveInvoke",
            seams::live_invoke,
            "POST /v1/host/sample/agents/live-invoke",
            "Invoke an agent live",
        )
        .needs("runs:create")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
        post(
            "seamDispatch",
            seams::dispatch,
            "POST /v1/host/sample/agents/{agentId}/dispatch",
            "Dispatch an agent once",
        )
        .needs("runs:create")
        .may_take("Object")
        .gives(OK, Gives::Json("Object")),
        post(
            "seamInstallGate",
            seams::install_gate,
            "POST /v1/host/sample/packs/install-gate",
            "Judge a pack's runtime",
        )
        .needs("packs:install")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
        post(
            "seamRosterFire",
            seams::roster_fire,
            "POST /v1/host/sample/roster/fire",
            "Fire a member's workflow",
        )
        .needs("runs:create")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
        post(
            "seamBudget",
            seams::budget,
            "POST /v1/host/sample/budget/run",
            "Ask a model under a budget",
        )
        .needs("runs:create")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
        post(
            "seamHeartbeat",
            seams::heartbeat,
            "POST /v1/host/sample/heartbeat/tick",
            "Let a heartbeat see something",
        )
        .needs("runs:create")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
        post(
            "seamToolHooks",
            seams::tool_hooks,
            "POST /v1/host/sample/toolhooks/invoke",
            "Ask the gate before tools",
        )
        .needs("runs:create")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
        post(
            "seamSafeFetch",
            seams::safe_fetch,
            "POST /v1/host/sample/http/safe-fetch",
            "Fetch an address through the guard",
        )
        .needs("runs:create")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
        post(
            "seamSafeFetchRun",
            seams::safe_fetch_run,
            "POST /v1/host/sample/http/safe-fetch-run",
            "Fetch an address within a run",
        )
        .needs("runs:create")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
        // It stores a secret for a while.
        post(
            "seamEgress",
            seams::decide,
            "POST /v1/host/sample/egress/decide",
            "Send a credential somewhere",
        )
        .needs("admin")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
        post(
            "seamAuthorize",
            seams::authorize,
            "POST /v1/host/sample/authorization/decide",
            "Say whether a principal may do something",
        )
        .needs("admin")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
        post(
            "seamFanOut",
            seams::fan_out,
            "POST /v1/host/sample/dispatch/fanout",
            "Give work to several at once",
        )
        .needs("runs:create")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
        post(
            "seamPerItem",
            seams::per_item,
            "POST /v1/host/sample/dispatch/per-item",
            "Give each worker its own input",
        )
        .needs("runs:create")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
        post(
            "seamReset",
            seams::reset,
            "POST /v1/host/sample/test/reset",
            "Forget what tests have set",
        )
        .needs("admin")
        .may_take("Object")
        .gives(OK, Gives::Json("Object")),
        post(
            "seamToggle",
            seams::toggle,
            "POST /v1/host/sample/test/capability-toggle",
            "Pretend to lack a capability",
        )
        .needs("admin")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
        post(
            "seamWorkflow",
            seams::register,
            "POST /v1/host/sample/workflows",
            "Register a workflow in a few words",
        )
        .needs("workflows:write")
        .takes("Object")
        .gives(StatusCode::CREATED, Gives::Json("Object")),
        post(
            "seamDeliver",
            seams::trigger_deliver,
            "POST /v1/host/sample/trigger-bridge/deliver",
            "Play a scenario of deliveries",
        )
        .needs("triggers:write")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
        post(
            "seamIngest",
            seams::trigger_ingest,
            "POST /v1/host/sample/trigger-bridge/ingest",
            "Take something in and show it",
        )
        .needs("triggers:write")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
        post(
            "seamExhaustRetries",
            seams::exhaust_retries,
            "POST /v1/host/sample/deadletter/exhaust",
            "Let a run use up its retries",
        )
        .needs("runs:create")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
        post(
            "seamScheduling",
            seams::scheduling,
            "POST /v1/host/sample/scheduling/tick",
            "Let slots come due",
        )
        .needs("triggers:write")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
        post(
            "seamDeployment",
            seams::deployment,
            "POST /v1/host/sample/agents/deployment-transition",
            "Play a scenario of deployments",
        )
        .needs("admin")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
        post(
            "seamResolvePrompt",
            seams::resolve_prompt,
            "POST /v1/host/sample/prompt/resolve",
            "Say which prompt applies",
        )
        .needs("manifest:read")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
        post(
            "seamComposePrompt",
            seams::compose_prompt,
            "POST /v1/host/sample/prompt/compose",
            "Fill in a prompt",
        )
        .needs("manifest:read")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
        post(
            "seamWrapPrompt",
            seams::wrap,
            "POST /v1/host/sample/test/llm-prompt-wrap",
            "Mark a stranger's words",
        )
        .needs("manifest:read")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
        post(
            "seamMockProgram",
            seams::program,
            "POST /v1/host/sample/test/mock-ai/program",
            "Say what the mock provider answers",
        )
        .needs("runs:create")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
        post(
            "seamExpireSnapshots",
            seams::expire_snapshots,
            "POST /v1/host/sample/test/memory/expire-snapshots",
            "Let go of what a run saw of memory",
        )
        .needs("admin")
        .takes("Object")
        .gives(StatusCode::NO_CONTENT, Gives::Nothing),
        post(
            "seamMemoryRoundtrip",
            seams::roundtrip,
            "POST /v1/host/sample/test/memory/cross-run-ttl-roundtrip",
            "Let a child remember something for a while, and its parent see it",
        )
        .needs("runs:create")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
        post(
            "seamAgentLoop",
            seams::agent_loop,
            "POST /v1/host/sample/agentloop/run",
            "Let a supervisor take its turns",
        )
        .needs("runs:create")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
        post(
            "seamWorkspace",
            seams::workspace,
            "POST /v1/host/sample/workspace/op",
            "Use a workspace of somebody's",
        )
        .needs("workspace:write")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
        post(
            "seamAttest",
            seams::attest,
            "POST /v1/host/sample/subrun/attest",
            "Take over what a child leaves",
        )
        .needs("runs:create")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
        post(
            "seamFireCommitment",
            seams::fire_commitment,
            "POST /v1/host/sample/commitment/fire",
            "Keep a promise that is due",
        )
        .needs("runs:create")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
        post(
            "seamDistill",
            seams::distill,
            "POST /v1/host/sample/memory/distill",
            "Distil memory within a budget",
        )
        .needs("runs:create")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
        post(
            "seamConsolidate",
            seams::consolidate,
            "POST /v1/host/sample/memory/consolidate",
            "Make entries one that say the same",
        )
        .needs("runs:create")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
        // The suite knows these two by other names than the rest.
        post(
            "seamSeedMemory",
            seams::seed_memory,
            "POST /v1/test/memory/seed",
            "Remember something",
        )
        .needs("runs:create")
        .takes("Object")
        .gives(StatusCode::CREATED, Gives::Json("Object")),
        post(
            "seamCompactMemory",
            seams::compact_memory,
            "POST /v1/test/memory/compact",
            "Put together what is remembered",
        )
        .needs("runs:create")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
        post(
            "seamCacheKey",
            seams::cache_key,
            "POST /v1/host/sample/test/llm-cache-key",
            "Compute the key of a request",
        )
        .needs("manifest:read")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
        post(
            "seamModelGate",
            seams::capability_gate,
            "POST /v1/host/sample/test/evaluate-model-capability-gate",
            "Judge demands on a model",
        )
        .needs("manifest:read")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
        post(
            "seamAcceptEnvelope",
            seams::accept_envelope,
            "POST /v1/host/sample/envelope/accept",
            "Judge an envelope",
        )
        .needs("runs:create")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
        post(
            "seamEmitUsage",
            seams::emit_usage,
            "POST /v1/host/sample/test/emit-provider-usage",
            "Project a report of usage",
        )
        .needs("runs:create")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
        post(
            "seamEmitReliability",
            seams::emit_reliability,
            "POST /v1/host/sample/test/emit-envelope-reliability",
            "Project an event about an answer",
        )
        .needs("runs:create")
        .takes("Object")
        .gives(OK, Gives::Json("Object")),
        get(
            "seamMockBudget",
            seams::last_budget,
            "GET /v1/host/sample/test/mock-ai/last-dispatch-budget",
            "Read the budget of the mock provider's last turn",
        )
        .needs("runs:read")
        .gives(OK, Gives::Json("Object")),
    ]
});
