//! Requests that must be refused, and how: status, code and details. Their envelopes are checked on the way.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::session::Session;
use super::{CANCELLER, KEY, READER, STRANGER};
use crate::wire::Request;

struct Refusal {
    name: &'static str,
    request: Request,
    status: u16,
    /// Empty where the protocol leaves the code open.
    code: &'static str,
    details: fn(&Value) -> bool,
}

fn refusal(name: &'static str, status: u16, code: &'static str, request: Request) -> Refusal {
    Refusal { name, request, status, code, details: |_| true }
}

impl Refusal {
    fn with(mut self, details: fn(&Value) -> bool) -> Self {
        self.details = details;
        self
    }
}

pub(crate) async fn check(session: &mut Session) -> Result<()> {
    let run = session.create(&json!({ "workflowId": "conformance-noop" })).await?;
    session.observe(&run, std::time::Duration::from_secs(5)).await?;
    let limit = session.send(&Request::get("/.well-known/openwop")).await?.json()?["limits"]["maxRequestBodyBytes"]
        .as_u64()
        .context("no limits.maxRequestBodyBytes")?;
    let mut all = credentials(&run);
    all.extend(routes());
    all.extend(creation(usize::try_from(limit)?));
    all.extend(options());
    all.extend(reading(&run));
    all.extend(bulk());
    for refusal in all {
        let outcome = judge(session, &refusal).await;
        session.book.enter(&format!("refused: {}", refusal.name), outcome);
    }
    let outcome = no_echo(session).await;
    session.book.enter("refused: no refusal repeats a token", outcome);
    let outcome = same_bytes(session, &run).await;
    session.book.enter("refused: another tenant's run and an unknown one look the same", outcome);
    Ok(())
}

async fn judge(session: &mut Session, refusal: &Refusal) -> Result<()> {
    let answer = session.send(&refusal.request).await?;
    let body = answer.json()?;
    ensure!(
        answer.status == refusal.status,
        "expected {}, got {}: {body}",
        refusal.status,
        answer.status
    );
    ensure!(refusal.code.is_empty() || body["error"] == refusal.code, "{body}");
    ensure!((refusal.details)(&body["details"]), "details: {body}");
    session.settle()
}

fn keyed(request: Request) -> Request {
    request.bearer(KEY)
}

fn create(body: &Value) -> Request {
    keyed(Request::post("/v1/runs", body))
}

fn credentials(run: &str) -> Vec<Refusal> {
    let read = || Request::get(format!("/v1/runs/{run}"));
    let noop = json!({ "workflowId": "conformance-noop" });
    vec![
        refusal("no key", 401, "unauthenticated", read()),
        refusal(
            "another scheme",
            401,
            "unauthenticated",
            read().header("authorization", "Basic eDp5"),
        ),
        refusal("an empty key", 401, "unauthenticated", read().header("authorization", "Bearer ")),
        refusal("an unknown key", 401, "unauthenticated", read().bearer("cb_nobody")),
        refusal(
            "no key for an unknown run",
            401,
            "unauthenticated",
            Request::get("/v1/runs/run_nobody"),
        ),
        refusal(
            "a key without runs:create",
            403,
            "forbidden",
            Request::post("/v1/runs", &noop).bearer(READER),
        )
        .with(|details| details["scopeRequired"] == "runs:create"),
        refusal("runs:cancel does not read", 403, "forbidden", read().bearer(CANCELLER))
            .with(|details| details["scopeRequired"] == "runs:read"),
        refusal("another tenant's run", 404, "not_found", read().bearer(STRANGER)),
    ]
}

fn routes() -> Vec<Refusal> {
    vec![
        refusal("a path of neither major", 404, "not_found", keyed(Request::get("/nowhere"))),
        refusal("an unknown path below /v1", 404, "not_found", keyed(Request::get("/v1/nowhere"))),
        refusal(
            "a wrong method",
            405,
            "method_not_allowed",
            keyed(Request::get("/v1/runs").method("DELETE")),
        ),
        refusal(
            "an unknown workflow",
            404,
            "not_found",
            keyed(Request::get("/v1/workflows/nobody")),
        ),
    ]
}

