//! What was spent, on what, and what the members may still spend.

use std::collections::BTreeMap;

use axum::response::Response;
use callboard_protocol::Timestamp;
use maud::{Markup, html};
use serde_json::Value;

use crate::api::{segment, with_query};
use crate::draw::bars::{Bar, share, stacked};
use crate::layout::{Page, Screen, figure, heading, nothing};
use crate::pages::overview::{recent, tokens};
use crate::pages::runs;
use crate::trouble::Trouble;
use crate::value::{items, number, text, time, whole};
use crate::visit::Visit;
use crate::words::{count, money, short};

const DAYS: i64 = 14;
const DAY_MS: i64 = 24 * 3_600_000;
/// Members whose budgets are asked for.
const MOST_MEMBERS: usize = 50;

/// `GET /console/money`
pub(crate) async fn page(visit: Visit) -> Result<Response, Trouble> {
    let now = visit.now();
    let since = Timestamp::from_millis((now.as_millis() / DAY_MS - DAYS + 1) * DAY_MS);
    let runs = recent(&visit, since).await?;
    let roster = visit
        .find_with("manifest:read", &format!("{}/roster", crate::EXTENSION))
        .await?
        .unwrap_or_default();
    let spent: f64 = runs.iter().filter_map(usd).sum();
    let unpriced = runs.iter().filter(|run| tokens(run) > 0 && usd(run).is_none()).count();
    let mut dearest: Vec<Value> =
        runs.iter().filter(|run| usd(run).is_some_and(|usd| usd > 0.0)).cloned().collect();
    dearest.sort_by(|a, b| usd(b).unwrap_or(0.0).total_cmp(&usd(a).unwrap_or(0.0)));
    dearest.truncate(10);
    let body = html! {
        (heading("Money", html! {}))
        dl.figures.big {
            (figure("Spent in 14 days", html! { (money(spent)) }))
            (figure("Tokens", html! { (count(runs.iter().map(tokens).sum())) }))
            (figure("Runs that asked a model", html! { (runs.iter().filter(|run| tokens(run) > 0).count()) }))
            @if unpriced > 0 { (figure("Runs without a price", html! { (unpriced) })) }
        }
        p.muted { "Estimates from the providers' prices, of the newest 1000 runs." }
        h2 { "By day" }
        (stacked("Spent by day", &by_day(&runs, now)))
        div.scale { span { (DAYS) " days ago" } span { "today" } }
        div.columns {
            section { h2 { "By workflow" } (by(&runs, "/workflowId", "/console/workflows/")) }
            section { h2 { "By member" } (by(&runs, "/rosterId", "/console/roster/")) }
        }
        h2 { "Budgets of today" }
        (budgets(&visit, &roster).await?)
        h2 { "Dearest runs" }
        @if dearest.is_empty() { (nothing("No run cost anything.", "")) } @else { (runs::table(&dearest, now, false)) }
    };
    let since = since.to_string();
    Page::new(Screen::Money, "Money", body)
        .from(with_query(&format!("{}/runs", crate::EXTENSION), [("since", since.as_str())]))
        .show(&visit)
        .await
}

fn usd(run: &Value) -> Option<f64> {
    number(run, "/metrics/openwopCost/usd")
}

/// A bar for each day; tokens where nothing costs anything, so that a host with free models has a picture, too.
fn by_day(runs: &[Value], now: Timestamp) -> Vec<Bar> {
    let is_free = !runs.iter().any(|run| usd(run).is_some_and(|usd| usd > 0.0));
    let today = now.as_millis() / DAY_MS;
    let days = (0..DAYS).rev().map(|ago| {
        let of = runs.iter().filter(|run| {
            time(run, "/createdAt").is_some_and(|at| at.as_millis() / DAY_MS == today - ago)
        });
        let (spent, used) = of.fold((0.0, 0), |(spent, used), run| {
            (spent + usd(run).unwrap_or(0.0), used + tokens(run))
        });
        let day = Timestamp::from_millis((today - ago) * DAY_MS).to_string();
        let label = format!(
            "{}: {}, {} tokens",
            day.get(..10).unwrap_or_default(),
            money(spent),
            count(used)
        );
        Bar { label, parts: vec![("busy", if is_free { used as f64 } else { spent })] }
    });
    days.collect()
}

fn by(runs: &[Value], pointer: &str, folder: &str) -> Markup {
    let mut sums: BTreeMap<&str, (f64, u64, usize)> = BTreeMap::new();
    for run in runs.iter().filter(|run| tokens(run) > 0) {
        let sum = sums.entry(text(run, pointer)).or_default();
        *sum = (sum.0 + usd(run).unwrap_or(0.0), sum.1 + tokens(run), sum.2 + 1);
    }
    let mut rows: Vec<_> = sums.into_iter().collect();
    rows.sort_by(|(_, a), (_, b)| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
    html! {
        @if rows.is_empty() { p.muted { "Nothing." } }
        @else { table {
            thead { tr { th {} th.num { "Runs" } th.num { "Tokens" } th.num { "Cost" } } }
            tbody { @for (name, (spent, used, number)) in rows.into_iter().take(12) {
                tr { td { @if name.is_empty() { span.muted { "nobody" } } @else { a href={ (folder) (segment(name)) } { (short(name)) } } } td.num { (number) } td.num { (count(used)) } td.num { (money(spent)) } }
            } }
        } }
    }
}

async fn budgets(visit: &Visit, roster: &Value) -> Result<Markup, Trouble> {
    let mut rows = Vec::new();
    for member in items(roster, "/roster").iter().take(MOST_MEMBERS) {
        let roster_id = text(member, "/rosterId");
        let path = format!("{}/roster/{}/budget", crate::EXTENSION, segment(roster_id));
        if let Some(budget) = visit.find_with("runs:read", &path).await? {
            rows.push((roster_id, text(member, "/persona"), budget));
        }
    }
    Ok(html! {
        @if rows.is_empty() { p.muted { "Nobody is hired, so nobody has a budget." } }
        @else { div.scroll { table {
            thead { tr { th { "Member" } th.num { "Spent" } th { "Of" } th.num { "Tokens" } th { "Of" } } }
            tbody { @for (roster_id, persona, budget) in &rows {
                @let spent = number(budget, "/spent/costUsd").unwrap_or(0.0);
                @let used = whole(budget, "/spent/inputTokens").unwrap_or(0) + whole(budget, "/spent/outputTokens").unwrap_or(0);
                tr {
                    td { a href={ "/console/roster/" (segment(roster_id)) } { (persona) } }
                    td.num { (money(spent)) } td { @match number(budget, "/limits/maxCostUsd") { Some(most) => { (money(most)) (share(spent, most)) } None => { span.muted { "no limit" } } } }
                    td.num { (count(used)) } td { @match whole(budget, "/limits/maxTokens") { Some(most) => { (count(most)) (share(used as f64, most as f64)) } None => { span.muted { "no limit" } } } }
                }
            } }
        } } }
    })
}
