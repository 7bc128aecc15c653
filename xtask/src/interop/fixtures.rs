//! The shipped fixtures that need no interrupt, sub-workflow, fork or tracing, with what each must do.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::expectations::Observed;
use super::session::Session;
use crate::wire::Request;

/// One run of one fixture.
struct Case {
    fixture: &'static str,
    /// What makes this run of the fixture different from the plain one.
    variant: &'static str,
    /// Inputs, options and the like; the workflow's id is added.
    body: fn() -> Value,
    meanwhile: Meanwhile,
    within: Duration,
    ends: &'static str,
    events: &'static [&'static str],
    also: &'static [(&'static str, Check)],
}

type Check = fn(&Observed) -> Result<()>;

/// What is done while the run is under way.
enum Meanwhile {
    Wait,
    /// Looks for status `running` while a node sleeps.
    SeeRunning,
    Cancel,
}

const PLAIN: Case = Case {
    fixture: "",
    variant: "",
    body: || json!({}),
    meanwhile: Meanwhile::Wait,
    within: Duration::from_secs(5),
    ends: "completed",
    events: &["run.started", "node.completed", "run.completed"],
    also: &[],
};

const FAILED: [&str; 3] = ["run.started", "node.failed", "run.failed"];
const BREACHED: [&str; 3] = ["run.started", "cap.breached", "run.failed"];

/// Every fixture that discovery must therefore list.
pub(crate) fn names() -> Vec<&'static str> {
    let mut names: Vec<&str> = CASES.iter().map(|case| case.fixture).collect();
    names.dedup();
    names
}

const CASES: [Case; 18] = [
    Case { fixture: "conformance-noop", ..PLAIN },
    Case {
        fixture: "conformance-identity",
        body: || json!({ "inputs": { "payload": passthrough() } }),
        also: &[("the input comes out unchanged", identity)],
        ..PLAIN
    },
    Case {
        fixture: "conformance-delay",
        variant: "default",
        within: Duration::from_secs(2),
        meanwhile: Meanwhile::SeeRunning,
        also: &[("it took its second", |run| took(run, 1000))],
        ..PLAIN
    },
    Case {
        fixture: "conformance-delay",
        variant: "delayMs 200",
        body: || json!({ "inputs": { "delayMs": 200 } }),
        also: &[("it took its time", |run| took(run, 200))],
        ..PLAIN
    },
    Case {
        fixture: "conformance-cancellable",
        meanwhile: Meanwhile::Cancel,
        ends: "cancelled",
        events: &["run.started", "node.started", "run.cancelled"],
        also: &[("a direct cancel names no parent", |run| {
            ensure!(
                run.only("run.cancelled")?.get("parentRunId").is_none(),
                "it has a parentRunId"
            );
            Ok(())
        })],
        ..PLAIN
    },
    Case {
        fixture: "conformance-failure",
        ends: "failed",
        events: &FAILED,
        also: &[("the error has its code and a message", |run| {
            failed_with(run, "conformance_test_failure")
        })],
        ..PLAIN
    },
    Case {
        fixture: "conformance-multi-node",
        also: &[("nodes complete in the order a, b, c", |run| {
            completed_in_order(run, &["a", "b", "c"])
        })],
        ..PLAIN
    },
    Case {
        fixture: "conformance-idempotent",
        body: || json!({ "inputs": { "nonce": "n-1" } }),
        ..PLAIN
    },
    Case {
        fixture: "conformance-channel-ttl",
        events: &[
            "run.started",
            "channel.written",
            "channel.written",
            "channel.written",
            "channel.written",
            "run.completed",
        ],
        also: &[
            ("only the last entry outlived its time", channel_ttl),
            ("events carry what was written, not what it reduced to", |run| {
                let values: Vec<&Value> =
                    run.payloads("channel.written").iter().map(|p| &p["value"]).collect();
                ensure!(values == ["a", "b", "c", "d"], "{values:?}");
                Ok(())
            }),
        ],
        ..PLAIN
    },
    Case {
        fixture: "conformance-cap-breach",
        variant: "recursionLimit 3",
        body: || json!({ "configurable": { "recursionLimit": 3 } }),
        ends: "failed",
        events: &BREACHED,
        also: &[
            ("the breach is told once, with its node", node_cap),
            ("the run says why", |run| failed_with(run, "recursion_limit_exceeded")),
        ],
        ..PLAIN
    },
    Case {
        fixture: "conformance-cap-breach",
        variant: "without a limit",
        also: &[("all six nodes ran", |run| {
            ensure!(run.payloads("node.completed").len() == 6, "{}", run.kinds().join(", "));
            Ok(())
        })],
        ..PLAIN
    },
    Case {
        fixture: "conformance-run-duration-breach",
        variant: "runTimeoutMs 1000",
        body: || json!({ "configurable": { "runTimeoutMs": 1000 } }),
        ends: "failed",
        events: &BREACHED,
        also: &[
            ("more time passed than was allowed", duration_cap),
            ("the run says why", |run| failed_with(run, "run_timeout")),
        ],
        ..PLAIN
    },
    Case {
        fixture: "conformance-capability-missing",
        ends: "failed",
        events: &FAILED,
        also: &[("the error names the capability", |run| {
            failed_with(run, "capability_not_provided")?;
            let message = run.snapshot["error"]["message"].as_str().unwrap_or_default();
            ensure!(message.contains("conformance.never-provided"), "{message}");
            Ok(())
        })],
        ..PLAIN
    },
    Case {
        fixture: "conformance-configurable-schema",
        variant: "good",
        body: || json!({ "configurable": { "recursionLimit": 5, "tags": ["x"] } }),
        also: &[("the options are echoed", |run| {
            ensure!(
                run.snapshot["configurable"]["recursionLimit"] == 5,
                "{}",
                run.snapshot["configurable"]
            );
            Ok(())
        })],
        ..PLAIN
    },
    Case { fixture: "conformance-version-fold", ..PLAIN },
    Case {
        fixture: "conformance-stream-text",
        body: stream_text,
        events: &[
            "run.started",
            "output.chunk",
            "output.chunk",
            "output.chunk",
            "node.completed",
            "run.completed",
        ],
        also: &[("chunks come in order, the last with its reason and usage", chunks)],
        ..PLAIN
    },
    Case {
        fixture: "conformance-message-reducer",
        events: &["run.started", "channel.written", "channel.written", "run.completed"],
        also: &[("a repeated message is folded once", messages)],
        ..PLAIN
    },
    Case {
        fixture: "openwop-smoke-byok-roundtrip",
        within: Duration::from_secs(10),
        also: &[("the secret is told by its digest and its length", secret_digest)],
        ..PLAIN
    },
];

