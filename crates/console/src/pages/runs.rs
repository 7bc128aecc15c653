//! The list of runs. The filter is the address, so that it can be kept and sent.

mod export;
mod several;

use std::borrow::Cow;
use std::time::Duration;

use axum::response::Response;
use callboard_protocol::Timestamp;
use maud::{Markup, html};
use serde_json::Value;

use crate::api::{segment, with_query};
use crate::layout::{Page, Screen, act, heading, nothing};
use crate::trouble::Trouble;
use crate::value::{items, number, text, time, whole};
use crate::visit::Visit;
use crate::wait;
use crate::words::{count, duration, money, short, status, when};

pub(crate) use export::export;
pub(crate) use several::several;

/// Rows of a page.
const PAGE: &str = "50";

const STATES: [&str; 10] = [
    "pending",
    "running",
    "paused",
    "waiting-approval",
    "waiting-input",
    "waiting-external",
    "completed",
    "failed",
    "cancelling",
    "cancelled",
];

/// What the API filters by, as it stands in the address.
const FILTERS: [&str; 11] = [
    "text",
    "status",
    "workflowId",
    "agentId",
    "rosterId",
    "triggerSource",
    "tag",
    "minCostUsd",
    "since",
    "until",
    "cursor",
];

/// What fires runs for members.
const SOURCES: [&str; 7] =
    ["schedule", "webhook", "queue", "email", "form", "callboard.heartbeat", "callboard.manual"];

/// `GET /console/runs`
pub(crate) async fn page(visit: Visit) -> Result<Response, Trouble> {
    let list = list(&visit).await?;
    // A text is searched for in what runs hold, which is too much to do again whenever something happens.
    let live = with_query("/console/runs/live", filters(&visit));
    let live = visit.query.get("text").is_empty().then_some(live);
    let body = html! {
        (heading("Runs", html! {
            a.button href=(with_query("/console/runs/export", filters(&visit).into_iter().filter(|(name, _)| *name != "cursor"))) download="runs.ndjson" { "Export NDJSON" }
            @if visit.may("runs:create") { a.button href="/console/workflows" { "Start a run" } }
        }))
        (filter_form(&visit))
        div data-live=[live] { (list) }
    };
    Page::new(Screen::Runs, "Runs", body)
        .from(api_path(&visit))
        .command(command(&visit))
        .show(&visit)
        .await
}

fn filters(visit: &Visit) -> Vec<(&'static str, &str)> {
    FILTERS.iter().map(|name| (*name, visit.query.get(name))).collect()
}

/// The filter as the API takes it, a page of so many.
fn api_query<'a>(visit: &'a Visit, limit: &'a str) -> Vec<(&'static str, Cow<'a, str>)> {
    let asked = filters(visit).into_iter().map(|(name, value)| match name {
        "since" | "until" => (name, moment(value, visit.now())),
        _ => (name, Cow::Borrowed(value)),
    });
    asked.chain([("limit", Cow::Borrowed(limit))]).collect()
}

/// An age such as `24h`, `7d` or `15m` as the time that it stands for; anything else is the host's to judge.
fn moment(text: &str, now: Timestamp) -> Cow<'_, str> {
    let unit = match text.trim().chars().last() {
        Some('m') => 60,
        Some('h') => 3600,
        Some('d') => 86_400,
        _ => return Cow::Borrowed(text),
    };
    let text = text.trim();
    match text[..text.len() - 1].trim().parse::<u32>() {
        Ok(number) => {
            let age = Duration::from_secs(u64::from(number) * unit);
            let millis = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
            let then = now.as_millis().saturating_sub(millis).max(0);
            Cow::Owned(Timestamp::from_millis(then).to_string())
        }
        Err(_) => Cow::Borrowed(text),
    }
}

fn api_path(visit: &Visit) -> String {
    let query = api_query(visit, PAGE);
    with_query(
        &format!("{}/runs", crate::EXTENSION),
        query.iter().map(|(name, value)| (*name, value.as_ref())),
    )
}

fn command(visit: &Visit) -> String {
    let flags = [
        ("text", "--text"),
        ("status", "--status"),
        ("workflowId", "--workflow"),
        ("agentId", "--agent"),
        ("rosterId", "--member"),
        ("triggerSource", "--trigger"),
        ("tag", "--tag"),
        ("minCostUsd", "--min-cost"),
        ("since", "--since"),
        ("until", "--until"),
    ];
    let said = flags.iter().filter(|(name, _)| !visit.query.get(name).is_empty());
    said.fold("callboard runs list".to_owned(), |command, (name, flag)| {
        format!("{command} {flag} '{}'", visit.query.get(name).replace('\'', "'\\''"))
    })
}

