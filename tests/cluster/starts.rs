//! Starts: raced, on a database that is late, missing or newer, and what a host that is up takes from the server.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::host::Host;
use crate::proxy::{Network, Proxy};
use crate::stage::{LONG_LEASE, Story, command_on, finish, host_on};
use crate::{Cluster, inside, register, server, workflow};

/// C-40, C-17: hosts that start at once on an empty database migrate it once, and one of them makes the first key.
#[tokio::test(flavor = "multi_thread")]
async fn raced_starts_migrate_once_and_make_one_first_key() -> Result<()> {
    let Some(cluster) = Cluster::new().await? else { return Ok(()) };
    let mut starts = JoinSet::new();
    for name in ["a", "b", "c", "d"] {
        let mut command = crate::host::serve(&cluster.data(name));
        command.env("CALLBOARD_DATABASE_URL", &cluster.address);
        command.env("CALLBOARD_SEAL_KEY", crate::SEAL_KEY);
        starts.spawn_blocking(move || Host::of(command));
    }
    let mut hosts = Vec::new();
    while let Some(host) = starts.join_next().await {
        hosts.push(host??);
    }
    let made = |host: &&Host| host.log().contains("api key: ");
    assert_eq!(hosts.iter().filter(made).count(), 1, "one first key");
    let migrated = |host: &&Host| host.log().contains("database migrated");
    assert_eq!(hosts.iter().filter(migrated).count(), 1, "one migration");
    Ok(())
}

/// C-41: nothing is started, or changed, on a schema of a newer version.
#[tokio::test(flavor = "multi_thread")]
async fn a_newer_schema_is_refused() -> Result<()> {
    let Some(cluster) = Cluster::new().await? else { return Ok(()) };
    let (host, _api) = cluster.host_with("one", LONG_LEASE)?;
    host.stop("TERM")?;
    inside::pretend_schema(&cluster.address, 4_711).await?;
    let output = command_on(&cluster.folder, "other", &cluster.address, LONG_LEASE).output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    ensure!(said.contains("newer version") && said.contains("4711"), "{said}");
    Ok(())
}

/// C-30: a late database is waited for, with a line for each try.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_database_is_waited_for() -> Result<()> {
    let Some(cluster) = Cluster::new().await? else { return Ok(()) };
    let port = cluster.port()?;
    let proxy = Proxy::before(port).await?;
    proxy.turn(Network::Cut);
    let command =
        command_on(&cluster.folder, "one", &proxy.address(&cluster.address, port), LONG_LEASE);
    let mut start = JoinSet::new();
    start.spawn_blocking(move || Host::of(command));
    tokio::time::sleep(Duration::from_secs(3)).await;
    proxy.turn(Network::Open);
    let host = start.join_next().await.context("no start")???;
    let tries = host.log().matches("the database is not there yet").count();
    ensure!(tries >= 1, "{}", host.log());
    Ok(())
}

/// C-30: a missing one is named after a while, a wrong password at once; neither shows the password.
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_database_is_named_without_the_password() -> Result<()> {
    let Some(cluster) = Cluster::new().await? else { return Ok(()) };
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let missing = cluster.address.replace(&format!(":{}/", cluster.port()?), &format!(":{port}/"));
    let unknown = format!("{}-no-such", cluster.address);
    let wrong = cluster.address.replace("not-a-secret", "no-secret-either");
    let cases = [
        (missing, format!("127.0.0.1:{port}/"), "cannot be reached"),
        (unknown, "does not exist".to_owned(), "refuses this host"),
        (wrong, "password authentication failed".to_owned(), "refuses this host"),
    ];
    let mut tries = JoinSet::new();
    for (number, (address, names, says)) in cases.into_iter().enumerate() {
        let mut command = command_on(&cluster.folder, &format!("h{number}"), &address, LONG_LEASE);
        tries.spawn_blocking(move || -> Result<()> {
            let started = Instant::now();
            let output = command.output()?;
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            ensure!(output.status.code() == Some(1), "{:?}: {said}", output.status);
            ensure!(said.contains(&names) && said.contains(says), "{said}");
            ensure!(!said.contains("not-a-secret") && !said.contains("no-secret-either"), "{said}");
            let waited = started.elapsed() >= Duration::from_secs(15);
            ensure!(
                waited == (says == "cannot be reached"),
                "after {:?}: {said}",
                started.elapsed()
            );
            Ok(())
        });
    }
    tries.join_all().await.into_iter().collect()
}

