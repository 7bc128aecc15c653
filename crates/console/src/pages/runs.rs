//! The list of runs. The filter is the address, so that it can be kept and sent.

mod export;

use axum::response::{IntoResponse, Redirect, Response};
use callboard_protocol::Timestamp;
use maud::{Markup, html};
use serde_json::{Value, json};

use crate::api::{Call, segment, with_query};
use crate::layout::{Page, Screen, act, heading, nothing};
use crate::trouble::Trouble;
use crate::value::{items, number, text, time, whole};
use crate::visit::{Act, Visit};
use crate::wait;
use crate::words::{count, duration, money, short, status, when};

pub(crate) use export::export;

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
const FILTERS: [&str; 8] =
    ["status", "workflowId", "agentId", "rosterId", "tag", "since", "until", "cursor"];

/// `GET /console/runs`
pub(crate) async fn page(visit: Visit) -> Result<Response, Trouble> {
    let list = list(&visit).await?;
    let live = with_query("/console/runs/live", filters(&visit));
    let body = html! {
        (heading("Runs", html! {
            a.button href=(with_query("/console/runs/export", filters(&visit).into_iter().filter(|(name, _)| *name != "cursor"))) download="runs.ndjson" { "Export NDJSON" }
            @if visit.may("runs:create") { a.button href="/console/workflows" { "Start a run" } }
        }))
        (filter_form(&visit))
        div data-live=(live) { (list) }
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

fn api_path(visit: &Visit) -> String {
    let query = filters(visit).into_iter().chain([("limit", PAGE)]);
    with_query(&format!("{}/runs", crate::EXTENSION), query)
}

fn command(visit: &Visit) -> String {
    let flags = [("status", "--status"), ("workflowId", "--workflow"), ("tag", "--tag")];
    let said = flags.iter().filter(|(name, _)| !visit.query.get(name).is_empty());
    said.fold("callboard runs list".to_owned(), |command, (name, flag)| {
        format!("{command} {flag} {}", visit.query.get(name))
    })
}

/// The rows, also for a page that is open.
pub(crate) async fn list(visit: &Visit) -> Result<Markup, Trouble> {
    let answer = visit.get(&api_path(visit)).await?;
    Ok(view(visit, &answer))
}

fn view(visit: &Visit, answer: &Value) -> Markup {
    let runs = items(answer, "/runs");
    let next = text(answer, "/nextCursor");
    html! {
        div #list {
            @if runs.is_empty() {
                (nothing("No run is like that. A run is started from a workflow, an agent, a trigger or a schedule.", "callboard run WORKFLOW --follow"))
            } @else {
                (act(visit, "/console/runs/several", html! {
                    (table(runs, visit.now(), true))
                    div.inline.several {
                        button type="submit" name="act" value="compare" { "Compare two" }
                        @if visit.may("runs:cancel") { button.danger type="submit" name="act" value="cancel" data-sure="Cancel the runs that are ticked?" { "Cancel ticked" } }
                    }
                }))
            }
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
            @if with_boxes { td { input type="checkbox" name="run" value=(run_id) aria-label={ "Tick " (run_id) }; } }
            td { (status(text(run, "/status"))) }
            td { (text(run, "/workflowId")) @for tag in items(run, "/tags").iter().take(3) { " " span.tag { (tag.as_str().unwrap_or_default()) } } }
            td.run { a href={ "/console/runs/" (segment(run_id)) } { (short(run_id)) } }
            td.wide { (wait::briefly(run, now)) }
            td.wide { (text(run, "/triggerSource")) }
            td.num.wide { (tokens.map(count).unwrap_or_default()) }
            td.num.wide { (number(cost, "/usd").map(money).unwrap_or_default()) }
            td.num.wide { (created.zip(updated).map(|(created, updated)| duration(updated.since(created))).unwrap_or_default()) }
            td.num { (when(now, created)) }
        }
    }
}

fn filter_form(visit: &Visit) -> Markup {
    let said = |name: &str| visit.query.get(name).to_owned();
    html! {
        form.filters method="get" action="/console/runs" {
            label { "State " select name="status" {
                option value="" { "any" }
                @for state in STATES { option selected[visit.query.get("status") == state] { (state) } }
            } }
            label { "Workflow " input name="workflowId" value=(said("workflowId")) size="14"; }
            label { "Agent " input name="agentId" value=(said("agentId")) size="14"; }
            label { "Member " input name="rosterId" value=(said("rosterId")) size="14"; }
            label { "Tag " input name="tag" value=(said("tag")) size="8"; }
            label { "Since " input name="since" value=(said("since")) size="18" placeholder="2026-01-31T00:00:00Z"; }
            label { "Until " input name="until" value=(said("until")) size="18"; }
            button type="submit" { "Show" }
            a href="/console/runs" { "clear" }
        }
    }
}

/// `POST /console/runs/several`: those that are ticked.
pub(crate) async fn several(Act { visit, form }: Act) -> Result<Response, Trouble> {
    let ticked: Vec<&str> = form.all("run").collect();
    if form.get("act") == "compare" {
        let [a, b] = ticked.as_slice() else {
            return Err(Trouble::Wrong("Tick two runs to compare them.".to_owned()));
        };
        return Ok(
            Redirect::to(&with_query("/console/compare", [("a", *b), ("b", *a)])).into_response()
        );
    }
    if ticked.is_empty() {
        return Err(Trouble::Wrong("Tick the runs that are to be cancelled.".to_owned()));
    }
    let body = json!({ "runIds": ticked, "reason": "from the console" });
    visit.call(Call::post("/v1/runs:bulk-cancel", body)).await?;
    Ok(Redirect::to("/console/runs").into_response())
}
