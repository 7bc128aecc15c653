//! What was spent, on what, and what may still be spent. All sums are the host's own: no page adds up runs.

use axum::extract::Path;
use axum::http::Method;
use axum::response::{IntoResponse, Redirect, Response};
use callboard_protocol::Timestamp;
use maud::{Markup, html};
use serde_json::{Value, json};

use crate::api::{Call, segment, with_query};
use crate::draw::bars::{Bar, share, stacked};
use crate::layout::{Page, Screen, act, figure, heading, nothing, tabs};
use crate::pages::runs;
use crate::trouble::Trouble;
use crate::value::{flag, items, number, text, time, whole};
use crate::visit::{Act, Visit};
use crate::words::{count, money, short};

const PERIODS: [&str; 4] = ["7", "14", "30", "90"];
const USUAL: &str = "14";
/// Members whose budgets are asked for.
const MOST_MEMBERS: usize = 50;
/// Rows of one table.
const SHOWN: usize = 12;

/// `GET /console/money?days`
pub(crate) async fn page(visit: Visit) -> Result<Response, Trouble> {
    let asked = visit.query.get("days");
    let days = if PERIODS.contains(&asked) { asked } else { USUAL };
    let path = with_query(&format!("{}/spend", crate::EXTENSION), [("days", days)]);
    // Other hosts of the protocol count nothing by day.
    let spend = visit.find(&path).await?.unwrap_or_default();
    let roster = visit
        .find_with("manifest:read", &format!("{}/roster", crate::EXTENSION))
        .await?
        .unwrap_or_default();
    let periods = PERIODS.map(|period| {
        let name = match period {
            "7" => "7 days",
            "14" => "14 days",
            "30" => "30 days",
            _ => "90 days",
        };
        (format!("/console/money?days={period}"), name, period == days)
    });
    let dearest = items(&spend, "/dearestRuns");
    let body = html! {
        (heading("Money", html! {}))
        (tabs("Period", &periods))
        dl.figures.big { (figures(&spend)) }
        p.muted { "Estimates from the providers' prices. Days begin at midnight UTC." @if flag(&spend, "/isCut") { " More names stand behind those that are shown." } }
        h2 { "By day" }
        (stacked("Spent by day", &by_day(&spend)))
        div.scale { span { (days) " days ago" } span { "today" } }
        div.columns {
            section { h2 { "By agent" } (by(&spend, "/byAgent", Some("/console/agents/"), &roster)) }
            section { h2 { "By member" } (by(&spend, "/byMember", Some("/console/roster/"), &roster)) }
            section { h2 { "By model" } (by(&spend, "/byModel", None, &roster)) }
            section { h2 { "By workflow" } (by(&spend, "/byWorkflow", Some("/console/workflows/"), &roster)) }
        }
        h2 { "Budgets of today" }
        (tenant(&spend))
        (budgets(&visit, &roster).await?)
        h2 { "Dearest runs" }
        @if dearest.is_empty() { (nothing("No run cost anything.", "")) } @else {
            (runs::table(dearest, visit.now(), false))
            p.muted { "Among the newest " (whole(&spend, "/runsLookedAt").unwrap_or(0)) " runs of these days." }
        }
    };
    Page::new(Screen::Money, "Money", body)
        .from(path)
        .command(format!("callboard spend --days {days}"))
        .show(&visit)
        .await
}

fn figures(spend: &Value) -> Markup {
    let of = |name: &str| whole(spend, &format!("/total/{name}")).unwrap_or(0);
    let (input, cached, unpriced) = (of("inputTokens"), of("cachedTokens"), of("unpricedCalls"));
    html! {
        (figure("Spent", html! { (money(number(spend, "/total/costUsd").unwrap_or(0.0))) }))
        @if let Some(month) = forecast(spend) { (figure("In 30 days, at this pace", html! { (money(month)) })) }
        (figure("Calls of models", html! { (count(of("calls"))) }))
        (figure("Tokens in", html! { (count(input)) }))
        (figure("Tokens out", html! { (count(of("outputTokens"))) }))
        (figure("Cached", html! { @if input > 0 { (cached * 100 / input) " %" } @else { "–" } }))
        @if unpriced > 0 { (figure("Calls without a price", html! { (count(unpriced)) })) }
    }
}

/// A month at the pace of the days since something was spent first.
fn forecast(spend: &Value) -> Option<f64> {
    let costs = items(spend, "/days").iter().map(|day| number(day, "/used/costUsd").unwrap_or(0.0));
    let costs: Vec<f64> = costs.skip_while(|cost| *cost == 0.0).collect();
    let sum: f64 = costs.iter().sum();
    (sum > 0.0).then(|| sum / costs.len() as f64 * 30.0)
}

