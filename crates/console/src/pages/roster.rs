//! Standing members: who they are, what they own, their work as a board, their money.

use axum::extract::Path;
use axum::http::Method;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde_json::{Value, json};

use crate::api::{Call, segment};
use crate::draw::bars::share;
use crate::layout::{Page, Screen, act, figure, heading, nothing};
use crate::pages::run::question;
use crate::pages::runs;
use crate::trouble::Trouble;
use crate::value::{flag, folded, items, number, text, time, whole};
use crate::visit::{Act, Visit};
use crate::words::{count, id, look, money, short, status, when};

/// Members whose cards say what they do.
const MOST_CARDS: usize = 24;
/// Runs whose outcome stands on a card, and questions on a member's page.
const OUTCOMES: usize = 12;
const MOST_WAITING: usize = 8;

fn base() -> String {
    format!("{}/roster", crate::EXTENSION)
}

fn api_of(member: &str) -> String {
    format!("{}/{}", base(), segment(member))
}

fn page_of(member: &str) -> String {
    format!("/console/roster/{}", segment(member))
}

/// The roster, for pages that name members; empty for keys that may not read it.
pub(crate) async fn roster(visit: &Visit) -> Result<Value, Trouble> {
    Ok(visit.find_with("manifest:read", &base()).await?.unwrap_or_default())
}

/// A member by the name that people know it by, and the way there. Nothing for nobody.
pub(crate) fn member(roster: &Value, id: &str) -> Markup {
    let known = items(roster, "/roster").iter().find(|it| text(it, "/rosterId") == id);
    let name = known.map_or_else(|| short(id), |member| text(member, "/persona").to_owned());
    html! { @if !id.is_empty() { a href=(page_of(id)) title=(id) { (name) } } }
}

/// `GET /console/roster`
pub(crate) async fn page(visit: Visit) -> Result<Response, Trouble> {
    let answer = visit.get(&base()).await?;
    let chart = visit.find(&format!("{}/org-chart", crate::EXTENSION)).await?.unwrap_or_default();
    let members = items(&answer, "/roster");
    let body = html! {
        (heading("Roster", html! {}))
        @if members.is_empty() { (nothing("Nobody is hired. A member is an agent with a name, workflows of its own, schedules and a queue of work.", "callboard roster hire --persona NAME --agent AGENT --workflow WORKFLOW")) }
        div.members { @for (member, activity) in members.iter().zip(activities(&visit, members).await?) { (card(&visit, member, &activity)) } }
        (departments(&chart, members))
        (hire_form(&visit).await?)
    };
    Page::new(Screen::Roster, "Roster", body)
        .from(base())
        .command("callboard roster list")
        .show(&visit)
        .await
}

/// What the first members do, one call each; of those behind them only what the list says.
async fn activities(visit: &Visit, members: &[Value]) -> Result<Vec<Value>, Trouble> {
    let mut all = vec![Value::Null; members.len()];
    for (member, activity) in members.iter().zip(&mut all).take(MOST_CARDS) {
        let path = format!("{}/activity", api_of(text(member, "/rosterId")));
        *activity = visit.find_with("runs:read", &path).await?.unwrap_or_default();
    }
    Ok(all)
}

/// How the newest runs went, a sign each.
fn outcomes(runs: &[Value]) -> Markup {
    html! {
        @if !runs.is_empty() { p.outcomes { @for run in runs.iter().take(OUTCOMES) {
            @let state = text(run, "/status");
            @let (sign, family) = look(state);
            a class={ "status " (family) } href={ "/console/runs/" (segment(text(run, "/runId"))) } title={ (text(run, "/workflowId")) " " (state) } aria-label={ (text(run, "/workflowId")) " " (state) } { (sign) }
        } } }
    }
}

