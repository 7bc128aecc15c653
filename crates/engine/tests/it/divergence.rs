//! A host that comes to ask something else where a lost host has asked before.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_core::Outcome;
use callboard_engine::{
    Activities, Activity, Call, Effect, Engine, InMemoryStore, OnUnknown, Once, OnceError,
};
use callboard_protocol::Object;

use crate::sim::{SimClock, ended, host_with};
use crate::simulation::node;
use crate::world::{start, workflow};

/// What the calls that were really made had asked.
type Made = Arc<Mutex<Vec<Value>>>;

/// One call, and time to die in, while it is made or after.
#[derive(Debug)]
struct Caller {
    provider: &'static str,
    asks: Value,
    during: Duration,
    after: Duration,
    made: Made,
}

#[async_trait]
impl Activity for Caller {
    async fn perform(&self, call: Call) -> Outcome {
        let effect = Effect {
            index: 0,
            provider: self.provider,
            request: &self.asks,
            on_unknown: OnUnknown::Repeat,
            is_recorded: false,
        };
        let made = call.once(effect, |_: Once| async {
            self.made.lock().unwrap().push(self.asks.clone());
            call.pause(self.during).await;
            Ok(self.asks.clone())
        });
        let made = made.await;
        call.pause(self.after).await;
        match made {
            Ok(value) => Outcome::Done { outputs: Object::from_iter([("got".to_owned(), value)]) },
            Err(OnceError::Ended(outcome)) => outcome,
            Err(OnceError::Superseded) => Outcome::Done { outputs: Object::new() },
        }
    }
}

/// What came of a run whose first host is lost in the middle, and what was really asked.
async fn come_to(first: Caller, second: Caller) -> (Value, Vec<Value>) {
    let made = Arc::clone(&first.made);
    let (shared, clock) = (Arc::<InMemoryStore>::default(), SimClock::new());
    let definition = [workflow("calls", &[node("send", "test.caller", json!({}))]).to_string()];
    let host = |name: &str, caller: Caller| -> Engine {
        let activities = Activities::default().with("test.caller", Arc::new(caller));
        host_with(name, shared.clone(), shared.clone(), clock.clone(), &definition, activities)
    };
    let lost = host("first", first);
    let run = start(&lost, "calls").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    lost.kill();
    let _second = host("second", second);
    let log = ended(&shared, &run).await;
    let end = serde_json::from_str(&log.last().unwrap().payload).unwrap();
    let made = made.lock().unwrap().clone();
    (end, made)
}

#[tokio::test(start_paused = true)]
async fn another_request_in_a_recorded_place_is_told_and_neither_made_nor_answered() {
    let (short, long) = (Duration::ZERO, Duration::from_secs(10));
    for (during, after) in [(short, long), (long, short)] {
        for (provider, asks) in [("mail", json!(2)), ("chat", json!(1))] {
            let made = Made::default();
            let caller = |provider, asks, during, after| Caller {
                provider,
                asks,
                during,
                after,
                made: Arc::clone(&made),
            };
            let first = caller("mail", json!(1), during, after);
            let (end, made) = come_to(first, caller(provider, asks, short, short)).await;
            assert_eq!(end["error"]["code"], "request_diverged", "{end}");
            let message = end["error"]["message"].as_str().unwrap();
            assert!(message.contains("call 0") && message.contains(provider), "{message}");
            assert_eq!(made, [json!(1)]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_request_is_answered_from_the_record() {
    let made = Made::default();
    let caller = |after| Caller {
        provider: "mail",
        asks: json!(1),
        during: Duration::ZERO,
        after,
        made: Arc::clone(&made),
    };
    let (end, made) = come_to(caller(Duration::from_secs(10)), caller(Duration::ZERO)).await;
    assert_eq!(end["outputs"]["got"], json!(1), "{end}");
    assert_eq!(made, [json!(1)]);
}
