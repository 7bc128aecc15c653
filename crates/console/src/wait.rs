//! Why a run waits, in words and with the way to what it waits for.

use callboard_protocol::Timestamp;
use maud::{Markup, html};
use serde_json::Value;

use crate::api::segment;
use crate::value::{text, time};
use crate::words::{short, when};

/// A few words for a line of a list; nothing for a run that does not wait.
pub(crate) fn briefly(run: &Value, now: Timestamp) -> Markup {
    let wait = &run["wait"];
    let until = time(wait, "/until");
    html! {
        @match text(wait, "/reason") {
            "paused" => { "paused" }
            "question" => a href=(question(run)) { "asks " (text(wait, "/nodeId")) },
            "budget" => a href=(question(run)) { "asks for more budget" },
            "child" => { "child " a href={ "/console/runs/" (segment(text(wait, "/childRunId"))) } { (short(text(wait, "/childRunId"))) } },
            "retry" => { "tries again " (when(now, until)) }
            "timer" => { "timer " (when(now, until)) }
            "no-free-place" => { "no free place" }
            "concurrency-limit" => { "limit " (text(wait, "/limit")) }
            "priority" => { "others go first" }
            "provider-limit" => { "provider limit" }
            other => { (other) }
        }
    }
}

/// A sentence for the head of a run.
pub(crate) fn sentence(run: &Value, now: Timestamp, name: impl Fn(&str) -> String) -> Markup {
    let wait = &run["wait"];
    let (node, until) = (name(text(wait, "/nodeId")), time(wait, "/until"));
    let since = html! { " " span.muted { "since " (when(now, time(wait, "/since"))) } };
    html! {
        @match text(wait, "/reason") {
            "" => {}
            reason => p.waits {
                @match reason {
                    "paused" => { "Somebody has paused it; it goes on when it is resumed." }
                    "question" => {
                        (node) " waits for "
                        @if text(wait, "/kind") == "external-event" { "something from outside" } @else { "an answer" }
                        @if until.is_some() { ", until " (when(now, until)) }
                        ". " a href=(question(run)) { "Look at the question" }
                    }
                    "budget" => { "A budget is used up. " a href=(question(run)) { "Say whether it is raised" } }
                    "child" => {
                        (node) " waits for the run that it started, "
                        a href={ "/console/runs/" (segment(text(wait, "/childRunId"))) } { (short(text(wait, "/childRunId"))) } "."
                    }
                    "retry" => { (node) " has failed and is tried again " (when(now, until)) "." }
                    "timer" => { "It waits for its time: it goes on " (when(now, until)) "." }
                    "no-free-place" => { "It could go on, but every place of the host is taken (limits.max_driven_runs)." }
                    "concurrency-limit" => { "It could go on, but as many runs like it are at work as may be (" (text(wait, "/limit")) ")." }
                    "priority" => { "It could go on, but runs with a higher priority go first." }
                    "provider-limit" => { "A call of a model waits its turn: its provider is asked as much as it may be (" (text(wait, "/limit")) ")." }
                    other => { "It waits: " (other) "." }
                }
                (since)
            }
        }
    }
}

fn question(run: &Value) -> String {
    format!(
        "/console/inbox/{}/{}",
        segment(text(run, "/runId")),
        segment(text(run, "/wait/nodeId"))
    )
}