/// The rows, also for a page that is open.
pub(crate) async fn list(visit: &Visit) -> Result<Markup, Trouble> {
    match visit.get_if_known(&api_path(visit)).await? {
        Some(answer) => Ok(view(visit, &answer)),
        None => {
            let none = "This host does not list its runs. Open one by its id, with Find or in the address.";
            Ok(html! { div #list { (nothing(none, "")) } })
        }
    }
}

fn view(visit: &Visit, answer: &Value) -> Markup {
    let runs = items(answer, "/runs");
    let next = text(answer, "/nextCursor");
    html! {
        div #list {
            @if !runs.is_empty() {
                (act(visit, "/console/runs/several", html! {
                    (table(runs, visit.now(), true))
                    (several::buttons(visit))
                }))
            } @else if next.is_empty() {
                (nothing("No run is like that. A run is started from a workflow, an agent, a trigger or a schedule.", "callboard run WORKFLOW --follow"))
            } @else { p.muted { "None of the newest runs is like that; older ones have not been looked at yet." } }
            @if !next.is_empty() {
                @let query = filters(visit).into_iter().filter(|(name, _)| *name != "cursor").chain([("cursor", next)]);
                nav.pages { a rel="next" href=(with_query("/console/runs", query)) { "older ›" } }
            }
        }
    }
}

/// Runs as a table; with boxes where several can be ticked.
pub(crate) fn table(runs: &[Value], now: Timestamp, with_boxes: bool) -> Markup {
    html! {
        div.scroll { table.runs data-keys="" {
            thead { tr {
                @if with_boxes { th { span.hidden { "Tick" } } }
                th { "State" } th { "Workflow" } th { "Run" } th.wide { "Waits for" } th.wide { "Fired by" } th.num.wide { "Tokens" } th.num.wide { "Cost" } th.num.wide { "Took" } th.num { "Created" }
            } }
            tbody { @for run in runs { (row(run, now, with_boxes)) } }
        } }
    }
}

fn row(run: &Value, now: Timestamp, with_boxes: bool) -> Markup {
    let run_id = text(run, "/runId");
    let cost = &run["metrics"]["openwopCost"];
    // The last change is the end only of what has ended.
    let has_ended = matches!(text(run, "/status"), "completed" | "failed" | "cancelled");
    let (created, updated) =
        (time(run, "/createdAt"), time(run, "/updatedAt").filter(|_| has_ended));
    let tokens = whole(cost, "/tokens/input")
        .zip(whole(cost, "/tokens/output"))
        .map(|(input, output)| input + output);
    html! {
        tr {
            @if with_boxes { td.box { input type="checkbox" name="run" value=(run_id) aria-label={ "Tick " (run_id) }; } }
            td.state { (status(text(run, "/status"))) }
            td.workflow { (text(run, "/workflowId")) @for tag in items(run, "/tags").iter().take(3) { " " @let tag = tag.as_str().unwrap_or_default(); span.tag title=(tag) { (short(tag)) } } }
            td.run { a href={ "/console/runs/" (segment(run_id)) } { (short(run_id)) } }
            td.wide.whole { (wait::briefly(run, now)) }
            td.wide { (text(run, "/triggerSource")) }
            td.num.wide { (tokens.map(count).unwrap_or_default()) }
            td.num.wide { (number(cost, "/usd").map(money).unwrap_or_default()) }
            td.num.wide { (created.zip(updated).map(|(created, updated)| duration(updated.since(created))).unwrap_or_default()) }
            td.num.created { (when(now, created)) }
        }
    }
}

fn filter_form(visit: &Visit) -> Markup {
    let said = |name: &str| visit.query.get(name).to_owned();
    let more = ["agentId", "rosterId", "triggerSource", "tag", "minCostUsd", "since", "until"];
    let is_open = more.iter().any(|name| !visit.query.get(name).is_empty());
    html! {
        form.filters method="get" action="/console/runs" {
            input.grow name="text" type="search" value=(said("text")) maxlength="200" aria-label="Text" placeholder="Text in ids, tags, variables or failures";
            label { "State " select name="status" {
                option value="" { "any" }
                @for state in STATES { option selected[visit.query.get("status") == state] { (state) } }
            } }
            label { "Workflow " input name="workflowId" value=(said("workflowId")) size="16"; }
            button type="submit" { "Show" }
            a href="/console/runs" { "clear" }
            details.more open[is_open] {
                summary { "More filters" }
                div.inline {
                    label { "Agent " input name="agentId" value=(said("agentId")) size="16"; }
                    label { "Member " input name="rosterId" value=(said("rosterId")) size="14"; }
                    label { "Fired by " select name="triggerSource" {
                        option value="" { "any" }
                        @for source in SOURCES { option selected[visit.query.get("triggerSource") == source] { (source) } }
                    } }
                    label { "Tag " input name="tag" value=(said("tag")) size="10"; }
                    label { "Cost from $ " input name="minCostUsd" type="number" min="0" step="any" value=(said("minCostUsd")); }
                    label { "Since " input name="since" value=(said("since")) size="14" placeholder="24h, 7d or a time"; }
                    label { "Until " input name="until" value=(said("until")) size="14" placeholder="1h or a time"; }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_a_time() {
        let now = "2026-01-31T07:00:00Z".parse().unwrap();
        for (said, meant) in [
            ("24h", "2026-01-30T07:00:00Z"),
            (" 7d", "2026-01-24T07:00:00Z"),
            ("90m", "2026-01-31T05:30:00Z"),
        ] {
            assert_eq!(moment(said, now).parse::<Timestamp>().unwrap(), meant.parse().unwrap());
        }
        for said in ["", "h", "-3h", "2026-01-01T00:00:00Z", "üh", "99999999999d"] {
            assert_eq!(moment(said, now), said, "the host says what is wrong");
        }
    }
}
