//! `callboard db` about a database that hosts share.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::api::Api;
use crate::support::host::{Host, KEY, serve};
use crate::{Cluster, register, until, workflow};

fn db(address: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_callboard"));
    command.env_clear().env("CALLBOARD_DATABASE_URL", address).arg("db").args(arguments);
    command
}

fn status(address: &str) -> Result<Value> {
    let output = db(address, &["status", "--json"]).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn run(command: &mut Command) -> Result<String> {
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{said}");
    Ok(String::from_utf8(output.stdout)?)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_is_migrated_apart_and_once() -> Result<()> {
    let Some(cluster) = Cluster::new().await? else { return Ok(()) };
    let would = run(&mut db(&cluster.address, &["migrate", "--dry-run"]))?;
    ensure!(would.contains("would bring the schema from 0"), "{would}");
    ensure!(status(&cluster.address)?["schema"].is_null());
    run(&mut db(&cluster.address, &["migrate"]))?;
    let found = status(&cluster.address)?;
    ensure!(found["schema"] == found["knownSchema"], "{found}");
    let again = run(&mut db(&cluster.address, &["migrate"]))?;
    ensure!(again.contains("already"), "{again}");
    let (_one, _) = cluster.host("one")?;
    Ok(())
}

/// C-45, with what a host itself has written: its runs go on from where they were, on the other side.
#[tokio::test(flavor = "multi_thread")]
async fn a_folder_goes_to_postgresql_and_back() -> Result<()> {
    let Some(cluster) = Cluster::new().await? else { return Ok(()) };
    let folder = cluster.data("folder");
    let (done, asked) = {
        let host = Host::of({
            let mut command = serve(&folder);
            command.args(["--api-key", KEY]);
            command
        })?;
        let api = Api::of(host.url())?;
        register(&api, &workflow("noop", "core.noop", json!({}))).await?;
        let gate = workflow("ask", "core.approvalGate", json!({ "title": "May I?" }));
        register(&api, &gate).await?;
        let done = api.create(&json!({ "workflowId": "noop" }), "once").await?;
        assert_eq!(api.finish(&done).await?, "completed");
        let asked = api.create(&json!({ "workflowId": "ask" }), "ask").await?;
        until(async || Ok((api.status(&asked).await? == "waiting-approval").then_some(()))).await?;
        let log = api.log(&done).await?;
        ensure!(host.stop("TERM")?.success());
        ((done, log), asked)
    };
    let copy = |from: &str, to: &str| {
        let mut command = db("", &["copy", "--from", from, "--to", to, "--json"]);
        let key = std::fs::read_to_string(folder.join("host.key")).unwrap_or_default();
        command.env_remove("CALLBOARD_DATABASE_URL").env("CALLBOARD_SEAL_KEY", key.trim());
        command
    };
    let from = folder.to_str().context("a plain name")?;
    let back = cluster.data("back");
    let back = back.to_str().context("a plain name")?;
    let there = run(&mut copy(from, &cluster.address))?;
    let refused = copy(from, &cluster.address).output()?;
    ensure!(!refused.status.success(), "a database that is not empty was written to");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    ensure!(said.contains("not empty") && !said.contains("not-a-secret"), "{said}");
    assert_eq!(run(&mut copy(&cluster.address, back))?, there, "counts and digests");

    let key = std::fs::read_to_string(folder.join("host.key"))?;
    let mut command = serve(&cluster.data("host"));
    command.env("CALLBOARD_DATABASE_URL", &cluster.address).env("CALLBOARD_SEAL_KEY", key.trim());
    for mut command in [command, serve(std::path::Path::new(back))] {
        command.args(["--api-key", KEY]);
        let host = Host::of(command)?;
        let api = Api::of(host.url())?;
        assert_eq!(api.log(&done.0).await?, done.1);
        assert_eq!(api.create(&json!({ "workflowId": "noop" }), "once").await?, done.0);
        let path = format!("/v1/runs/{asked}/interrupts/only");
        let answer = json!({ "resumeValue": { "action": "accept" } });
        let answered = api.post(&path, &answer).send().await?;
        ensure!(answered.status().is_success(), "{}", answered.text().await?);
        assert_eq!(api.finish(&asked).await?, "completed");
        ensure!(host.stop("TERM")?.success());
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shared_database_is_counted_while_hosts_serve() -> Result<()> {
    let Some(cluster) = Cluster::new().await? else { return Ok(()) };
    let none = status(&cluster.address)?;
    ensure!(none["schema"].is_null(), "{none}");

    let (_one, api) = cluster.host("one")?;
    register(&api, &workflow("noop", "core.noop", json!({}))).await?;
    let run = api.create(&json!({ "workflowId": "noop" }), "once").await?;
    assert_eq!(api.finish(&run).await?, "completed");
    let found = status(&cluster.address)?;
    ensure!(found["schema"] == found["knownSchema"], "{found}");
    ensure!(found["tables"]["runs"] == 1 && found["runs"]["completed"] == 1, "{found}");
    ensure!(found["records"]["workflow"] == 1, "{found}");
    ensure!(!found.to_string().contains("not-a-secret"), "a password: {found}");
    Ok(())
}
