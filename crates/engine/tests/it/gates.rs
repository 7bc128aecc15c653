//! Questions under crashes: an answer is recorded once or refused, never lost after it was taken, never doubled.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use callboard_core::{Refusal, Resolution, Via};
use callboard_engine::{Engine, EngineError, InMemoryStore, Recorded, Store};
use callboard_protocol::{Object, RunId};

use crate::sim::{
    DoomedStore, Fate, LEASE, SimClock, doomed_store, ended, host, open_questions, order, scope,
};
use crate::simulation::{Case, Hosts, case, check_log, edge, node, survives_everything};

/// Two hosts on one store, of which the first may meet its fate.
struct World {
    shared: Arc<InMemoryStore>,
    clock: Arc<SimClock>,
    definitions: [String; 1],
    doomed: Arc<DoomedStore>,
    first: Option<Engine>,
    second: Option<Engine>,
}

/// Whom the person talks to, while there is a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TalksTo {
    First,
    Second,
}

/// What the person learned, and under which names tries went out that nobody ever answered.
struct Learned {
    taken: Option<String>,
    unheard: BTreeSet<String>,
}

impl World {
    fn new(case: &Case, fate: Fate, hosts: Hosts) -> Self {
        let shared = Arc::new(InMemoryStore::default());
        let clock = SimClock::new();
        let definitions = [case.source.clone()];
        let doomed = doomed_store(shared.clone(), fate);
        let first = host("first", doomed.clone(), clock.clone(), &definitions);
        let mut world =
            Self { shared, clock, definitions, doomed, first: Some(first), second: None };
        if hosts == Hosts::Two {
            world.start_second();
        }
        world
    }

    fn start_second(&mut self) {
        let living = doomed_store(self.shared.clone(), Fate::Live);
        let second = host("second", living, self.clock.clone(), &self.definitions);
        self.second.get_or_insert(second);
    }

    /// The first host is dead; somebody starts another one.
    fn bury_first(&mut self) {
        if let Some(first) = self.first.take() {
            first.kill();
        }
        if self.second.is_none() {
            self.start_second();
        }
    }

    /// A host to talk to, and whether it is the one that may die.
    fn somebody(&self, talks_to: TalksTo) -> (Engine, bool) {
        match (&self.first, &self.second, talks_to) {
            (Some(first), None, _) | (Some(first), Some(_), TalksTo::First) => {
                (first.clone(), true)
            }
            (_, Some(second), _) => (second.clone(), false),
            (None, None, _) => panic!("no host is left"),
        }
    }

    /// Waits until the run asks something.
    async fn asked(&mut self, run: &RunId) {
        while open_questions(&self.shared).await.is_empty() {
            let found = self.shared.find(&scope(), run).await.unwrap().unwrap();
            let shared = self.shared.clone();
            let doomed = self.doomed.clone();
            tokio::select! {
                () = shared.changed(run, found.version) => {}
                () = doomed.died.notified() => self.bury_first(),
            }
        }
    }

    /// One person answers until somebody says yes or no. Every try goes out under a name of its own.
    async fn answer(&mut self, run: &RunId, person: &str, talks_to: TalksTo) -> Learned {
        let mut learned = Learned { taken: None, unheard: BTreeSet::new() };
        for number in 0.. {
            let name = format!("{person}-{number}");
            let (engine, may_die) = self.somebody(talks_to);
            let resolution = Resolution {
                node: "gate".into(),
                value: json!({ "action": "accept" }),
                by: Some(name.as_str().into()),
                via: Via::Key,
            };
            let scope = scope();
            let sent = engine.resolve(&scope, run, resolution, None);
            let doomed = self.doomed.clone();
            let reply = tokio::select! {
                reply = sent => reply,
                () = doomed.died.notified() => {
                    self.bury_first();
                    // Whoever talked to the other host is still being answered there, but asks again all the same.
                    learned.unheard.insert(name);
                    continue;
                }
            };
            match reply {
                Ok(_) => {
                    learned.taken = Some(name);
                    return learned;
                }
                Err(EngineError::Refused(
                    Refusal::AlreadyResolved { .. } | Refusal::Ended { .. },
                )) => return learned,
                Err(error) => panic!("{error} (a host that {may_die} die)"),
            }
        }
        learned
    }

