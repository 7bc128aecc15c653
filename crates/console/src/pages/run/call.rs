//! One call of a model: exactly what it was sent, what it answered, and what that used.

use axum::extract::Path;
use axum::response::Response;
use maud::{Markup, html};
use serde_json::Value;

use crate::api::segment;
use crate::layout::{Page, Screen, figure};
use crate::trouble::Trouble;
use crate::value::{cut, flag, folded, is_empty, items, json, number, text, time, whole};
use crate::visit::Visit;
use crate::words::{count, exact, money, short};

/// The longest text of one message that a page prints whole.
const LONGEST: usize = 60_000;

/// `GET /console/runs/{runId}/calls/{callId}`
pub(crate) async fn page(
    visit: Visit,
    Path((run_id, call)): Path<(String, String)>,
) -> Result<Response, Trouble> {
    let api = format!("{}/runs/{}/calls/{}", crate::EXTENSION, segment(&run_id), segment(&call));
    let found = visit.get(&api).await?;
    let back = format!("/console/runs/{}", segment(&run_id));
    let body = html! {
        p.muted { a href=(back) { (short(&run_id)) } " · " a href={ (back) "?tab=log&from=" (call) "#e-" (call) } { "event " (call) } }
        h1 { "Call of " (text(&found, "/call/provider")) "/" (text(&found, "/call/model")) }
        dl.figures { (figures(&found)) }
        @if !flag(&found, "/isWhole") { p.waits { "The host has not kept all of what was sent: the call is older than this build, or its effect is gone." } }
        (request(&found["request"]))
        (answer(&found["answer"]))
        (folded("All of it as JSON", &found))
    };
    Page::new(Screen::Runs, format!("Call {call} of {}", short(&run_id)), body)
        .from(api)
        .command(format!("callboard runs request {run_id} {call}"))
        .show(&visit)
        .await
}

fn figures(found: &Value) -> Markup {
    let call = &found["call"];
    html! {
        (figure("Answered", html! { (time(call, "/at").map(exact).unwrap_or_default()) }))
        (figure("Node", html! { (text(call, "/nodeId")) @if let Some(visit) = whole(call, "/visit").filter(|visit| *visit > 0) { ", visit " (visit + 1) } }))
        (figure("Tokens", html! { (count(whole(call, "/inputTokens").unwrap_or(0))) " in, " (count(whole(call, "/outputTokens").unwrap_or(0))) " out" }))
        @if let Some(cached) = whole(call, "/cachedTokens") { (figure("Of them cached", html! { (count(cached)) })) }
        (figure("Cost", html! { (number(call, "/costUsd").map_or("unknown".to_owned(), money)) }))
        @if let Some(troubled) = whole(found, "/troubledBefore").filter(|troubled| *troubled > 0) { (figure("In trouble before", html! { (troubled) })) }
        @let stop = text(found, "/answer/stop");
        @if !stop.is_empty() { (figure("Ended with", html! { (stop) })) }
    }
}

fn request(request: &Value) -> Markup {
    let (system, messages, tools) =
        (text(request, "/system"), items(request, "/messages"), items(request, "/tools"));
    html! {
        @if !is_empty(request) {
            h2 { "Sent" }
            p.muted {
                "at most " (whole(request, "/maxOutputTokens").unwrap_or(0)) " tokens back"
                @if let Some(temperature) = number(request, "/temperature") { ", temperature " (temperature) }
                @if let Some(seed) = whole(request, "/seed") { ", seed " (seed) }
            }
            ol.messages {
                @if !system.is_empty() { (message("system", html! { pre data-copy="" tabindex="0" { (cut(system, LONGEST)) } })) }
                @for said in messages { (message(text(said, "/role"), words(said))) }
            }
            @if !tools.is_empty() {
                h2 { "Tools that it was offered" }
                @for tool in tools {
                    details.fold { summary { code { (text(tool, "/name")) } " " span.muted { (cut(text(tool, "/description"), 120)) } } (json(&tool["parameters"])) }
                }
            }
            (folded("Schema that the answer must match", &request["responseSchema"]))
        }
    }
}

fn message(role: &str, words: Markup) -> Markup {
    html! { li { p.label { (role) } (words) } }
}

fn words(said: &Value) -> Markup {
    let (content, calls) = (text(said, "/text"), items(said, "/calls"));
    html! {
        @if !content.is_empty() { pre data-copy="" tabindex="0" { (cut(content, LONGEST)) } }
        @for call in calls { p { "calls " code { (text(call, "/name")) } } (json(&call["arguments"])) }
        @if said["result"].is_object() {
            p { code { (text(said, "/result/name")) } " returned" }
            pre data-copy="" tabindex="0" { (cut(text(said, "/result/content"), LONGEST)) }
        }
    }
}

fn answer(answer: &Value) -> Markup {
    let thinking = text(answer, "/thinking");
    html! {
        @if !is_empty(answer) {
            h2 { "Answered" }
            @if !thinking.is_empty() { details.fold { summary { "Thinking" } div.prose { (cut(thinking, LONGEST)) } } }
            ol.messages { (message("assistant", html! {
                pre data-copy="" tabindex="0" { (cut(text(answer, "/text"), LONGEST)) }
                @for call in items(answer, "/toolCalls") { p { "calls " code { (text(call, "/name")) } } (json(&call["arguments"])) }
            })) }
        }
    }
}
