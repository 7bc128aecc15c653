//! The protocol's second major: the rows of its contract, and what its floor of scenarios asks.
//!
//! Every body and event that these tests see goes through `check`, which knows the schemas that are there.

mod check;
mod discovery;
mod effects;
mod eras;
mod errors;
mod interrupts;
mod runs;
mod sources;
mod streams;
mod webhooks;

use serde_json::{Value, json};

use crate::given::{LIVE, Reply, TestHost};

pub(crate) const KEY: &str = "0123456789abcdefghijkl";

impl TestHost {
    /// Starts a run through the second major and answers its bound id.
    pub(crate) async fn second_run(&self, body: Value) -> String {
        let reply = self.post("/runs", &body).send().await;
        assert_eq!(reply.status, 201, "{reply:?}");
        check::created(&reply.json);
        reply.text_at("runId")
    }

    pub(crate) async fn second_noop(&self) -> String {
        self.second_run(json!({ "workflowId": "noop" })).await
    }

    /// The events of a run once it has ended, each one checked.
    pub(crate) async fn second_end(&self, run: &str) -> Vec<Value> {
        self.second_end_as(LIVE, run).await
    }

    pub(crate) async fn second_end_as(&self, key: &str, run: &str) -> Vec<Value> {
        let mut events: Vec<Value> = Vec::new();
        loop {
            let after = events
                .last()
                .map_or(String::new(), |event| format!("&afterSequence={}", event["sequence"]));
            let path = format!("/runs/{}/events/poll?timeout=60{after}", segment(run));
            let reply = self.get(&path).key(key).send().await;
            assert_eq!(reply.status, 200, "{reply:?}");
            check::polled(&reply.json);
            events.extend(reply.json["events"].as_array().cloned().unwrap_or_default());
            if reply.json["isTerminal"] == json!(true) {
                return events;
            }
            tokio::task::yield_now().await;
        }
    }

    /// V-23, V-24, V-27, V-40: whatever produced the log of a run, and whichever door started it, both majors tell the same
    /// of it. Called for every run that a test of this program waits for.
    pub(crate) async fn told_in_second(&self, key: &str, run: &str, first: &[Value]) {
        let path = format!("/runs/{run}/events/poll?timeout=1");
        let reply = self.get(&path).key(key).send().await;
        assert_eq!(reply.status, 200, "{reply:?}");
        let second = reply.json["events"].as_array().cloned().unwrap_or_default();
        let places = |events: &[Value]| -> Vec<Value> {
            events.iter().map(|event| event["sequence"].clone()).collect()
        };
        assert_eq!(places(&second), places(first));
        check::seats(&second);
        let snapshot = self.get(&format!("/runs/{run}")).key(key).send().await;
        assert_eq!(snapshot.status, 200, "{snapshot:?}");
        assert_eq!(snapshot.json["eventLogSchemaVersion"], 3, "{run}");
    }

    pub(crate) async fn second_snapshot(&self, run: &str) -> Value {
        let reply = self.get(&format!("/runs/{}", segment(run))).send().await;
        assert_eq!(reply.status, 200, "{reply:?}");
        check::snapshot(&reply.json);
        reply.json
    }
}

/// A bound id as one segment.
pub(crate) fn segment(id: &str) -> String {
    id.replace('/', "~2F")
}

/// The id of the first major.
pub(crate) fn bare(id: &str) -> &str {
    id.split_once('/').map_or(id, |(_, bare)| bare)
}

pub(crate) fn refused(reply: &Reply) -> (u16, &str) {
    check::refusal(reply);
    reply.refusal()
}
