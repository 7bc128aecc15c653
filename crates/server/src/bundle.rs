//! The debug bundle: all that helps to understand one run, without secrets, in one document of bounded size.

use std::collections::BTreeSet;

use callboard_core::redact;
use callboard_engine::{Page, Recorded};
use callboard_protocol::{Implementation, NodeId, RunId, Timestamp};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use crate::app::Host;
use crate::follow::read_rest;
use crate::keys::Caller;
use crate::problem::Problem;

/// The protocol's cap, with room for what stands around the parts.
const LARGEST: usize = 8_000_000;
/// What spans may take of it: they retell what the events say.
const LARGEST_SPANS: usize = LARGEST / 4;
/// A run that is larger is shown without its values; they stand in the events.
const LARGEST_RUN: usize = LARGEST / 2;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Bundle {
    bundle_version: &'static str,
    generated_at: Timestamp,
    host: Implementation,
    run: Value,
    events: Vec<Box<RawValue>>,
    spans: Vec<Box<RawValue>>,
    annotations: Vec<Box<RawValue>>,
    metrics: Value,
    redaction_applied: bool,
    redaction_mode: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated_reason: Option<&'static str>,
}

/// None: there is no such run for this caller.
pub(crate) async fn assemble(
    host: &Host,
    caller: &Caller,
    run: &RunId,
    most_events: usize,
) -> Result<Option<Bundle>, Problem> {
    let engine = &host.app.engine;
    let Some(page) = read_rest(host, caller, run, 0).await? else { return Ok(None) };
    let Some(seen) = engine.snapshot(&caller.scope, run).await? else { return Ok(None) };
    let Some(spans) = engine.spans(&caller.scope, run).await? else { return Ok(None) };
    let said = host.app.annotations.annotations(&caller.scope, run).await?;
    let mut snapshot: Value =
        serde_json::from_str(&seen.json).map_err(|error| Problem::internal(&error))?;
    redact(&mut snapshot);
    let bundle = Bundle {
        bundle_version: "1.0",
        generated_at: host.now(),
        host: host.implementation(),
        run: snapshot,
        events: Vec::new(),
        spans: spans.iter().map(clean).collect::<Result<_, _>>()?,
        annotations: said.iter().flatten().map(clean).collect::<Result<_, _>>()?,
        metrics: Value::Null,
        redaction_applied: true,
        redaction_mode: "mask",
        truncated: None,
        truncated_reason: None,
    };
    bundle.filled(&page, most_events).map(Some)
}

impl Bundle {
    /// Cuts what is too large, from its end, and says so.
    fn filled(mut self, page: &Page, most_events: usize) -> Result<Self, Problem> {
        if self.run.to_string().len() > LARGEST_RUN {
            if let Some(run) = self.run.as_object_mut() {
                run.retain(|name, _| !matches!(name.as_str(), "variables" | "channels"));
            }
            self.cut("run_truncated_to_size_cap");
        }
        if keep_within(&mut self.spans, LARGEST_SPANS) {
            self.cut("spans_truncated_to_size_cap");
        }
        let parts = self.spans.iter().chain(&self.annotations);
        let taken: usize = parts.map(|part| part.get().len() + 1).sum();
        let mut room = LARGEST.saturating_sub(self.run.to_string().len() + taken);
        for event in &page.events {
            let shown = clean(event)?;
            let left = room.checked_sub(shown.get().len() + 1);
            let Some(left) = left.filter(|_| self.events.len() < most_events) else {
                self.cut("events_truncated_to_size_cap");
                break;
            };
            room = left;
            self.events.push(shown);
        }
        // Of the run, not of what is left of it here: who gets less learns how much there is.
        let nodes: BTreeSet<&NodeId> =
            page.events.iter().filter_map(|event| event.node.as_ref()).collect();
        let cost = self.run.pointer("/metrics/openwopCost");
        self.metrics = json!({
            "openwopCost": cost, "nodeCount": nodes.len(), "eventCount": page.events.len(),
        });
        Ok(self)
    }

    fn cut(&mut self, reason: &'static str) {
        self.truncated = Some(true);
        self.truncated_reason = Some(reason);
    }
}

/// A part as text, without anything that looks like a credential.
fn clean(part: &impl Serialize) -> Result<Box<RawValue>, Problem> {
    let mut value = serde_json::to_value(part).map_err(|error| Problem::internal(&error))?;
    redact(&mut value);
    to_raw_value(&value).map_err(|error| Problem::internal(&error))
}

/// Answers whether something had to go.
fn keep_within(parts: &mut Vec<Box<RawValue>>, most: usize) -> bool {
    let mut size = 0;
    let fits = parts.iter().take_while(|part| {
        size += part.get().len() + 1;
        size <= most
    });
    let fitting = fits.count();
    let is_cut = fitting < parts.len();
    parts.truncate(fitting);
    is_cut
}

/// The events of a run as documents, cleaned, for whoever compares or filters them.
pub(crate) fn documents(events: &[Recorded]) -> Result<Vec<Value>, Problem> {
    let document = |event| {
        let mut document =
            serde_json::to_value(event).map_err(|error| Problem::internal(&error))?;
        redact(&mut document);
        Ok(document)
    };
    events.iter().map(document).collect()
}