fn card(visit: &Visit, member: &Value, activity: &Value) -> Markup {
    let roster_id = text(member, "/rosterId");
    let next = items(activity, "/next").first();
    let waiting = items(activity, "/waiting").len();
    let spent = number(activity, "/today/spent/costUsd").unwrap_or(0.0);
    html! {
        section.member {
            h3 { a href=(page_of(roster_id)) { (text(member, "/persona")) } @if !flag(member, "/enabled") { " " (status("paused")) } }
            p.muted { (text(member, "/label")) " " (text(member, "/description")) }
            p { a href={ "/console/agents/" (segment(text(member, "/agentRef/agentId"))) } { (short(text(member, "/agentRef/agentId"))) } }
            p { @for workflow in items(member, "/workflows") { a.tag href={ "/console/workflows/" (segment(workflow.as_str().unwrap_or_default())) } { (workflow.as_str().unwrap_or_default()) } " " } }
            (outcomes(items(activity, "/runs")))
            @if waiting > 0 { p { a href={ "/console/inbox?rosterId=" (segment(roster_id)) } { (waiting) @if waiting == 1 { " question waits" } @else { " questions wait" } } } }
            @if let Some(fire) = next { p { "next " (when(visit.now(), time(fire, "/at"))) ": " (text(fire, "/workflowId")) " " span.muted { (text(fire, "/description")) } } }
            @if let Some(most) = number(activity, "/today/limits/maxCostUsd") { p.muted { (money(spent)) " of " (money(most)) " today" } (share(spent, most)) }
        }
    }
}

fn departments(chart: &Value, members: &[Value]) -> Markup {
    let departments = items(chart, "/chart/departments");
    let name = |roster_id: &str| -> String {
        members
            .iter()
            .find(|member| text(member, "/rosterId") == roster_id)
            .map_or(roster_id, |member| text(member, "/persona"))
            .to_owned()
    };
    html! {
        @if !departments.is_empty() {
            h2 { "Who stands where" }
            dl.fields { @for department in departments {
                @let own = text(department, "/departmentId");
                dt { (text(department, "/name")) }
                dd { @for place in items(chart, "/chart/members").iter().filter(|place| text(place, "/departmentId") == own) { a href=(page_of(text(place, "/rosterId"))) { (name(text(place, "/rosterId"))) } " " span.muted { (text(place, "/role")) } " " } }
            } }
        }
    }
}

async fn hire_form(visit: &Visit) -> Result<Markup, Trouble> {
    if !visit.may("roster:write") {
        return Ok(html! {});
    }
    let agents = visit.find("/v1/agents").await?.unwrap_or_default();
    let workflows =
        visit.find(&format!("{}/workflows", crate::EXTENSION)).await?.unwrap_or_default();
    Ok(html! {
        @if !items(&agents, "/agents").is_empty() {
            h2 { "Hire" }
            (act(visit, "/console/roster", html! {
                div.stack {
                    label for="persona" { "Name" } input id="persona" name="persona" required maxlength="200";
                    label for="agent" { "Agent" } select id="agent" name="agent" { @for agent in items(&agents, "/agents") { option value=(text(agent, "/agentId")) { (text(agent, "/persona")) " · " (text(agent, "/agentId")) } } }
                    fieldset.many { legend { "Workflows that it owns" } @for workflow in items(&workflows, "/workflows") { label { input type="checkbox" name="workflow" value=(text(workflow, "/workflowId")); (text(workflow, "/name")) } } }
                    label for="description" { "Description" } input id="description" name="description" maxlength="500";
                    button.primary type="submit" { "Hire" }
                }
            }))
        }
    })
}

/// What can be changed of a member.
async fn edit_form(visit: &Visit, member: &Value) -> Result<Markup, Trouble> {
    if !visit.may("roster:write") {
        return Ok(html! {});
    }
    let known = visit.find(&format!("{}/workflows", crate::EXTENSION)).await?.unwrap_or_default();
    let known = items(&known, "/workflows").iter().map(|it| text(it, "/workflowId"));
    let owned: Vec<&str> = items(member, "/workflows").iter().filter_map(Value::as_str).collect();
    // A workflow that is gone stays offered for as long as it is owned.
    let all: std::collections::BTreeSet<&str> = known.chain(owned.iter().copied()).collect();
    Ok(html! {
        h2 { "Edit" }
        (act(visit, &format!("{}/change", page_of(text(member, "/rosterId"))), html! { div.stack {
            label for="persona" { "Name" } input id="persona" name="persona" required maxlength="200" value=(text(member, "/persona"));
            label for="description" { "Description" } input id="description" name="description" maxlength="500" value=(text(member, "/description"));
            fieldset.many { legend { "Workflows that it owns" } @for workflow in all { label { input type="checkbox" name="workflow" value=(workflow) checked[owned.contains(&workflow)]; (workflow) } } }
            button type="submit" name="act" value="edit" { "Save" }
        } }))
    })
}

