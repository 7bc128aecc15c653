//! A run as it would be told: who said and did what. Events of the machinery stay in the log.

use std::collections::BTreeMap;

use callboard_protocol::Timestamp;
use maud::{Markup, html};
use serde_json::Value;

use super::rows::read;
use crate::value::{cut, folded, preview, text, time, whole};
use crate::words::{duration, exact};

/// The longest text of one row.
pub(super) const LONGEST: usize = 20_000;

/// What nodes are called, where the definition says it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names(BTreeMap<String, String>);

/// One row of the story.
pub(super) struct Row {
    pub(super) sign: &'static str,
    pub(super) family: &'static str,
    pub(super) who: String,
    pub(super) line: Markup,
    pub(super) body: Markup,
    /// Rows that follow each other under one name are one text.
    pub(super) joins: bool,
}

impl Names {
    pub(crate) fn of(definition: Option<&Value>) -> Self {
        let nodes = definition.map(|definition| crate::value::items(definition, "/nodes"));
        let named = nodes.unwrap_or_default().iter().map(|node| {
            let (id, name) = (text(node, "/id"), text(node, "/name"));
            (id.to_owned(), if name.is_empty() { id } else { name }.to_owned())
        });
        Self(named.collect())
    }

    pub(crate) fn name(&self, node: &str) -> String {
        self.0.get(node).map_or(node, String::as_str).to_owned()
    }
}

/// The story of these events.
pub(crate) fn story(events: &[Value], names: &Names, began: Option<Timestamp>) -> Markup {
    html! {
        ol.story data-rows="" {
            @for rows in joined(events) { (told(&rows, names, began)) }
        }
    }
}

/// Pieces of one text side by side are told together.
fn joined(events: &[Value]) -> Vec<Vec<&Value>> {
    let mut rows: Vec<Vec<&Value>> = Vec::new();
    for event in events {
        let is_piece = |event: &Value| text(event, "/type") == "output.chunk";
        let before = rows.last().and_then(|row| row.last()).copied();
        let goes_on = before.is_some_and(|before| {
            is_piece(before) && is_piece(event) && text(before, "/nodeId") == text(event, "/nodeId")
        });
        match rows.last_mut().filter(|_| goes_on) {
            Some(row) => row.push(event),
            None => rows.push(vec![event]),
        }
    }
    rows
}

/// One event as a row of the story, if it is worth one.
pub(crate) fn row(event: &Value, names: &Names, began: Option<Timestamp>) -> Markup {
    told(&[event], names, began)
}

fn told(events: &[&Value], names: &Names, began: Option<Timestamp>) -> Markup {
    let Some(event) = events.first() else { return html! {} };
    let Some(mut row) = read(event, names) else { return html! {} };
    if row.joins {
        let whole: String = events.iter().map(|event| text(event, "/payload/chunk")).collect();
        // An answer that is a value and not a text reads better as one; the decision that it became follows anyway.
        let value: Option<Value> = serde_json::from_str(&whole).ok().filter(Value::is_object);
        row.body = match value {
            Some(value) => folded(&preview(&value), &value),
            None => html! { div.prose.piece { (cut(&whole, LONGEST)) } },
        };
    }
    let sequence = whole(event, "/sequence").unwrap_or(0);
    let last = events.last().and_then(|event| whole(event, "/sequence")).unwrap_or(sequence);
    let at = time(event, "/timestamp");
    let offset = at.zip(began).map(|(at, began)| duration(at.since(began)));
    html! {
        li id={ "e-" (sequence) } class={ "row " (row.family) } data-last=(last) data-join=[row.joins.then(|| text(event, "/nodeId"))] {
            a.at href={ "?tab=log&from=" (sequence) "#e-" (sequence) } title=[at.map(exact)] { (offset.unwrap_or_default()) }
            span.sign aria-hidden="true" { (row.sign) }
            div.what {
                p.line { b { (row.who) } " " (row.line) }
                (row.body)
            }
        }
    }
}
