//! What a run did when: one lane for each visit of a node, model call, tool and question, to the scale of time.

use std::collections::BTreeMap;

use callboard_protocol::Timestamp;
use maud::{Markup, html};
use serde_json::Value;

use crate::draw::bars::tenth;
use crate::value::{text, time, whole};
use crate::words::duration;

/// Drawn at most; a run has as many spans as it likes.
const MOST_SPANS: usize = 400;
const WIDTH: f64 = 1000.0;
/// So narrow that nothing is invisible.
const LEAST: f64 = 3.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Node,
    Model,
    Tool,
    Wait,
    Child,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) detail: String,
    pub(crate) sequence: u64,
    pub(crate) begin: Timestamp,
    /// None while it goes on.
    pub(crate) end: Option<Timestamp>,
    pub(crate) failed: bool,
}

impl Kind {
    fn class(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Model => "model",
            Self::Tool => "tool",
            Self::Wait => "wait",
            Self::Child => "child",
        }
    }
}

/// Reads spans from events. What ends without having begun in these events is left out.
pub(crate) fn spans(events: &[Value], name: impl Fn(&str) -> String) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    let mut open: BTreeMap<(Kind, String), usize> = BTreeMap::new();
    for event in events {
        let Some(at) = time(event, "/timestamp") else { continue };
        let node = text(event, "/nodeId");
        let kind = text(event, "/type");
        if let Some((key, span)) = begins(event, kind, node, at, &name) {
            if spans.len() == MOST_SPANS {
                break;
            }
            open.insert(key, spans.len());
            spans.push(span);
        } else if let Some((key, failed)) = ends(event, kind, node) {
            if let Some(span) = open.remove(&key).and_then(|place| spans.get_mut(place)) {
                (span.end, span.failed) = (Some(at), failed);
            }
        } else if matches!(kind, "run.completed" | "run.failed" | "run.cancelled") {
            for place in std::mem::take(&mut open).into_values() {
                spans[place].end = Some(at);
            }
        }
    }
    spans
}

fn begins(
    event: &Value,
    kind: &str,
    node: &str,
    at: Timestamp,
    name: &impl Fn(&str) -> String,
) -> Option<((Kind, String), Span)> {
    let payload = |pointer: &str| text(event, &format!("/payload{pointer}")).to_owned();
    let (key, label, detail) = match kind {
        "node.started" => {
            let visit = whole(event, "/payload/visit").unwrap_or(0);
            let detail =
                if visit > 0 { format!("visit {}", visit + 1) } else { payload("/typeId") };
            ((Kind::Node, node.to_owned()), name(node), detail)
        }
        "agent.invocation.started" => {
            let model = payload("/resolvedModel");
            let model = if model.is_empty() { payload("/modelClass") } else { model };
            ((Kind::Model, payload("/invocationId")), last_part(&payload("/agentId")), model)
        }
        "agent.toolCalled" => {
            let key = (Kind::Tool, call_of(event));
            (key, payload("/toolName"), name(node))
        }
        "interrupt.requested" => {
            ((Kind::Wait, payload("/key")), format!("{} asks", name(node)), payload("/kind"))
        }
        "node.dispatched" => {
            let key = (Kind::Child, payload("/childRunId"));
            (key, payload("/childWorkflowId"), payload("/childRunId"))
        }
        _ => return None,
    };
    let sequence = whole(event, "/sequence").unwrap_or(0);
    let span =
        Span { kind: key.0, name: label, detail, sequence, begin: at, end: None, failed: false };
    Some((key, span))
}

fn ends(event: &Value, kind: &str, node: &str) -> Option<((Kind, String), bool)> {
    let payload = |pointer: &str| text(event, &format!("/payload{pointer}")).to_owned();
    Some(match kind {
        "node.completed" | "node.skipped" => ((Kind::Node, node.to_owned()), false),
        "node.failed" | "node.cancelled" => ((Kind::Node, node.to_owned()), true),
        "agent.invocation.completed" => {
            ((Kind::Model, payload("/invocationId")), payload("/outcome") == "failed")
        }
        "agent.toolReturned" => {
            let failed = event.pointer("/payload/error").is_some_and(|error| !error.is_null());
            ((Kind::Tool, call_of(event)), failed)
        }
        "interrupt.resolved" => ((Kind::Wait, payload("/interruptId")), false),
        "callboard.child.changed"
            if matches!(payload("/status").as_str(), "completed" | "failed" | "cancelled") =>
        {
            ((Kind::Child, payload("/childRunId")), payload("/status") == "failed")
        }
        _ => return None,
    })
}

