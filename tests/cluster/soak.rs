//! Hosts under random faults for as long as one likes: `cargo xtask soak --minutes 60 --hosts 3`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::api::Api;
use crate::database::Database;
use crate::host::{Host, KEY};
use crate::proxy::{Network, Proxy};
use crate::rolling::{Feed, check_slots};
use crate::stage::{Story, command_on, finish, insist, runs_of};
use crate::{register, workflow};

/// Long enough that a busy machine loses no run by itself, short enough that faults outlast it.
const LEASE: u64 = 4_000;
const CALLERS: usize = 6;
/// Between two runs of one caller.
const PACE: Duration = Duration::from_millis(150);

/// What can happen to a host, its network or the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Trouble {
    Killed,
    AskedToStop,
    FrozenPastItsLease,
    CutOff,
    NetworkFrozenPastTheLease,
    AnswersLost,
    NetworkSlow,
    ServerCrashed,
}

const TROUBLES: [Trouble; 8] = [
    Trouble::Killed,
    Trouble::AskedToStop,
    Trouble::FrozenPastItsLease,
    Trouble::CutOff,
    Trouble::NetworkFrozenPastTheLease,
    Trouble::AnswersLost,
    Trouble::NetworkSlow,
    Trouble::ServerCrashed,
];

/// Numbers that are the same for the same seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// One host, and the network before its database.
struct Place {
    name: String,
    address: String,
    url: String,
    proxy: Proxy,
    host: Option<Host>,
}

impl Place {
    async fn start(folder: &TempDir, name: String, database: &Database) -> Result<Self> {
        let proxy = Proxy::before(database.port).await?;
        let address = proxy.address(&database.address(), database.port);
        let host = Host::of(command_on(folder, &name, &address, LEASE))?;
        Ok(Self { name, address, url: host.url().to_owned(), proxy, host: Some(host) })
    }

    fn start_again(&mut self, folder: &TempDir) -> Result<()> {
        let mut command = command_on(folder, &self.name, &self.address, LEASE);
        command.env("CALLBOARD_LISTEN", self.url.trim_start_matches("http://"));
        self.host = Some(Host::of(command)?);
        Ok(())
    }

    async fn during(&self, network: Network, time: Duration) {
        self.proxy.turn(network);
        tokio::time::sleep(time).await;
        self.proxy.turn(Network::Open);
    }

    async fn meet(
        &mut self,
        trouble: Trouble,
        folder: &TempDir,
        database: &mut Database,
    ) -> Result<()> {
        let past_lease = Duration::from_millis(LEASE * 3 / 2);
        let host = self.host.take().context("no host")?;
        match trouble {
            Trouble::Killed => {
                host.stop("KILL")?;
                return self.start_again(folder);
            }
            Trouble::AskedToStop => {
                let ended = host.stop("TERM")?;
                ensure!(ended.success(), "{} ended with {ended}", self.name);
                return self.start_again(folder);
            }
            Trouble::FrozenPastItsLease => {
                host.signal("STOP")?;
                tokio::time::sleep(past_lease).await;
                host.signal("CONT")?;
            }
            Trouble::CutOff => self.during(Network::Cut, Duration::from_secs(3)).await,
            Trouble::NetworkFrozenPastTheLease => self.during(Network::Frozen, past_lease).await,
            Trouble::AnswersLost => {
                self.during(Network::WithoutAnswers, Duration::from_secs(2)).await;
            }
            Trouble::NetworkSlow => {
                let slow = Network::Slow(Duration::from_millis(50));
                self.during(slow, Duration::from_secs(5)).await;
            }
            Trouble::ServerCrashed => {
                database.crash()?;
                tokio::time::sleep(Duration::from_secs(1)).await;
                database.come_up()?;
                crate::server::connect(&database.address()).await?;
            }
        }
        self.host = Some(host);
        Ok(())
    }
}

/// Callers that insist until they are told to stop; each answers its runs.
fn call(
    apis: &[Api],
    over: &Arc<AtomicBool>,
    made: &Arc<AtomicUsize>,
) -> JoinSet<Result<Vec<String>>> {
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let apis: Vec<Api> = apis.iter().cycle().skip(caller).take(apis.len()).cloned().collect();
        let (over, made) = (Arc::clone(over), Arc::clone(made));
        callers.spawn(async move {
            let mut runs = Vec::new();
            while !over.load(Ordering::Relaxed) {
                let key = format!("{caller}-{}", runs.len());
                runs.push(insist(&apis, "wait", &key).await?);
                made.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(PACE).await;
            }
            Ok(runs)
        });
    }
    callers
}

fn number(variable: &str, usual: u64) -> Result<u64> {
    std::env::var(variable).map_or(Ok(usual), |text| Ok(text.parse()?))
}

