//! A feature that does not survive: it counts, and counts again when it is asked again.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_engine::{Batch, Key, Kind, RecordChange, Store};

use super::scenario::{Host, Scenario, survives};
use crate::sim::scope;

struct Careless;

async fn count(store: &dyn Store) -> u64 {
    let found = store.get(Kind::Prompt, &Key::of(["count"])).await.unwrap();
    found.map_or(0, |found| found.read().unwrap())
}

#[async_trait(?Send)]
impl Scenario for Careless {
    fn steps(&self) -> usize {
        2
    }

    async fn act(&self, host: &Host, _: usize) {
        let more = count(&*host.store).await + 1;
        let put = RecordChange::put(Kind::Prompt, Key::of(["count"]), scope(), &more).unwrap();
        host.store.commit(Batch::of_records([put])).await.unwrap();
    }

    async fn observe(&self, store: Arc<dyn Store>) -> Value {
        json!(count(&*store).await)
    }
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "careless: [")]
async fn what_counts_twice_is_found() {
    survives("careless", &Careless).await;
}
