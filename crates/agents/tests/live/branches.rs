//! A branch from any event of an agent's work: what is in its past is kept, what is done anew is told and paid for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use callboard_agents::{ModelRequest, Turn};
use callboard_engine::{Engine, Recorded};
use callboard_protocol::{ForkMode, RunId};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::fates::fork;
use crate::given::{
    Said, World, agent_order, calls, offered, outputs, payload, results, says, task, told,
};
use crate::order::{Case, assert_ended, assert_silent, brackets, cases, follow, said, settled};
use crate::sim::{Fate, ended};

/// A world that counts the turns which its model has answered.
struct Counted {
    world: World,
    answered: Arc<AtomicUsize>,
}

/// What was really done so far: turns of the model, uses of tools.
type Done = (usize, usize);

impl Counted {
    async fn new(script: impl Fn(&ModelRequest) -> Said + Send + Sync + 'static) -> Self {
        let answered = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&answered);
        let script = move |request: &ModelRequest| {
            let said = script(request);
            counter.fetch_add(usize::from(said.is_answer()), Ordering::Relaxed);
            said
        };
        Self { world: World::of(script, remembers).await, answered }
    }

    fn done(&self) -> Done {
        let used = self.world.made.lock().unwrap().len();
        (self.answered.load(Ordering::Relaxed), used)
    }

    fn host(&self, name: &str) -> Engine {
        self.world.host(name, Arc::clone(&self.world.store) as _)
    }
}

/// What the agent comes to is remembered before its invocation ends.
fn remembers(agent: &mut Value) {
    agent["memoryShape"] = json!({ "longTerm": true });
    let tools = agent["toolAllowlist"].as_array_mut().unwrap();
    tools.push(json!("openwop:core.memory.save"));
}

/// What events tell that was done.
fn shown(events: &[Recorded]) -> Done {
    let returned = told(events, "agent.toolReturned");
    let used = returned.iter().filter(|told| told.get("durationMs").is_some()).count();
    (told(events, "provider.usage").len(), used)
}

/// Three turns with three tools between them, the second of which remembers something.
fn work(request: &ModelRequest) -> Said {
    let turn = match results(request) {
        0 => {
            let count = (&*offered(request, "count"), json!({ "n": 1 }));
            calls(request, &[count, (&offered(request, "memory"), json!({ "content": "smoke" }))])
        }
        2 => calls(request, &[(&offered(request, "post"), json!({ "n": 2 }))]),
        _ => Turn { thinking: "let me see".to_owned(), ..says(r#"{"queue":"fire"}"#) },
    };
    Ok(turn).into()
}

/// Branches from `from` and checks all that must be true of what comes of it. Answers its log.
async fn branch(counted: &Counted, host: &Engine, source: &[Recorded], from: u64) -> Vec<Recorded> {
    let before = counted.done();
    let run = fork(host, &source[0].run, from, ForkMode::Branch).await;
    let log = ended(&counted.world.store, &run).await;
    let own = &log[usize::try_from(from).unwrap()..];
    let after = counted.done();
    let made = (after.0 - before.0, after.1 - before.1);
    // The tool of the test suite counts its uses; what remembers something does not.
    let remembered = told(own, "agent.toolReturned");
    let remembered = remembered.iter().filter(|told| told["toolName"] == MEMORY).count();
    let (turns, used) = shown(own);
    assert_eq!(made, (turns, used - remembered), "at {from}: {:?}", crate::given::kinds(own));
    for bracket in brackets(&log) {
        follow(&bracket, false);
    }
    // However it was come by, the story is told once: the past and what was done anew add up to the whole.
    assert_eq!(shown(&log), shown(source), "at {from}");
    assert_eq!(told(&log, "memory.written").len(), told(source, "memory.written").len());
    assert_eq!(outputs(&log), outputs(source), "at {from}");
    log
}

const MEMORY: &str = "openwop:core.memory.save";

#[tokio::test(start_paused = true)]
async fn what_is_past_is_kept_and_what_is_done_anew_is_told() {
    let counted = Counted::new(work).await;
    let host = counted.host("host");
    let run = host.create(agent_order(task(), json!({})), None).await.unwrap().run;
    let source = ended(&counted.world.store, &run).await;
    assert_eq!(counted.done(), (3, 2));
    assert_eq!(shown(&source), (3, 3));
    let mut costs = Vec::new();
    for from in 1..source.len() as u64 {
        let before = counted.done();
        let log = branch(&counted, &host, &source, from).await;
        let after = counted.done();
        costs.push(after.0 - before.0);
        // Branches of the branch, from the history that it took over and from its own.
        for again in [from.saturating_sub(3).max(1), from, from + 1, from + 6] {
            if again < log.len() as u64 {
                branch(&counted, &host, &log, again).await;
            }
        }
    }
    // The later the branch, the less is asked anew: from all three turns to none.
    assert!(costs.is_sorted_by(|a, b| a >= b), "{costs:?}");
    assert_eq!((costs[0], costs[costs.len() - 1]), (3, 0));
}

async fn play(case: &Case, place: usize) -> (World, Vec<Recorded>, Done, usize) {
    let (steps, turns) = (case.steps.clone(), AtomicUsize::new(0));
    let script = move |request: &ModelRequest| {
        said(steps.get(turns.fetch_add(1, Ordering::Relaxed)), request)
    };
    let counted = Counted::new(script).await;
    let host = counted.host("host");
    let order = agent_order(json!({ "text": crate::order::SAID }), json!({}));
    let run: RunId = host.create(order, None).await.unwrap().run;
    let source = settled(&counted.world, &host, &run, case).await;
    let from = 1 + place % (source.len() - 1);
    let before = counted.done();
    let branch = fork(&host, &run, from as u64, ForkMode::Branch).await;
    let log = settled(&counted.world, &host, &branch, case).await;
    let after = counted.done();
    (counted.world, log, (after.0 - before.0, after.1 - before.1), from)
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None, cases: 200, ..ProptestConfig::default()
    })]

    /// A-50 for branches: whatever a model does, and wherever its work is left.
    #[test]
    fn a_branch_tells_what_it_does_and_keeps_the_order(case in cases(), place in 0..80_usize) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let case = Case { fate: Fate::Live, cancel: None, ..case };
        let (_world, log, done, from) = runtime.block_on(play(&case, place));
        prop_assert_eq!(done, shown(&log[from..]), "from {}", from);
        let brackets = brackets(&log);
        brackets.iter().for_each(|bracket| follow(bracket, false));
        log.iter().for_each(assert_silent);
        if let Some(last) = brackets.last() {
            assert_ended(&log, last);
        }
        let asked = log.iter().filter(|event| event.kind == "agent.toolCalled").map(payload);
        let asked = asked.map(|told| told["callId"].clone()).collect::<Vec<_>>();
        let returned = told(&log, "agent.toolReturned");
        let returned = returned.iter().map(|told| told["callId"].clone()).collect::<Vec<_>>();
        prop_assert_eq!(asked, returned);
    }
}
