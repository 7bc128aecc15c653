//! Agents and the packs that they came in; which version serves, and running one by itself.

use axum::extract::Path;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde_json::{Value, json};

use crate::api::{ApiError, Call, segment, with_query};
use crate::layout::{Page, Screen, act, figure, heading, nothing};
use crate::pages::runs;
use crate::trouble::Trouble;
use crate::value::{flag, folded, items, number, text, time, whole};
use crate::visit::{Act, Visit};
use crate::words::{id, status, when};

/// `GET /console/agents`
pub(crate) async fn page(visit: Visit) -> Result<Response, Trouble> {
    let answer = visit.get("/v1/agents").await?;
    let packs = visit.find(&format!("{}/packs", crate::EXTENSION)).await?.unwrap_or_default();
    let agents = items(&answer, "/agents");
    let body = html! {
        (heading("Agents", html! {}))
        @if agents.is_empty() { (nothing("No agent is installed. Agents come in packs.", "callboard packs install FOLDER")) }
        @else {
            div.scroll { table data-keys="" {
                thead { tr { th { "Agent" } th { "Model class" } th.wide { "Pack" } th.wide { "What it does" } th { "Members" } } }
                tbody { @for agent in agents { (row(agent)) } }
            } }
        }
        (pack_table(&visit, &packs))
    };
    Page::new(Screen::Agents, "Agents", body)
        .from("/v1/agents")
        .from(format!("{}/packs", crate::EXTENSION))
        .command("callboard agents list")
        .show(&visit)
        .await
}

fn row(agent: &Value) -> Markup {
    let agent_id = text(agent, "/agentId");
    html! {
        tr {
            td { a href={ "/console/agents/" (segment(agent_id)) } { (text(agent, "/persona")) } br; small { (agent_id) } @if is_degraded(agent) { " " (status("resting")) } }
            td { (text(agent, "/modelClass")) }
            td.wide { (text(agent, "/packName")) " " (text(agent, "/packVersion")) }
            td.wide { (text(agent, "/description")) }
            td { @for member in items(agent, "/roster") { a href={ "/console/roster/" (segment(text(member, "/rosterId"))) } { (text(member, "/persona")) } " " } }
        }
    }
}

fn is_degraded(agent: &Value) -> bool {
    !items(agent, "/degraded").is_empty() || flag(agent, "/memoryDegraded")
}

fn pack_table(visit: &Visit, packs: &Value) -> Markup {
    let packs = items(packs, "/packs");
    html! {
        h2 { "Packs" }
        @if packs.is_empty() { p.muted { "None." } }
        @else {
            div.scroll { table {
                thead { tr { th { "Pack" } th { "Version" } th { "Signature" } th.wide { "Integrity" } th { "Installed" } th {} } }
                tbody { @for pack in packs {
                    @let (name, version) = (text(pack, "/name"), text(pack, "/version"));
                    tr {
                        td { (name) } td { (version) }
                        td { @if flag(pack, "/verified") { (status("ok")) } @else { span.status.wait { "unverified" } } }
                        td.wide { (id(text(pack, "/integrity"))) }
                        td { (when(visit.now(), time(pack, "/installedAt"))) }
                        td { @if visit.may("packs:install") && text(pack, "/scope") == "tenant" {
                            (act(visit, "/console/agents/-/remove-pack", html! {
                                input type="hidden" name="name" value=(name); input type="hidden" name="version" value=(version);
                                button.danger type="submit" data-sure="Remove this pack? Runs under way keep it." { "Remove" }
                            }))
                        } }
                    }
                } }
            } }
        }
    }
}

/// `POST /console/agents/-/remove-pack`
pub(crate) async fn remove_pack(Act { visit, form }: Act) -> Result<Response, Trouble> {
    let path = format!(
        "{}/packs/{}/{}",
        crate::EXTENSION,
        segment(form.get("name")),
        segment(form.get("version"))
    );
    visit.call(Call::bare(Method::DELETE, path)).await?;
    Ok(Redirect::to("/console/agents").into_response())
}

/// `GET /console/agents/{agentId}`
pub(crate) async fn one(visit: Visit, Path(agent_id): Path<String>) -> Result<Response, Trouble> {
    show(&visit, &agent_id, "", None).await
}

async fn show(
    visit: &Visit,
    agent_id: &str,
    task: &str,
    wrong: Option<&str>,
) -> Result<Response, Trouble> {
    let path = format!("/v1/agents/{}", segment(agent_id));
    let agent = visit.get(&path).await?;
    let deployments = visit.find(&format!("{path}/deployments")).await?.unwrap_or_default();
    let recent =
        with_query(&format!("{}/runs", crate::EXTENSION), [("agentId", agent_id), ("limit", "10")]);
    let recent = visit.find_with("runs:read", &recent).await?.unwrap_or_default();
    let body = html! {
        (heading(text(&agent, "/persona"), html! {}))
        p.ids { (id(agent_id)) " from " (text(&agent, "/packName")) " " (text(&agent, "/packVersion")) }
        p { (text(&agent, "/description")) }
        dl.figures {
            (figure("Model class", html! { (text(&agent, "/modelClass")) }))
            @if let Some(sure) = number(&agent, "/confidenceThreshold") { (figure("Asks below", html! { (sure) " sure" })) }
            (figure("Schemas", html! { @if flag(&agent, "/hasHandoffSchemas") { "task and result are checked" } @else { "none" } }))
            (figure("Memory", html! { @if flag(&agent, "/memoryShape/longTerm") { "remembers" } @else { "forgets" } }))
        }
        (lacks(&agent))
        h2 { "Tools" }
        @let tools = items(&agent, "/toolAllowlist");
        @if tools.is_empty() { p.muted { "It may call none." } }
        ul.plain { @for tool in tools { li { code { (tool.as_str().unwrap_or_default()) } } } }
        (versions(visit, agent_id, &deployments))
        (runner(visit, agent_id, task, wrong))
        h2 { "Its newest runs" }
        @let runs = items(&recent, "/runs");
        @if runs.is_empty() { p.muted { "None yet." } } @else { (runs::table(runs, visit.now(), false)) }
        (folded("Entry", &agent))
    };
    let status = if wrong.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    Page::new(Screen::Agents, text(&agent, "/persona"), body)
        .from(path)
        .command(format!("callboard agents show {agent_id}"))
        .status(status)
        .show(visit)
        .await
}

