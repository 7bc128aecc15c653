//! Runs a feature's requests undisturbed, then again with a death at each of its writes, and compares what readers see.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use callboard_engine::{
    Activities, Done, Engine, EngineError, Filter, InMemoryStore, InterceptedStore, Outcome,
    Remember, Store, StoreError,
};
use callboard_protocol::{Owner, Timestamp};

use super::process::{Death, Process};
use crate::roster::noop;
use crate::sim::{EPOCH_MS, SimClock, host_with, scope};
use crate::simulation::story;

/// One feature: what is asked for, step by step, and what is seen of it afterwards.
#[async_trait(?Send)]
pub(super) trait Scenario {
    /// Begins anew what outlives processes beside the store.
    fn reset(&self) {}

    fn definitions(&self) -> Vec<String> {
        vec![noop()]
    }

    /// What a process performs, which writes through the process's own view of the store.
    fn activities(&self, _store: &Arc<dyn Store>) -> Activities {
        Activities::default()
    }

    /// Starts what a process does besides driving runs.
    fn start(&self, _host: &Host) {}

    fn steps(&self) -> usize;

    /// Makes one request. One that got no answer is made again, at another process.
    async fn act(&self, host: &Host, step: usize);

    /// How long it takes until nothing moves any more, whoever died.
    fn settles_in(&self) -> Duration {
        Duration::from_secs(30)
    }

    /// What readers see in the end.
    async fn observe(&self, store: Arc<dyn Store>) -> Value;
}

/// One process.
pub(super) struct Host {
    pub(super) engine: Engine,
    pub(super) store: Arc<dyn Store>,
    process: Arc<Process>,
}

impl Host {
    pub(super) fn now(&self) -> Timestamp {
        self.engine.clock().now()
    }