/// The body that makes the mock provider speak.
pub(crate) fn stream_text() -> Value {
    json!({ "configurable": { "mockProvider": { "id": "stream-text", "config": { "tokens": ["Hel", "lo", " world"] } } } })
}

fn passthrough() -> Value {
    json!({ "text": "grüße", "list": [1, 2.5, null, [true, { "deep": [] }]], "big": 9_007_199_254_740_991_i64, "empty": {} })
}

pub(crate) async fn check(session: &mut Session) -> Result<()> {
    for case in &CASES {
        let name = format!(
            "{}{}{}",
            case.fixture,
            if case.variant.is_empty() { "" } else { " " },
            case.variant
        );
        if session.book.wants(&name) {
            match run(session, case).await {
                Ok(observed) => enter(session, case, &name, &observed),
                Err(error) => session.book.enter(&name, Err(error)),
            }
        }
    }
    forced_versions(session).await
}

fn enter(session: &mut Session, case: &Case, name: &str, observed: &Observed) {
    let ends = || {
        ensure!(observed.snapshot["status"] == case.ends, "ended {}", observed.snapshot["status"]);
        observed.in_order(case.events)
    };
    session.book.enter(&format!("{name}: {} and {}", case.ends, case.events.join(", ")), ends());
    session.book.enter(&format!("{name}: the log is whole and ends once"), observed.is_a_log());
    for (what, check) in case.also {
        session.book.enter(&format!("{name}: {what}"), check(observed));
    }
    let settled = session.settle();
    session.book.enter(&format!("{name}: every body matches its schema"), settled);
}

async fn run(session: &mut Session, case: &Case) -> Result<Observed> {
    let mut body = (case.body)();
    body["workflowId"] = case.fixture.into();
    let started = Instant::now();
    let run = session.create(&body).await?;
    match case.meanwhile {
        Meanwhile::Wait => {}
        Meanwhile::SeeRunning => {
            session.until(&run, "node.started").await?;
            let snapshot = session.snapshot(&run).await?;
            ensure!(
                snapshot["status"] == "running",
                "{} while the node sleeps",
                snapshot["status"]
            );
        }
        Meanwhile::Cancel => {
            session.until(&run, "node.started").await?;
            let request =
                Request::post(format!("/v1/runs/{run}/cancel"), &json!({ "reason": "enough" }));
            let cancelled = session.expect(200, request).await?;
            let status = cancelled["status"].as_str().context("a cancel without status")?;
            ensure!(matches!(status, "cancelled" | "cancelling"), "cancel answered {status}");
        }
    }
    let observed = session.observe(&run, case.within).await?;
    ensure!(started.elapsed() <= case.within, "took {:?}", started.elapsed());
    Ok(observed)
}