/// C-04, C-07, C-10, C-11, C-13, C-24, C-32, C-33 together, for as long as one likes.
#[tokio::test(flavor = "multi_thread")]
async fn hosts_under_random_faults_lose_and_double_nothing() -> Result<()> {
    let Ok(minutes) = std::env::var("CALLBOARD_SOAK_MINUTES") else {
        println!("skipped: it takes minutes to hours, and `cargo xtask soak` asks for it");
        return Ok(());
    };
    let time = Duration::from_secs(60 * minutes.parse::<u64>()?);
    let (hosts, seed) = (number("CALLBOARD_SOAK_HOSTS", 3)?, number("CALLBOARD_TEST_SEED", 4_711)?);
    let mut database = Database::start()?.context("PostgreSQL is not installed")?;
    crate::server::connect(&database.address()).await?;
    let folder = TempDir::new()?;
    let mut places = Vec::new();
    for number in 0..hosts {
        places.push(Place::start(&folder, format!("host-{number}"), &database).await?);
    }
    let apis = places.iter().map(|place| Api::of(&place.url)).collect::<Result<Vec<_>>>()?;
    register(&apis[0], &workflow("wait", "core.delay", json!({ "durationMs": 400 }))).await?;
    register(&apis[0], &workflow("slot", "core.noop", json!({}))).await?;
    let schedule = json!({ "workflowId": "slot", "cron": "* * * * * *", "overlap": "allow" });
    let made = apis[0].post("/v1/host/callboard/schedules", &schedule).send().await?;
    let made: serde_json::Value = made.json().await?;
    let schedule = made["id"].as_str().context("no schedule")?.to_owned();
    let feed = Feed::follow(&places[0].url).await?;

    let (over, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let callers = call(&apis, &over, &count);
    let (mut chance, mut met) = (Chance(seed | 1), BTreeMap::<Trouble, usize>::new());
    let until = Instant::now() + time;
    while Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(500 + chance.below(3_000))).await;
        let trouble = TROUBLES[usize::try_from(chance.below(TROUBLES.len() as u64))?];
        let whose = usize::try_from(chance.below(hosts))?;
        let happened = places[whose].meet(trouble, &folder, &mut database).await;
        happened.with_context(|| format!("seed {seed}: {trouble:?} of host {whose}"))?;
        *met.entry(trouble).or_default() += 1;
    }
    over.store(true, Ordering::Relaxed);
    let http = reqwest::Client::builder().no_proxy().build()?;
    let url = format!("{}/v1/host/callboard/schedules/{schedule}", places[0].url);
    ensure!(http.delete(url).bearer_auth(KEY).send().await?.status().is_success());
    let report = settle(&apis[0], callers, &feed).await.with_context(|| format!("seed {seed}"))?;
    stop_all(places, &folder)?;
    println!("{}", table(time, hosts, seed, &met, &report));
    Ok(())
}

/// What was found after it.
struct Report {
    runs: usize,
    taken_over: usize,
    slots: usize,
    events: usize,
}

async fn settle(
    api: &Api,
    mut callers: JoinSet<Result<Vec<String>>>,
    feed: &Feed,
) -> Result<Report> {
    let mut runs = Vec::new();
    while let Some(made) = callers.join_next().await {
        runs.extend(made??);
    }
    let mut taken_over = 0;
    for run in &runs {
        ensure!(finish(api, run).await? == "completed", "{run}");
        taken_over += usize::from(Story::of(api, run).await?.count("run.resumed") > 0);
    }
    let listed = runs_of(api, "wait").await?;
    ensure!(listed.len() == runs.len(), "{} runs for {} keys", listed.len(), runs.len());
    check_slots(api, crate::rolling::Gaps::WhileNobodyCould).await?;
    feed.check(api, runs.iter()).await?;
    let slots = runs_of(api, "slot").await?.len();
    Ok(Report { runs: runs.len(), taken_over, slots, events: feed.seen().len() })
}

/// Stops every host; nothing that one of them started is left.
fn stop_all(places: Vec<Place>, folder: &TempDir) -> Result<()> {
    for mut place in places {
        let ended = place.host.take().context("no host")?.stop("TERM")?;
        ensure!(ended.success(), "{} ended with {ended}", place.name);
    }
    let own = folder.path().to_string_lossy().into_owned();
    for process in std::fs::read_dir("/proc")?.flatten() {
        // Processes come and go while they are looked at.
        let command = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).into_owned();
        ensure!(!command.contains(&own), "left over: {command}");
    }
    Ok(())
}

fn table(
    time: Duration,
    hosts: u64,
    seed: u64,
    met: &BTreeMap<Trouble, usize>,
    report: &Report,
) -> String {
    let mut text = format!(
        "\n| what | count |\n|---|---|\n| minutes | {} |\n| hosts | {hosts} |\n| seed | {seed} |\n",
        time.as_secs() / 60
    );
    for (trouble, count) in met {
        text.push_str(&format!("| {trouble:?} | {count} |\n"));
    }
    text.push_str(&format!(
        "| runs acknowledged, each ended once, one for each key | {} |\n| of them taken over from a lost host | {} |\n\
         | slots of the schedule, one run each | {} |\n| events in the stream of everything, each once, in order | {} |\n",
        report.runs, report.taken_over, report.slots, report.events
    ));
    text
}
