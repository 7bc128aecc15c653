//! When workflows run by themselves: patterns in words, the next times, the last outcome.

use axum::extract::Path;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde_json::{Value, json};

use crate::api::{ApiError, Call, segment, with_query};
use crate::layout::{Page, Screen, act, heading, nothing};
use crate::pages::roster::{member, roster};
use crate::trouble::Trouble;
use crate::value::{flag, folded, items, text, time};
use crate::visit::{Act, Fields, Visit};
use crate::words::{exact, id, status, when};

fn base() -> String {
    format!("{}/schedules", crate::EXTENSION)
}

/// `GET /console/schedules`
pub(crate) async fn page(visit: Visit) -> Result<Response, Trouble> {
    show(&visit, &Fields::default(), None).await
}

async fn show(visit: &Visit, form: &Fields, wrong: Option<&str>) -> Result<Response, Trouble> {
    let path = with_query(&base(), [("limit", "100"), ("cursor", visit.query.get("cursor"))]);
    let answer = visit.get(&path).await?;
    let (all, next) = (items(&answer, "/schedules"), text(&answer, "/nextCursor"));
    let roster = roster(visit).await?;
    let body = html! {
        (heading("Schedules", html! {}))
        @if all.is_empty() { (nothing("Nothing runs by the clock.", "callboard schedules add WORKFLOW --cron '0 7 * * MON-FRI' --timezone Europe/Berlin")) }
        @else { div.scroll { table data-keys="" {
            thead { tr { th { "When" } th { "Workflow" } th.wide { "For" } th { "Next" } th { "Last" } th { "State" } th {} } }
            tbody { @for schedule in all { (row(visit, &roster, schedule)) } }
        } } }
        @if !next.is_empty() { nav.pages { a rel="next" href=(with_query("/console/schedules", [("cursor", next)])) { "more ›" } } }
        (new_form(visit, &roster, form, wrong).await?)
    };
    let status = if wrong.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    Page::new(Screen::Schedules, "Schedules", body)
        .from(path)
        .command("callboard schedules list")
        .status(status)
        .show(visit)
        .await
}

fn row(visit: &Visit, roster: &Value, schedule: &Value) -> Markup {
    let (schedule_id, now) = (text(schedule, "/id"), visit.now());
    html! {
        tr {
            td { a href={ "/console/schedules/" (segment(schedule_id)) } { (text(schedule, "/description")) } br; small { code { (text(schedule, "/cron")) } " " (text(schedule, "/timezone")) } }
            td { a href={ "/console/workflows/" (segment(text(schedule, "/workflowId"))) } { (text(schedule, "/workflowId")) } }
            td.wide { (member(roster, text(schedule, "/rosterId"))) }
            td { (when(now, time(schedule, "/nextFireAt"))) }
            td { (last(schedule, visit)) }
            td { @if flag(schedule, "/enabled") { (status("active")) } @else { (status("paused")) } }
            td { (acts(visit, schedule)) }
        }
    }
}

fn last(schedule: &Value, visit: &Visit) -> Markup {
    let fire = &schedule["lastFire"];
    html! {
        @if fire.is_object() {
            (status(text(fire, "/outcome"))) " " (when(visit.now(), time(fire, "/at")))
            @if !text(fire, "/runId").is_empty() { " " a href={ "/console/runs/" (segment(text(fire, "/runId"))) } { "run" } }
            @if !text(fire, "/reason").is_empty() { br; small { (text(fire, "/reason")) } }
        }
    }
}

fn acts(visit: &Visit, schedule: &Value) -> Markup {
    let path = format!("/console/schedules/{}", segment(text(schedule, "/id")));
    let enabled = flag(schedule, "/enabled");
    html! {
        @if visit.may("triggers:write") { div.inline {
            (act(visit, &path, html! { button type="submit" name="act" value="run" { "Run now" } }))
            (act(visit, &path, html! { button type="submit" name="act" value=(if enabled { "pause" } else { "resume" }) { @if enabled { "Pause" } @else { "Resume" } } }))
            (act(visit, &path, html! { button.danger type="submit" name="act" value="remove" data-sure="Remove this schedule?" { "Remove" } }))
        } }
    }
}

