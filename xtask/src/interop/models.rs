//! The fixtures that ask models: what the mock provider says, and what the log says of it; prompts on their way there.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::expectations::Observed;
use super::session::Session;
use crate::wire::Request;

const WITHIN: Duration = Duration::from_secs(10);
const NODE: &str = "structured-call";
const DIVERGING: &str = "conformance-phase4-replay-divergence";

/// One fixture with what the mock provider says to it.
struct Case {
    fixture: &'static str,
    program: fn() -> Value,
    ends: &'static str,
    /// How often each event is recorded.
    events: &'static [(&'static str, usize)],
    /// What the run failed with.
    code: Option<&'static str>,
}

const CASES: [Case; 7] = [
    Case {
        fixture: "conformance-envelope-refusal",
        program: || json!([{ "stopReason": "safety", "refusalText": "REFUSAL-CANARY" }]),
        ends: "failed",
        events: &[("envelope.refusal", 1), ("envelope.retry.attempted", 0)],
        code: Some("envelope_refusal"),
    },
    Case {
        fixture: "conformance-envelope-truncated",
        program: || {
            json!([
                { "stopReason": "max_tokens", "content": "{\"partial" },
                { "stopReason": "end_turn", "content": "{\"valid\":true}" },
            ])
        },
        ends: "completed",
        events: &[("envelope.truncated", 1), ("envelope.retry.attempted", 1)],
        code: None,
    },
    Case {
        fixture: "conformance-envelope-retry-attempted",
        program: || json!([{ "content": "not json" }, { "content": "{\"valid\":true}" }]),
        ends: "completed",
        events: &[("envelope.retry.attempted", 1), ("envelope.truncated", 0)],
        code: None,
    },
    Case {
        fixture: "conformance-envelope-retry-exhausted",
        program: || json!([{ "content": "{}" }, { "content": "{}" }, { "content": "{}" }]),
        ends: "failed",
        events: &[("envelope.retry.exhausted", 1), ("cap.breached", 1)],
        code: Some("envelope_invalid"),
    },
    Case {
        fixture: "conformance-envelope-recovery-applied",
        program: || json!([{ "content": "```json\n{\"result\":\"ok\"}\n```" }]),
        ends: "completed",
        events: &[("envelope.recovery.applied", 1), ("envelope.retry.attempted", 0)],
        code: None,
    },
    Case {
        fixture: "conformance-envelope-nl-to-format-engaged",
        program: || {
            json!([
                { "content": "Sure, here it is." }, { "content": "Of course!" },
                { "content": "I think so." }, { "content": "{\"result\":\"coerced-ok\"}" },
            ])
        },
        ends: "completed",
        events: &[("envelope.nlToFormat.engaged", 1), ("envelope.retry.exhausted", 0)],
        code: None,
    },
    Case {
        fixture: "conformance-envelope-truncation-cap-exhaustion",
        program: || json!(vec![json!({ "stopReason": "max_tokens", "content": "x" }); 9]),
        ends: "failed",
        events: &[("envelope.retry.exhausted", 1), ("cap.breached", 1), ("provider.usage", 3)],
        code: Some("envelope_truncation_unrecoverable"),
    },
];

/// Every fixture that discovery must therefore list.
pub(crate) fn names() -> Vec<&'static str> {
    let others = [
        "conformance-prompt-end-to-end",
        "conformance-prompt-all-four-kinds",
        "conformance-model-capability-insufficient",
        DIVERGING,
    ];
    CASES.iter().map(|case| case.fixture).chain(others).collect()
}

pub(crate) async fn check(session: &mut Session) -> Result<()> {
    for case in &CASES {
        let outcome = structured(session, case).await;
        session.book.enter(case.fixture, outcome);
    }
    let outcome = budget(session).await;
    session.book.enter("mock-ai: the budget of the last turn is known", outcome);
    let outcome = refused_again(session).await;
    session.book.enter("conformance-phase4-replay-divergence: both directions", outcome);
    let outcome = unable(session).await;
    session.book.enter("conformance-model-capability-insufficient", outcome);
    let outcome = composed(session).await;
    session.book.enter("conformance-prompt-all-four-kinds: each kind, each example", outcome);
    let outcome = previewed(session).await;
    session.book.enter("conformance-prompt-end-to-end: a preview has the call's digest", outcome);
    let outcome = library(session).await;
    session.book.enter("prompts: the library serves templates of the schema", outcome);
    let outcome = session.settle();
    session.book.enter("models: every body matches its schema", outcome);
    Ok(())
}

async fn observed(session: &mut Session, workflow: &str) -> Result<Observed> {
    let run = session.create(&json!({ "workflowId": workflow })).await?;
    let observed = session.observe(&run, WITHIN).await?;
    observed.is_a_log()?;
    Ok(observed)
}

async fn program(session: &mut Session, program: &Value) -> Result<()> {
    let body = json!({ "nodeId": NODE, "program": program });
    session.expect(200, Request::post("/v1/host/sample/test/mock-ai/program", &body)).await?;
    Ok(())
}