/// C-46: however many callers there are.
#[tokio::test(flavor = "multi_thread")]
async fn a_busy_host_needs_few_connections() -> Result<()> {
    let Some(cluster) = Cluster::new().await? else { return Ok(()) };
    let (_one, api) = cluster.host_with("one", LONG_LEASE)?;
    register(&api, &workflow("noop", "core.noop", json!({}))).await?;
    let (client, _connection) = server::connect(&cluster.address).await?;
    let mut callers = JoinSet::new();
    for caller in 0..64 {
        let api = api.clone();
        callers.spawn(async move {
            for number in 0..4 {
                let key = format!("{caller}-{number}");
                let run = api.create(&json!({ "workflowId": "noop" }), &key).await?;
                api.get(&format!("/v1/runs/{run}/events/poll?timeout=10")).await?;
                api.get("/v1/host/callboard/schedules").await?;
            }
            anyhow::Ok(())
        });
    }
    let mut most = 0;
    while !callers.is_empty() {
        most = most.max(inside::connections(&client).await?);
        while let Some(done) = callers.try_join_next() {
            done??;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    ensure!((2..=13).contains(&most), "{most} connections");
    Ok(())
}

/// C-48: what PostgreSQL's text cannot hold is kept or refused, by every door that takes text.
#[tokio::test(flavor = "multi_thread")]
async fn a_zero_character_is_stored_or_refused() -> Result<()> {
    let Some(cluster) = Cluster::new().await? else { return Ok(()) };
    let (_one, api) = cluster.host_with("one", LONG_LEASE)?;
    let mut keeps = workflow("keeps", "core.noop", json!({}));
    keeps["variables"] = json!([{ "name": "text", "type": "string" }]);
    register(&api, &keeps).await?;
    let text = "a\u{0}b";
    let run = json!({ "workflowId": "keeps", "inputs": { "text": text } });
    let run = api.create(&run, "plain").await?;
    assert_eq!(finish(&api, &run).await?, "completed");
    Story::of(&api, &run).await?;
    let odd = workflow(text, "core.noop", json!({}));
    let named = workflow("named", "core.noop", json!({ "note": text }));
    let schedule =
        json!({ "workflowId": "keeps", "cron": "0 0 1 1 *", "inputs": { "text": text } });
    let doors: [(&str, Value); 9] = [
        ("/v1/runs", json!({ "workflowId": text })),
        ("/v1/runs", json!({ "workflowId": "keeps", "tags": [text] })),
        ("/v1/runs", json!({ "workflowId": "keeps", "scopeId": text })),
        ("/v1/runs", json!({ "workflowId": "keeps", "metadata": { text: text } })),
        ("/v1/host/callboard/workflows", odd),
        ("/v1/host/callboard/workflows", named),
        ("/v1/host/callboard/schedules", schedule),
        ("/v1/host/callboard/keys", json!({ "name": text })),
        ("/v1/host/callboard/secrets", json!({ "name": text, "value": text })),
    ];
    for (path, body) in doors {
        let answer = api.post(path, &body).send().await?;
        let (status, said) = (answer.status().as_u16(), answer.text().await?);
        ensure!(status < 500, "{path} {body}: {status} {said}");
    }
    for path in [
        "/v1/runs/a%00b",
        "/v1/host/callboard/runs?tag=a%00b",
        "/v1/host/callboard/runs?workflowId=a%00b",
        "/v1/host/callboard/memory?scopeId=a%00b",
        "/v1/host/callboard/memory?q=a%00b",
        "/v1/host/callboard/schedules/a%00b",
    ] {
        if let Err(error) = api.get(path).await {
            ensure!(!error.to_string().contains(": 50"), "{path}: {error}");
        }
    }
    Ok(())
}

/// C-30: a server whose network swallows everything is not waited for without end.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_database_is_given_up() -> Result<()> {
    let Some(cluster) = Cluster::new().await? else { return Ok(()) };
    let port = cluster.port()?;
    let proxy = Proxy::before(port).await?;
    proxy.turn(Network::Frozen);
    let address = proxy.address(&cluster.address, port);
    let mut start = JoinSet::new();
    let mut command = command_on(&cluster.folder, "one", &address, LONG_LEASE);
    start.spawn_blocking(move || command.output());
    let output = tokio::time::timeout(Duration::from_secs(90), start.join_next()).await;
    let output = output.context("it waits for ever")?.context("no start")???;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    ensure!(said.contains("cannot be reached"), "{said}");
    // The same address is fine as soon as the network is.
    proxy.turn(Network::Open);
    host_on(&cluster.folder, "one", &address, LONG_LEASE)?;
    Ok(())
}
