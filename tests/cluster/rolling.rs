//! Hosts that come and go under load, with a schedule each second and a stream of everything beside it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::api::Api;
use crate::crashes::{load, settle};
use crate::host::{Host, KEY};
use crate::stage::{SHORT_LEASE, command_on, finish, runs_of};
use crate::{Cluster, register, workflow};

const NAMES: [&str; 3] = ["a", "b", "c"];

/// Starts a host on the port that it had before, so that callers find it again.
fn start(cluster: &Cluster, name: &str, at: Option<&str>) -> Result<Host> {
    let mut command = command_on(&cluster.folder, name, &cluster.address, 2 * SHORT_LEASE);
    if let Some(url) = at {
        command.env("CALLBOARD_LISTEN", url.trim_start_matches("http://"));
    }
    Host::of(command)
}

/// C-04, C-06, C-10, C-11, C-13, C-24: each host is stopped or killed and started again, one after the other.
#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_restart_under_load_loses_and_doubles_nothing() -> Result<()> {
    let Some(cluster) = Cluster::new().await? else { return Ok(()) };
    let mut hosts = Vec::new();
    for name in NAMES {
        hosts.push(start(&cluster, name, None)?);
    }
    let apis = hosts.iter().map(|host| Api::of(host.url())).collect::<Result<Vec<_>>>()?;
    register(&apis[0], &workflow("wait", "core.delay", json!({ "durationMs": 400 }))).await?;
    register(&apis[0], &workflow("slot", "core.noop", json!({}))).await?;
    let schedule = json!({ "workflowId": "slot", "cron": "* * * * * *", "overlap": "allow" });
    let made = apis[0].post("/v1/host/callboard/schedules", &schedule).send().await?;
    let made: Value = made.json().await?;
    let schedule = made["id"].as_str().with_context(|| format!("not made: {made}"))?.to_owned();
    let feed = Feed::follow(hosts[2].url()).await?;

    let load = load(&apis, "wait", 6, 25).await;
    for (place, name) in NAMES.into_iter().enumerate() {
        tokio::time::sleep(Duration::from_millis(1_200)).await;
        let host = hosts.remove(0);
        let url = host.url().to_owned();
        // The second one dies; the others are asked to go, and do so in peace.
        if place == 1 {
            host.stop("KILL")?;
        } else {
            ensure!(host.stop("TERM")?.success(), "{name} did not end well");
        }
        hosts.push(start(&cluster, name, Some(&url))?);
    }
    let stories = settle(&apis[0], "wait", load).await?;
    assert_eq!(stories.len(), 150);
    let url = format!("{}/v1/host/callboard/schedules/{schedule}", hosts[0].url());
    let http = reqwest::Client::builder().no_proxy().build()?;
    ensure!(http.delete(url).bearer_auth(KEY).send().await?.status().is_success());
    check_slots(&apis[1], Gaps::None).await?;
    feed.check(&apis[1], stories.keys()).await
}

/// Whether seconds may be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gaps {
    /// Somebody was there all the time.
    None,
    /// While no host could reach the database, slots follow the policy of the schedule.
    WhileNobodyCould,
}

/// One run for each second.
pub(crate) async fn check_slots(api: &Api, gaps: Gaps) -> Result<()> {
    let mut slots = BTreeSet::new();
    for run in runs_of(api, "slot").await? {
        let id = run["runId"].as_str().context("no run")?;
        ensure!(finish(api, id).await? == "completed");
        let run: Value = serde_json::from_str(&api.get(&format!("/v1/runs/{id}")).await?)?;
        let slot = run["metadata"]["scheduledFor"].as_str().context("no slot")?;
        let slot: callboard_protocol::Timestamp = slot.parse()?;
        ensure!(slots.insert(slot), "two runs for {slot:?}");
    }
    let slots: Vec<_> = slots.into_iter().collect();
    ensure!(slots.len() >= 4, "only {} slots", slots.len());
    for pair in slots.windows(2).filter(|_| gaps == Gaps::None) {
        let apart = pair[1].since(pair[0]);
        ensure!(apart == Duration::from_secs(1), "nothing between {:?} and {:?}", pair[0], pair[1]);
    }
    Ok(())
}

type Seen = Arc<Mutex<Vec<(u64, String)>>>;

/// A reader of the stream of everything that comes back with its last id.
pub(crate) struct Feed {
    seen: Seen,
    /// Ends with this value.
    _reader: JoinSet<()>,
}

fn locked(seen: &Seen) -> MutexGuard<'_, Vec<(u64, String)>> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads until the host goes away.
async fn read_on(http: &reqwest::Client, url: &str, seen: &Seen) -> Result<()> {
    let mut request = http.get(format!("{url}/v1/host/callboard/events"));
    request = request.bearer_auth(KEY).header("accept", "text/event-stream");
    let last = locked(seen).last().map(|(id, _)| *id);
    if let Some(last) = last {
        request = request.header("last-event-id", last);
    }
    let (mut answer, mut text) = (request.send().await?.error_for_status()?, String::new());
    while let Some(bytes) = answer.chunk().await? {
        text.push_str(&String::from_utf8_lossy(&bytes));
        while let Some((frame, rest)) = text.split_once("\n\n") {
            let read = read_frame(frame);
            text = rest.to_owned();
            locked(seen).extend(read);
        }
    }
    Ok(())
}

impl Feed {
    /// Begins with the first event that comes.
    pub(crate) async fn follow(url: &str) -> Result<Self> {
        let (seen, mut reader) = (Seen::default(), JoinSet::new());
        let (sink, url) = (Arc::clone(&seen), url.to_owned());
        let http = reqwest::Client::builder().no_proxy().build()?;
        reader.spawn(async move {
            loop {
                // A host that is not there, or goes away: it is asked again from the last id on.
                let _gone = read_on(&http, &url, &sink).await;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
        let feed = Self { seen, _reader: reader };
        crate::until(async || Ok((!feed.seen().is_empty()).then_some(()))).await?;
        Ok(feed)
    }

    pub(crate) fn seen(&self) -> Vec<(u64, String)> {
        locked(&self.seen).clone()
    }

    /// Every event of these runs came once, and ids only grow.
    pub(crate) async fn check(&self, api: &Api, runs: impl Iterator<Item = &String>) -> Result<()> {
        let mut expected = BTreeSet::new();
        for run in runs {
            let log: Value = serde_json::from_str(&api.log(run).await?)?;
            for event in log["events"].as_array().context("no events")? {
                expected.insert(event["eventId"].as_str().context("no id")?.to_owned());
            }
        }
        crate::until(async || {
            let seen: BTreeSet<String> = self.seen().into_iter().map(|(_, event)| event).collect();
            Ok(expected.is_subset(&seen).then_some(()))
        })
        .await
        .context("events are missing in the stream of everything")?;
        let seen = self.seen();
        ensure!(seen.is_sorted_by(|one, next| one.0 < next.0), "ids go back");
        let once: BTreeSet<&String> = seen.iter().map(|(_, event)| event).collect();
        ensure!(once.len() == seen.len(), "{} events came {} times", once.len(), seen.len());
        Ok(())
    }
}

fn read_frame(frame: &str) -> Option<(u64, String)> {
    let field = |name: &str| {
        frame.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned())
    };
    let data: Value = serde_json::from_str(&field("data:")?).ok()?;
    Some((field("id:")?.parse().ok()?, data["eventId"].as_str()?.to_owned()))
}
