//! Retries on a whole engine: with the newest definition, within the visit of an agent, and what is refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_core::{AgentFact, Fact, Outcome, RetryClass, RetryRefusal};
use callboard_engine::{
    Activities, Activity, Call, CallFailure, DryRun, Effect, Engine, EngineError, InMemoryStore,
    KeyMode, OnUnknown, OnceError, RetriedOnce, RetryDefinition, RetryOrder, Scope,
};
use callboard_protocol::{Failure, Object, Owner, ProviderUsage, RunId};

use crate::sim::{Fate, SimClock, doomed_store, ended, host_with, scope};
use crate::simulation::node;
use crate::world::{outputs, start, workflow};

fn owner() -> Owner {
    Owner { tenant: scope().tenant, workspace: None, principal: None }
}

fn retry_of(source: &RunId) -> RetryOrder {
    RetryOrder {
        source: source.clone(),
        from: None,
        definition: RetryDefinition::Pinned,
        inputs: Object::new(),
        owner: owner(),
        key_mode: KeyMode::Live,
    }
}

fn newest(source: &RunId) -> RetryOrder {
    RetryOrder { definition: RetryDefinition::Newest, ..retry_of(source) }
}

/// An agent's work: one call that is answered, then one whose provider is down the first time.
#[derive(Debug, Default)]
struct TwoCalls {
    asked: [AtomicUsize; 2],
}

#[async_trait]
impl Activity for TwoCalls {
    async fn perform(&self, call: Call) -> Outcome {
        for index in 0..2_u32 {
            let counted = &self.asked[index as usize];
            let effect = Effect {
                index,
                provider: "model",
                request: &json!(index),
                on_unknown: OnUnknown::Repeat,
                is_recorded: call.outcomes.used > index,
            };
            let make = |_| async move {
                let is_down = counted.fetch_add(1, Ordering::Relaxed) == 0 && index == 1;
                if is_down {
                    let failure = Failure::new("service_unavailable", "down");
                    return Err(CallFailure { failure, class: RetryClass::Final });
                }
                Ok(json!("said"))
            };
            match call.once(effect, make).await {
                Ok(_) => {}
                Err(OnceError::Superseded) => return Outcome::Done { outputs: Object::new() },
                Err(OnceError::Ended(outcome)) => return outcome,
            }
            let usage =
                json!({ "provider": "p", "model": "m", "inputTokens": 1, "outputTokens": 1 });
            let usage: ProviderUsage = serde_json::from_value(usage).unwrap();
            let fact = AgentFact::Used(usage);
            if call.record(vec![Fact::Agent { place: index, fact }]).await.is_err() {
                return Outcome::Done { outputs: Object::new() };
            }
        }
        Outcome::Done { outputs: Object::from_iter([("said".to_owned(), json!(2))]) }
    }
}

fn engine(definitions: &[Value], activities: Activities) -> (Engine, Arc<InMemoryStore>) {
    let store = Arc::new(InMemoryStore::default());
    let living = doomed_store(store.clone(), Fate::Live);
    let definitions: Vec<String> = definitions.iter().map(Value::to_string).collect();
    let engine =
        host_with("host", living, store.clone(), SimClock::new(), &definitions, activities);
    (engine, store)
}