fn lacks(agent: &Value) -> Markup {
    let lacks = items(agent, "/degraded").iter().chain(items(agent, "/degradedMemoryDimensions"));
    let lacks: Vec<&str> = lacks.filter_map(Value::as_str).collect();
    html! { @if !lacks.is_empty() { p.waits { "This host lacks what it asks for: " (lacks.join(", ")) } } }
}

/// Versions with their state, and the steps that the key may take.
fn versions(visit: &Visit, agent_id: &str, deployments: &Value) -> Markup {
    let all = items(deployments, "");
    html! {
        h2 { "Versions" }
        @if all.is_empty() { p.muted { "None is deployed." } }
        @else { div.scroll { table {
            thead { tr { th { "Version" } th { "State" } th { "Channels" } th.num { "Share" } th {} } }
            tbody { @for deployment in all {
                tr {
                    td { (text(deployment, "/version")) } td { (status(text(deployment, "/state"))) }
                    td { @for channel in items(deployment, "/channels") { span.tag { (channel.as_str().unwrap_or_default()) } " " } }
                    td.num { @if let Some(share) = whole(deployment, "/canaryPercent") { (share) " %" } }
                    td { (steps(visit, agent_id, deployment)) }
                }
            } }
        } } }
    }
}

fn steps(visit: &Visit, agent_id: &str, deployment: &Value) -> Markup {
    let state = text(deployment, "/state");
    let offered = [
        ("promote", "deploy:promote", matches!(state, "draft" | "test" | "staged" | "paused")),
        ("pause", "deploy:pause", state == "active"),
        ("rollback", "deploy:rollback", state == "active"),
    ];
    let path = format!("/console/agents/{}/deploy", segment(agent_id));
    let version = text(deployment, "/version");
    html! {
        div.inline { @for (step, scope, fits) in offered { @if fits && visit.may(scope) {
            (act(visit, &path, html! {
                input type="hidden" name="version" value=(version);
                @if state == "paused" { input type="hidden" name="toState" value="active"; }
                button type="submit" name="transition" value=(step) { (step) }
            }))
        } }
        @if visit.may("deploy:promote") && state == "active" {
            (act(visit, &path, html! {
                input type="hidden" name="version" value=(version);
                input type="number" name="canaryPercent" min="0" max="100" required aria-label={ "Share of runs for " (version) } placeholder="%" value=[whole(deployment, "/canaryPercent")];
                button type="submit" name="transition" value="adjust-canary" { "canary" }
            }))
        } }
    }
}

/// `POST /console/agents/{agentId}/deploy`
pub(crate) async fn deploy(
    Path(agent_id): Path<String>,
    Act { visit, form }: Act,
) -> Result<Response, Trouble> {
    let mut body = json!({ "version": form.get("version"), "transition": form.get("transition") });
    if !form.get("toState").is_empty() {
        body["toState"] = json!(form.get("toState"));
    }
    if let Some(percent) = form.number("canaryPercent") {
        body["canaryPercent"] = json!(percent);
    }
    visit.call(Call::post(format!("/v1/agents/{}/deployments", segment(&agent_id)), body)).await?;
    Ok(Redirect::to(&format!("/console/agents/{}", segment(&agent_id))).into_response())
}

fn runner(visit: &Visit, agent_id: &str, task: &str, wrong: Option<&str>) -> Markup {
    html! {
        @if visit.may("runs:create") {
            h2 { "Run it" }
            @if let Some(wrong) = wrong { p.wrong role="alert" { (wrong) } }
            (act(visit, &format!("/console/agents/{}/run", segment(agent_id)), html! {
                div.stack {
                    label for="task" { "Its task " span.muted { "a JSON object; what it must hold is in the pack's task schema" } }
                    textarea id="task" name="task" rows="4" spellcheck="false" placeholder="{\"message\": \"…\"}" required { (task) }
                    button.primary type="submit" { "Run" }
                }
            }))
        }
    }
}

/// `POST /console/agents/{agentId}/run`
pub(crate) async fn run(
    Path(agent_id): Path<String>,
    Act { visit, form }: Act,
) -> Result<Response, Trouble> {
    let task = form.get("task");
    let inputs = match serde_json::from_str::<Value>(task) {
        Ok(inputs) if inputs.is_object() => inputs,
        Ok(_) => return show(&visit, &agent_id, task, Some("A task is a JSON object.")).await,
        Err(error) => {
            return show(&visit, &agent_id, task, Some(&format!("This is no JSON: {error}"))).await;
        }
    };
    match visit.call(Call::post("/v1/runs", json!({ "agentId": agent_id, "inputs": inputs }))).await
    {
        Ok(made) => Ok(Redirect::to(&format!("/console/runs/{}", segment(text(&made, "/runId"))))
            .into_response()),
        Err(Trouble::Api(ApiError::Refused(why))) if matches!(why.status.as_u16(), 400 | 422) => {
            show(&visit, &agent_id, task, Some(&why.message)).await
        }
        Err(trouble) => Err(trouble),
    }
}
