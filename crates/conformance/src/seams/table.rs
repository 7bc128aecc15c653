//! Where each door stands and what it needs: beside the table of the API, so that these stay out of its document.

use std::sync::Arc;

use axum::handler::Handler;
use axum::http::StatusCode;
use callboard_server::Operation;
use callboard_server::extend::{Family, Gives, Host, get, post};

use super::{
    accept_envelope, agent_loop, attest, authorize, budget, bundle, cache_key, capability_gate,
    compact_memory, compose_prompt, concurrent_claim, consolidate, cross_workspace_read, decide,
    deployment, dispatch, distill, emit_reliability, emit_usage, events, exhaust_retries,
    expire_snapshots, fan_out, fire_commitment, fire_seam, heartbeat, install_gate, last_budget,
    live_invoke, owned_run, per_item, program, receive_delivery, register, reset, resolve_prompt,
    retry_effect, roster_fire, roundtrip, safe_fetch, safe_fetch_run, scheduling, seed_log,
    seed_memory, set_variables, spans, toggle, tool_hooks, trigger_deliver, trigger_ingest,
    variables, workspace, wrap,
};

pub(super) static DOORS: Family = Family::new(|| {
    vec![
        door(
            "GET /v1/host/sample/test/runs/{runId}/events",
            "runs:read",
            events,
            "Read a log by type or node",
        ),
        door(
            "GET /v1/host/sample/test/runs/{runId}/variables",
            "runs:read",
            variables,
            "Read variables",
        ),
        door(
            "POST /v1/host/sample/test/runs/{runId}/variables",
            "runs:create",
            set_variables,
            "Set variables",
        )
        .may_take("Object"),
        door("GET /v1/host/sample/test/otel/spans", "runs:read", spans, "Read the spans of a run"),
        door(
            "POST /v1/host/sample/test/idempotency/concurrent-claim",
            "runs:create",
            concurrent_claim,
            "Let several executors reach one outward call",
        ),
        door(
            "POST /v1/host/sample/test/idempotency/effect-retry",
            "runs:create",
            retry_effect,
            "Make a call whose first attempt is cut off",
        ),
        door(
            "POST /v1/host/sample/effect-seams/fire",
            "runs:create",
            fire_seam,
            "Go once through one way out of this host",
        ),
        door(
            "POST /v1/host/sample/event-log/seed",
            "runs:create",
            seed_log,
            "Keep a run as a host of the first major left it",
        ),
        door(
            "POST /v1/host/sample/webhooks/receive",
            "runs:create",
            receive_delivery,
            "Judge a delivery as its receiver does",
        ),
        door(
            "GET /v1/host/sample/identity/owned-run",
            "runs:create",
            owned_run,
            "Start a run and read whose it is",
        ),
        door(
            "POST /v1/host/sample/identity/cross-workspace-read",
            "runs:create",
            cross_workspace_read,
            "Read a run of another workspace",
        )
        .may_take("Object"),
        door("POST /v1/host/sample/test/debug-bundle/export", "runs:read", bundle, "Export a run"),
        door(
            "POST /v1/host/sample/agents/live-invoke",
            "runs:create",
            live_invoke,
            "Invoke an agent live",
        ),
        door(
            "POST /v1/host/sample/agents/{agentId}/dispatch",
            "runs:create",
            dispatch,
            "Dispatch an agent once",
        )
        .may_take("Object"),
        door(
            "POST /v1/host/sample/packs/install-gate",
            "packs:install",
            install_gate,
            "Judge a pack's runtime",
        ),
        door(
            "POST /v1/host/sample/roster/fire",
            "runs:create",
            roster_fire,
            "Fire a member's workflow",
        ),
        door(
            "POST /v1/host/sample/budget/run",
            "runs:create",
            budget,
            "Ask a model under a budget",
        ),
        door(
            "POST /v1/host/sample/heartbeat/tick",
            "runs:create",
            heartbeat,
            "Let a heartbeat see something",
        ),
        door(
            "POST /v1/host/sample/toolhooks/invoke",
            "runs:create",
            tool_hooks,
            "Ask the gate before tools",
        ),
        door(
            "POST /v1/host/sample/http/safe-fetch",
            "runs:create",
            safe_fetch,
            "Fetch an address through the guard",
        ),
        door(
            "POST /v1/host/sample/http/safe-fetch-run",
            "runs:create",
            safe_fetch_run,
            "Fetch an address within a run",
        ),
        // It stores a secret for a while.
        door("POST /v1/host/sample/egress/decide", "admin", decide, "Send a credential somewhere"),
        door(
            "POST /v1/host/sample/authorization/decide",
            "admin",
            authorize,
            "Say whether a principal may do something",
        ),
        door(
            "POST /v1/host/sample/dispatch/fanout",
            "runs:create",
            fan_out,
            "Give work to several at once",
        ),
        door(
            "POST /v1/host/sample/dispatch/per-item",
            "runs:create",
            per_item,
            "Give each worker its own input",
        ),
        door("POST /v1/host/sample/test/reset", "admin", reset, "Forget what tests have set")
            .may_take("Object"),
        door(
            "POST /v1/host/sample/test/capability-toggle",
            "admin",
            toggle,
            "Pretend to lack a capability",
        ),
        door(
            "POST /v1/host/sample/workflows",
            "workflows:write",
            register,
            "Register a workflow in a few words",
        )
        .gives(StatusCode::CREATED, Gives::Json("Object")),
        door(
            "POST /v1/host/sample/trigger-bridge/deliver",
            "triggers:write",
            trigger_deliver,
            "Play a scenario of deliveries",
        ),
        door(
            "POST /v1/host/sample/trigger-bridge/ingest",
            "triggers:write",
            trigger_ingest,
            "Take something in and show it",
        ),
        door(
            "POST /v1/host/sample/deadletter/exhaust",
            "runs:create",
            exhaust_retries,
            "Let a run use up its retries",
        ),
        door(
            "POST /v1/host/sample/scheduling/tick",
            "triggers:write",
            scheduling,
            "Let slots come due",
        ),
        door(
            "POST /v1/host/sample/agents/deployment-transition",
            "admin",
            deployment,
            "Play a scenario of deployments",
        ),
        door(
            "POST /v1/host/sample/prompt/resolve",
            "manifest:read",
            resolve_prompt,
            "Say which prompt applies",
        ),
        door(
            "POST /v1/host/sample/prompt/compose",
            "manifest:read",
            compose_prompt,
            "Fill in a prompt",
        ),
        door(
            "POST /v1/host/sample/test/llm-prompt-wrap",
            "manifest:read",
            wrap,
            "Mark a stranger's words",
        ),
        door(
            "POST /v1/host/sample/test/mock-ai/program",
            "runs:create",
            program,
            "Say what the mock provider answers",
        ),
        door(
            "POST /v1/host/sample/test/memory/expire-snapshots",
            "admin",
            expire_snapshots,
            "Let go of what a run saw of memory",
        )
        .gives(StatusCode::NO_CONTENT, Gives::Nothing),
        door(
            "POST /v1/host/sample/test/memory/cross-run-ttl-roundtrip",
            "runs:create",
            roundtrip,
            "Let a child remember something for a while, and its parent see it",
        ),
        door(
            "POST /v1/host/sample/agentloop/run",
            "runs:create",
            agent_loop,
            "Let a supervisor take its turns",
        ),
        door(
            "POST /v1/host/sample/workspace/op",
            "workspace:write",
            workspace,
            "Use a workspace of somebody's",
        ),
        door(
            "POST /v1/host/sample/subrun/attest",
            "runs:create",
            attest,
            "Take over what a child leaves",
        ),
        door(
            "POST /v1/host/sample/commitment/fire",
            "runs:create",
            fire_commitment,
            "Keep a promise that is due",
        ),
        door(
            "POST /v1/host/sample/memory/distill",
            "runs:create",
            distill,
            "Distil memory within a budget",
        ),
        door(
            "POST /v1/host/sample/memory/consolidate",
            "runs:create",
            consolidate,
            "Make entries one that say the same",
        ),
        // The suite knows these two by other names than the rest.
        door("POST /v1/test/memory/seed", "runs:create", seed_memory, "Remember something")
            .gives(StatusCode::CREATED, Gives::Json("Object")),
        door(
            "POST /v1/test/memory/compact",
            "runs:create",
            compact_memory,
            "Put together what is remembered",
        ),
        door(
            "POST /v1/host/sample/test/llm-cache-key",
            "manifest:read",
            cache_key,
            "Compute the key of a request",
        ),
        door(
            "POST /v1/host/sample/test/evaluate-model-capability-gate",
            "manifest:read",
            capability_gate,
            "Judge demands on a model",
        ),
        door(
            "POST /v1/host/sample/envelope/accept",
            "runs:create",
            accept_envelope,
            "Judge an envelope",
        ),
        door(
            "POST /v1/host/sample/test/emit-provider-usage",
            "runs:create",
            emit_usage,
            "Project a report of usage",
        ),
        door(
            "POST /v1/host/sample/test/emit-envelope-reliability",
            "runs:create",
            emit_reliability,
            "Project an event about an answer",
        ),
        door(
            "GET /v1/host/sample/test/mock-ai/last-dispatch-budget",
            "runs:read",
            last_budget,
            "Read the budget of the mock provider's last turn",
        ),
    ]
});

/// Objects go in and come out; which ones, each door says for itself. The document names none of them.
fn door<T: 'static>(
    name: &'static str,
    scope: &'static str,
    handler: impl Handler<T, Arc<Host>>,
    summary: &'static str,
) -> Operation {
    let row = if name.starts_with("GET ") {
        get(name, handler, name, summary)
    } else {
        post(name, handler, name, summary).takes("Object")
    };
    row.needs(scope).gives(StatusCode::OK, Gives::Json("Object"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use callboard_server::{Access, operations};

    use super::DOORS;

    #[test]
    fn every_door_needs_a_scope_and_a_name_of_its_own() {
        let mut names: BTreeSet<&str> = operations().map(|operation| operation.name).collect();
        for door in DOORS.iter() {
            assert_eq!(door.name, format!("{} {}", door.method.as_str(), door.path));
            assert!(matches!(door.access, Access::Scope(_)), "{}", door.name);
            assert!(names.insert(door.name), "{} twice", door.name);
        }
    }
}
