//! Two runs side by side, from their common prefix on.

use std::time::Duration;

use axum::response::Response;
use callboard_protocol::Timestamp;
use maud::{Markup, html};
use serde_json::Value;

use crate::api::{segment, with_query};
use crate::layout::{Page, Screen, heading};
use crate::trouble::Trouble;
use crate::value::{fields, flag, folded, items, json, number, shown, text, time, whole};
use crate::visit::Visit;
use crate::words::{count, duration, money, short, status};

/// Differences that are shown; the API cuts as well.
const MOST: usize = 200;

/// `GET /console/compare?a&b`
pub(crate) async fn page(visit: Visit) -> Result<Response, Trouble> {
    let (a, b) = (visit.query.get("a").to_owned(), visit.query.get("b").to_owned());
    if a.is_empty() || b.is_empty() {
        return Page::new(
            Screen::Runs,
            "Compare",
            html! { (heading("Compare", html! {})) (pick(&a, &b)) },
        )
        .show(&visit)
        .await;
    }
    let path = with_query(&format!("/v1/runs/{}:diff", segment(&a)), [("against", b.as_str())]);
    let diff = visit.get(&path).await?;
    let nodes = format!("{}/runs/{}/comparison", crate::EXTENSION, segment(&a));
    let nodes = visit.find(&with_query(&nodes, [("against", b.as_str())])).await?;
    let left = visit.get(&format!("/v1/runs/{}", segment(&a))).await?;
    let right = visit.get(&format!("/v1/runs/{}", segment(&b))).await?;
    let body = html! {
        (heading("Compare", html! {}))
        (pick(&a, &b))
        (sides(&left, &right, visit.now()))
        (verdict(&diff, &b, visit.may("runs:create")))
        (node_table(&nodes.unwrap_or_default()))
        (state_table(&diff))
        (events(&diff))
    };
    Page::new(Screen::Runs, "Compare", body)
        .from(path)
        .command(format!("callboard runs diff {a} {b}"))
        .show(&visit)
        .await
}

fn pick(a: &str, b: &str) -> Markup {
    html! {
        form.filters method="get" action="/console/compare" {
            label { "Run " input name="a" value=(a) size="36" required; }
            label { "with " input name="b" value=(b) size="36" required; }
            button type="submit" { "Compare" }
        }
    }
}

fn sides(a: &Value, b: &Value, now: Timestamp) -> Markup {
    let took = |run: &Value| {
        let began = time(run, "/startedAt");
        began
            .map(|began| duration(time(run, "/completedAt").unwrap_or(now).since(began)))
            .unwrap_or_default()
    };
    let tokens = |run: &Value| {
        let of =
            |name: &str| whole(run, &format!("/metrics/openwopCost/tokens/{name}")).unwrap_or(0);
        format!("{} in, {} out", count(of("input")), count(of("output")))
    };
    let cost = |run: &Value| number(run, "/metrics/openwopCost/usd").map(money).unwrap_or_default();
    let model = |run: &Value| text(run, "/metrics/openwopCost/model").to_owned();
    let link = |run: &Value| html! { a href={ "/console/runs/" (segment(text(run, "/runId"))) } { (short(text(run, "/runId"))) } };
    html! {
        div.scroll { table {
            thead { tr { th {} th { (link(a)) } th { (link(b)) } } }
            tbody {
                tr { td.muted { "Workflow" } td { (text(a, "/workflowId")) } td { (text(b, "/workflowId")) } }
                tr { td.muted { "State" } td { (status(text(a, "/status"))) } td { (status(text(b, "/status"))) } }
                tr { td.muted { "Took" } td { (took(a)) } td { (took(b)) } }
                tr { td.muted { "Tokens" } td { (tokens(a)) } td { (tokens(b)) } }
                tr { td.muted { "Cost" } td { (cost(a)) } td { (cost(b)) } }
                tr { td.muted { "Model" } td { (model(a)) } td { (model(b)) } }
                tr { td.muted { "Events" } td { (whole(a, "/lastSequence").map_or(0, |last| last + 1)) } td { (whole(b, "/lastSequence").map_or(0, |last| last + 1)) } }
            }
        } }
    }
}

