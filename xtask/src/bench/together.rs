//! The cost of memory and fan-outs: reads, snapshots and fan-outs, each compared with a smaller one.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::definitions::NOOP;
use super::load::{self, percentile};
use super::measure::{KEY, run_of};
use super::watch;
use crate::say;
use crate::wire::{Connection, Request};

/// Entries that one run of each writes.
const FEW: (&str, usize) = ("bench-notes-few", 100);
const MANY: (&str, usize) = ("bench-notes-many", 1_000);
/// Writes once and reads; what it saw is what a fork must see again.
const LOOK: &str = "bench-look";
/// Workers that a supervisor gives work to at once.
const CREWS: [(&str, usize); 2] = [("bench-crew-10", 10), ("bench-crew-100", 100)];
/// Requests of a kind; their median counts.
const TIMES: usize = 200;

/// Pairs of what is compared, the smaller first.
#[derive(Debug, Default, Clone)]
pub(crate) struct Together {
    /// Entries under the reference with the most of them.
    pub(crate) entries: usize,
    pub(crate) read: [Duration; 2],
    /// A fork of one run, with few logs in the database and with all of the benchmark's.
    pub(crate) fork: [Duration; 2],
    pub(crate) fan_out: [Duration; 2],
    looked: String,
}

/// Each may take half a minute.
const MOST_POLLS: u32 = 10;

impl Together {
    /// Before anything else was written.
    pub(crate) async fn begin(address: SocketAddr) -> Result<Self> {
        for definition in definitions() {
            let request = Request::post("/v1/host/callboard/workflows", &definition).bearer(KEY);
            let answer = Connection::open(address).await?.send(&request).await?;
            ensure!(matches!(answer.status, 200 | 201), "{}: {}", answer.status, answer.text());
        }
        load::drive(address, &run_of(LOOK), 1, 1).await?;
        let looked = watch::create(address, LOOK).await?;
        let path = format!("/v1/runs/{looked}/events/poll?timeout=60&lastSequence=1000000000");
        let over = Request::get(path).bearer(KEY);
        let mut connection = Connection::open(address).await?;
        let mut polls = 0;
        while connection.send(&over).await?.json()?["isTerminal"] != true {
            polls += 1;
            ensure!(polls < MOST_POLLS, "{looked} does not end");
        }
        let mut together = Self { looked, ..Self::default() };
        together.fork[0] = together.time_forks(address).await?;
        Ok(together)
    }

    /// After everything else; `fills` runs of a thousand entries each.
    pub(crate) async fn end(&mut self, address: SocketAddr, fills: usize) -> Result<()> {
        say::line("memory of agents, fan-out");
        self.fork[1] = self.time_forks(address).await?;
        load::drive(address, &run_of(FEW.0), 1, 1).await?;
        load::drive(address, &run_of(MANY.0), 8, fills).await?;
        self.entries = fills * MANY.1;
        for (place, (name, _)) in [FEW, MANY].into_iter().enumerate() {
            self.read[place] = time_reads(address, name).await?;
        }
        for (place, (name, workers)) in CREWS.into_iter().enumerate() {
            let sample = load::drive(address, &run_of(name), 1, TIMES / workers).await?;
            self.fan_out[place] = percentile(&sample.ends, 0.5);
        }
        Ok(())
    }

    async fn time_forks(&self, address: SocketAddr) -> Result<Duration> {
        let mut connection = Connection::open(address).await?;
        let body = json!({ "mode": "branch", "fromSeq": 1 });
        let path = format!("/v1/runs/{}:fork", self.looked);
        let fork = Request::post(path, &body).bearer(KEY).render();
        let mut times = Vec::new();
        for _ in 0..TIMES {
            let started = Instant::now();
            let answer = connection.send_bytes(&fork).await?;
            ensure!(answer.status == 201, "{}: {}", answer.status, answer.text());
            times.push(started.elapsed());
        }
        times.sort();
        Ok(percentile(&times, 0.5))
    }
}

async fn time_reads(address: SocketAddr, name: &str) -> Result<Duration> {
    let mut connection = Connection::open(address).await?;
    let path = format!("/v1/host/callboard/memory?scopeId={name}&limit=20");
    let read = Request::get(path).bearer(KEY).render();
    let mut times = Vec::new();
    for _ in 0..TIMES {
        let started = Instant::now();
        let answer = connection.send_bytes(&read).await?;
        ensure!(answer.status == 200, "{}: {}", answer.status, answer.text());
        times.push(started.elapsed());
    }
    let page = connection.send_bytes(&read).await?.json()?;
    let found = page["entries"].as_array().context("no entries")?.len();
    ensure!(found == 20, "{name} holds {found} entries");
    times.sort();
    Ok(percentile(&times, 0.5))
}

fn definitions() -> Vec<Value> {
    let mut all = vec![notes(FEW), notes(MANY), look()];
    all.extend(CREWS.map(crew));
    all
}

fn node(id: &str, type_id: &str, config: &Value) -> Value {
    json!({ "id": id, "typeId": type_id, "name": id, "position": { "x": 0, "y": 0 },
        "config": config, "inputs": {} })
}

fn edge(from: &str, to: &str) -> Value {
    json!({ "id": format!("{from}-{to}"), "sourceNodeId": from, "targetNodeId": to })
}

fn definition(id: &str, nodes: &[Value], edges: &[Value]) -> Value {
    json!({ "id": id, "name": id, "version": "1.0", "nodes": nodes, "edges": edges,
        "triggers": [], "variables": [], "metadata": {}, "settings": {} })
}

/// Its entries expire one day, so that they are not consolidated while they are counted.
fn write(memory_ref: &str) -> Value {
    let config = json!({ "memoryAction": "write", "memoryRef": memory_ref,
        "content": "the invoice of Müller is paid", "ttlSeconds": 86_400 });
    node("write", "core.identity", &config)
}

fn notes((id, count): (&str, usize)) -> Value {
    let each = node("each", "core.loop", &json!({ "count": count }));
    let edges = [edge("each", "write"), edge("write", "each")];
    let mut notes = definition(id, &[each, write(id)], &edges);
    notes["settings"]["maxLoopbackIterations"] = (count + 1).into();
    notes
}

fn look() -> Value {
    let list = node("list", "core.identity", &json!({ "memoryAction": "list", "memoryRef": LOOK }));
    definition(LOOK, &[write(LOOK), list], &[edge("write", "list")])
}

fn crew((id, workers): (&str, usize)) -> Value {
    let decision = json!({ "kind": "next-worker", "nextWorkerIds": vec![NOOP; workers] });
    let plan = json!({ "mockDispatchPlan": [decision] });
    let boss = node("boss", "core.orchestrator.supervisor", &plan);
    let work = node("work", "core.dispatch", &json!({ "fanOutPolicy": "parallel" }));
    definition(id, &[boss, work], &[edge("boss", "work")])
}