fn creation(limit: usize) -> Vec<Refusal> {
    let raw = |body: &[u8]| keyed(Request::post("/v1/runs", &json!({})).raw(body));
    let huge = format!("{{\"workflowId\":\"{}\"}}", "x".repeat(limit));
    vec![
        refusal("an empty body", 400, "", raw(b"")),
        refusal("broken JSON", 400, "validation_error", raw(b"{\"workflowId\": ")),
        refusal("broken UTF-8", 400, "validation_error", raw(b"{\"workflowId\": \"\xff\"}")),
        refusal("a body that is no object", 400, "validation_error", create(&json!([1]))),
        refusal("an empty object", 400, "validation_error", create(&json!({}))),
        refusal(
            "an unknown key",
            400,
            "validation_error",
            create(&json!({ "workflowId": "conformance-noop", "colour": 1 })),
        ),
        refusal("a body over the limit", 413, "payload_too_large", raw(huge.as_bytes())),
        refusal(
            "a body of another kind",
            415,
            "unsupported_media_type",
            keyed(
                Request::get("/v1/runs")
                    .method("POST")
                    .header("content-type", "text/plain")
                    .raw("{}"),
            ),
        ),
        refusal(
            "an unknown workflow to run",
            400,
            "validation_error",
            create(&json!({ "workflowId": "nobody" })),
        ),
        refusal(
            "a gated node type",
            422,
            "capability_required",
            create(&json!({ "workflowId": "conformance-a2a-task-roundtrip" })),
        )
        .with(|details| {
            details["requiredCapability"].is_string()
                && details["offendingTypeId"].is_string()
                && details["nodeId"].is_string()
        }),
        refusal(
            "a missing input",
            400,
            "validation_error",
            create(&json!({ "workflowId": "conformance-idempotent" })),
        ),
        refusal(
            "another tenant named in the body",
            403,
            "",
            create(&json!({ "workflowId": "conformance-noop", "tenantId": "elsewhere" })),
        ),
    ]
}

fn options() -> Vec<Refusal> {
    let configured = |workflow: &str, configurable: Value| {
        create(&json!({ "workflowId": workflow, "configurable": configurable }))
    };
    let tags: Vec<String> = (0..101).map(|number| format!("t{number}")).collect();
    let noop = "conformance-noop";
    vec![
        refusal(
            "101 tags",
            400,
            "validation_error",
            create(&json!({ "workflowId": noop, "tags": tags })),
        ),
        refusal(
            "a tag of 257",
            400,
            "validation_error",
            create(&json!({ "workflowId": noop, "tags": ["x".repeat(257)] })),
        ),
        refusal(
            "recursionLimit 0",
            400,
            "validation_error",
            configured(noop, json!({ "recursionLimit": 0 })),
        ),
        refusal(
            "recursionLimit in words",
            400,
            "validation_error",
            configured(noop, json!({ "recursionLimit": "three" })),
        ),
        refusal(
            "options that break configurableSchema",
            400,
            "validation_error",
            configured("conformance-configurable-schema", json!({ "recursionLimit": 0 })),
        ),
        refusal(
            "options that configurableSchema does not know",
            400,
            "validation_error",
            configured("conformance-configurable-schema", json!({ "colour": "red" })),
        ),
        refusal(
            "an unknown mock provider",
            400,
            "unsupported_mock_provider",
            configured("conformance-stream-text", json!({ "mockProvider": { "id": "nobody" } })),
        ),
    ]
}

