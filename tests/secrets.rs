//! The real binary with a secret: whatever it writes, the secret is in none of it.

#[path = "support/api.rs"]
mod api;
mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use api::Api;
use support::definitions;
use support::host::{Host, KEY};

/// Put together at run time, so that scanners of source code have nothing to find.
fn canary() -> String {
    ["CANARY", "openwop", "NEVER", "0aB8mYjPpQe7"].join("~")
}

fn workflow(id: &str, secret: &str) -> Value {
    json!({
        "id": id, "name": id, "version": "1.0", "edges": [], "triggers": [], "variables": [],
        "metadata": {}, "settings": {},
        "nodes": [{ "id": "resolve-secret", "typeId": "conformance.secret.echo", "name": "echo",
            "position": { "x": 0, "y": 0 }, "config": { "secretId": secret }, "inputs": {} }],
    })
}

/// A folder with a workflow that tells of a secret, and one whose secret is missing.
fn scene(folder: &Path) -> Result<String> {
    let workflows = folder.join("workflows");
    fs::create_dir(&workflows)?;
    definitions::write(&workflows)?;
    for (id, secret) in [("echo", "canary"), ("miss", "missing")] {
        fs::write(workflows.join(format!("{id}.json")), workflow(id, secret).to_string())?;
    }
    Ok(workflows.to_str().context("a folder with a plain name")?.to_owned())
}

/// R74, SR-1.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_is_in_nothing_that_the_host_writes() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("data");
    let canary = canary();
    let workflows = scene(folder.path())?;
    let arguments = ["--workflows", &workflows, "--log", "trace", "--log-format", "json"];
    let host = Host::start(&data, &arguments)?;
    let api = Api::of(host.url())?;
    put(host.url(), &canary).await?;
    let mut seen = Vec::new();
    for (id, end) in [("echo", "completed"), ("miss", "failed")] {
        let run = api.create(&json!({ "workflowId": id }), id).await?;
        assert_eq!(api.finish(&run).await?, end, "{}", api.log(&run).await?);
        for path in [
            "",
            "/events?streamMode=debug",
            "/events?streamMode=values",
            "/events/poll?timeout=1",
            "/debug-bundle",
        ] {
            seen.push(api.get(&format!("/v1/runs/{run}{path}")).await?);
        }
        seen.push(api.get(&format!("/v1/host/sample/test/otel/spans?runId={run}")).await?);
        seen.push(api.get(&format!("/v1/host/sample/test/runs/{run}/events")).await?);
    }
    for path in ["/metrics", "/v1/host/callboard/secrets", "/v1/host/callboard/runs"] {
        seen.push(api.get(path).await?);
    }
    for text in &seen {
        ensure!(!text.contains(&canary), "{text}");
    }
    ensure!(seen[0].contains("secretSha256"), "the secret was not used: {}", seen[0]);
    let log = host.log();
    ensure!(log.contains("run.drive"), "nothing was logged: {log}");
    // Its files as a crash leaves them and as an orderly end does.
    search(&data, &canary)?;
    host.stop("TERM")?;
    search(&data, &canary)?;
    ensure!(!log.contains(&canary), "it is in the log");
    Ok(())
}

/// Whoever can read the key can read what is sealed with it: the operator is told at every start, and `doctor` says it.
#[test]
fn a_host_whose_key_others_can_read_says_so() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("data");
    let warning = "others may read the host's key";
    let host = Host::start(&data, &[])?;
    ensure!(!host.log().contains(warning), "{}", host.log());
    host.stop("TERM")?;
    fs::set_permissions(data.join("host.key"), PermissionsExt::from_mode(0o644))?;
    let host = Host::start(&data, &[])?;
    let log = host.log();
    ensure!(log.contains(warning) && log.contains("0644"), "{log}");
    let key = fs::read(data.join("host.key"))?;
    let is_told = |key: &str| key.len() > 8 && log.contains(key.trim());
    ensure!(!String::from_utf8(key).is_ok_and(|key| is_told(&key)), "the key itself: {log}");
    Ok(())
}

async fn put(url: &str, value: &str) -> Result<()> {
    let client = reqwest::Client::builder().no_proxy().build()?;
    let request = client.put(format!("{url}/v1/host/callboard/secrets/canary")).bearer_auth(KEY);
    // The key of the request is remembered nowhere: what is kept of a request would be a digest of the secret.
    let request = request.header("Idempotency-Key", "once").json(&json!({ "value": value }));
    let answer = request.send().await?;
    ensure!(answer.status() == 201, "{}", answer.status());
    ensure!(!answer.text().await?.contains(value), "the value comes back");
    Ok(())
}

fn search(folder: &Path, canary: &str) -> Result<()> {
    let mut files = 0;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_file() {
            let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
            let holds = bytes.windows(canary.len()).any(|part| part == canary.as_bytes());
            ensure!(!holds, "it is in {}", path.display());
            files += 1;
        }
    }
    ensure!(files >= 2, "no database in {}", folder.display());
    Ok(())
}
