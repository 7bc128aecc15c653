//! Heartbeats: looked at again and again, with a run for the change.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_engine::{
    BookError, HeartbeatLoop, Heartbeats, NewHeartbeat, Observe, ObserveError, Probe, Store,
    StoreError,
};
use callboard_protocol::{Object, Owner};

use super::scenario::{Host, Scenario, runs};
use crate::sim::scope;

/// One that sees a change.
#[derive(Debug, Default)]
pub(super) struct Looks {
    number: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Outside(Arc<AtomicU64>);

#[async_trait]
impl Observe for Outside {
    async fn observe(
        &self,
        _: &callboard_protocol::Tenant,
        _probe: &Probe,
    ) -> Result<Object, ObserveError> {
        let number = self.0.load(Ordering::Relaxed);
        Ok(Object::from_iter([("number".to_owned(), json!(number))]))
    }
}

impl Looks {
    fn look_loop(&self, host: &Host) -> HeartbeatLoop {
        let outside = Arc::new(Outside(Arc::clone(&self.number)));
        HeartbeatLoop::new(host.engine.clone(), Arc::clone(&host.store), outside)
    }
}

#[async_trait(?Send)]
impl Scenario for Looks {
    fn start(&self, host: &Host) {
        self.look_loop(host).start();
    }

    fn steps(&self) -> usize {
        4
    }

    async fn act(&self, host: &Host, step: usize) {
        match step {
            0 => {
                self.number.store(0, Ordering::Relaxed);
                let new = NewHeartbeat {
                    id: "h".into(),
                    owner: Owner { tenant: "default".into(), workspace: None, principal: None },
                    mode: scope().mode,
                    workflow: "campaign".into(),
                    roster_id: None,
                    probe: Probe::Http { url: "https://example.com/".to_owned() },
                    interval_sec: 10,
                    enabled: true,
                };
                match self.look_loop(host).add(new).await {
                    // The one that got no answer was kept.
                    Ok(_) | Err(BookError::Store(StoreError::Moved { .. })) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            1 => host.rest(15).await,
            2 => {
                self.number.store(1, Ordering::Relaxed);
                host.rest(35).await;
            }
            _ => drop(self.look_loop(host).enable(&scope(), &"h".into(), false).await.unwrap()),
        }
    }

    async fn observe(&self, store: Arc<dyn Store>) -> Value {
        let seen = Heartbeats::new(Arc::clone(&store)).heartbeat(&scope(), &"h".into()).await;
        let seen = seen.unwrap().unwrap().state;
        json!([seen.enabled, seen.observed, seen.last_run.is_some(), runs(&*store).await])
    }
}
