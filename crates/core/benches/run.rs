//! What core costs: folding a log, deciding a run, and one more event on a short and on a long log.
//!
//! `cargo bench -p callboard-core`. The two `append` figures must be alike: a run's length must not
//! make its next event dearer.

#![expect(clippy::expect_used, reason = "a benchmark stops at the first surprise")]

use std::hint::black_box;
use std::sync::Arc;

use callboard_core::{Birth, Command, Confidence, Entry, Fact, Plan, Run, RunLimits};
use callboard_protocol::{ENGINE_VERSION, Object, Owner, Timestamp};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use serde_json::{Value, json};

fn workflow(types: &[&str]) -> Arc<Plan> {
    let nodes: Vec<Value> = types
        .iter()
        .enumerate()
        .map(|(place, kind)| {
            json!({ "id": format!("n{place}"), "typeId": kind, "name": "n", "config": {},
                "inputs": {}, "position": { "x": 0, "y": 0 } })
        })
        .collect();
    let edges: Vec<Value> = (1..types.len())
        .map(|place| {
            json!({ "id": format!("e{place}"), "sourceNodeId": format!("n{}", place - 1),
                "targetNodeId": format!("n{place}") })
        })
        .collect();
    let definition = json!({ "id": "w", "name": "w", "version": "1", "nodes": nodes,
        "edges": edges, "triggers": [], "variables": [], "metadata": {}, "settings": {} });
    Arc::new(Plan::parse(definition.to_string().as_bytes()).expect("a definition"))
}

fn birth() -> Arc<Birth> {
    Arc::new(Birth {
        run_id: "run-1".into(),
        workflow_id: "w".into(),
        definition: "digest".into(),
        owner: Owner { tenant: "t".into(), workspace: None, principal: None },
        test: false,
        inputs: Object::new(),
        configurable: Object::new(),
        tags: Vec::new(),
        metadata: None,
        scope_id: None,
        callback_url: None,
        created_at: now(),
        engine_version: ENGINE_VERSION,
        forced_engine_version: None,
        limits: RunLimits {
            node_executions: 100,
            duration_ms: 3_600_000,
            loop_iterations: 100,
            confidence_floor: Confidence::FLOOR,
            execution_model: 3,
            transcript_window: 100,
        },
        parent: None,
        unset: Vec::new(),
        fork: None,
        agents: std::collections::BTreeMap::new(),
        memory: callboard_core::MemoryBirth::default(),
        attribution: None,
        budget: None,
        charged_to: None,
        principal_scope: None,
        files: Vec::new(),
        stamp: None,
        delivery: None,
        from_outside: false,
        trace: None,
    })
}

fn now() -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000)
}

/// A run in the middle of a stream, and its log of this many events.
fn streaming(events: usize) -> (Run, Vec<Entry>) {
    let mut run = Run::new(birth(), workflow(&["core.ai.callPrompt"]));
    let mut log = run.decide(&Command::Start, now()).expect("starts");
    while log.len() < events {
        log.extend(tell(&mut run));
    }
    (run, log)
}

/// One more chunk.
fn tell(run: &mut Run) -> Vec<Entry> {
    let task = run.tasks().next().expect("a task");
    let fact = Fact::Chunk {
        index: task.facts_recorded,
        text: "a token".into(),
        is_last: false,
        meta: None,
    };
    let command = Command::RecordFacts { attempt: task.attempt, facts: vec![fact] };
    run.decide(&command, now()).expect("current")
}

fn fold(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("fold");
    for events in [10, 10_000] {
        let (run, log) = streaming(events);
        group.throughput(Throughput::Elements(events as u64));
        group.bench_function(format!("a log of {events} events"), |bencher| {
            bencher.iter(|| {
                Run::replay(Arc::clone(run.birth()), Arc::clone(run.plan()), black_box(&log))
            });
        });
    }
}

fn decide(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decide");
    for (name, plan) in
        [("a no-op run", workflow(&["core.noop"])), ("a chain of 10", workflow(&["core.noop"; 10]))]
    {
        let birth = birth();
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let mut run = Run::new(Arc::clone(&birth), Arc::clone(&plan));
                run.decide(black_box(&Command::Start), now()).expect("runs")
            });
        });
    }
}

fn append(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("append");
    for events in [10, 10_000] {
        let (run, _) = streaming(events);
        group.bench_function(format!("one more event to {events}"), |bencher| {
            bencher.iter_batched_ref(|| run.clone(), tell, BatchSize::SmallInput);
        });
    }
}

criterion_group!(benches, fold, decide, append);
criterion_main!(benches);
