//! The debug bundle: all that helps to understand one run, without secrets, in one document of bounded size.

use std::collections::BTreeSet;

use callboard_core::redact;
use callboard_engine::Recorded;
use callboard_protocol::{Implementation, RunId, Timestamp};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use crate::app::Host;
use crate::keys::Caller;
use crate::log::Pages;
use crate::problem::Problem;

/// The protocol's cap, with room for what stands around the parts.
const LARGEST: usize = 8_000_000;
/// What spans may take of it: they retell what the events say.
const LARGEST_SPANS: usize = LARGEST / 4;
/// A run that is larger is shown without its values; they stand in the events.
const LARGEST_RUN: usize = LARGEST / 2;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Bundle {
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
pub async fn assemble(
    host: &Host,
    caller: &Caller,
    run: &RunId,
    most_events: usize,
) -> Result<Option<Bundle>, Problem> {
    let engine = &host.app.engine;
    let Some(seen) = engine.snapshot(&caller.scope, run).await? else { return Ok(None) };
    let Some(spans) = engine.spans(&caller.scope, run).await? else { return Ok(None) };
    let said = host.app.annotations.annotations(&caller.scope, run).await?;
    let mut snapshot: Value =
        serde_json::from_str(&seen.json).map_err(|error| Problem::internal(&error))?;
    redact(&mut snapshot);
    let mut bundle = Bundle {
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
    let mut room = Some(Room { bytes: bundle.trim(), events: most_events });
    let (mut nodes, mut count) = (BTreeSet::new(), 0);
    let mut pages = Pages::new(host, caller, run, 0);
    while let Some(page) = pages.next().await? {
        count += page.events.len();
        for event in page.events {
            room = match room {
                Some(room) => bundle.take(&event, room)?,
                None => None,
            };
            nodes.extend(event.node);
        }
    }
    // Of the run, not of what is left of it here: who gets less learns how much there is.
    let cost = bundle.run.pointer("/metrics/openwopCost");
    bundle.metrics = json!({ "openwopCost": cost, "nodeCount": nodes.len(), "eventCount": count });
    Ok(Some(bundle))
}

/// What events may still take.
struct Room {
    bytes: usize,
    events: usize,
}

impl Bundle {
    /// Cuts what is too large of all but the events, from its end; answers how many bytes are left to them.
    fn trim(&mut self) -> usize {
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
        LARGEST.saturating_sub(self.run.to_string().len() + taken)
    }

    /// Answers what room is left; none once an event did not fit, so that nothing behind it is shown either.
    fn take(&mut self, event: &Recorded, room: Room) -> Result<Option<Room>, Problem> {
        let shown = clean(event)?;
        let bytes = room.bytes.checked_sub(shown.get().len() + 1);
        let left =
            bytes.zip(room.events.checked_sub(1)).map(|(bytes, events)| Room { bytes, events });
        match left {
            Some(_) => self.events.push(shown),
            None => self.cut("events_truncated_to_size_cap"),
        }
        Ok(left)
    }

    fn cut(&mut self, reason: &'static str) {
        self.truncated = Some(true);
        self.truncated_reason = Some(reason);
    }
}

/// A part as text, without anything that looks like a credential.
fn clean(part: &impl Serialize) -> Result<Box<RawValue>, Problem> {
    to_raw_value(&document(part)?).map_err(|error| Problem::internal(&error))
}

fn document(part: &impl Serialize) -> Result<Value, Problem> {
    let mut value = serde_json::to_value(part).map_err(|error| Problem::internal(&error))?;
    redact(&mut value);
    Ok(value)
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

/// The events of a run as documents, cleaned, to be compared or filtered.
pub fn documents(events: &[Recorded]) -> Result<Vec<Value>, Problem> {
    events.iter().map(document).collect()
}