/// What people know an agent by.
fn last_part(id: &str) -> String {
    id.rsplit('.').next().unwrap_or(id).to_owned()
}

fn call_of(event: &Value) -> String {
    let id = text(event, "/payload/callId");
    let id = if id.is_empty() { text(event, "/payload/toolCallId") } else { id };
    format!("{} {id}", text(event, "/payload/toolName"))
}

/// Draws the lanes; `link` leads from a span to its event.
pub(crate) fn waterfall(
    spans: &[Span],
    now: Timestamp,
    link: impl Fn(&Span) -> Option<String>,
) -> Markup {
    let Some(begin) = spans.iter().map(|span| span.begin).min() else {
        return html! { p.muted { "Nothing has begun yet." } };
    };
    let end = spans.iter().map(|span| span.end.unwrap_or(now)).max().unwrap_or(begin);
    let whole = end.since(begin).as_secs_f64().max(0.001);
    let x = |at: Timestamp| at.since(begin).as_secs_f64() / whole * WIDTH;
    html! {
        div.waterfall role="table" aria-label="Waterfall" {
            div.axis aria-hidden="true" {
                span {}
                div.ticks { @for part in 0..=4 { span { (duration(end.since(begin) * part / 4)) } } }
                span {}
            }
            @for span in spans {
                @let from = x(span.begin);
                @let width = (x(span.end.unwrap_or(now)) - from).max(LEAST);
                div.lane role="row" {
                    span.label role="rowheader" title=(span.detail) {
                        @match link(span) { Some(link) => { a href=(link) { (span.name) } } None => { (span.name) } }
                        " " small { (span.detail) }
                    }
                    svg viewBox={ "0 0 " (WIDTH) " 10" } preserveAspectRatio="none" aria-hidden="true" {
                        rect class={ (span.kind.class()) @if span.failed { " failed" } @if span.end.is_none() { " open" } }
                            x=(tenth(from.min(WIDTH - LEAST))) y="0" width=(tenth(width)) height="10" {}
                    }
                    span.num role="cell" { (duration(span.end.unwrap_or(now).since(span.begin))) @if span.end.is_none() { "…" } }
                }
            }
        }
        @if spans.len() == MOST_SPANS { p.muted { "Only the first " (MOST_SPANS) " spans are drawn." } }
        p.legend {
            @for (class, word) in [("node", "node"), ("model", "agent"), ("tool", "tool"), ("wait", "waits for a person"), ("child", "child run")] {
                span { svg viewBox="0 0 10 10" aria-hidden="true" { rect class=(class) width="10" height="10" {} } (word) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(sequence: u64, kind: &str, node: &str, second: u32, payload: Value) -> Value {
        json!({ "sequence": sequence, "type": kind, "nodeId": node, "payload": payload,
            "timestamp": format!("2026-01-01T00:00:{second:02}Z") })
    }

    #[test]
    fn spans_end_with_what_ends_them_and_with_the_run() {
        let events = [
            event(0, "node.started", "a", 0, json!({ "typeId": "core.identity" })),
            event(1, "interrupt.requested", "a", 1, json!({ "kind": "approval", "key": "r:a:0" })),
            event(2, "agent.toolCalled", "a", 2, json!({ "toolName": "t", "callId": "1" })),
            event(
                3,
                "agent.toolReturned",
                "a",
                3,
                json!({ "toolName": "t", "callId": "1", "error": { "code": "x" } }),
            ),
            event(4, "interrupt.resolved", "a", 4, json!({ "interruptId": "r:a:0" })),
            event(5, "node.completed", "gone", 4, json!({})),
            event(6, "run.cancelled", "", 9, json!({})),
        ];
        let spans = spans(&events, str::to_uppercase);
        let seen: Vec<_> = spans
            .iter()
            .map(|span| {
                (
                    span.name.as_str(),
                    span.end.map(|end| end.since(span.begin).as_secs()),
                    span.failed,
                )
            })
            .collect();
        assert_eq!(seen, [("A", Some(9), false), ("A asks", Some(3), false), ("t", Some(1), true)]);
    }

    /// K-07
    #[test]
    fn names_of_tools_are_text() {
        let events = [event(0, "agent.toolCalled", "a", 0, json!({ "toolName": "<img src=x>" }))];
        let spans = spans(&events, str::to_owned);
        let drawn = waterfall(&spans, spans[0].begin, |_| None).into_string();
        assert!(!drawn.contains("<img") && drawn.contains("&lt;img"), "{drawn}");
    }
}