/// `POST /console/roster`
pub(crate) async fn hire(Act { visit, form }: Act) -> Result<Response, Trouble> {
    let workflows: Vec<&str> = form.all("workflow").collect();
    let mut body = json!({ "persona": form.get("persona"), "agentRef": { "agentId": form.get("agent") }, "workflows": workflows });
    if !form.get("description").is_empty() {
        body["description"] = json!(form.get("description"));
    }
    let made = visit.call(Call::post(base(), body)).await?;
    Ok(Redirect::to(&page_of(text(&made, "/rosterId"))).into_response())
}

/// `GET /console/roster/{rosterId}`
pub(crate) async fn one(visit: Visit, Path(roster_id): Path<String>) -> Result<Response, Trouble> {
    let member = visit.get(&api_of(&roster_id)).await?;
    let activity = visit
        .find_with("runs:read", &format!("{}/activity", api_of(&roster_id)))
        .await?
        .unwrap_or_default();
    let work = visit
        .find_with("runs:read", &format!("{}/work", api_of(&roster_id)))
        .await?
        .unwrap_or_default();
    let body = html! {
        (heading(text(&member, "/persona"), edits(&visit, &member)))
        p.ids { (id(&roster_id)) " " @if !flag(&member, "/enabled") { (status("paused")) } }
        p { (text(&member, "/description")) }
        dl.figures {
            (figure("Agent", html! { a href={ "/console/agents/" (segment(text(&member, "/agentRef/agentId"))) } { (short(text(&member, "/agentRef/agentId"))) } " " (text(&member, "/agentRef/version")) (text(&member, "/agentRef/channel")) }))
            (spending(&activity["today"]))
        }
        h2 { "Work" }
        (board(&visit, &member, &work))
        div.columns {
            section { h2 { "What it owns" } (portfolio(&visit, &member)) }
            section { h2 { "What comes" } (coming(&visit, &activity)) }
        }
        h2 { "Its runs of the last day" }
        @let runs = items(&activity, "/runs");
        @if runs.is_empty() { p.muted { "None." } } @else { (runs::table(runs, visit.now(), false)) }
        (budget_form(&visit, &roster_id, &activity["today"]))
        (edit_form(&visit, &member).await?)
    };
    Page::new(Screen::Roster, text(&member, "/persona"), body)
        .from(format!("{}/activity", api_of(&roster_id)))
        .command(format!("callboard roster show {roster_id}"))
        .show(&visit)
        .await
}

fn edits(visit: &Visit, member: &Value) -> Markup {
    let roster_id = text(member, "/rosterId");
    let enabled = flag(member, "/enabled");
    html! {
        @if visit.may("roster:write") {
            (act(visit, &format!("{}/change", page_of(roster_id)), html! { button type="submit" name="enabled" value=(!enabled) { @if enabled { "Pause" } @else { "Resume" } } }))
            (act(visit, &format!("{}/dismiss", page_of(roster_id)), html! { button.danger type="submit" data-sure="Dismiss this member? Its schedules go, too." { "Dismiss" } }))
        }
    }
}

fn spending(today: &Value) -> Markup {
    let spent = number(today, "/spent/costUsd").unwrap_or(0.0);
    let tokens = whole(today, "/spent/inputTokens").unwrap_or(0)
        + whole(today, "/spent/outputTokens").unwrap_or(0);
    html! {
        (figure("Spent today", html! { (money(spent)) @if let Some(most) = number(today, "/limits/maxCostUsd") { " of " (money(most)) (share(spent, most)) } }))
        (figure("Tokens today", html! { (count(tokens)) @if let Some(most) = whole(today, "/limits/maxTokens") { " of " (count(most)) (share(tokens as f64, most as f64)) } }))
    }
}

