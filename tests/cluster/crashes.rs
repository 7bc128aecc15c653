//! Servers and hosts that end or freeze without a word, under load.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::api::Api;
use crate::database::Database;
use crate::stage::{CRASH_LEASE, LONG_LEASE, SHORT_LEASE, Story, finish, host_on, insist, runs_of};
use crate::{Cluster, inside, register, server, workflow};

/// Callers that insist, each on runs of its own; answers the run of each key.
pub(crate) async fn load(
    apis: &[Api],
    workflow: &'static str,
    callers: usize,
    each: usize,
) -> JoinSet<Result<Vec<(String, String)>>> {
    let mut tasks = JoinSet::new();
    for caller in 0..callers {
        let apis: Vec<Api> = apis.iter().cycle().skip(caller).take(apis.len()).cloned().collect();
        tasks.spawn(async move {
            let mut made = Vec::new();
            for number in 0..each {
                let key = format!("{workflow}-{caller}-{number}");
                let run = insist(&apis, workflow, &key).await?;
                made.push((key, run));
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            Ok(made)
        });
    }
    tasks
}

/// Every acknowledged run has ended once; there is one for each key, and no other.
pub(crate) async fn settle(
    api: &Api,
    workflow: &str,
    mut load: JoinSet<Result<Vec<(String, String)>>>,
) -> Result<BTreeMap<String, Story>> {
    let mut runs = BTreeMap::new();
    while let Some(made) = load.join_next().await {
        runs.extend(made??.into_iter().map(|(key, run)| (run, key)));
    }
    let mut stories = BTreeMap::new();
    for run in runs.keys() {
        ensure!(finish(api, run).await? == "completed", "{run}");
        stories.insert(run.clone(), Story::of(api, run).await?);
    }
    let listed = runs_of(api, workflow).await?;
    ensure!(listed.len() == runs.len(), "{} runs for {} keys", listed.len(), runs.len());
    Ok(stories)
}

/// C-32, C-01: what was acknowledged is there when the server is back, and goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_crash_of_the_server_loses_nothing_acknowledged() -> Result<()> {
    let Some(mut database) = Database::start()? else { return Ok(()) };
    let folder = TempDir::new()?;
    let (_one, first) = host_on(&folder, "one", &database.address(), CRASH_LEASE)?;
    let (_other, second) = host_on(&folder, "other", &database.address(), CRASH_LEASE)?;
    register(&first, &workflow("wait", "core.delay", json!({ "durationMs": 500 }))).await?;
    let apis = [first.clone(), second];
    let load = load(&apis, "wait", 6, 8).await;
    for _ in 0..2 {
        tokio::time::sleep(Duration::from_millis(400)).await;
        database.crash()?;
        tokio::time::sleep(Duration::from_millis(600)).await;
        database.come_up()?;
        server::connect(&database.address()).await?;
    }
    let stories = settle(&first, "wait", load).await?;
    assert_eq!(stories.len(), 48);
    for (run, story) in &stories {
        ensure!(story.count("run.resumed") <= 1, "{run}: {story:?}");
    }
    Ok(())
}

/// C-02, C-07: who was stopped beyond its lease, in the middle of its work, changes nothing of what others did since.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_stopped_under_load_writes_nothing_twice() -> Result<()> {
    let Some(cluster) = Cluster::new().await? else { return Ok(()) };
    let (one, first) = cluster.host_with("one", SHORT_LEASE)?;
    let (_other, second) = cluster.host_with("other", SHORT_LEASE)?;
    register(&first, &workflow("wait", "core.delay", json!({ "durationMs": 300 }))).await?;
    let load = load(&[first.clone(), second.clone()], "wait", 6, 10).await;
    for _ in 0..2 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        one.signal("STOP")?;
        tokio::time::sleep(Duration::from_millis(2 * SHORT_LEASE)).await;
        // It holds no lock: the other one works on while it is stopped.
        let run = second.create(&json!({ "workflowId": "wait" }), "probe").await?;
        ensure!(finish(&second, &run).await? == "completed");
        one.signal("CONT")?;
    }
    let mut load = load;
    let probe = second.create(&json!({ "workflowId": "wait" }), "probe").await?;
    load.spawn(async move { Ok(vec![("probe".to_owned(), probe)]) });
    let stories = settle(&second, "wait", load).await?;
    assert_eq!(stories.len(), 61);
    for (run, story) in &stories {
        ensure!(story.count("run.resumed") <= 2, "{run}: {story:?}");
    }
    // And it is of use again.
    let run = insist(std::slice::from_ref(&first), "wait", "afterwards").await?;
    ensure!(finish(&first, &run).await? == "completed");
    Ok(())
}

/// C-37, C-34: a lock that somebody else holds costs callers a 503, no run its life and nobody a wait without end.
#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_lock_costs_callers_a_refusal() -> Result<()> {
    let Some(cluster) = Cluster::new().await? else { return Ok(()) };
    let (_one, api) = cluster.host_with("one", LONG_LEASE)?;
    register(&api, &workflow("wait", "core.delay", json!({ "durationMs": 1_000 }))).await?;
    let run = api.create(&json!({ "workflowId": "wait" }), "before").await?;
    let lock = inside::lock(&cluster.address, "runs").await?;
    let refused = api.create(&json!({ "workflowId": "wait" }), "meanwhile").await;
    let said = refused.err().map(|error| error.to_string()).unwrap_or_default();
    ensure!(said.contains("503"), "{said}");
    // None of our transactions is older than the wait for a lock, however long the foreign one lasts.
    let idle = inside::idle_transactions(&cluster.address, Duration::from_secs(6)).await?;
    assert_eq!(idle, 0);
    drop(lock);
    let again = insist(std::slice::from_ref(&api), "wait", "meanwhile").await?;
    for run in [run, again] {
        ensure!(finish(&api, &run).await? == "completed");
        assert_eq!(Story::of(&api, &run).await?.count("run.resumed"), 0);
    }
    Ok(())
}

/// C-35: whatever the other connections wait for, leases are renewed.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_pool_does_not_delay_renewals() -> Result<()> {
    let Some(cluster) = Cluster::new().await? else { return Ok(()) };
    let (_one, api) = cluster.host_with("one", 6_000)?;
    register(&api, &workflow("wait", "core.delay", json!({ "durationMs": 9_000 }))).await?;
    let run = api.create(&json!({ "workflowId": "wait" }), "before").await?;
    let lock = inside::lock(&cluster.address, "records").await?;
    let mut callers = JoinSet::new();
    for _ in 0..20 {
        let api = api.clone();
        callers.spawn(async move { api.get("/v1/host/callboard/schedules").await.is_ok() });
    }
    // Longer than a lease: were renewals among those that wait, the run would be lost.
    tokio::time::sleep(Duration::from_secs(8)).await;
    drop(lock);
    callers.join_all().await;
    ensure!(finish(&api, &run).await? == "completed");
    let story = Story::of(&api, &run).await?;
    assert_eq!([story.count("run.resumed"), story.count("node.started")], [0, 1], "{story:?}");
    Ok(())
}