fn reading(run: &str) -> Vec<Refusal> {
    let events = |query: &str| keyed(Request::get(format!("/v1/runs/{run}/events{query}")));
    let as_json = |query: &str| events(query).header("accept", "application/json");
    let nobody = |path: &str| keyed(Request::get(format!("/v1/runs/run_nobody{path}")));
    let act = |path: &str| keyed(Request::post(format!("/v1/runs/run_nobody{path}"), &json!({})));
    let names_modes = |details: &Value| {
        ["updates", "values", "messages", "debug"].iter().all(|mode| {
            details["supported"].as_array().is_some_and(|all| all.contains(&json!(mode)))
        })
    };
    vec![
        refusal(
            "an unknown stream mode",
            400,
            "unsupported_stream_mode",
            events("?streamMode=tea"),
        )
        .with(names_modes),
        refusal(
            "an unknown stream mode, JSON wanted",
            400,
            "unsupported_stream_mode",
            as_json("?streamMode=tea"),
        )
        .with(names_modes),
        refusal(
            "one bad mode of two",
            400,
            "unsupported_stream_mode",
            as_json("?streamMode=updates,tea"),
        )
        .with(names_modes),
        refusal(
            "values with another mode",
            400,
            "unsupported_stream_mode",
            as_json("?streamMode=values,updates"),
        ),
        refusal("bufferMs 99999", 400, "validation_error", as_json("?bufferMs=99999")),
        refusal("bufferMs -1", 400, "validation_error", events("?bufferMs=-1")),
        refusal("bufferMs in words", 400, "validation_error", events("?bufferMs=soon")),
        refusal("a cursor in words", 400, "validation_error", events("/poll?lastSequence=last")),
        refusal("an unknown run", 404, "not_found", nobody("")),
        refusal("events of an unknown run", 404, "not_found", nobody("/events")),
        refusal("a poll of an unknown run", 404, "not_found", nobody("/events/poll")),
        refusal("cancelling an unknown run", 404, "not_found", act("/cancel")),
        refusal("pausing an unknown run", 404, "not_found", act(":pause")),
        refusal("resuming an unknown run", 404, "not_found", act(":resume")),
    ]
}

fn bulk() -> Vec<Refusal> {
    let cancel =
        |ids: Value| keyed(Request::post("/v1/runs:bulk-cancel", &json!({ "runIds": ids })));
    let many: Vec<String> = (0..101).map(|number| format!("run_{number}")).collect();
    let names_limit = |details: &Value| details["maxRunIds"] == 100;
    vec![
        refusal("bulk-cancel of none", 400, "validation_error", cancel(json!([])))
            .with(names_limit),
        refusal("bulk-cancel of 101", 400, "validation_error", cancel(json!(many)))
            .with(names_limit),
        refusal("bulk-cancel of numbers", 400, "validation_error", cancel(json!([1])))
            .with(names_limit),
        refusal(
            "bulk-cancel without ids",
            400,
            "validation_error",
            keyed(Request::post("/v1/runs:bulk-cancel", &json!({}))),
        )
        .with(names_limit),
    ]
}

/// What looks like a credential is not sent back, wherever it was put.
async fn no_echo(session: &mut Session) -> Result<()> {
    let token = "eyJhbGciOiJIUzI1NiJ9.eyJjYW5hcnkiOnRydWV9.CANARY-signature";
    let body = json!({ "workflowId": format!("nonexistent-{token}"), "inputs": {} });
    let answer = session.send(&keyed(Request::post("/v1/runs", &body))).await?;
    ensure!(answer.status == 400 && !answer.text().contains(token), "{}", answer.text());
    Ok(())
}

/// No answer reveals whether another's run exists.
async fn same_bytes(session: &mut Session, run: &str) -> Result<()> {
    let foreign = session.send(&Request::get(format!("/v1/runs/{run}")).bearer(STRANGER)).await?;
    let unknown = session.send(&Request::get("/v1/runs/run_nobody").bearer(STRANGER)).await?;
    ensure!(
        foreign.status == unknown.status && foreign.body == unknown.body,
        "{} / {}",
        foreign.text(),
        unknown.text()
    );
    Ok(())
}
