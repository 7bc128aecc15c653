//! Agents and the packs that they came in; which version serves, and running one by itself.

use axum::extract::Path;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde_json::{Value, json};

use crate::api::{ApiError, Call, segment, with_query};
use crate::form::{self, Wrong};
use crate::layout::{Page, Screen, act, figure, heading, nothing};
use crate::pages::runs;
use crate::trouble::Trouble;
use crate::value::{flag, folded, items, number, text, time, whole};
use crate::visit::{Act, Visit};
use crate::words::{id, money, short, status, when};

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
            td { a href={ "/console/agents/" (segment(agent_id)) } { (text(agent, "/persona")) } br; small.whole title=(agent_id) { (short(agent_id)) } @if is_degraded(agent) { " " (status("resting")) } }
            td { (text(agent, "/modelClass")) }
            td.wide title=(text(agent, "/packName")) { (short(text(agent, "/packName"))) " " (text(agent, "/packVersion")) }
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
            div.scroll tabindex="0" { table {
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
    show(&visit, &agent_id, None, &Wrong::default()).await
}

/// What the host says of an agent beyond its entry; another host of the protocol says nothing.
async fn definition(visit: &Visit, agent_id: &str) -> Result<Value, Trouble> {
    let path = format!("{}/agents/{}", crate::EXTENSION, segment(agent_id));
    Ok(visit.find(&path).await?.unwrap_or_default())
}

/// What a task must look like: any object, where the pack does not say.
fn task_schema(definition: &Value) -> Value {
    let any = json!({ "type": "object", "title": "Task" });
    definition.get("taskSchema").cloned().unwrap_or(any)
}

async fn show(
    visit: &Visit,
    agent_id: &str,
    task: Option<&Value>,
    wrong: &Wrong,
) -> Result<Response, Trouble> {
    let path = format!("/v1/agents/{}", segment(agent_id));
    let agent = visit.get(&path).await?;
    let definition = definition(visit, agent_id).await?;
    let deployments = visit.find(&format!("{path}/deployments")).await?.unwrap_or_default();
    let recent =
        with_query(&format!("{}/runs", crate::EXTENSION), [("agentId", agent_id), ("limit", "10")]);
    let recent = visit.find_with("runs:read", &recent).await?.unwrap_or_default();
    let body = html! {
        (heading(text(&agent, "/persona"), html! {}))
        p.ids { (id(agent_id)) " from " (text(&agent, "/packName")) " " (text(&agent, "/packVersion")) }
        p { (text(&agent, "/description")) }
        dl.figures { (figures(&agent, items(&recent, "/runs"))) }
        (lacks(&agent))
        div.columns {
            section { (runner(visit, agent_id, &task_schema(&definition), task, wrong)) }
            section {
                h2 { "Tools" }
                @let tools = items(&agent, "/toolAllowlist");
                @if tools.is_empty() { p.muted { "It may call none." } }
                ul.plain { @for tool in tools { li { code { (tool.as_str().unwrap_or_default()) } } } }
                (words(&definition))
            }
        }
        (versions(visit, agent_id, &deployments))
        h2 { "Its newest runs" }
        @let runs = items(&recent, "/runs");
        @if runs.is_empty() { p.muted { "None yet." } } @else { (runs::table(runs, visit.now(), false)) }
        (folded("Entry", &agent))
    };
    let status = if wrong.0.is_empty() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
    Page::new(Screen::Agents, text(&agent, "/persona"), body)
        .from(path)
        .from(format!("{}/agents/{}", crate::EXTENSION, segment(agent_id)))
        .command(format!("callboard agents show {agent_id}"))
        .status(status)
        .show(visit)
        .await
}

/// What it is, and how its newest runs went.
fn figures(agent: &Value, runs: &[Value]) -> Markup {
    let of = |state: &str| runs.iter().filter(|run| text(run, "/status") == state).count();
    let (good, ended) = (of("completed"), of("completed") + of("failed"));
    let costs: Vec<f64> =
        runs.iter().filter_map(|run| number(run, "/metrics/openwopCost/usd")).collect();
    html! {
        (figure("Model class", html! { (text(agent, "/modelClass")) }))
        @if let Some(sure) = number(agent, "/confidenceThreshold") { (figure("Asks below", html! { (sure) " sure" })) }
        (figure("Memory", html! { @if flag(agent, "/memoryShape/longTerm") { "remembers" } @else { "forgets" } }))
        @if ended > 0 { (figure("Newest runs", html! { (good) " of " (ended) " completed" })) }
        @if !costs.is_empty() { (figure("Cost of a run", html! { (money(costs.iter().sum::<f64>() / costs.len() as f64)) })) }
    }
}

/// Its prompt, for who may read it, and its schemas.
fn words(definition: &Value) -> Markup {
    let prompt = text(definition, "/prompt");
    html! {
        @if !prompt.is_empty() { h2 { "Prompt" } pre data-copy="" tabindex="0" { (prompt) } }
        @if definition["taskSchema"].is_object() || definition["resultSchema"].is_object() {
            h2 { "Schemas" }
            (folded("Task", &definition["taskSchema"]))
            (folded("Result", &definition["resultSchema"]))
        }
    }
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
        @else { div.scroll tabindex="0" { table {
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

fn runner(
    visit: &Visit,
    agent_id: &str,
    schema: &Value,
    task: Option<&Value>,
    wrong: &Wrong,
) -> Markup {
    html! {
        @if visit.may("runs:create") {
            h2 { "Run it" }
            (act(visit, &format!("/console/agents/{}/run", segment(agent_id)), html! {
                div.stack {
                    (form::fields(schema, task, wrong))
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
    let schema = task_schema(&definition(&visit, &agent_id).await?);
    let task = match form::read(&schema, &form) {
        Ok(task) => task,
        Err(wrong) => return show(&visit, &agent_id, None, &wrong).await,
    };
    let wrong = form::check(&schema, &task);
    if !wrong.0.is_empty() {
        return show(&visit, &agent_id, Some(&task), &wrong).await;
    }
    match visit.call(Call::post("/v1/runs", json!({ "agentId": agent_id, "inputs": task }))).await {
        Ok(made) => Ok(Redirect::to(&format!("/console/runs/{}", segment(text(&made, "/runId"))))
            .into_response()),
        Err(Trouble::Api(ApiError::Refused(why))) if matches!(why.status.as_u16(), 400 | 422) => {
            let wrong = Wrong([(String::new(), why.message)].into());
            show(&visit, &agent_id, Some(&task), &wrong).await
        }
        Err(trouble) => Err(trouble),
    }
}