    /// The log of the run once it has ended, whoever must die before that.
    async fn end_of(&mut self, run: &RunId) -> Vec<Recorded> {
        let (shared, doomed) = (self.shared.clone(), self.doomed.clone());
        tokio::select! {
            log = ended(&shared, run) => return log,
            () = doomed.died.notified() => self.bury_first(),
        }
        ended(&shared, run).await
    }
}

fn payloads(log: &[Recorded], kind: &str) -> Vec<Value> {
    let told = log.iter().filter(|event| event.kind == kind);
    told.map(|event| serde_json::from_str(&event.payload).unwrap()).collect()
}

/// Asks, answers and ends under a fate; answers how often the first host appended.
async fn decide_once(case: &Case, fate: Fate, hosts: Hosts, talks_to: TalksTo) -> u64 {
    let what = format!("{} with {fate:?}, {hosts:?}, talking to {talks_to:?}", case.name);
    let mut world = World::new(case, fate, hosts);
    let (first, _) = world.somebody(TalksTo::First);
    let run =
        first.create(order(&case.name, Object::new(), Object::new()), None).await.unwrap().run;
    drop(first);
    world.asked(&run).await;
    let learned = world.answer(&run, "ann", talks_to).await;
    let log = world.end_of(&run).await;
    // A host that overslept wakes up now; what it tries must come to nothing.
    tokio::time::sleep(LEASE * 4).await;
    assert_eq!(log, ended(&world.shared, &run).await, "{what}: the log of an ended run grew");
    check_log(case, &run, &log);
    assert_eq!(log.last().unwrap().kind, "run.completed", "{what}");
    // F36: whatever died, the question is asked once.
    for kind in ["interrupt.requested", "approval.received", "interrupt.resolved", "node.resumed"] {
        assert_eq!(payloads(&log, kind).len(), 1, "{what}: {kind}");
    }
    let decided_by =
        payloads(&log, "approval.received")[0]["decidedBy"].as_str().unwrap().to_owned();
    match &learned.taken {
        Some(name) => assert_eq!(decided_by, *name, "{what}: an answer that was taken is lost"),
        None => assert!(learned.unheard.contains(&decided_by), "{what}: {decided_by} was refused"),
    }
    assert_eq!(open_questions(&world.shared).await, [""; 0], "{what}");
    world.doomed.appends()
}

fn fates(ordinal: u64) -> [Fate; 3] {
    [Fate::DieBefore(ordinal), Fate::DieAfter(ordinal), Fate::Oversleep(ordinal)]
}

