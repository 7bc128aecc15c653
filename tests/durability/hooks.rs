//! Signed posts to the real binary: one run each for the member that owns the workflow, whoever repeats, forges or kills.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::task::JoinSet;

use crate::api::Api;
use crate::ledger::{all_runs, now};
use crate::{Chance, SEED, members};

const KILLS: u64 = 3;
const POSTS_PER_ROUND: u64 = 8;
/// Shorter than a round of posts takes, so that kills find some under way.
const LONGEST_ROUND_MS: u64 = 120;
/// Reached only when a host hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// What no log may hold.
const CANARY: &str = "canary-9d1f";

/// A webhook subscription as its registrant got it.
#[derive(Debug, Clone)]
struct Hook {
    id: String,
    url: String,
    secret: String,
}

/// What a sender is told.
type Answer = (u16, Value);

impl Hook {
    async fn register(api: &Api, member: &str) -> Result<Self> {
        let body = json!({ "source": "webhook", "workflowId": members::WORKFLOW, "rosterId": member,
            "inputMapping": { "message": "webhook.body.message" } });
        let path = "/v1/host/callboard/trigger-subscriptions";
        let made: Value = api.post(path, &body).send().await?.json().await?;
        let text = |pointer: &str| -> Result<String> {
            let found = made.pointer(pointer).and_then(Value::as_str);
            Ok(found.with_context(|| format!("no {pointer}: {made}"))?.to_owned())
        };
        Ok(Self {
            id: text("/subscription/subscriptionId")?,
            url: text("/binding/ingestUrl")?,
            secret: text("/binding/signingSecret")?,
        })
    }