/// The same fixture under every engine version that the host says it can be forced to.
async fn forced_versions(session: &mut Session) -> Result<()> {
    let discovery = session.send(&Request::get("/.well-known/openwop")).await?.json()?;
    let range = &discovery["testing"]["forceEngineVersionRange"];
    let bounds =
        (range["min"].as_u64().context("no min")?, range["max"].as_u64().context("no max")?);
    let body = json!({ "workflowId": "conformance-version-fold" });
    for version in bounds.0..=bounds.1 {
        let outcome = async {
            let request = Request::post("/v1/runs", &body)
                .header("x-force-engine-version", &version.to_string());
            let run = session.create_with(request).await?;
            let observed = session.observe(&run, Duration::from_secs(5)).await?;
            ensure!(
                observed.snapshot["status"] == "completed",
                "ended {}",
                observed.snapshot["status"]
            );
            observed.is_a_log()?;
            session.settle()
        };
        let outcome = outcome.await;
        session.book.enter(
            &format!("conformance-version-fold: completes as engine version {version}"),
            outcome,
        );
    }
    let request = Request::post("/v1/runs", &body)
        .header("x-force-engine-version", &(bounds.1 + 1).to_string());
    let outcome = async {
        let refused = session.expect(400, request).await?;
        ensure!(refused["error"] == "unsupported_force_engine_version", "{refused}");
        Ok(())
    };
    let outcome = outcome.await;
    session.book.enter("conformance-version-fold: a version beyond the range is refused", outcome);
    Ok(())
}

fn identity(run: &Observed) -> Result<()> {
    ensure!(run.snapshot["variables"]["payload"] == passthrough(), "{}", run.snapshot["variables"]);
    Ok(())
}

fn took(run: &Observed, least_ms: u64) -> Result<()> {
    let duration = run.only("run.completed")?["durationMs"].as_u64().context("no durationMs")?;
    ensure!((least_ms..least_ms + 1000).contains(&duration), "{duration} ms");
    Ok(())
}

fn failed_with(run: &Observed, code: &str) -> Result<()> {
    let error = &run.snapshot["error"];
    ensure!(error["code"] == code, "{error}");
    ensure!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "no message");
    ensure!(run.only("run.failed")?["error"]["code"] == code, "run.failed says otherwise");
    Ok(())
}

fn completed_in_order(run: &Observed, nodes: &[&str]) -> Result<()> {
    let order: Vec<&str> =
        run.payloads("node.completed").iter().filter_map(|p| p["nodeId"].as_str()).collect();
    ensure!(order == nodes, "{order:?}");
    Ok(())
}

fn channel_ttl(run: &Observed) -> Result<()> {
    let entries = run.snapshot["variables"]["events"].as_array().context("no variables.events")?;
    ensure!(entries.len() == 1 && entries[0]["value"] == "d", "{entries:?}");
    ensure!(entries[0]["_ts"].as_u64().is_some_and(|at| at > 0), "no _ts");
    Ok(())
}

fn node_cap(run: &Observed) -> Result<()> {
    let breach = run.only("cap.breached")?;
    ensure!(breach["kind"] == "node-executions" && breach["limit"] == 3, "{breach}");
    ensure!(breach["observed"].as_u64().is_some_and(|observed| observed > 3), "{breach}");
    ensure!(breach["nodeId"].is_string(), "{breach}");
    ensure!(run.payloads("node.started").len() <= 3, "more than three nodes started");
    Ok(())
}

fn duration_cap(run: &Observed) -> Result<()> {
    let breach = run.only("cap.breached")?;
    ensure!(breach["kind"] == "run-duration" && breach["limit"] == 1000, "{breach}");
    ensure!(breach["observed"].as_u64().is_some_and(|observed| observed > 1000), "{breach}");
    Ok(())
}

fn chunks(run: &Observed) -> Result<()> {
    let chunks = run.payloads("output.chunk");
    let text: String = chunks.iter().filter_map(|chunk| chunk["chunk"].as_str()).collect();
    ensure!(text == "Hello world", "{text}");
    let last: Vec<bool> = chunks.iter().map(|chunk| chunk["isLast"] == true).collect();
    ensure!(last == [false, false, true], "{last:?}");
    let meta = &chunks[2]["meta"];
    ensure!(meta["finishReason"] == "stop" && meta["usage"]["completionTokens"] == 3, "{meta}");
    Ok(())
}

fn secret_digest(run: &Observed) -> Result<()> {
    let told = &run.snapshot["variables"]["resolve-secret"];
    let digest = told["secretSha256"].as_str().context("no secretSha256")?;
    let is_hex = |digit: char| matches!(digit, '0'..='9' | 'a'..='f');
    ensure!(digest.len() == 64 && digest.chars().all(is_hex), "{digest}");
    ensure!(told["secretLength"].as_u64().is_some_and(|length| length > 0), "{told}");
    Ok(())
}

fn messages(run: &Observed) -> Result<()> {
    let held = run.snapshot["channels"]["messages"].as_array().context("no channels.messages")?;
    let written = run.payloads("channel.written").len();
    let ids: Vec<&Value> = held.iter().map(|message| &message["messageId"]).collect();
    let unique: BTreeSet<Option<&str>> = ids.iter().map(|id| id.as_str()).collect();
    ensure!(unique.len() == ids.len() && held.len() < written, "{written} written, held {ids:?}");
    Ok(())
}
