//! Rules that hold for every run's log, and small queries of one.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// A run that has ended, as a reader sees it.
#[derive(Debug)]
pub(crate) struct Observed {
    pub(crate) run: String,
    pub(crate) events: Vec<Value>,
    /// The log, read a second time.
    pub(crate) again: Vec<Value>,
    pub(crate) snapshot: Value,
}

impl Observed {
    pub(crate) fn kinds(&self) -> Vec<&str> {
        self.events.iter().filter_map(|event| event["type"].as_str()).collect()
    }

    /// The payloads of this kind, in order.
    pub(crate) fn payloads<'a>(&'a self, kind: &'a str) -> Vec<&'a Value> {
        self.events
            .iter()
            .filter(|event| event["type"] == kind)
            .map(|event| &event["payload"])
            .collect()
    }

    pub(crate) fn only(&self, kind: &str) -> Result<&Value> {
        let payloads: Vec<&Value> =
            self.events.iter().filter(|e| e["type"] == kind).map(|e| &e["payload"]).collect();
        ensure!(payloads.len() == 1, "{} events {kind}, not one", payloads.len());
        payloads.first().copied().context("no such event")
    }

    /// Whether these kinds appear in this order, with whatever else between them.
    pub(crate) fn in_order(&self, wanted: &[&str]) -> Result<()> {
        let kinds = self.kinds();
        let mut rest = kinds.iter();
        for kind in wanted {
            ensure!(rest.any(|held| held == kind), "no {kind} in its place: {}", kinds.join(", "));
        }
        Ok(())
    }

    /// What holds for every log, whatever the workflow.
    pub(crate) fn is_a_log(&self) -> Result<()> {
        let mut ids = BTreeSet::new();
        for (place, event) in self.events.iter().enumerate() {
            ensure!(
                event["sequence"].as_u64() == Some(place as u64),
                "sequence {} at place {place}",
                event["sequence"]
            );
            ensure!(event["runId"] == self.run.as_str(), "an event of another run at {place}");
            ensure!(event.get("payload").is_some(), "no payload at {place}");
            ensure!(ids.insert(event["eventId"].to_string()), "eventId {} twice", event["eventId"]);
            let kind = event["type"].as_str().unwrap_or_default();
            ensure!(
                !kind.starts_with("node.") || event["nodeId"].is_string(),
                "{kind} without nodeId on its envelope"
            );
        }
        let stamps: Vec<&str> =
            self.events.iter().filter_map(|event| event["timestamp"].as_str()).collect();
        ensure!(stamps.is_sorted(), "timestamps go back");
        let kinds = self.kinds();
        ensure!(kinds.first() == Some(&"run.started"), "the first event is not run.started");
        let ends = kinds.iter().filter(|kind| is_terminal(kind)).count();
        ensure!(ends == 1, "{ends} terminal events");
        ensure!(
            kinds.last().is_some_and(|kind| is_terminal(kind)),
            "the last event is not terminal"
        );
        ensure!(self.events == self.again, "a second reading differs");
        Ok(())
    }
}

fn is_terminal(kind: &str) -> bool {
    matches!(kind, "run.completed" | "run.failed" | "run.cancelled")
}