async fn structured(session: &mut Session, case: &Case) -> Result<()> {
    program(session, &(case.program)()).await?;
    let observed = observed(session, case.fixture).await?;
    ensure!(observed.snapshot["status"] == case.ends, "{}", observed.snapshot["status"]);
    for (kind, times) in case.events {
        let told = observed.payloads(kind).len();
        ensure!(told == *times, "{kind} {told} times: {:?}", observed.kinds());
    }
    let code = observed.snapshot["error"]["code"].as_str();
    ensure!(code == case.code, "{code:?}");
    let log = json!(observed.events).to_string() + &observed.snapshot.to_string();
    ensure!(!log.contains("REFUSAL-CANARY"), "what the model said instead is told");
    Ok(())
}

async fn budget(session: &mut Session) -> Result<()> {
    let path = format!("/v1/host/sample/test/mock-ai/last-dispatch-budget?nodeId={NODE}");
    let body = session.expect(200, Request::get(path)).await?;
    // The last fixture began with 50, and was asked three times.
    ensure!(body["maxTokens"] == 200, "{body}");
    Ok(())
}

/// A replay whose model has begun to refuse, or has ceased to, ends at the node.
async fn refused_again(session: &mut Session) -> Result<()> {
    let valid = json!([{ "content": "{\"valid\":true}", "stopReason": "end_turn" }]);
    let refusal = json!([{ "content": "", "stopReason": "safety", "refusalText": "No." }]);
    for (was, now, kinds) in
        [(&valid, &refusal, ["valid", "refusal"]), (&refusal, &valid, ["refusal", "valid"])]
    {
        program(session, was).await?;
        let source = observed(session, DIVERGING).await?;
        program(session, now).await?;
        let body = json!({ "fromSeq": 0, "mode": "replay" });
        let path = format!("/v1/runs/{}:fork", source.run);
        let forked = session.expect(201, Request::post(path, &body)).await?;
        let run = forked["runId"].as_str().context("a fork without runId")?.to_owned();
        let replay = session.observe(&run, WITHIN).await?;
        ensure!(replay.snapshot["status"] == "failed", "{}", replay.snapshot["status"]);
        let code = &replay.snapshot["error"]["code"];
        ensure!(code == "replay_diverged_at_refusal", "{code}");
        let told = replay.only("replay.divergedAtRefusal")?;
        ensure!(told["sourceRunId"] == source.run.as_str() && told["nodeId"] == NODE, "{told}");
        let found = [&told["originalEnvelopeKind"], &told["replayEnvelopeKind"]];
        ensure!(found == kinds, "{told}");
    }
    Ok(())
}

async fn unable(session: &mut Session) -> Result<()> {
    let observed = observed(session, "conformance-model-capability-insufficient").await?;
    observed.in_order(&["model.capability.insufficient", "node.failed", "run.failed"])?;
    ensure!(observed.snapshot["error"]["code"] == "capability_not_provided", "another code");
    ensure!(observed.payloads("provider.usage").is_empty(), "a model was asked");
    Ok(())
}

async fn composed(session: &mut Session) -> Result<()> {
    let observed = observed(session, "conformance-prompt-all-four-kinds").await?;
    let resolved = observed.payloads("agent.promptResolved");
    let composed = observed.payloads("prompt.composed");
    for name in ["writer-system", "writer-user", "schema-hint", "few-shot", "few-shot-2"] {
        let reference = format!("prompt:conformance.prompt.{name}@1.0.0");
        ensure!(resolved.iter().any(|it| it["resolved"] == reference.as_str()), "{reference}");
        ensure!(composed.iter().any(|it| it["refs"] == json!([reference])), "{reference}");
    }
    ensure!(composed.len() == 5, "{} compositions", composed.len());
    Ok(())
}

async fn previewed(session: &mut Session) -> Result<()> {
    let observed = observed(session, "conformance-prompt-end-to-end").await?;
    observed.in_order(&["agent.promptResolved", "prompt.composed", "run.completed"])?;
    let composed = observed.only("prompt.composed")?;
    ensure!(composed["composed"] == composed["systemPrompt"], "two bodies");
    let body = json!({ "ref": "prompt:conformance.prompt.writer-system@1.0.0", "variables": {} });
    let preview = session.expect(200, Request::post("/v1/prompts:render", &body)).await?;
    ensure!(preview["hash"] == composed["hash"], "{preview}");
    Ok(())
}

async fn library(session: &mut Session) -> Result<()> {
    let page = session.expect(200, Request::get("/v1/prompts?limit=200")).await?;
    let items = page["items"].as_array().context("no items")?.clone();
    ensure!(items.len() >= 9, "{} templates", items.len());
    for item in &items {
        session.note("prompt-template", item);
    }
    let body = json!({
        "templateId": "interop.note", "version": "1.0.0", "kind": "user", "text": "Hi {{name}}",
        "workspaceId": "nobody-is-here",
    });
    let refused = session.expect(403, Request::post("/v1/prompts", &body)).await?;
    ensure!(refused["error"] == "workspace_membership_required", "{refused}");
    Ok(())
}
