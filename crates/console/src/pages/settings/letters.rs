//! Deliveries to a webhook: what is on its way with its attempts, and what was given up.

use axum::extract::Path;
use axum::http::Method;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde_json::Value;

use super::host;
use crate::api::{Call, segment};
use crate::layout::{Page, Screen, act, heading};
use crate::trouble::Trouble;
use crate::value::{items, text, time, whole};
use crate::visit::{Act, Visit};
use crate::words::{id, short, when};

fn page_of(webhook: &str) -> String {
    format!("/console/settings/webhooks/{}", segment(webhook))
}

/// `GET /console/settings/webhooks/{webhookId}`
pub(crate) async fn page(visit: Visit, Path(webhook): Path<String>) -> Result<Response, Trouble> {
    let base = format!("{}/{}", host("webhooks"), segment(&webhook));
    let (letters, pending) = (format!("{base}/dead-letters"), format!("{base}/deliveries"));
    let dead = visit.get(&letters).await?;
    let waiting = visit.find(&pending).await?.unwrap_or_default();
    let all = items(&dead, "/deadLetters");
    let body = html! {
        p.muted { a href="/console/settings?tab=webhooks" { "Webhooks" } }
        (heading("Deliveries", html! { @if !all.is_empty() {
            (act(&visit, &page_of(&webhook), html! { button type="submit" name="act" value="replay-all" data-sure="Send all of them again?" { "Replay all" } }))
        } }))
        p.ids { (id(&webhook)) }
        h2 { "Dead letters" }
        @if all.is_empty() { p.muted { "None: everything was delivered." } } @else { (dead_letters(&visit, &webhook, all)) }
        h2 { "On their way" }
        (on_their_way(&visit, items(&waiting, "/deliveries")))
    };
    Page::new(Screen::Settings, "Deliveries", body).from(letters).from(pending).show(&visit).await
}

fn dead_letters(visit: &Visit, webhook: &str, all: &[Value]) -> Markup {
    html! { div.scroll { table {
        thead { tr { th { "Given up" } th { "Event" } th.num { "Attempts" } th { "Reason" } th { span.hidden { "Acts" } } } }
        tbody { @for letter in all { tr {
            td { (when(visit.now(), time(letter, "/deadLetteredAt"))) } td { (event(letter)) }
            td.num { (whole(letter, "/attempts").unwrap_or(0)) } td { (text(letter, "/reason")) }
            td { div.inline { @for (name, word, class) in [("replay", "Replay", ""), ("drop", "Drop", "danger")] {
                (act(visit, &page_of(webhook), html! {
                    input type="hidden" name="delivery" value=(text(letter, "/deliveryId"));
                    button class=(class) type="submit" name="act" value=(name) { (word) }
                }))
            } } }
        } } }
    } } }
}

/// The payload of a letter is its event, which the run's log holds.
fn event(line: &Value) -> Markup {
    let (run, sequence) = (text(line, "/runId"), whole(line, "/sequence").unwrap_or(0));
    html! {
        code { (text(line, "/eventType")) } " "
        a href={ "/console/runs/" (segment(run)) "?tab=log&from=" (sequence) "#e-" (sequence) } { (short(run)) }
    }
}

fn on_their_way(visit: &Visit, all: &[Value]) -> Markup {
    html! {
        @if all.is_empty() { p.muted { "Nothing." } }
        @else { div.scroll { table {
            thead { tr { th { "Due" } th { "Event" } th.num { "Attempts" } } }
            tbody { @for line in all { tr {
                td { (when(visit.now(), time(line, "/dueAt"))) } td { (event(line)) } td.num { (whole(line, "/attempts").unwrap_or(0)) }
            } } }
        } } }
    }
}

/// `POST /console/settings/webhooks/{webhookId}`
pub(crate) async fn change(
    Path(webhook): Path<String>,
    Act { visit, form }: Act,
) -> Result<Response, Trouble> {
    let base = format!("{}/{}/dead-letters", host("webhooks"), segment(&webhook));
    let one = format!("{base}/{}", segment(form.get("delivery")));
    let call = match form.get("act") {
        "replay-all" => Call::bare(Method::POST, format!("{base}/replay")),
        "drop" => Call::bare(Method::DELETE, one),
        _ => Call::bare(Method::POST, format!("{one}/replay")),
    };
    visit.call(call).await?;
    Ok(Redirect::to(&page_of(&webhook)).into_response())
}
