//! Runs: created once, claimed, renewed, given back, asked and answered.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_core::{Outcome, Resolution, RetryClass, Via};
use callboard_engine::{
    Activities, Activity, Call, CallFailure, Effect, Filter, InboxFilter, Kind, OnUnknown, Once,
    OnceError, Record, RecordQuery, RetentionPolicy, RetentionRule, Store, Sweeper, Within,
};
use callboard_protocol::{Failure, Object};

use super::scenario::{Host, Scenario, runs, seconds};
use crate::roster::noop;
use crate::sim::{order, scope};
use crate::simulation::node;
use crate::world::workflow;

/// One that is driven for longer than a lease, one that waits so long that it is given back, one with a child, and one
/// that a person answers.
pub(super) struct Runs;

#[async_trait(?Send)]
impl Scenario for Runs {
    fn definitions(&self) -> Vec<String> {
        let all = [
            workflow("short", &[node("a", "core.delay", json!({ "ms": 2_500 }))]),
            workflow("long", &[node("a", "core.delay", json!({ "ms": 20_000 }))]),
            workflow("parent", &[node("a", "core.subWorkflow", json!({ "workflowId": "short" }))]),
            workflow("asks", &[node("a", "core.approvalGate", json!({ "title": "Ship it?" }))]),
        ];
        all.iter().map(Value::to_string).collect()
    }

    fn steps(&self) -> usize {
        6
    }

    async fn act(&self, host: &Host, step: usize) {
        let create = async |workflow: &str| {
            let order = order(workflow, Object::new(), Object::new());
            host.once(workflow, async |remember| host.engine.create(order, Some(remember)).await)
                .await
        };
        match step {
            0 => drop(create("short").await),
            1 => drop(create("long").await),
            2 => drop(create("parent").await),
            3 => drop(create("asks").await),
            4 => host.rest(1).await,
            _ => answer(host).await,
        }
    }

    fn settles_in(&self) -> Duration {
        Duration::from_secs(60)
    }

    async fn observe(&self, store: Arc<dyn Store>) -> Value {
        runs(&*store).await
    }
}

/// Approves as soon as somebody is asked.
async fn answer(host: &Host) {
    let filter = Filter { workflow: Some("asks".into()), limit: 1, ..Filter::default() };
    let run = host.store.list(&scope(), &filter).await.unwrap().remove(0).run_id;
    loop {
        let asked = InboxFilter { run: Some(run.clone()), limit: 1, ..InboxFilter::default() };
        if !host.store.inbox(&scope(), &asked).await.unwrap().is_empty() {
            break;
        }
        if host.store.find(&scope(), &run).await.unwrap().unwrap().status.is_terminal() {
            return;
        }
        host.rest(1).await;
    }
    let value = json!({ "action": "accept" });
    let resolution = Resolution { node: "a".into(), value, by: None, via: Via::Key };
    host.once("approve", async |remember| {
        host.engine.resolve(&scope(), &run, resolution, Some(remember)).await
    })
    .await;
}

/// Outward calls, of which the first comes to nothing and is made again.
pub(super) struct OutwardCalls;

#[derive(Debug)]
struct Caller;

#[async_trait]
impl Activity for Caller {
    async fn perform(&self, call: Call) -> Outcome {
        let is_first = call.attempt.number < 2;
        for index in 0..2 {
            let effect = Effect {
                index,
                provider: "mail",
                request: &json!(index),
                on_unknown: OnUnknown::Repeat,
                is_recorded: false,
            };
            let call = &call;
            let make = |once: Once| async move {
                call.dispatch(&once, 0, Some(once.id.as_str())).await?;
                match is_first && index == 1 {
                    true => Err(CallFailure {
                        failure: Failure::new("busy", "not now"),
                        class: RetryClass::Retryable,
                    }),
                    false => Ok(json!("sent")),
                }
            };
            match call.once(effect, make).await {
                Ok(_) | Err(OnceError::Superseded) => {}
                Err(OnceError::Ended(outcome)) => return outcome,
            }
        }
        Outcome::Done { outputs: Object::from_iter([("sent".to_owned(), json!(2))]) }
    }
}

#[async_trait(?Send)]
impl Scenario for OutwardCalls {
    fn definitions(&self) -> Vec<String> {
        let mut calls = workflow("calls", &[node("a", "test.caller", json!({}))]);
        calls["settings"] = json!({ "maxRetries": 9 });
        vec![calls.to_string()]
    }

    fn activities(&self, _: &Arc<dyn Store>) -> Activities {
        Activities::default().with("test.caller", Arc::new(Caller))
    }

    fn steps(&self) -> usize {
        1
    }

    async fn act(&self, host: &Host, _: usize) {
        let order = order("calls", Object::new(), Object::new());
        let create = async |remember| host.engine.create(order, Some(remember)).await;
        host.once("calls", create).await;
    }

    async fn observe(&self, store: Arc<dyn Store>) -> Value {
        // How often it was tried differs; what came of it does not.
        let filter = Filter { limit: 9, ..Filter::default() };
        let listed = store.list(&scope(), &filter).await.unwrap();
        let ledger = RecordQuery::all(Kind::EffectLedger, Within::Everywhere);
        let ledger = store.scan(&ledger).await.unwrap();
        let last: Vec<Value> = ledger.iter().map(last_of_ended).collect();
        json!([listed.iter().map(|run| run.status).collect::<Vec<_>>(), last])
    }
}

/// How the last attempt of a call stands. Those before it have all ended.
fn last_of_ended(record: &Record) -> Value {
    let body: Value = record.read().unwrap();
    let (last, before) = body["attempts"].as_array().unwrap().split_last().unwrap();
    assert!(before.iter().all(|attempt| attempt["state"] != "claimed"), "{body}");
    last["state"].clone()
}

/// A run that has ended long ago, and one that has not ended.
pub(super) struct Retention;

#[async_trait(?Send)]
impl Scenario for Retention {
    fn definitions(&self) -> Vec<String> {
        let asks = workflow("asks", &[node("a", "core.approvalGate", json!({ "title": "?" }))]);
        vec![noop(), asks.to_string()]
    }

    fn steps(&self) -> usize {
        5
    }

    async fn act(&self, host: &Host, step: usize) {
        let create = async |workflow: &str| {
            let order = order(workflow, Object::new(), Object::new());
            let create = async |remember| host.engine.create(order, Some(remember)).await;
            host.once(workflow, create).await
        };
        match step {
            0 => drop(create("campaign").await),
            1 => host.wait_until(10).await,
            // Whichever run has moved last stays.
            2 => drop(create("asks").await),
            3 => host.wait_until(20).await,
            _ => {
                let rule = RetentionRule { keep: Some(Sweeper::SHORTEST), ..Default::default() };
                let sweeper = Sweeper::new(host.engine.clone(), RetentionPolicy(vec![rule]));
                let later = seconds(60).plus(Sweeper::SHORTEST);
                sweeper.tick(later).await.unwrap();
            }
        }
    }

    async fn observe(&self, store: Arc<dyn Store>) -> Value {
        runs(&*store).await
    }
}
