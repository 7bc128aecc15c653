//! A database that is away, frozen or slow for a while: rows of the table of failures.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tokio::task::JoinSet;

use crate::api::Api;
use crate::host::{Host, KEY};
use crate::proxy::{Network, Proxy};
use crate::stage::{LONG_LEASE, SHORT_LEASE, Story, finish, host_on, insist, runs_of};
use crate::{Cluster, register, workflow};

/// A cluster with a network in front of its server.
async fn behind_proxy() -> Result<Option<(Cluster, Proxy, String)>> {
    let Some(cluster) = Cluster::new().await? else { return Ok(None) };
    let port = cluster.port()?;
    let proxy = Proxy::before(port).await?;
    let address = proxy.address(&cluster.address, port);
    Ok(Some((cluster, proxy, address)))
}

async fn status_of(host: &Host, path: &str) -> Result<u16> {
    let http = reqwest::Client::builder().no_proxy().build()?;
    let answer = http.get(format!("{}{path}", host.url())).bearer_auth(KEY).send().await?;
    Ok(answer.status().as_u16())
}

/// Reads a run's stream to its end, in the background.
async fn follow(host: &Host, run: &str) -> Result<JoinSet<Result<String>>> {
    let url = format!("{}/v1/runs/{run}/events", host.url());
    let http = reqwest::Client::builder().no_proxy().build()?;
    let request = http.get(url).bearer_auth(KEY).header("accept", "text/event-stream");
    let mut answer = request.send().await?;
    let mut reader = JoinSet::new();
    reader.spawn(async move {
        let mut text = Vec::new();
        while let Some(bytes) = answer.chunk().await? {
            text.extend_from_slice(&bytes);
        }
        Ok(String::from_utf8(text)?)
    });
    Ok(reader)
}

/// C-31: nobody loses a run, an attempt or a stream; who asks meanwhile is told to come again.
#[tokio::test(flavor = "multi_thread")]
async fn five_seconds_without_the_database_cost_no_run_its_holder() -> Result<()> {
    let Some((cluster, proxy, address)) = behind_proxy().await? else { return Ok(()) };
    let (host, api) = host_on(&cluster.folder, "one", &address, LONG_LEASE)?;
    register(&api, &workflow("wait", "core.delay", json!({ "durationMs": 2_000 }))).await?;
    let mut runs = Vec::new();
    for number in 0..5 {
        runs.push(api.create(&json!({ "workflowId": "wait" }), &format!("k{number}")).await?);
    }
    let mut stream = follow(&host, &runs[0]).await?;
    proxy.turn(Network::Cut);
    let over = Instant::now() + Duration::from_secs(5);
    assert_eq!(status_of(&host, "/healthz").await?, 200);
    assert_eq!(status_of(&host, "/readyz").await?, 503);
    let request = api.post("/v1/runs", &json!({ "workflowId": "wait" }));
    let refused = request.header("Idempotency-Key", "late").send().await?;
    assert_eq!(refused.status().as_u16(), 503);
    ensure!(refused.headers().contains_key("retry-after"), "it does not say when to come again");
    tokio::time::sleep_until(over.into()).await;
    proxy.turn(Network::Open);
    let late = insist(std::slice::from_ref(&api), "wait", "late").await?;
    // The same key has the same answer.
    assert_eq!(insist(std::slice::from_ref(&api), "wait", "late").await?, late);
    runs.push(late);
    for run in &runs {
        assert_eq!(finish(&api, run).await?, "completed");
        let story = Story::of(&api, run).await?;
        let counts = ["run.resumed", "node.retried", "node.started"].map(|kind| story.count(kind));
        assert_eq!(counts, [0, 0, 1], "{story:?}");
    }
    let seen = stream.join_next().await.context("no reader")???;
    ensure!(seen.contains("run.completed"), "the stream ended before the run: {seen}");
    crate::until(async || Ok((status_of(&host, "/readyz").await? == 200).then_some(()))).await
}

/// C-08, C-33: who cannot be reached for longer than a lease is replaced, and does nothing twice when it is back.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_behind_a_frozen_network_is_replaced_and_changes_nothing() -> Result<()> {
    let Some((cluster, proxy, address)) = behind_proxy().await? else { return Ok(()) };
    let (host, first) = host_on(&cluster.folder, "one", &address, SHORT_LEASE)?;
    let (_other, second) = cluster.host_with("other", SHORT_LEASE)?;
    register(&first, &workflow("wait", "core.delay", json!({ "durationMs": 2_500 }))).await?;
    let mut runs = Vec::new();
    for number in 0..10 {
        runs.push(first.create(&json!({ "workflowId": "wait" }), &format!("k{number}")).await?);
    }
    proxy.turn(Network::Frozen);
    let mut before = Vec::new();
    for run in &runs {
        assert_eq!(finish(&second, run).await?, "completed");
        before.push(second.log(run).await?);
    }
    // It has noticed by itself that it may not act any more.
    crate::until(async || Ok(host.log().contains("their runs are given up here").then_some(())))
        .await?;
    proxy.turn(Network::Open);
    let next = insist(std::slice::from_ref(&first), "wait", "afterwards").await?;
    assert_eq!(finish(&first, &next).await?, "completed");
    for (run, before) in runs.iter().zip(before) {
        assert_eq!(second.log(run).await?, before);
        let story = Story::of(&second, run).await?;
        ensure!(story.count("run.resumed") <= 1, "{story:?}");
    }
    Ok(())
}

/// C-38: a commit whose answer was lost is found out, for creations by their key and for appends by the log.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_without_an_answer_is_found_out() -> Result<()> {
    let Some((cluster, proxy, address)) = behind_proxy().await? else { return Ok(()) };
    let (_host, api) = host_on(&cluster.folder, "one", &address, LONG_LEASE)?;
    register(&api, &workflow("wait", "core.delay", json!({ "durationMs": 700 }))).await?;
    let run = api.create(&json!({ "workflowId": "wait" }), "before").await?;
    proxy.turn(Network::WithoutAnswers);
    let lost = api.create(&json!({ "workflowId": "wait" }), "lost").await;
    ensure!(lost.is_err(), "an answer came from a database that has none: {lost:?}");
    proxy.turn(Network::Open);
    let found = insist(std::slice::from_ref(&api), "wait", "lost").await?;
    for run in [&run, &found] {
        assert_eq!(finish(&api, run).await?, "completed");
        Story::of(&api, run).await?;
    }
    // The first try was either written or not; there is one run for the key, and no other.
    assert_eq!(runs_of(&api, "wait").await?.len(), 2);
    Ok(())
}

/// A database that is slow makes everything late and nothing wrong.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_database_is_waited_for() -> Result<()> {
    let Some((cluster, proxy, address)) = behind_proxy().await? else { return Ok(()) };
    let (_host, api) = host_on(&cluster.folder, "one", &address, LONG_LEASE)?;
    register(&api, &workflow("noop", "core.noop", json!({}))).await?;
    proxy.turn(Network::Slow(Duration::from_millis(150)));
    let mut callers = JoinSet::new();
    for number in 0..30 {
        let api: Api = api.clone();
        callers.spawn(async move { insist(&[api], "noop", &format!("k{number}")).await });
    }
    let mut runs = std::collections::BTreeSet::new();
    while let Some(run) = callers.join_next().await {
        runs.insert(run??);
    }
    assert_eq!(runs.len(), 30, "one run for each key");
    for run in &runs {
        assert_eq!(finish(&api, run).await?, "completed");
    }
    proxy.turn(Network::Open);
    for run in &runs {
        Story::of(&api, run).await?;
    }
    Ok(())
}