fn board(visit: &Visit, member: &Value, work: &Value) -> Markup {
    let columns = [
        ("todo", "Waiting", [("doing", "Begin"), ("done", "Done")]),
        ("doing", "At work", [("todo", "Back"), ("done", "Done")]),
        ("done", "Done", [("todo", "Again"), ("", "")]),
    ];
    let roster_id = text(member, "/rosterId");
    html! {
        div.board { @for (state, name, moves) in columns {
            section {
                h3 { (name) }
                ul.plain { @for item in items(work, "/work").iter().filter(|item| text(item, "/state") == state).take(50) {
                    li {
                        (text(item, "/title")) " " small { (text(item, "/workflowId")) " " (when(visit.now(), time(item, "/updatedAt"))) }
                        @if !text(item, "/reason").is_empty() { p.hint { (text(item, "/reason")) } }
                        @if !text(item, "/runId").is_empty() { p { a href={ "/console/runs/" (segment(text(item, "/runId"))) } { (short(text(item, "/runId"))) } " " (status(text(item, "/runStatus"))) } }
                        (folded("Inputs", &item["inputs"]))
                        @if visit.may("runs:create") { div.inline { @for (to, word) in moves { @if !to.is_empty() {
                            (act(visit, &format!("{}/work/{}", page_of(roster_id), segment(text(item, "/workId"))), html! { button type="submit" name="state" value=(to) { (word) } }))
                        } } } }
                    }
                } }
            }
        } }
        @if visit.may("runs:create") {
            (act(visit, &format!("{}/work", page_of(roster_id)), html! { div.inline {
                label { "Title " input name="title" required maxlength="200"; }
                label { "Workflow " select name="workflowId" { @for workflow in items(member, "/workflows") { option { (workflow.as_str().unwrap_or_default()) } } } }
                label { "Inputs " input name="inputs" placeholder="{}" spellcheck="false" size="24"; }
                button type="submit" { "Add work" }
            } }))
        }
    }
}

fn portfolio(visit: &Visit, member: &Value) -> Markup {
    let roster_id = text(member, "/rosterId");
    html! {
        ul.plain { @for workflow in items(member, "/workflows") {
            @let workflow = workflow.as_str().unwrap_or_default();
            li {
                a href={ "/console/workflows/" (segment(workflow)) } { (workflow) } " "
                @if visit.may("runs:create") { (act(visit, &format!("{}/fire", page_of(roster_id)), html! {
                    input type="hidden" name="workflowId" value=(workflow);
                    input name="inputs" placeholder="inputs as JSON" aria-label="Inputs" spellcheck="false" size="24";
                    " " button type="submit" { "Fire now" }
                })) }
            }
        } }
    }
}

fn coming(visit: &Visit, activity: &Value) -> Markup {
    let now = visit.now();
    html! {
        ul.plain {
            @for fire in items(activity, "/next") { li { (when(now, time(fire, "/at"))) " " a href={ "/console/schedules/" (segment(text(fire, "/scheduleId"))) } { (text(fire, "/workflowId")) } " " span.muted { (text(fire, "/description")) } } }
            @for trigger in items(activity, "/triggers") { li { a href={ "/console/triggers/" (segment(text(trigger, "/subscriptionId"))) } { (text(trigger, "/source")) } " starts " (text(trigger, "/workflowId")) " " (status(text(trigger, "/state"))) } }
            @let waiting = items(activity, "/waiting");
            @for asked in waiting.iter().take(MOST_WAITING) { li { (status("waiting")) " " a href={ "/console/inbox/" (segment(text(asked, "/runId"))) "/" (segment(text(asked, "/nodeId"))) } { (question(text(asked, "/kind"), &asked["data"])) } " " span.muted { (text(asked, "/workflowId")) } " " span.muted { (when(now, time(asked, "/requestedAt"))) } } }
            @if waiting.len() > MOST_WAITING { li { a href={ "/console/inbox?rosterId=" (segment(text(activity, "/member/rosterId"))) } { "all " (waiting.len()) " in the inbox" } } }
        }
    }
}

fn budget_form(visit: &Visit, roster_id: &str, today: &Value) -> Markup {
    html! {
        @if visit.may("roster:write") {
            h2 { "Budget of a day" }
            p.muted { "What runs of this member may use between midnight and midnight UTC; " @if text(today, "/source") == "member" { "its own." } @else { "the host's, as long as it has none of its own." } }
            (act(visit, &format!("{}/budget", page_of(roster_id)), html! { div.inline {
                label { "Dollars " input name="maxCostUsd" type="number" min="0" step="any" value=[number(today, "/allowance/maxCostUsd")]; }
                label { "Tokens " input name="maxTokens" type="number" min="0" step="1" value=[whole(today, "/allowance/maxTokens")]; }
                button type="submit" name="act" value="set" { "Set" }
                @if text(today, "/source") == "member" { button type="submit" name="act" value="reset" { "As the host has it" } }
            } }))
        }
    }
}

