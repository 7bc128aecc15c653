//! The audit log: what changed access or policy, and whether it is as it was written.

use maud::{Markup, html};
use serde_json::Value;

use super::host;
use crate::api::with_query;
use crate::layout::nothing;
use crate::trouble::Trouble;
use crate::value::{flag, folded, items, text, time, whole};
use crate::visit::Visit;
use crate::words::{id, status, when};

const PAGE: &str = "100";
/// Entries that one look at the chain walks, which one request may.
const WALKED: u64 = 20_000;

pub(super) async fn log(visit: &Visit) -> Result<Markup, Trouble> {
    let after = visit.query.get("after");
    let asked = [("order", "newest"), ("after", after), ("limit", PAGE)];
    let found = visit.list(&host("audit"), asked).await?;
    let all = items(&found, "/entries");
    let next = whole(&found, "/next").map(|next| next.to_string());
    let verdict = match (visit.query.get("verify"), all.first()) {
        ("1", Some(newest)) => Some(verdict(visit, whole(newest, "/sequence")).await?),
        _ => None,
    };
    if all.is_empty() && after.is_empty() {
        return Ok(nothing(
            "Nothing has changed access or policy yet. Keys, secrets, packs, deployments, budgets, members and what else a caller makes or changes are noted here, in a chain that shows whether somebody changed it.",
            "callboard audit list",
        ));
    }
    Ok(html! {
        div.inline {
            a.button href="/console/settings?tab=audit&verify=1" { "Verify" }
            span.muted { "Every entry holds the hash of the one before; signed checkpoints stand over them." }
        }
        @if let Some(verdict) = verdict { (verdict) }
        div.scroll tabindex="0" { table {
            thead { tr { th.num { "No." } th { "When" } th { "What" } th { "Of" } th { "By" } th.wide { "Details" } } }
            tbody { @for kept in all { (row(visit, kept)) } }
        } }
        nav.pages aria-label="Pages of the log" {
            @if !after.is_empty() { a href="/console/settings?tab=audit" { "« newest" } }
            @if let Some(next) = &next { a rel="next" href=(with_query("/console/settings", [("tab", "audit"), ("after", next)])) { "earlier ›" } }
        }
        p.muted { "Keep a copy where nobody of this host can write: " code { "callboard audit export > audit.jsonl" } "." }
    })
}

fn row(visit: &Visit, kept: &Value) -> Markup {
    let entry = &kept["entry"];
    html! {
        tr {
            td.num { (whole(kept, "/sequence").unwrap_or(0)) }
            @if entry.is_object() {
                td.whole { (when(visit.now(), time(entry, "/at"))) }
                td { code { (text(entry, "/action")) } }
                td { (id(text(entry, "/subject"))) }
                td { (id(text(entry, "/actor"))) @let operation = text(entry, "/operation"); @if !operation.is_empty() { br; small { (operation) } } }
                td.wide { (folded("Details", &entry["details"])) }
            } @else {
                td colspan="5" { (status("error")) " This entry cannot be read." }
            }
        }
    }
}

/// What the host finds when it walks the newest part of the log again.
async fn verdict(visit: &Visit, newest: Option<u64>) -> Result<Markup, Trouble> {
    let newest = newest.unwrap_or(0);
    let from = newest.saturating_sub(WALKED - 1);
    let (from_text, to_text) = (from.to_string(), newest.to_string());
    let asked = [("fromSeq", from_text.as_str()), ("toSeq", &to_text)];
    let found = visit.list("/v1/audit/verify", asked).await?;
    let has_bad_checkpoint = found["checkpointsValid"] == false;
    let is_whole = flag(&found, "/chainValid") && !has_bad_checkpoint;
    let wrong = items(&found, "/anomalies");
    let checkpoints = items(&found, "/checkpoints").len();
    Ok(html! {
        @if is_whole && wrong.is_empty() {
            p.fine role="status" {
                "Entries " (from) " to " (newest) " are as they were written; "
                (checkpoints) @if checkpoints == 1 { " checkpoint verifies." } @else { " checkpoints verify." }
            }
        } @else {
            div.wrong role="alert" {
                "The log is not as it was written."
                @if has_bad_checkpoint { " A signed checkpoint does not verify." }
                ul.problems { @for anomaly in wrong.iter().take(50) { li { "entry " (whole(anomaly, "/atSeq").unwrap_or(0)) } } }
            }
        }
        @if from > 0 { p.muted { "Older ones are walked by " code { "callboard audit verify" } "." } }
    })
}