/// A bar for each day; tokens where nothing costs anything, and calls where nothing was counted, so that a host with free
/// models or the scripted stand-in has a picture, too.
pub(crate) fn by_day(spend: &Value) -> Vec<Bar> {
    let cost = |day: &Value| number(day, "/used/costUsd").unwrap_or(0.0);
    let tokens = |day: &Value| {
        whole(day, "/used/inputTokens").unwrap_or(0) + whole(day, "/used/outputTokens").unwrap_or(0)
    };
    let days = items(spend, "/days");
    let is_free = days.iter().all(|day| cost(day) == 0.0);
    let has_no_tokens = days.iter().all(|day| tokens(day) == 0);
    let bar = |day: &Value| {
        let date = time(day, "/day").map(|at: Timestamp| at.to_string()).unwrap_or_default();
        let date = date.get(..10).unwrap_or_default();
        let label = format!("{date}: {}, {} tokens", money(cost(day)), count(tokens(day)));
        let calls = whole(day, "/used/calls").unwrap_or(0);
        let amount = match (is_free, has_no_tokens) {
            (false, _) => cost(day),
            (true, false) => tokens(day) as f64,
            (true, true) => calls as f64,
        };
        Bar { label, parts: vec![("busy", amount)] }
    };
    days.iter().map(bar).collect()
}

/// One table of sums. Members stand under the names that people know them by.
fn by(spend: &Value, pointer: &str, folder: Option<&str>, roster: &Value) -> Markup {
    let persona = |name: &str| {
        let member = items(roster, "/roster").iter().find(|it| text(it, "/rosterId") == name);
        member.map_or_else(|| short(name), |member| text(member, "/persona").to_owned())
    };
    let rows = items(spend, pointer);
    html! {
        @if rows.is_empty() { p.muted { "Nothing." } }
        @else { table {
            thead { tr { th { span.hidden { "Name" } } th.num { "Calls" } th.num { "Tokens" } th.num { "Cached" } th.num { "Cost" } } }
            tbody { @for row in rows.iter().take(SHOWN) {
                @let name = text(row, "/name");
                @let of = |name: &str| whole(row, &format!("/used/{name}")).unwrap_or(0);
                tr {
                    td { @match folder { Some(folder) => a href={ (folder) (segment(name)) } { (persona(name)) }, None => (name) } }
                    td.num { (count(of("calls"))) } td.num { (count(of("inputTokens") + of("outputTokens"))) }
                    td.num { @if of("inputTokens") > 0 { (of("cachedTokens") * 100 / of("inputTokens")) " %" } }
                    td.num { (money(number(row, "/used/costUsd").unwrap_or(0.0))) }
                }
            } }
        } }
    }
}

/// The day of the whole tenant against its ceiling, where it has one.
pub(crate) fn tenant(spend: &Value) -> Markup {
    let spent = number(spend, "/today/spent/costUsd").unwrap_or(0.0);
    let used = whole(spend, "/today/spent/inputTokens").unwrap_or(0)
        + whole(spend, "/today/spent/outputTokens").unwrap_or(0);
    html! {
        @if let Some(most) = number(spend, "/today/limits/maxCostUsd") { p { "All of it: " (money(spent)) " of " (money(most)) } (share(spent, most)) }
        @if let Some(most) = whole(spend, "/today/limits/maxTokens") { p { "All of it: " (count(used)) " tokens of " (count(most)) } (share(used as f64, most as f64)) }
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
        @else { @let may_set = visit.may("roster:write"); div.scroll { table {
            thead { tr { th { "Member" } th.num { "Spent" } th { "Of" } th.num { "Tokens" } th { "Of" } @if may_set { th { "Set, by day" } } } }
            tbody { @for (roster_id, persona, budget) in &rows {
                @let spent = number(budget, "/spent/costUsd").unwrap_or(0.0);
                @let used = whole(budget, "/spent/inputTokens").unwrap_or(0) + whole(budget, "/spent/outputTokens").unwrap_or(0);
                tr {
                    td { a href={ "/console/roster/" (segment(roster_id)) } { (persona) } }
                    td.num { (money(spent)) } td { @match number(budget, "/limits/maxCostUsd") { Some(most) => { (money(most)) (share(spent, most)) } None => { span.muted { "no limit" } } } }
                    td.num { (count(used)) } td { @match whole(budget, "/limits/maxTokens") { Some(most) => { (count(most)) (share(used as f64, most as f64)) } None => { span.muted { "no limit" } } } }
                    @if may_set { td { (act(visit, &format!("/console/money/{}", segment(roster_id)), html! { div.inline {
                        input name="maxCostUsd" type="number" min="0" step="any" size="6" value=[number(budget, "/allowance/maxCostUsd")] aria-label={ "Dollars a day for " (persona) } placeholder="$";
                        input name="maxTokens" type="number" min="0" size="9" value=[whole(budget, "/allowance/maxTokens")] aria-label={ "Tokens a day for " (persona) } placeholder="tokens";
                        button type="submit" { "Set" }
                    } })) } }
                }
            } }
        } } }
    })
}

/// `POST /console/money/{rosterId}`: both fields empty leave it to the host's configuration.
pub(crate) async fn set_budget(
    Path(member): Path<String>,
    Act { visit, form }: Act,
) -> Result<Response, Trouble> {
    let path = format!("{}/roster/{}/budget", crate::EXTENSION, segment(&member));
    let mut body = json!({});
    if let Some(tokens) = form.number("maxTokens") {
        body["maxTokens"] = json!(tokens);
    }
    if let Ok(cost) = form.get("maxCostUsd").parse::<f64>() {
        body["maxCostUsd"] = json!(cost);
    }
    let is_left_out = form.get("maxTokens").is_empty() && form.get("maxCostUsd").is_empty();
    let call = if is_left_out {
        Call::bare(Method::DELETE, path)
    } else {
        Call::with(Method::PUT, path, body)
    };
    visit.call(call).await?;
    Ok(Redirect::to("/console/money").into_response())
}