fn gate(name: &str, config: Value) -> Case {
    case(
        name,
        json!([
            node("before", "core.delay", json!({ "ms": 1_000 })),
            node("gate", "core.approvalGate", config),
            node("beside", "core.delay", json!({ "ms": 5_000 })),
            node("after", "core.delay", json!({ "ms": 1_000 })),
        ]),
        json!([edge("before", "gate"), edge("gate", "after"), edge("beside", "after")]),
        json!({}),
    )
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_meets_a_crash_is_recorded_once_or_refused() {
    let case = gate("gate", json!({}));
    let appends = decide_once(&case, Fate::Live, Hosts::OneAfterTheOther, TalksTo::First).await;
    for fate in (1..=appends).flat_map(fates) {
        decide_once(&case, fate, Hosts::OneAfterTheOther, TalksTo::First).await;
        decide_once(&case, fate, Hosts::Two, TalksTo::First).await;
        decide_once(&case, fate, Hosts::Two, TalksTo::Second).await;
    }
}

/// F40, F36: nobody answers; the deadline holds whoever dies, and the question is asked once.
#[tokio::test(start_paused = true)]
async fn a_deadline_survives_a_crash_at_any_append() {
    // Short enough to be sat out in memory, and long enough to be left to the queue.
    for timeout in [5_000, 300_000] {
        survives_everything(&gate(&format!("late-{timeout}"), json!({ "timeoutMs": timeout })))
            .await;
    }
}

/// A conversation is neither begun twice nor lost, whether it answers itself or nobody does.
#[tokio::test(start_paused = true)]
async fn a_conversation_survives_a_crash_at_any_append() {
    for config in [json!({ "mockAutoResume": true, "turnCount": 2 }), json!({ "timeoutMs": 5_000 })]
    {
        let nodes = json!([
            node("before", "core.delay", json!({ "ms": 1_000 })),
            node("talk", "core.conversationGate", config),
            node("after", "core.delay", json!({ "ms": 1_000 })),
        ]);
        let edges = json!([edge("before", "talk"), edge("talk", "after")]);
        survives_everything(&case("conformance-talk", nodes, edges, json!({}))).await;
    }
}

/// F40: a restart neither forgets nor extends a deadline.
#[tokio::test(start_paused = true)]
async fn a_deadline_is_kept_to_the_moment_across_a_restart() {
    let case = gate("late", json!({ "timeoutMs": 600_000 }));
    let mut world = World::new(&case, Fate::Live, Hosts::OneAfterTheOther);
    let (first, _) = world.somebody(TalksTo::First);
    let run = first.create(order("late", Object::new(), Object::new()), None).await.unwrap().run;
    drop(first);
    world.asked(&run).await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    world.bury_first();
    let log = world.end_of(&run).await;
    let at = |kind: &str| log.iter().find(|event| event.kind == kind).unwrap().at;
    let waited = at("approval.received").since(at("interrupt.requested"));
    assert_eq!(waited.as_secs(), 600);
    assert_eq!(payloads(&log, "approval.received")[0]["action"], "timeout");
    assert_eq!(payloads(&log, "interrupt.requested").len(), 1);
}

/// F34: of several who must decide, each counts once, however often a dying host makes them repeat themselves.
#[tokio::test(start_paused = true)]
async fn a_vote_that_meets_a_crash_counts_once() {
    let case = gate("quorum", json!({ "requiredApprovals": 2 }));
    let vote = |name: &str| Resolution {
        node: "gate".into(),
        value: json!({ "action": "accept" }),
        by: Some(name.into()),
        via: Via::Key,
    };
    for fate in (1..=6).flat_map(fates) {
        let mut world = World::new(&case, fate, Hosts::Two);
        let (first, _) = world.somebody(TalksTo::First);
        let run =
            first.create(order("quorum", Object::new(), Object::new()), None).await.unwrap().run;
        drop(first);
        world.asked(&run).await;
        for name in ["ann", "ann", "bob"] {
            assert_eq!(open_questions(&world.shared).await, ["gate"], "{fate:?} before {name}");
            let (engine, _) = world.somebody(TalksTo::First);
            let (scope, doomed) = (scope(), world.doomed.clone());
            let told = tokio::select! {
                told = engine.resolve(&scope, &run, vote(name), None) => told.map(drop),
                () = doomed.died.notified() => {
                    world.bury_first();
                    let (engine, _) = world.somebody(TalksTo::Second);
                    engine.resolve(&scope, &run, vote(name), None).await.map(drop)
                }
            };
            // The vote that was lost with its host may have been the one that settled it.
            let is_settled = matches!(
                told,
                Err(EngineError::Refused(Refusal::AlreadyResolved { .. } | Refusal::Ended { .. }))
            );
            assert!(told.is_ok() || (name == "bob" && is_settled), "{fate:?} {name}: {told:?}");
        }
        let log = world.end_of(&run).await;
        let received = payloads(&log, "approval.received");
        assert_eq!(received.len(), 1, "{fate:?}");
        assert_eq!(received[0]["decidedBy"], "bob", "{fate:?}");
    }
}
