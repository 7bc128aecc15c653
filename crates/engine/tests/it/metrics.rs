//! What is counted of runs, whatever becomes of those who asked for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use futures_util::FutureExt as _;
use metrics::{
    Counter, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use serde_json::json;

use callboard_engine::{Activities, Filter, Store};
use callboard_protocol::Object;

use crate::sim::{Fate, ended, order, scope};
use crate::simulation::node;
use crate::world::{World, workflow};

/// Knows how many runs are active, and nothing else.
#[derive(Debug, Default)]
struct Active(Arc<Count>);

#[derive(Debug, Default)]
struct Count(AtomicI64);

impl GaugeFn for Count {
    fn increment(&self, _: f64) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
    fn decrement(&self, _: f64) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
    fn set(&self, _: f64) {}
}

impl Recorder for Active {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        match key.name() {
            "openwop_run_active" => Gauge::from_arc(Arc::clone(&self.0)),
            _ => Gauge::noop(),
        }
    }
    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_is_counted_also_when_its_creator_hangs_up() {
    let recorder = Active::default();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let slow = node("wait", "core.delay", json!({ "ms": 5_000 }));
    let world = World::new(&[workflow("slow", &[slow])], Activities::default);
    let (engine, _) = world.host("one", Fate::Live);
    let order = order("slow", Object::new(), Object::new());
    assert!(engine.create(order, None).now_or_never().is_none(), "nobody is there to be told");
    tokio::task::yield_now().await;
    let active = || recorder.0.0.load(Ordering::Relaxed);
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(active(), 1);
    let filter = Filter { limit: 9, ..Filter::default() };
    let listed = world.shared.list(&scope(), &filter).await.unwrap();
    ended(&world.shared, &listed[0].run_id).await;
    assert_eq!(active(), 0);
}
