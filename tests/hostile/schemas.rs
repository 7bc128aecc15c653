//! Schemas that would be checked for ever: refused when they come, and harmless where they came before.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::api::Api;
use crate::support::definitions;
use crate::support::host::Host;

/// Long enough for every answer of a host that is not stuck.
const SOON: Duration = Duration::from_secs(30);

/// Sixty definitions, each of which uses the next and one other: the same once more, if it is to double.
fn chain(other: impl Fn(usize) -> String) -> Value {
    let mut defs = serde_json::Map::new();
    for place in 10..70 {
        let (next, other) = (format!("#/$defs/d{}", place + 1), other(place));
        defs.insert(format!("d{place}"), json!({ "allOf": [{ "$ref": next }, { "$ref": other }] }));
    }
    defs.insert("d70".into(), json!({ "type": "object" }));
    defs.insert("e00".into(), json!({ "type": "object" }));
    json!({ "$ref": "#/$defs/d10", "$defs": defs })
}

fn doubling() -> Value {
    chain(|place| format!("#/$defs/d{}", place + 1))
}

fn workflow(id: &str, nodes: &Value, more: &Value) -> Value {
    let mut whole = json!({ "id": id, "name": id, "version": "1.0.0", "nodes": nodes, "edges": [],
        "triggers": [], "variables": [], "metadata": {}, "settings": { "timeout": 0 } });
    if let (Value::Object(whole), Value::Object(more)) = (&mut whole, more) {
        whole.extend(more.clone());
    }
    whole
}

fn node(id: &str, kind: &str, config: &Value) -> Value {
    json!({ "id": id, "typeId": kind, "name": id, "position": { "x": 0, "y": 0 }, "config": config,
        "inputs": {} })
}

/// One definition for each place that a schema can have in one.
fn hostile() -> Vec<(&'static str, Value)> {
    let schema = doubling();
    let write = node("w", "core.channelWrite", &json!({ "channelName": "c", "value": {} }));
    let noop = node("n", "core.noop", &json!({}));
    let asks = |config: Value| node("q", "core.interrupt", &config);
    let clarifies = json!({ "questions": [{ "id": "q", "question": "?", "schema": schema }] });
    vec![
        (
            "channels.c.schema",
            workflow(
                "h1",
                &json!([write]),
                &json!({ "channels": { "c": { "reducer": "replace", "schema": schema } } }),
            ),
        ),
        (
            "configurableSchema",
            workflow("h2", &json!([noop]), &json!({ "configurableSchema": schema })),
        ),
        (
            "nodes.q.config.resumeSchema",
            workflow(
                "h3",
                &json!([asks(
                    json!({ "kind": "custom", "data": { "customKind": "k" }, "resumeSchema": schema })
                )]),
                &json!({}),
            ),
        ),
        (
            "nodes.t.config.outcomeSchema",
            workflow(
                "h4",
                &json!([node("t", "core.conversationGate", &json!({ "outcomeSchema": schema }))]),
                &json!({}),
            ),
        ),
        (
            "nodes.c.config.questions[0].schema",
            workflow("h5", &json!([node("c", "core.clarificationGate", &clarifies)]), &json!({})),
        ),
    ]
}

fn scene() -> Result<TempDir> {
    let folder = TempDir::new()?;
    std::fs::create_dir(folder.path().join("workflows"))?;
    definitions::write(&folder.path().join("workflows"))?;
    Ok(folder)
}

fn start(folder: &TempDir) -> Result<Host> {
    let workflows = folder.path().join("workflows");
    let workflows = workflows.to_str().context("a path in UTF-8")?;
    Host::start(&folder.path().join("data"), &["--workflows", workflows])
}

/// Answers a request with its status and its body, or says that the host does not answer any more.
async fn answered(request: reqwest::RequestBuilder) -> Result<(u16, Value)> {
    let response = tokio::time::timeout(SOON, request.send()).await.context("no answer")??;
    let status = response.status().as_u16();
    Ok((status, response.json().await.unwrap_or_default()))
}