    /// Lets simulated time pass.
    pub(super) async fn rest(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    /// Waits until so much time has passed since the beginning.
    pub(super) async fn wait_until(&self, since_start: u64) {
        self.engine.clock().sleep_until(seconds(since_start)).await;
    }

    /// Makes a request under an idempotency key as the server does, and answers what it came to.
    pub(super) async fn once(
        &self,
        key: &str,
        request: impl AsyncFnOnce(Remember) -> Result<Done, EngineError>,
    ) -> String {
        let key: [u8; 32] = Sha256::digest(key).into();
        if let Some(done) = self.store.outcome(&key, self.now()).await.unwrap() {
            return done.body;
        }
        let expires_at = self.now().plus(Duration::from_secs(86_400));
        let remember: Remember = Arc::new(move |done| {
            let body = done.run.to_string();
            Outcome { key, request: key, status: 201, body, expires_at }
        });
        match request(remember).await {
            Ok(done) => done.run.to_string(),
            Err(EngineError::Store(StoreError::AlreadyDone(outcome))) => outcome.body,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Whether another process is there when the first dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hosts {
    OneAfterTheOther,
    Two,
}

/// The store that outlives its processes.
struct World<'a> {
    scenario: &'a dyn Scenario,
    shared: Arc<InMemoryStore>,
    clock: Arc<SimClock>,
    hosts: usize,
}

impl<'a> World<'a> {
    fn new(scenario: &'a dyn Scenario) -> Self {
        Self { scenario, shared: Arc::default(), clock: SimClock::new(), hosts: 0 }
    }

    fn host(&mut self, death: Option<Death>) -> Host {
        let process = Process::new(death);
        let store: Arc<dyn Store> =
            Arc::new(InterceptedStore::new(self.shared.clone(), process.clone()));
        let name = format!("h{}", self.hosts);
        self.hosts += 1;
        let engine = host_with(
            &name,
            Arc::clone(&store),
            self.shared.clone(),
            self.clock.clone(),
            &self.scenario.definitions(),
            self.scenario.activities(&store),
        );
        let host = Host { engine, store, process };
        self.scenario.start(&host);
        host
    }
}

/// What came of one simulation.
pub(super) struct Seen {
    end: Value,
    pub(super) process: Arc<Process>,
}

/// Makes every request and lets everything settle; each process dies as it is told, and the next takes its place.
async fn simulate(scenario: &dyn Scenario, deaths: &[Death], hosts: Hosts) -> Seen {
    scenario.reset();
    let mut world = World::new(scenario);
    let mut deaths = deaths.iter().copied();
    let mut host = world.host(deaths.next());
    let first = Arc::clone(&host.process);
    let mut standby = (hosts == Hosts::Two).then(|| world.host(None));
    let mut step = 0;
    loop {
        let moves = async {
            if step < scenario.steps() {
                scenario.act(&host, step).await;
                false
            } else {
                tokio::time::sleep(scenario.settles_in()).await;
                true
            }
        };
        let is_settled = tokio::select! {
            biased;
            is_settled = moves => is_settled,
            () = host.process.died() => {
                host.engine.kill();
                host = standby.take().unwrap_or_else(|| world.host(None));
                host.process.doom(deaths.next());
                continue;
            }
        };
        if is_settled {
            break;
        }
        step += 1;
    }
    let end = normalised(scenario.observe(world.shared.clone()).await);
    host.engine.kill();
    Seen { end, process: first }
}

pub(super) async fn undisturbed(scenario: &dyn Scenario) -> Seen {
    simulate(scenario, &[], Hosts::OneAfterTheOther).await
}

/// Dies once before and after each write, and twice in a row, with one process and with two.
pub(super) async fn survives(name: &str, scenario: &dyn Scenario) {
    let expected = undisturbed(scenario).await;
    let writes = expected.process.writes();
    assert!(!writes.is_empty(), "{name} writes nothing");
    for write in worth_dying_at(&writes) {
        for death in [Death::Before(write), Death::After(write)] {
            let again = [Death::Before(1), Death::After(1), Death::After(2)];
            let once = std::iter::once(vec![death]);
            for deaths in once.chain(again.map(|again| vec![death, again])) {
                for hosts in [Hosts::OneAfterTheOther, Hosts::Two] {
                    let seen = simulate(scenario, &deaths, hosts).await;
                    let call = writes[write - 1];
                    let told = format!("{name}: {deaths:?} ({call} of {writes:?}), {hosts:?}");
                    assert_eq!(seen.end, expected.end, "{told}");
                }
            }
        }
    }
}

/// All writes but claims that came to nothing: those after which the next thing is another look.
fn worth_dying_at(writes: &[&str]) -> Vec<usize> {
    let is_idle = |index: usize| {
        writes[index] == "claim" && writes.get(index + 1).is_none_or(|next| *next == "claim")
    };
    (0..writes.len()).filter(|index| !is_idle(*index)).map(|index| index + 1).collect()
}

/// So long after the beginning.
pub(super) fn seconds(since_start: u64) -> Timestamp {
    Timestamp::from_millis(EPOCH_MS).plus(Duration::from_secs(since_start))
}

pub(super) fn owner() -> Owner {
    Owner { tenant: scope().tenant, workspace: None, principal: Some("key_1".into()) }
}

/// Every run with what its log says.
pub(super) async fn runs(store: &dyn Store) -> Value {
    let filter = Filter { limit: usize::MAX, ..Filter::default() };
    let mut runs = Vec::new();
    for run in store.list(&scope(), &filter).await.unwrap() {
        let page = store.read(&scope(), &run.run_id, 0, usize::MAX).await.unwrap().unwrap();
        let told = json!(story(&page.events));
        runs.push(json!([run.workflow_id, run.status, normalised(told)]));
    }
    runs.sort_by_key(Value::to_string);
    runs.into()
}

/// The same without what differs from process to process: the names of runs, and times.
pub(super) fn normalised(value: Value) -> Value {
    match value {
        Value::String(text) if text.parse::<Timestamp>().is_ok() => "(time)".into(),
        Value::String(text) => without_run_ids(&text).into(),
        Value::Array(items) => items.into_iter().map(normalised).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(key, value)| (key, normalised(value))).collect()
        }
        other => other,
    }
}

/// Runs are named by their host and by how many that one made.
fn without_run_ids(text: &str) -> String {
    let mut parts = text.split("run_h");
    let begin = parts.next().unwrap_or_default().to_owned();
    parts.fold(begin, |text, part| {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit() || c == '_');
        text + "(run)" + rest
    })
}