    fn sign(&self, id: &str, at: i64, body: &str) -> Result<String> {
        let key = STANDARD.decode(self.secret.trim_start_matches("whsec_"))?;
        let mut mac = Hmac::<Sha256>::new_from_slice(&key)?;
        mac.update(format!("{id}.{at}.{body}").as_bytes());
        Ok(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
    }

    /// Posts what a good sender would, so many seconds off.
    async fn post(&self, host: &str, id: &str, seconds_off: i64) -> Result<Answer> {
        let at = now().as_millis() / 1_000 + seconds_off;
        let signature = self.sign(id, at, &body())?;
        self.post_signed(host, id, at, &signature).await
    }

    /// Nobody's key goes with it.
    async fn post_signed(&self, host: &str, id: &str, at: i64, signature: &str) -> Result<Answer> {
        let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build()?;
        let request = http.post(format!("{host}{}", self.url)).header("webhook-id", id);
        let request =
            request.header("webhook-timestamp", at).header("webhook-signature", signature);
        let request = request.header("content-type", "application/json");
        let answer = request.body(body()).send().await?;
        Ok((answer.status().as_u16(), answer.json().await?))
    }
}

fn body() -> String {
    json!({ "message": "Where is my parcel?", "note": CANARY }).to_string()
}

fn run_of(told: &Answer) -> Result<String> {
    Ok(told.1["runId"].as_str().with_context(|| format!("no run: {told:?}"))?.to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signed_post_is_one_run_of_its_member_and_a_forged_one_uses_nothing_up() -> Result<()> {
    let scene = members::scene()?;
    let host = members::start(&scene)?;
    let api = Api::of(host.url())?;
    let member = members::hire(&api).await?;
    let hook = Hook::register(&api, &member).await?;
    let id = "msg_0123456789abcdef";
    let at = now().as_millis() / 1_000;
    for (name, told) in [
        ("forged", hook.post_signed(host.url(), id, at, "v1,AAAA").await?),
        ("signed for another", {
            let signature = hook.sign("msg_fedcba9876543210", at, &body())?;
            hook.post_signed(host.url(), id, at, &signature).await?
        }),
        ("of a clock that is late", hook.post(host.url(), id, -310).await?),
        ("of a clock that is ahead", hook.post(host.url(), id, 310).await?),
    ] {
        ensure!(told.0 == 401 && told.1["error"] == "signature_invalid", "{name}: {told:?}");
        ensure!(told.1.get("runId").is_none(), "{name}: {told:?}");
    }
    ensure!(all_runs(&api).await?.is_empty(), "a refused post started something");
    let first = hook.post(host.url(), id, 0).await?;
    ensure!(first.0 == 202 && first.1["outcome"] == "delivered", "{first:?}");
    let run = run_of(&first)?;
    let again = hook.post(host.url(), id, 0).await?;
    ensure!(again == (200, json!({ "outcome": "duplicate", "runId": run })), "{again:?}");
    let events = members::attributed(&api, &run, &member, "webhook").await?;
    ensure!(events[1]["payload"]["triggerSubscriptionId"] == hook.id, "{}", events[1]);
    ensure!(events[2]["type"] == "trigger.delivery.attempted", "{}", events[2]);
    ensure!(events[0]["causationId"] == events[2]["eventId"], "{}", events[0]);
    host.stop("KILL")?;
    let host = members::start(&scene)?;
    let api = Api::of(host.url())?;
    let later = hook.post(host.url(), id, 0).await?;
    ensure!(later == (200, json!({ "outcome": "duplicate", "runId": run })), "{later:?}");
    let log = api.log(&run).await?;
    for canary in [CANARY, id, hook.secret.as_str()] {
        ensure!(!log.contains(canary), "the log holds {canary}");
    }
    drop(host);
    let data = scene.folder.path().join("data");
    ensure!(is_in(&data, hook.id.as_bytes())?, "the search would find it");
    for canary in [CANARY, hook.secret.as_str()] {
        ensure!(!is_in(&data, canary.as_bytes())?, "{canary} rests unsealed");
    }
    Ok(())
}

/// Whether any file of a folder holds these bytes.
fn is_in(folder: &Path, bytes: &[u8]) -> Result<bool> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let found = match path.is_dir() {
            true => is_in(&path, bytes)?,
            false => std::fs::read(&path)?.windows(bytes.len()).any(|window| window == bytes),
        };
        if found {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A sender repeats what was not acknowledged, as Standard Webhooks asks it to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_post_becomes_one_run_whenever_the_host_is_killed() -> Result<()> {
    let scene = members::scene()?;
    let mut host = members::start(&scene)?;
    let mut api = Api::of(host.url())?;
    let member = members::hire(&api).await?;
    let hook = Hook::register(&api, &member).await?;
    let seed = std::env::var("CALLBOARD_TEST_SEED").ok().map_or(Ok(SEED), |seed| seed.parse())?;
    let mut chance = Chance(seed);
    let mut acknowledged: BTreeMap<String, String> = BTreeMap::new();
    for round in 0..KILLS {
        let mut posts = JoinSet::new();
        for number in 0..POSTS_PER_ROUND {
            let (url, hook) = (host.url().to_owned(), hook.clone());
            let id = format!("msg_round_{round}_number_{number}");
            // Whoever is refused after the kill has nothing to complain about.
            posts.spawn(async move { (id.clone(), hook.post(&url, &id, 0).await.ok()) });
        }
        tokio::time::sleep(Duration::from_millis(chance.below(LONGEST_ROUND_MS))).await;
        host.stop("KILL")?;
        host = members::start(&scene)?;
        api = Api::of(host.url())?;
        for (id, told) in posts.join_all().await {
            let again = hook.post(host.url(), &id, 0).await?;
            let run = run_of(&again)?;
            if let Some(told) = told {
                ensure!(again.0 == 200, "seed {seed}: {id} was acknowledged and lost: {again:?}");
                ensure!(run_of(&told)? == run, "seed {seed}: {id} is two runs");
            }
            acknowledged.insert(id, run);
        }
    }
    let runs: BTreeSet<String> = acknowledged.values().cloned().collect();
    ensure!(runs.len() as u64 == KILLS * POSTS_PER_ROUND, "seed {seed}: {acknowledged:?}");
    ensure!(all_runs(&api).await?.len() == runs.len(), "seed {seed}: a run that nobody knows");
    for run in &runs {
        members::attributed(&api, run, &member, "webhook").await?;
    }
    Ok(())
}
