//! A store that outlives the hosts on it, with the workflows that they know.

use std::sync::Arc;

use serde_json::{Value, json};

use callboard_engine::{Activities, Engine, InMemoryStore, Recorded};
use callboard_protocol::{Object, RunId};

use crate::sim::{DoomedStore, Fate, LEASE, SimClock, doomed_store, ended, host_with, order};
use crate::simulation::edge;

pub(crate) struct World {
    pub(crate) shared: Arc<InMemoryStore>,
    pub(crate) clock: Arc<SimClock>,
    definitions: Vec<String>,
    activities: fn() -> Activities,
}

/// When the host comes that outlives the first.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Second {
    FromTheStart,
    Afterwards,
}

impl World {
    pub(crate) fn new(definitions: &[Value], activities: fn() -> Activities) -> Self {
        Self {
            shared: Arc::default(),
            clock: SimClock::new(),
            definitions: definitions.iter().map(Value::to_string).collect(),
            activities,
        }
    }

    pub(crate) fn host(&self, name: &str, fate: Fate) -> (Engine, Arc<DoomedStore>) {
        let store = doomed_store(self.shared.clone(), fate);
        let (shared, clock) = (self.shared.clone(), self.clock.clone());
        let activities = (self.activities)();
        let engine = host_with(name, store.clone(), shared, clock, &self.definitions, activities);
        (engine, store)
    }

    /// Runs a workflow while its first host meets its fate, and answers the log, and how often that host wrote.
    pub(crate) async fn survive(
        &self,
        workflow: &str,
        fate: Fate,
        second: Second,
    ) -> (Vec<Recorded>, u64) {
        let (first, doomed) = self.host("first", fate);
        let mut others = Vec::new();
        if let Second::FromTheStart = second {
            others.push(self.host("second", Fate::Live));
        }
        let run = start(&first, workflow).await;
        tokio::select! {
            () = doomed.died.notified() => first.kill(),
            _ = ended(&self.shared, &run) => {}
            () = tokio::time::sleep(LEASE * 2) => {}
        }
        if let Second::Afterwards = second {
            others.push(self.host("second", Fate::Live));
        }
        ended(&self.shared, &run).await;
        // A host that overslept wakes up now; what it tries must come to nothing.
        tokio::time::sleep(LEASE * 4).await;
        let log = ended(&self.shared, &run).await;
        first.kill();
        (log, doomed.appends())
    }
}

pub(crate) async fn start(engine: &Engine, workflow: &str) -> RunId {
    let order = order(workflow, Object::new(), Object::new());
    engine.create(order, None).await.unwrap().run
}

/// Nodes one after the other.
pub(crate) fn workflow(id: &str, nodes: &[Value]) -> Value {
    let ids: Vec<&str> = nodes.iter().filter_map(|node| node["id"].as_str()).collect();
    let edges: Vec<Value> = ids.windows(2).map(|pair| edge(pair[0], pair[1])).collect();
    json!({ "id": id, "name": id, "version": "1.0", "nodes": nodes, "edges": edges, "triggers": [],
        "variables": [], "metadata": {}, "settings": {} })
}

/// What a node of an ended run put out.
pub(crate) fn outputs(log: &[Recorded], node: &str) -> Value {
    let is_end = |event: &&Recorded| {
        event.kind == "node.completed" && event.node.as_ref().is_some_and(|it| it.as_str() == node)
    };
    let end = log.iter().rfind(is_end).unwrap_or_else(|| panic!("{node} did not complete"));
    serde_json::from_str::<Value>(&end.payload).unwrap()["outputs"].clone()
}
