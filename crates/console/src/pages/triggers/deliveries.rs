//! What came in over a trigger: deliveries with attempts and latency, dead letters with their content.

use std::time::Duration;

use axum::extract::Path;
use axum::response::Response;
use maud::{Markup, html};
use serde_json::Value;

use super::{base, page_of};
use crate::api::{segment, with_query};
use crate::layout::{Page, Screen, act, heading};
use crate::trouble::Trouble;
use crate::value::{items, json, text, time, whole};
use crate::visit::Visit;
use crate::words::{duration, id, short, status, when};

/// The newest deliveries.
pub(super) fn deliveries(visit: &Visit, found: &Value) -> Markup {
    let all = items(found, "/deliveries");
    html! {
        h2 { "What came in" }
        @if all.is_empty() { p.muted { "Nothing in the last week." } }
        @else { div.scroll { table {
            thead { tr { th { "Received" } th { "State" } th { "Run" } th.num { "Attempts" } th.num { "Latency" } th.wide { "Reason" } } }
            tbody { @for line in all { tr {
                td { (when(visit.now(), time(line, "/receivedAt"))) }
                td { (status(text(line, "/state"))) @if let Some(next) = time(line, "/nextAttemptAt") { " " small { "again " (when(visit.now(), Some(next))) } } }
                td { @let run = text(line, "/runId"); @if !run.is_empty() { a href={ "/console/runs/" (segment(run)) } { (short(run)) } } }
                td.num { (whole(line, "/attempts").unwrap_or(0)) }
                td.num { (whole(line, "/latencyMs").map(|took| duration(Duration::from_millis(took))).unwrap_or_default()) }
                td.wide { (text(line, "/reason")) }
            } } }
        } } }
    }
}

pub(super) fn dead_letters(visit: &Visit, trigger: &str, dead: &Value) -> Markup {
    let (all, next) = (items(dead, "/deliveries"), text(dead, "/nextCursor"));
    let may_act = visit.may("triggers:write");
    html! {
        div.heading {
            h2 { "Dead letters" }
            @if may_act && !all.is_empty() { div.actions {
                (act(visit, &page_of(trigger), html! { button type="submit" name="act" value="replay-all" data-sure="Start a run of each of them, up to 100?" { "Replay all" } }))
            } }
        }
        @if all.is_empty() { p.muted { "None: everything that came in became a run." } }
        @else { div.scroll { table {
            thead { tr { th { "Given up" } th { "Reason" } th { "Delivery" } th.wide { "Kept until" } th { span.hidden { "Acts" } } } }
            tbody { @for letter in all {
                @let delivery = text(letter, "/attemptEventId");
                tr {
                    td { (when(visit.now(), time(letter, "/deadLetteredAt"))) } td { (text(letter, "/reason")) }
                    td { @if may_act { a href={ (page_of(trigger)) "/letters/" (segment(delivery)) } { (short(delivery)) } } @else { (id(delivery)) } }
                    td.wide { (when(visit.now(), time(letter, "/expiresAt"))) }
                    td { @if may_act { (letter_acts(visit, trigger, delivery, text(letter, "/reason"))) } }
                }
            } }
        } } }
        @if !next.is_empty() { nav.pages { a rel="next" href=(with_query(&page_of(trigger), [("cursor", next)])) { "older ›" } } }
    }
}

fn letter_acts(visit: &Visit, trigger: &str, delivery: &str, reason: &str) -> Markup {
    html! { div.inline {
        // Of what was refused, nothing is kept that could become a run.
        @if reason != "verification_failed" {
            (act(visit, &page_of(trigger), html! { input type="hidden" name="delivery" value=(delivery); button type="submit" name="act" value="replay" { "Replay" } }))
        }
        (act(visit, &page_of(trigger), html! { input type="hidden" name="delivery" value=(delivery); button.danger type="submit" name="act" value="drop" data-sure="Forget this letter with its content?" { "Drop" } }))
    } }
}

/// `GET /console/triggers/{subscriptionId}/letters/{deliveryId}`
pub(crate) async fn letter(
    visit: Visit,
    Path((trigger, delivery)): Path<(String, String)>,
) -> Result<Response, Trouble> {
    let path = format!("{}/{}/dead-letters/{}", base(), segment(&trigger), segment(&delivery));
    let found = visit.get(&path).await?;
    let line = &found["delivery"];
    let body = html! {
        p.muted { a href=(page_of(&trigger)) { "Trigger " (short(&trigger)) } }
        (heading("Dead letter", letter_acts(&visit, &trigger, &delivery, text(line, "/reason"))))
        p.ids { (id(&delivery)) }
        dl.fields {
            dt { "Reason" } dd { (text(line, "/reason")) }
            dt { "Attempts" } dd { (whole(line, "/attempts").unwrap_or(0)) }
            dt { "Received" } dd { (when(visit.now(), time(line, "/receivedAt"))) }
        }
        h2 { "What came in" }
        @if found["event"].is_null() { p.muted { "Nothing is kept of what was refused." } } @else { (json(&found["event"])) }
    };
    Page::new(Screen::Triggers, "Dead letter", body)
        .from(path)
        .command(format!("callboard triggers deliveries {trigger} --letter {delivery}"))
        .show(&visit)
        .await
}
