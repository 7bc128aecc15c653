//! What a run holds: inputs, variables, channels, nodes, and what people said of it.

use callboard_protocol::Timestamp;
use maud::{Markup, html};
use serde_json::Value;

use super::story::Names;
use crate::layout::act;
use crate::value::{fields, folded, is_empty, items, json, shown, text, time, whole};
use crate::visit::Visit;
use crate::words::{duration, exact, id, status, when};

pub(crate) fn state(
    visit: &Visit,
    run: &Value,
    annotations: Option<&Value>,
    (definition, names): (Option<&Value>, &Names),
) -> Markup {
    let now = visit.now();
    html! {
        (folded("Details of the failure", &run["error"]["details"]))
        (table("Variables", run, "/variables"))
        (table("Channels", run, "/channels"))
        (signal(visit, run, definition))
        (nodes(run, names, now))
        (children(run))
        @for (name, pointer) in [("Configured", "/configurable"), ("Metadata", "/metadata"), ("Inputs", "/inputs")] {
            @if let Some(value) = run.pointer(pointer).filter(|value| !is_empty(value)) { h2 { (name) } (json(value)) }
        }
        (said(visit, run, annotations, now))
    }
}

fn table(name: &str, run: &Value, pointer: &str) -> Markup {
    let fields = fields(run, pointer);
    html! {
        @if !fields.is_empty() {
            h2 { (name) }
            dl.fields { @for (name, value) in fields { dt { (name) } dd { (shown(value)) } } }
        }
    }
}

/// A form that writes into a channel, as long as somebody may read it there.
fn signal(visit: &Visit, run: &Value, definition: Option<&Value>) -> Markup {
    let channels = definition.map(|it| fields(it, "/channels")).unwrap_or_default();
    let path = format!("/console/runs/{}/signal", crate::segment(text(run, "/runId")));
    html! {
        @if !channels.is_empty() && visit.may("runs:create") && !super::has_ended(run) {
            h2 #channels { "Write into a channel" }
            (act(visit, &path, html! { div.inline {
                label { "Channel " select name="channel" { @for (name, declared) in channels { option value=(name) { (name) " · " (text(declared, "/reducer")) } } } }
                label { "Value " input name="value" required size="32" spellcheck="false" placeholder="JSON, or a text"; }
                button type="submit" { "Write" }
            } }))
        }
    }
}

fn nodes(run: &Value, names: &Names, now: Timestamp) -> Markup {
    let mut states = fields(run, "/nodeStates");
    // As they began; those that have not come last.
    states
        .sort_by_key(|(_, state)| time(state, "/startedAt").map_or(i64::MAX, Timestamp::as_millis));
    html! {
        @if !states.is_empty() {
            h2 { "Nodes" }
            div.scroll { table {
                thead { tr { th { "Node" } th { "State" } th.num { "Attempts" } th { "Started" } th.num { "Took" } } }
                tbody {
                    @for (node, state) in states {
                        tr {
                            td { a href={ "?tab=log&node=" (crate::segment(node)) } { (names.name(node)) } }
                            td { (status(text(state, "/status"))) }
                            td.num { (whole(state, "/attempts").unwrap_or(0)) }
                            td { (when(now, time(state, "/startedAt"))) }
                            td.num { (took(state)) }
                        }
                    }
                }
            } }
        }
    }
}

/// How long a node took, with when it ended behind it; nothing as long as it has not.
fn took(state: &Value) -> Markup {
    let ended = time(state, "/endedAt");
    let took = ended.zip(time(state, "/startedAt"));
    html! { @if let Some((end, begin)) = took { span title=(exact(end)) { (duration(end.since(begin))) } } }
}

fn children(run: &Value) -> Markup {
    let children = items(run, "/childRuns");
    html! {
        @if !children.is_empty() {
            h2 { "Child runs" }
            ul.plain {
                @for child in children {
                    @let child_id = text(child, "/runId");
                    li { a href={ "/console/runs/" (crate::segment(child_id)) } { (crate::words::short(child_id)) } " " (text(child, "/workflowId")) " " (status(text(child, "/status"))) }
                }
            }
        }
    }
}

/// Ratings, corrections, labels and flags, and the form for one more.
fn said(visit: &Visit, run: &Value, annotations: Option<&Value>, now: Timestamp) -> Markup {
    let list = annotations.map(|list| items(list, "/annotations")).unwrap_or_default();
    let path = format!("/console/runs/{}/annotate", crate::segment(text(run, "/runId")));
    html! {
        h2 #said { "What was said of it" }
        @if list.is_empty() { p.muted { "Nothing yet." } }
        ul.plain {
            @for said in list {
                li {
                    b { (text(said, "/signal/kind")) } " "
                    @if let Some(rating) = whole(said, "/signal/rating") { (rating) " of 5 " }
                    (text(said, "/signal/label")) (text(said, "/signal/correction")) " "
                    (text(said, "/note")) " "
                    span.muted { (when(now, time(said, "/createdAt"))) " " (id(text(said, "/annotationId"))) }
                }
            }
        }
        @if visit.may("approvals:respond") {
            (act(visit, &path, html! {
                div.inline {
                    label { "Kind " select name="kind" { option { "rating" } option { "label" } option { "correction" } option { "flag" } } }
                    label { "Rating " select name="rating" { @for rating in ["", "5", "4", "3", "2", "1"] { option { (rating) } } } }
                    label { "Label or correction " input name="text" maxlength="256"; }
                    label { "Note " input name="note" maxlength="2000"; }
                    button type="submit" { "Say it" }
                }
            }))
        }
    }
}
