//! The log of a run: every event as it is, a page at a time around a cursor.

use callboard_protocol::Timestamp;
use maud::{Markup, html};
use serde_json::Value;

use super::story::Names;
use crate::api::with_query;
use crate::value::{json, preview, text, time, whole};
use crate::words::{duration, exact};

/// Events on one page.
pub(crate) const PAGE: u64 = 200;

/// What the log is narrowed to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Narrow {
    /// A family of types, such as `node.`.
    pub(crate) kind: String,
    pub(crate) node: String,
}

impl Narrow {
    pub(crate) fn admits(&self, event: &Value) -> bool {
        (self.kind.is_empty() || text(event, "/type").starts_with(&self.kind))
            && (self.node.is_empty() || text(event, "/nodeId") == self.node)
    }
}

const FAMILIES: [(&str, &str); 9] = [
    ("", "all"),
    ("run.", "run"),
    ("node.", "nodes"),
    ("agent.", "agents"),
    ("interrupt.", "questions"),
    ("output.", "text"),
    ("provider.", "usage"),
    ("channel.", "channels"),
    ("callboard.", "callboard"),
];

/// The page of events from `from` on; `last` is the log's end.
pub(crate) fn log(
    path: &str,
    events: &[Value],
    narrow: &Narrow,
    names: &Names,
    (from, last, began): (u64, u64, Option<Timestamp>),
    may_fork: bool,
) -> Markup {
    let link = |from: u64| {
        let from = from.to_string();
        with_query(
            path,
            [("tab", "log"), ("from", &from), ("type", &narrow.kind), ("node", &narrow.node)],
        )
    };
    let shown: Vec<&Value> = events.iter().filter(|event| narrow.admits(event)).collect();
    html! {
        form.filters method="get" action=(path) {
            input type="hidden" name="tab" value="log";
            label { "Type " select name="type" {
                @for (family, name) in FAMILIES { option value=(family) selected[family == narrow.kind] { (name) } }
            } }
            label { "Node " input name="node" value=(narrow.node) size="14"; }
            label { "From event " input name="from" type="number" min="0" max=(last) value=(from); }
            button type="submit" { "Show" }
        }
        nav.pages aria-label="Pages of the log" {
            @if from > 0 { a href=(link(0)) { "« first" } a rel="prev" href=(link(from.saturating_sub(PAGE))) { "‹ earlier" } }
            span.muted { "events " (from) "–" (last.min(from + PAGE - 1)) " of " (last + 1) }
            @if from + PAGE <= last { a rel="next" href=(link(from + PAGE)) { "later ›" } a href=(link(last / PAGE * PAGE)) { "last »" } }
        }
        ol.log data-rows="" { @for event in &shown { (row(event, names, began, may_fork)) } }
        @if shown.is_empty() { p.muted { "No event of this page is of that kind." } }
    }
}

/// One event as a line that opens.
pub(crate) fn row(
    event: &Value,
    names: &Names,
    began: Option<Timestamp>,
    may_fork: bool,
) -> Markup {
    let sequence = whole(event, "/sequence").unwrap_or(0);
    let at = time(event, "/timestamp");
    let node = text(event, "/nodeId");
    html! {
        li id={ "e-" (sequence) } data-last=(sequence) {
            details {
                summary {
                    span.num { (sequence) }
                    span.num.at title=[at.map(exact)] { (at.zip(began).map(|(at, began)| duration(at.since(began))).unwrap_or_default()) }
                    code { (text(event, "/type")) }
                    span.node title=(node) { (names.name(node)) }
                    span.payload { (preview(&event["payload"])) }
                }
                (json(event))
                @if may_fork { p { a href={ "?fork=" (sequence + 1) } { "Fork from behind this event" } } }
            }
        }
    }
}