/// Inputs that somebody typed; nothing is an empty object.
fn inputs(typed: &str) -> Result<Value, Trouble> {
    if typed.trim().is_empty() {
        return Ok(json!({}));
    }
    serde_json::from_str::<Value>(typed).ok().filter(Value::is_object).ok_or_else(|| {
        Trouble::Wrong("Inputs are a JSON object, such as {\"message\": \"…\"}.".to_owned())
    })
}

/// `POST /console/roster/{rosterId}/fire`: the run that it started is shown.
pub(crate) async fn fire(
    Path(roster_id): Path<String>,
    Act { visit, form }: Act,
) -> Result<Response, Trouble> {
    let body =
        json!({ "workflowId": form.get("workflowId"), "inputs": inputs(form.get("inputs"))? });
    let made = visit.call(Call::post(format!("{}/fire", api_of(&roster_id)), body)).await?;
    Ok(Redirect::to(&format!("/console/runs/{}", segment(text(&made, "/runId")))).into_response())
}

/// `POST /console/roster/{rosterId}/change`
pub(crate) async fn change(
    Path(roster_id): Path<String>,
    Act { visit, form }: Act,
) -> Result<Response, Trouble> {
    let body = if form.get("act") == "edit" {
        let workflows: Vec<&str> = form.all("workflow").collect();
        json!({ "persona": form.get("persona"), "description": form.get("description"), "workflows": workflows })
    } else {
        json!({ "enabled": form.get("enabled") == "true" })
    };
    visit.call(Call::with(Method::PATCH, api_of(&roster_id), body)).await?;
    Ok(Redirect::to(&page_of(&roster_id)).into_response())
}

/// `POST /console/roster/{rosterId}/dismiss`
pub(crate) async fn dismiss(
    Path(roster_id): Path<String>,
    Act { visit, .. }: Act,
) -> Result<Response, Trouble> {
    visit.call(Call::bare(Method::DELETE, api_of(&roster_id))).await?;
    Ok(Redirect::to("/console/roster").into_response())
}

/// `POST /console/roster/{rosterId}/work`
pub(crate) async fn add_work(
    Path(roster_id): Path<String>,
    Act { visit, form }: Act,
) -> Result<Response, Trouble> {
    let mut body = json!({ "title": form.get("title"), "inputs": inputs(form.get("inputs"))? });
    if !form.get("workflowId").is_empty() {
        body["workflowId"] = json!(form.get("workflowId"));
    }
    visit.call(Call::post(format!("{}/work", api_of(&roster_id)), body)).await?;
    Ok(Redirect::to(&page_of(&roster_id)).into_response())
}

/// `POST /console/roster/{rosterId}/work/{workId}`
pub(crate) async fn move_work(
    Path((roster_id, work)): Path<(String, String)>,
    Act { visit, form }: Act,
) -> Result<Response, Trouble> {
    let body = json!({ "state": form.get("state") });
    visit
        .call(Call::with(
            Method::PATCH,
            format!("{}/work/{}", api_of(&roster_id), segment(&work)),
            body,
        ))
        .await?;
    Ok(Redirect::to(&page_of(&roster_id)).into_response())
}

/// `POST /console/roster/{rosterId}/budget`
pub(crate) async fn budget(
    Path(roster_id): Path<String>,
    Act { visit, form }: Act,
) -> Result<Response, Trouble> {
    let path = format!("{}/budget", api_of(&roster_id));
    if form.get("act") == "reset" {
        visit.call(Call::bare(Method::DELETE, path)).await?;
    } else {
        let mut body = json!({});
        if let Ok(usd) = form.get("maxCostUsd").parse::<f64>() {
            body["maxCostUsd"] = json!(usd);
        }
        if let Some(tokens) = form.number("maxTokens") {
            body["maxTokens"] = json!(tokens);
        }
        visit.call(Call::with(Method::PUT, path, body)).await?;
    }
    Ok(Redirect::to(&page_of(&roster_id)).into_response())
}
