//! One run as one file that needs nothing else: story, waterfall, graph, figures and log, for an issue or a colleague.
//!
//! It is made from the debug bundle, from which the host has removed what is secret.

use axum::extract::Path;
use axum::http::{HeaderValue, header};
use axum::response::{Html, IntoResponse, Response};
use callboard_protocol::Timestamp;
use maud::{DOCTYPE, PreEscaped, html};
use serde_json::Value;

use crate::api::segment;
use crate::assets::STYLE_TEXT;
use crate::draw::graph::{Mark, graph};
use crate::draw::waterfall::{spans, waterfall};
use crate::layout::figure;
use crate::pages::run::{Names, failure, log_row, story};
use crate::trouble::Trouble;
use crate::value::{fields, flag, items, number, shown, text, time, whole};
use crate::visit::Visit;
use crate::words::{count, duration, exact, money, status};

/// What a report is made from.
#[derive(Debug, Clone, Copy)]
pub struct ReportSource<'a> {
    /// The debug bundle of the run.
    pub bundle: &'a Value,
    /// Its workflow, where there is one.
    pub definition: Option<&'a Value>,
    pub at: Timestamp,
}

/// `GET /console/runs/{runId}/report`
pub(crate) async fn page(visit: Visit, Path(run_id): Path<String>) -> Result<Response, Trouble> {
    let path = format!("/v1/runs/{}", segment(&run_id));
    let bundle = visit.get(&format!("{path}/debug-bundle")).await?;
    let definition = crate::pages::run::definition(&visit, &bundle["run"]).await?;
    let told = ReportSource { bundle: &bundle, definition: definition.as_ref(), at: visit.now() };
    let mut response = Html(report(told)).into_response();
    let policy = HeaderValue::from_static(
        "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox",
    );
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    response.headers_mut().insert(
        header::CONTENT_DISPOSITION,
        HeaderValue::from_static("attachment; filename=\"run.html\""),
    );
    Ok(response)
}

/// The file. No script, nothing from elsewhere.
pub fn report(told: ReportSource<'_>) -> String {
    let run = &told.bundle["run"];
    let events = items(told.bundle, "/events");
    let names = Names::of(told.definition);
    let began = time(run, "/startedAt");
    let end = time(run, "/completedAt").unwrap_or(told.at);
    let states = fields(run, "/nodeStates");
    let mark = |node: &str| {
        let state =
            states.iter().find(|(id, _)| *id == node).map(|(_, state)| text(state, "/status"));
        Mark { status: state.unwrap_or_default().to_owned(), link: None }
    };
    let page = html! {
        (DOCTYPE)
        html lang="en" data-theme="auto" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'";
                title { (text(run, "/workflowId")) " " (text(run, "/runId")) }
                style { (PreEscaped(STYLE_TEXT)) "main { margin: 0 auto; }" }
            }
            body { main {
                h1 { (text(run, "/workflowId")) " " (status(text(run, "/status"))) }
                p.ids { code { (text(run, "/runId")) } " · told " (exact(told.at)) " by " (text(told.bundle, "/host/name")) " " (text(told.bundle, "/host/version")) }
                @if run["error"].is_object() { (failure(&run["error"])) }
                dl.figures { (figures(run, began, end)) }
                @if flag(told.bundle, "/truncated") { p.waits { "The log is longer than this report." } }
                h2 { "Story" } (story(events, &names, began))
                h2 { "Waterfall" } (waterfall(&spans(events, |node| names.name(node)), end, |_| None))
                @if let Some(drawn) = told.definition.and_then(|definition| graph(definition, mark)) { h2 { "Graph" } (drawn) }
                h2 { "Variables" }
                dl.fields { @for (name, value) in fields(run, "/variables") { dt { (name) } dd { (shown(value)) } } }
                h2 { "Log" }
                ol.log { @for event in events { (log_row(event, &names, began, false)) } }
            } }
        }
    };
    page.into_string()
}

fn figures(run: &Value, began: Option<Timestamp>, end: Timestamp) -> maud::Markup {
    let cost = &run["metrics"]["openwopCost"];
    html! {
        @if let Some(began) = began { (figure("Started", html! { (exact(began)) })) (figure("Took", html! { (duration(end.since(began))) })) }
        @if let Some(usd) = number(cost, "/usd") { (figure("Cost", html! { (money(usd)) })) }
        @if cost["tokens"].is_object() { (figure("Tokens", html! { (count(whole(cost, "/tokens/input").unwrap_or(0))) " in, " (count(whole(cost, "/tokens/output").unwrap_or(0))) " out" })) }
        @if !text(cost, "/model").is_empty() { (figure("Model", html! { (text(cost, "/provider")) "/" (text(cost, "/model")) })) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// K-14, K-07
    #[test]
    fn a_report_is_one_file_without_script() {
        let evil = "</style><script>alert(1)</script><img src=http://evil.example/x>";
        let bundle = json!({
            "run": { "runId": evil, "workflowId": evil, "status": "failed", "error": { "code": evil, "message": evil },
                "variables": { evil: evil }, "startedAt": "2026-01-01T00:00:00Z" },
            "events": [
                { "sequence": 0, "type": "node.started", "nodeId": evil, "timestamp": "2026-01-01T00:00:00Z", "payload": { "typeId": evil } },
                { "sequence": 1, "type": evil, "payload": { evil: evil }, "timestamp": evil },
            ],
        });
        let definition = json!({ "nodes": [{ "id": evil, "name": evil }], "edges": [] });
        let at = "2026-01-01T00:00:09Z".parse().unwrap();
        let file = report(ReportSource { bundle: &bundle, definition: Some(&definition), at });
        assert!(!file.contains("<script") && !file.contains("<img"), "{file}");
        assert!(!file.contains("src=\"") && !file.contains("<link"), "nothing from elsewhere");
        assert_eq!(file.matches("</style>").count(), 1);
    }
}
