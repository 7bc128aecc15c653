//! Readers who take all that they can get, and do not read it.

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::json;

use crate::doors::Scene;
use crate::support::host::KEY;

/// Reached only when something hangs.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_readers_of_one_large_run_share_what_they_are_sent() -> Result<()> {
    let scene = Scene::set("max_body_bytes = 16777216\n").await?;
    // More than the system holds between a host and a client that does not read.
    let text = "x".repeat(12 * 1024 * 1024);
    let large = json!({
        "id": "large", "name": "large", "version": "1.0",
        "nodes": [{ "id": "only", "typeId": "core.delay", "name": "only", "position": { "x": 0, "y": 0 }, "config": {},
            "inputs": { "delayMs": { "type": "variable", "variableName": "delayMs" } } }],
        "edges": [], "triggers": [], "metadata": {}, "settings": {},
        "variables": [
            { "name": "text", "type": "string", "required": true },
            { "name": "delayMs", "type": "number", "defaultValue": 3_600_000 },
        ],
    });
    let path = "/v1/host/callboard/workflows";
    let made = scene.api.post(path, &large).send().await?;
    ensure!(made.status().is_success(), "{}", made.text().await?);
    let body = json!({ "workflowId": "large", "inputs": { "text": text } });
    let run = scene.api.create(&body, "large").await?;
    let mut readers = Vec::new();
    for _ in 0..20 {
        let mut socket = scene.connect()?;
        write!(
            socket,
            "GET /v1/runs/{run}/events?streamMode=values HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {KEY}\r\n\r\n"
        )?;
        readers.push(socket);
    }
    let deadline = Instant::now() + PATIENCE;
    while scene.gauge("callboard_sse_streams_open").await? < 20.0 {
        ensure!(Instant::now() < deadline, "the streams do not open");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut most = 0.0;
    while most < text.len() as f64 {
        ensure!(Instant::now() < deadline, "nothing waits for its readers");
        tokio::time::sleep(Duration::from_millis(20)).await;
        most = scene.gauge("callboard_http_answer_bytes").await?.max(most);
    }
    scene.assert_served("while they are sent it").await?;
    most = scene.gauge("callboard_http_answer_bytes").await?.max(most);
    ensure!(most <= 2.0 * text.len() as f64, "{most} bytes wait for twenty readers of one run");
    scene.assert_served("beside readers who do not read").await
}