fn verdict(diff: &Value, b: &str, may_fork: bool) -> Markup {
    html! {
        @match whole(diff, "/divergedAtSeq") {
            None => p.fine { "They tell the same." },
            Some(at) => p.waits {
                "They are the same up to event " (at) " and differ from there on. "
                @if may_fork { a href={ "/console/runs/" (segment(b)) "?fork=" (at) } { "Fork from there again" } }
            },
        }
        @if flag(diff, "/truncated") { p.muted { "Only a part was compared." } }
    }
}

/// Node by node: what each came to, what it took and cost, and what it gave where that differs.
fn node_table(compared: &Value) -> Markup {
    let all = items(compared, "/nodes");
    html! {
        @if !all.is_empty() {
            h2 { "Node by node" }
            div.scroll tabindex="0" { table.nodes {
                thead { tr { th { "Node" } th {} th { "First" } th { "Second" } } }
                tbody { @for node in all.iter().take(MOST) {
                    @let op = text(node, "/op");
                    tr class=(op) {
                        td { (text(node, "/nodeId")) @if let Some(visit) = whole(node, "/visit").filter(|visit| *visit > 0) { " " span.muted { "visit " (visit + 1) } } }
                        td { span.tag { (op) } }
                        td { (visit_of(&node["a"])) } td { (visit_of(&node["b"])) }
                    }
                } }
            } }
        }
    }
}

fn visit_of(visit: &Value) -> Markup {
    let took = whole(visit, "/durationMs").map(Duration::from_millis).map(duration);
    let cost = number(visit, "/used/costUsd").filter(|cost| *cost > 0.0).map(money);
    let tokens = whole(visit, "/used/inputTokens").unwrap_or(0)
        + whole(visit, "/used/outputTokens").unwrap_or(0);
    html! {
        @if visit.is_object() {
            (status(text(visit, "/outcome"))) " "
            span.muted {
                (took.unwrap_or_default())
                @if tokens > 0 { ", " (count(tokens)) " tokens" }
                @if let Some(cost) = cost { ", " (cost) }
            }
            @if !text(visit, "/error").is_empty() { p { code { (text(visit, "/error")) } } }
            (folded("Outputs", &visit["outputs"]))
        } @else { span.muted { "–" } }
    }
}

fn state_table(diff: &Value) -> Markup {
    let changed = fields(diff, "/stateDiff");
    html! {
        @if !changed.is_empty() {
            h2 { "What they hold" }
            div.scroll tabindex="0" { table {
                thead { tr { th {} th { "First" } th { "Second" } } }
                tbody { @for (name, value) in changed { tr { td.muted { (name) } (held(value, "a", "removed")) (held(value, "b", "added")) } } }
            } }
        }
    }
}

/// What one of the two holds, if it holds it.
fn held(value: &Value, side: &str, class: &str) -> Markup {
    html! { @match value.get(side) { Some(own) => td class=(class) { (shown(own)) }, None => td { span.muted { "–" } } } }
}

fn events(diff: &Value) -> Markup {
    let all = items(diff, "/eventDiffs");
    html! {
        @if !all.is_empty() {
            h2 { "Events" }
            div.diff {
                @for event in all.iter().take(MOST) { (side(event, "/aEvent", "removed")) (side(event, "/bEvent", "added")) }
            }
            @if all.len() > MOST { p.muted { (all.len() - MOST) " more are not shown." } }
        }
    }
}

fn side(diff: &Value, pointer: &str, class: &str) -> Markup {
    let event = diff.pointer(pointer).filter(|event| event.is_object());
    html! {
        div class=(if event.is_some() { class } else { "" }) {
            @if let Some(event) = event {
                details {
                    summary { span.num { (whole(diff, "/seq").unwrap_or(0)) } " " code { (text(event, "/type")) } " " (text(event, "/nodeId")) }
                    (json(&event["payload"]))
                }
            }
        }
    }
}
