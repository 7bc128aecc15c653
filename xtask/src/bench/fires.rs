//! Sources of runs: schedules that are due at one moment, signed posts, schedules that are not due.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::task::JoinSet;

use super::Scale;
use super::definitions::{DUE, NOOP};
use super::measure::{KEY, processor_time};
use crate::child::Host;
use crate::say;
use crate::wire::{Connection, Request};

const CLIENTS: usize = 64;
const SCHEDULES: &str = "/v1/host/callboard/schedules";
/// How long a host with nothing to do is watched.
const IDLE: Duration = Duration::from_secs(20);
/// What making the schedules may take, so that they are all there when they are due.
const TO_MAKE_THEM: u64 = 40;
/// Beyond the goal, so that a miss is a figure and not a failure.
const PATIENCE: Duration = Duration::from_secs(300);

#[derive(Debug, Default)]
pub(crate) struct Fires {
    /// Acknowledged creations of runs, and acknowledged signed posts, per second.
    pub(crate) creates: f64,
    pub(crate) posts: f64,
    pub(crate) due: usize,
    /// From the moment that all were due at to the last run.
    pub(crate) begun_within: Duration,
    pub(crate) waiting: usize,
    /// The share of one core that a host uses for schedules that are not due.
    pub(crate) idle_share: f64,
}

pub(crate) async fn measure(host: &Host, scale: Scale) -> Result<Fires> {
    let mut fires = Fires::default();
    say::line("signed posts and creations by turns");
    let hook = Hook::register(host.address).await?;
    for turn in 0..scale.turns {
        let create = Request::post("/v1/runs", &json!({ "workflowId": NOOP })).bearer(KEY).render();
        let creates = vec![create; scale.posts];
        fires.creates = fires.creates.max(acknowledged(host.address, creates, 201).await?);
        let posts = (0..scale.posts).map(|number| hook.post(turn, number));
        let posts = posts.collect::<Result<Vec<_>>>()?;
        fires.posts = fires.posts.max(acknowledged(host.address, posts, 202).await?);
    }
    say::line("schedules that are due at one moment");
    fires.due = scale.due;
    fires.begun_within = due(host.address, scale.due).await?;
    say::line("schedules that only wait");
    fires.waiting = scale.waiting;
    // A year away, or nearly so.
    let yearly = json!({ "workflowId": NOOP, "cron": "0 0 1 JAN *" });
    acknowledged(host.address, made(&yearly, scale.waiting), 201).await?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let before = processor_time(host.id()?)?;
    tokio::time::sleep(IDLE).await;
    let used = processor_time(host.id()?)? - before;
    fires.idle_share = used.as_secs_f64() / IDLE.as_secs_f64();
    Ok(fires)
}

fn made(schedule: &Value, count: usize) -> Vec<Vec<u8>> {
    vec![Request::post(SCHEDULES, schedule).bearer(KEY).render(); count]
}

/// Makes schedules that are all due at the same second, and answers how long after it the last has its run.
async fn due(address: SocketAddr, count: usize) -> Result<Duration> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let minute = (now + TO_MAKE_THEM) / 60 + 1;
    let cron = format!("0 {} * * * *", minute % 60);
    let schedule = json!({ "workflowId": DUE, "cron": cron });
    let before = fired(address).await?;
    acknowledged(address, made(&schedule, count), 201).await?;
    let moment = UNIX_EPOCH + Duration::from_secs(minute * 60);
    ensure!(SystemTime::now() < moment, "the schedules were not made in time");
    loop {
        let so_far = fired(address).await? - before;
        let late = SystemTime::now().duration_since(moment).unwrap_or_default();
        if so_far >= count {
            // Long enough for one that fired twice to show.
            tokio::time::sleep(Duration::from_secs(3)).await;
            let all = fired(address).await? - before;
            ensure!(all == count, "{all} runs for {count} schedules");
            return Ok(late);
        }
        ensure!(late < PATIENCE, "only {so_far} of {count} have fired");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// How many runs schedules have started, by the host's own count.
async fn fired(address: SocketAddr) -> Result<usize> {
    const NAME: &str = "callboard_schedule_slots_total{outcome=\"fired\"} ";
    let metrics = Connection::open(address).await?.send(&Request::get("/metrics")).await?.text();
    let line = metrics.lines().find_map(|line| line.strip_prefix(NAME));
    Ok(line.map_or(Ok(0), str::parse)?)
}

/// Sends all of them from kept-alive connections; answers how many were acknowledged per second.
async fn acknowledged(address: SocketAddr, all: Vec<Vec<u8>>, status: u16) -> Result<f64> {
    let (all, next) = (Arc::new(all), Arc::new(AtomicUsize::new(0)));
    let mut connections = Vec::new();
    for _ in 0..CLIENTS {
        connections.push(Connection::open(address).await?);
    }
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for mut connection in connections {
        let (all, next) = (Arc::clone(&all), Arc::clone(&next));
        tasks.spawn(async move {
            while let Some(request) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                let (answered, body) = connection.exchange(request).await?;
                if answered != status {
                    bail!("answered {answered}: {body}");
                }
            }
            Ok(())
        });
    }
    for part in tasks.join_all().await {
        part?;
    }
    Ok(all.len() as f64 / started.elapsed().as_secs_f64())
}

struct Hook {
    url: String,
    key: Vec<u8>,
}

impl Hook {
    async fn register(address: SocketAddr) -> Result<Self> {
        let body = json!({ "source": "webhook", "workflowId": NOOP });
        let request = Request::post("/v1/trigger-subscriptions", &body).bearer(KEY);
        let made = Connection::open(address).await?.send(&request).await?.json()?;
        let text =
            |name: &str| made["binding"][name].as_str().with_context(|| format!("no {name}"));
        let key = STANDARD.decode(text("signingSecret")?.trim_start_matches("whsec_"))?;
        Ok(Self { url: text("ingestUrl")?.to_owned(), key })
    }

    /// A signed post with a new id.
    fn post(&self, turn: usize, number: usize) -> Result<Vec<u8>> {
        let (id, body) = (format!("msg_bench_{turn:04}_{number:08}"), "{}");
        let at = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key)?;
        mac.update(format!("{id}.{at}.{body}").as_bytes());
        let signature = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
        let request = Request::post(self.url.as_str(), &json!({}))
            .header("webhook-id", &id)
            .header("webhook-timestamp", &at.to_string())
            .header("webhook-signature", &signature);
        Ok(request.render())
    }
}