/// `GET /console/schedules/{scheduleId}`
pub(crate) async fn one(
    visit: Visit,
    Path(schedule_id): Path<String>,
) -> Result<Response, Trouble> {
    let path = format!("{}/{}", base(), segment(&schedule_id));
    let schedule = visit.get(&path).await?;
    let roster = roster(&visit).await?;
    let next = visit.find(&format!("{path}/next?count=10")).await?.unwrap_or_default();
    let body = html! {
        (heading(text(&schedule, "/description"), acts(&visit, &schedule)))
        p.ids { (id(&schedule_id)) }
        dl.fields {
            dt { "Workflow" } dd { a href={ "/console/workflows/" (segment(text(&schedule, "/workflowId"))) } { (text(&schedule, "/workflowId")) } }
            dt { "Pattern" } dd { code { (text(&schedule, "/cron")) (text(&schedule, "/at")) } " " (text(&schedule, "/timezone")) }
            @if !text(&schedule, "/rosterId").is_empty() { dt { "For" } dd { (member(&roster, text(&schedule, "/rosterId"))) } }
            dt { "While one still runs" } dd { (text(&schedule, "/overlap")) }
            dt { "Missed times" } dd { (text(&schedule, "/missedFirePolicy")) }
            dt { "Last time" } dd { (last(&schedule, &visit)) }
        }
        h2 { "The next ten times" }
        @if items(&next, "/next").is_empty() { p.muted { "It does not fire again." } }
        ol { @for at in items(&next, "/next").iter().filter_map(|at| at.as_str()?.parse().ok()) { li { (exact(at)) " " span.muted { (when(visit.now(), Some(at))) } } } }
        (folded("All of it", &schedule))
    };
    Page::new(Screen::Schedules, text(&schedule, "/description"), body)
        .from(path)
        .command(format!("callboard schedules next {schedule_id} --count 10"))
        .show(&visit)
        .await
}

/// `POST /console/schedules/{scheduleId}`
pub(crate) async fn change(
    Path(schedule_id): Path<String>,
    Act { visit, form }: Act,
) -> Result<Response, Trouble> {
    let path = format!("{}/{}", base(), segment(&schedule_id));
    match form.get("act") {
        "run" => {
            let made = visit.call(Call::bare(Method::POST, format!("{path}/run-now"))).await?;
            return Ok(Redirect::to(&format!("/console/runs/{}", segment(text(&made, "/runId"))))
                .into_response());
        }
        "remove" => visit.call(Call::bare(Method::DELETE, path)).await?,
        act => {
            visit
                .call(Call::with(Method::PATCH, path, json!({ "enabled": act == "resume" })))
                .await?
        }
    };
    Ok(Redirect::to("/console/schedules").into_response())
}

async fn new_form(
    visit: &Visit,
    roster: &Value,
    form: &Fields,
    wrong: Option<&str>,
) -> Result<Markup, Trouble> {
    if !visit.may("triggers:write") {
        return Ok(html! {});
    }
    let workflows = visit
        .find_with("manifest:read", &format!("{}/workflows", crate::EXTENSION))
        .await?
        .unwrap_or_default();
    Ok(html! {
        h2 { "Add a schedule" }
        @if let Some(wrong) = wrong { p.wrong role="alert" { (wrong) } }
        (act(visit, "/console/schedules", html! { div.inline {
            label { "Workflow " select name="workflowId" { @for workflow in items(&workflows, "/workflows") { @let own = text(workflow, "/workflowId"); option selected[form.get("workflowId") == own] { (own) } } } }
            label { "Cron " input name="cron" value=(form.get("cron")) required placeholder="0 7 * * MON-FRI" size="18"; }
            label { "Time zone " input name="timezone" value=(form.get("timezone")) placeholder="UTC" size="14"; }
            label { "For " select name="rosterId" { option value="" { "nobody" } @for member in items(roster, "/roster") { option value=(text(member, "/rosterId")) { (text(member, "/persona")) } } } }
            label { "Inputs " input name="inputs" value=(form.get("inputs")) placeholder="{}" spellcheck="false" size="20"; }
            button type="submit" { "Add" }
        } }))
    })
}

/// `POST /console/schedules`
pub(crate) async fn add(Act { visit, form }: Act) -> Result<Response, Trouble> {
    let mut body = json!({ "workflowId": form.get("workflowId"), "cron": form.get("cron") });
    for name in ["timezone", "rosterId"] {
        if !form.get(name).trim().is_empty() {
            body[name] = json!(form.get(name).trim());
        }
    }
    if !form.get("inputs").trim().is_empty() {
        match serde_json::from_str::<Value>(form.get("inputs")) {
            Ok(inputs) => body["inputs"] = inputs,
            Err(error) => {
                return show(&visit, &form, Some(&format!("The inputs are no JSON: {error}")))
                    .await;
            }
        }
    }
    match visit.call(Call::post(base(), body)).await {
        Ok(made) => {
            Ok(Redirect::to(&format!("/console/schedules/{}", segment(text(&made, "/id"))))
                .into_response())
        }
        Err(Trouble::Api(ApiError::Refused(why))) if why.status.is_client_error() => {
            show(&visit, &form, Some(&why.message)).await
        }
        Err(trouble) => Err(trouble),
    }
}
