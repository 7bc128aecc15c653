//! Session files of coding agents: kept by whoever holds the run, forgotten when it is over.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_core::Outcome;
use callboard_engine::{
    Activities, Activity, Call, CodingSessions, Kind, RecordQuery, Store, Within,
};
use callboard_protocol::Object;

use super::scenario::{Host, Scenario, runs};
use crate::sim::order;
use crate::simulation::node;
use crate::world::workflow;

pub(super) struct CodingHomes;

/// Keeps its session twice, as a coding agent's driver does between turns.
#[derive(Debug)]
struct Coder(Arc<dyn Store>);

#[async_trait]
impl Activity for Coder {
    async fn perform(&self, call: Call) -> Outcome {
        let sessions = CodingSessions::new(Arc::clone(&self.0));
        for turn in ["one", "two"] {
            let tenant = call.scope().tenant;
            let kept = sessions.keep_session(&tenant, call.claim(), "home", turn.to_owned()).await;
            if let Err(error) = kept {
                panic!("{error}");
            }
            call.pause(Duration::from_secs(1)).await;
        }
        Outcome::Done { outputs: Object::new() }
    }
}

#[async_trait(?Send)]
impl Scenario for CodingHomes {
    fn definitions(&self) -> Vec<String> {
        let gate = node("b", "core.approvalGate", json!({ "title": "Good?" }));
        vec![
            workflow("codes", &[node("a", "test.coder", json!({}))]).to_string(),
            workflow("asks", &[node("a", "test.coder", json!({})), gate]).to_string(),
        ]
    }

    fn activities(&self, store: &Arc<dyn Store>) -> Activities {
        Activities::default().with("test.coder", Arc::new(Coder(Arc::clone(store))))
    }

    fn steps(&self) -> usize {
        4
    }

    async fn act(&self, host: &Host, step: usize) {
        match step {
            0 | 1 => {
                let workflow = if step == 0 { "codes" } else { "asks" };
                let order = order(workflow, Object::new(), Object::new());
                let create = async |remember| host.engine.create(order, Some(remember)).await;
                host.once(workflow, create).await;
            }
            2 => host.wait_until(30).await,
            _ => {
                let sessions = CodingSessions::new(Arc::clone(&host.store));
                sessions.forget_sessions().await.unwrap();
            }
        }
    }

    async fn observe(&self, store: Arc<dyn Store>) -> Value {
        let kept = RecordQuery::all(Kind::CodingSession, Within::Everywhere);
        let mut files = Vec::new();
        for record in store.scan(&kept).await.unwrap() {
            let blob = store.blob(record.kind, &record.key).await.unwrap();
            files.push(blob.map(|blob| blob.to_vec()));
        }
        json!([files, runs(&*store).await])
    }
}