async fn retry(engine: &Engine, order: RetryOrder) -> RunId {
    let planned = engine.plan_retry(&scope(), order).await.unwrap();
    engine.retry(planned, None).await.unwrap().run
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_answered_is_not_paid_for_again() {
    let calls = Arc::new(TwoCalls::default());
    let activities = Activities::default().with("test.agent", calls.clone());
    let talks = workflow("talks", &[node("talk", "test.agent", json!({}))]);
    let (engine, store) = engine(&[talks], activities);
    let source = start(&engine, "talks").await;
    assert_eq!(ended(&store, &source).await.last().unwrap().kind, "run.failed");
    let run = retry(&engine, retry_of(&source)).await;
    let log = ended(&store, &run).await;
    assert_eq!(log.last().unwrap().kind, "run.completed", "{log:#?}");
    let asked = calls.asked.each_ref().map(|count| count.load(Ordering::Relaxed));
    assert_eq!(asked, [1, 2], "the first call was answered in the past of the retry");
    let used = log.iter().filter(|event| event.kind == "provider.usage").count();
    assert_eq!(used, 2, "both calls are told once: {log:#?}");
    engine.kill();
}

async fn register(engine: &Engine, definition: &Value) {
    let text = definition.to_string();
    let at = engine.clock().now();
    engine.catalog().register(&owner(), KeyMode::Live, text.as_bytes(), at).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_newest_definition_mends_a_run() {
    let (engine, store) = engine(&[], Activities::default());
    let kept = node("kept", "core.identity", json!({}));
    let broken =
        workflow("mended", &[kept.clone(), node("step", "core.fail", json!({ "code": "bad" }))]);
    register(&engine, &broken).await;
    let source = start(&engine, "mended").await;
    let before = ended(&store, &source).await;
    assert_eq!(before.last().unwrap().kind, "run.failed");
    let mut again = ended(&store, &retry(&engine, retry_of(&source)).await).await;
    assert_eq!(again.pop().unwrap().kind, "run.failed", "the pinned definition fails again");

    let mut fixed = workflow("mended", &[kept, node("step", "core.identity", json!({}))]);
    fixed["nodes"][1]["inputs"] = json!({ "said": { "type": "variable", "variableName": "word" } });
    fixed["variables"] = json!([{ "name": "word", "type": "string", "defaultValue": "none" }]);
    register(&engine, &fixed).await;
    let inputs = Object::from_iter([("word".to_owned(), json!("new"))]);
    let run = retry(&engine, RetryOrder { inputs, ..newest(&source) }).await;
    let log = ended(&store, &run).await;
    assert_eq!(log.last().unwrap().kind, "run.completed", "{log:#?}");
    assert_eq!(outputs(&log, "step"), json!({ "said": "new" }));
    let is_kept = |event: &&callboard_engine::Recorded| {
        event.kind == "node.started" && event.node.as_ref().is_some_and(|it| it.as_str() == "kept")
    };
    assert_eq!(log.iter().filter(is_kept).count(), 1, "it is not done again");
    assert_eq!(ended(&store, &source).await, before, "the source is only read");

    engine.catalog().remove(&scope(), &"mended".into()).await.unwrap();
    let refused = engine.plan_retry(&scope(), newest(&source)).await;
    assert!(matches!(refused, Err(EngineError::DefinitionGone { .. })), "{refused:?}");
    engine.plan_retry(&scope(), retry_of(&source)).await.expect("its own definition is kept");
    engine.kill();
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_retried_is_refused() {
    let waits = workflow("waits", &[node("gate", "core.approvalGate", json!({ "title": "?" }))]);
    let short = workflow("short", &[node("a", "core.noop", json!({}))]);
    let (engine, store) = engine(&[waits, short], Activities::default());
    let waiting = start(&engine, "waits").await;
    let done = start(&engine, "short").await;
    ended(&store, &done).await;
    for (run, expected) in
        [(waiting, RetryRefusal::NotEnded), (done.clone(), RetryRefusal::Completed)]
    {
        match engine.plan_retry(&scope(), retry_of(&run)).await {
            Err(EngineError::NotRetryable { refusal, .. }) => assert_eq!(refusal, expected),
            other => panic!("{other:?}"),
        }
    }
    let foreign = Scope { tenant: "other".into(), ..scope() };
    let unknown = RunId::from("run_none");
    for (scope, run) in [(&foreign, &done), (&scope(), &unknown)] {
        let planned = engine.plan_retry(scope, retry_of(run)).await;
        assert!(matches!(planned, Err(EngineError::UnknownRun(_))), "{planned:?}");
        let once = engine.retry_once(scope, retry_of(run), DryRun::Yes).await;
        assert!(matches!(once, Err(EngineError::UnknownRun(_))), "{once:?}");
    }
    engine.kill();
}

#[tokio::test(start_paused = true)]
async fn among_many_a_run_is_retried_once() {
    let fails = workflow("fails", &[node("a", "core.fail", json!({}))]);
    let (engine, store) = engine(&[fails], Activities::default());
    let source = start(&engine, "fails").await;
    ended(&store, &source).await;
    let ask = async |dry| engine.retry_once(&scope(), retry_of(&source), dry).await.unwrap();
    assert!(matches!(ask(DryRun::Yes).await, RetriedOnce::Planned(_)));
    let RetriedOnce::Made { run, nodes, .. } = ask(DryRun::No).await else { panic!("not made") };
    assert_eq!(nodes, ["a".into()]);
    for dry in [DryRun::No, DryRun::Yes] {
        assert!(matches!(ask(dry).await, RetriedOnce::Before(before) if before == run));
    }
    engine.kill();
}