async fn others_go_on(api: &Api, name: &str) -> Result<()> {
    let run = api.create(&json!({ "workflowId": "noop" }), name).await?;
    let end = tokio::time::timeout(SOON, api.finish(&run)).await.context("nothing ends")??;
    ensure!(end == "completed", "{end}");
    tokio::time::timeout(SOON, api.get("/readyz")).await.context("no health")??;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_that_doubles_is_refused_with_its_cost_and_stops_nobody() -> Result<()> {
    let folder = scene()?;
    let host = start(&folder)?;
    let api = Api::of(host.url())?;
    for (path, definition) in hostile() {
        let (status, body) =
            answered(api.post("/v1/host/callboard/workflows", &definition)).await?;
        let text = body.to_string();
        assert!((400..500).contains(&status), "{path}: {status} {text}");
        assert!(text.contains(path), "{path}: {text}");
        assert!(text.contains("rules would look at one value, and at most 1000 may"), "{text}");
        others_go_on(&api, path).await?;
    }
    Ok(())
}

/// Changes every file of a host that is down, as if an older version had accepted what it holds.
fn rewrite(folder: &Path) -> Result<usize> {
    let mut changed = 0;
    for file in std::fs::read_dir(folder)? {
        let path = file?.path();
        let Ok(mut bytes) = std::fs::read(&path) else { continue };
        let before = changed;
        for place in 10..70 {
            let mark = format!("#/$defs/d{}\"}},{{\"$ref\":\"#/$defs/", place + 1);
            let (wanted, next) = (format!("{mark}e00"), format!("{mark}d{}", place + 1));
            let mut from = 0;
            while let Some(at) =
                bytes[from..].windows(wanted.len()).position(|part| part == wanted.as_bytes())
            {
                bytes[from + at..from + at + next.len()].copy_from_slice(next.as_bytes());
                from += at + next.len();
                changed += 1;
            }
        }
        if changed > before {
            std::fs::write(&path, bytes)?;
        }
    }
    Ok(changed)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_was_born_with_one_does_not_stop_the_host_that_takes_it_over() -> Result<()> {
    let folder = scene()?;
    let schema = chain(|_| "#/$defs/e00".to_owned());
    let asks = json!({ "kind": "custom", "data": { "customKind": "k" }, "resumeSchema": schema });
    let writes = json!({ "channelName": "c", "value": {} });
    let nodes = json!([
        node("q", "core.interrupt", &asks),
        node("d", "core.delay", &json!({ "durationMs": 1 })),
        node("w", "core.channelWrite", &writes),
    ]);
    let mut definition = workflow(
        "old",
        &nodes,
        &json!({ "channels": { "c": { "reducer": "replace", "schema": schema } } }),
    );
    definition["edges"] = json!([{ "id": "e", "sourceNodeId": "q", "targetNodeId": "d" },
        { "id": "f", "sourceNodeId": "d", "targetNodeId": "w" }]);
    let host = start(&folder)?;
    let api = Api::of(host.url())?;
    let (status, body) = answered(api.post("/v1/host/callboard/workflows", &definition)).await?;
    ensure!(status == 201, "{status} {body}");
    let run = api.create(&json!({ "workflowId": "old" }), "old").await?;
    ensure!(host.stop("TERM")?.success(), "no clean end");
    // Page borders cut some of them apart; half of them would be enough.
    let changed = rewrite(&folder.path().join("data"))?;
    ensure!(changed > 40, "only {changed} places");

    let host = start(&folder)?;
    let api = Api::of(host.url())?;
    others_go_on(&api, "before").await?;
    let answer = json!({ "resumeValue": {} });
    let (status, body) =
        answered(api.post(&format!("/v1/runs/{run}/interrupts/q"), &answer)).await?;
    assert!((400..500).contains(&status), "{status} {body}");
    assert!(body.to_string().contains("too costly"), "{body}");
    let (status, body) = answered(api.post("/v1/runs", &json!({ "workflowId": "old" }))).await?;
    assert!((400..500).contains(&status), "{status} {body}");
    assert!(body.to_string().contains("too costly"), "{body}");
    others_go_on(&api, "after").await?;
    api.act(&run, "/cancel").await?;
    assert_eq!(api.finish(&run).await?, "cancelled");
    Ok(())
}
