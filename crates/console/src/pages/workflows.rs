//! Workflows: the list, one with its picture, and starting it.

use axum::extract::Path;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde_json::{Value, json};

use crate::api::{ApiError, Call, Refused, segment, with_query};
use crate::draw::graph::{Mark, graph};
use crate::form::{self, Wrong};
use crate::layout::{Page, Screen, act, heading, nothing};
use crate::pages::runs;
use crate::trouble::Trouble;
use crate::value::{cut, items, json as json_view, text, whole};
use crate::visit::{Act, Visit};
use crate::words::status;

fn list_path() -> String {
    format!("{}/workflows", crate::EXTENSION)
}

/// `GET /console/workflows`
pub(crate) async fn page(visit: Visit) -> Result<Response, Trouble> {
    let answer = visit.get(&list_path()).await?;
    let all = items(&answer, "/workflows");
    let body = html! {
        (heading("Workflows", html! { @if visit.may("workflows:write") { a.button href="/console/workflows/-/new" { "Register" } } }))
        @if all.is_empty() { (nothing("No workflow is known. Definitions are registered, or loaded from a folder at start.", "callboard workflows apply FILE.json")) }
        @else {
            div.scroll { table data-keys="" {
                thead { tr { th { "Name" } th { "Id" } th { "Version" } th.wide { "Origin" } th.wide { "What it does" } } }
                tbody { @for workflow in all {
                    @let id = text(workflow, "/workflowId");
                    tr {
                        td { a.whole href={ "/console/workflows/" (segment(id)) } { (text(workflow, "/name")) } }
                        td { code.whole { (id) } } td { (text(workflow, "/version")) } td.wide { (text(workflow, "/origin")) } td.wide { (text(workflow, "/description")) }
                    }
                } }
            } }
        }
    };
    Page::new(Screen::Workflows, "Workflows", body)
        .from(list_path())
        .command("callboard workflows list")
        .show(&visit)
        .await
}

/// `GET /console/workflows/{workflowId}`
pub(crate) async fn one(visit: Visit, Path(id): Path<String>) -> Result<Response, Trouble> {
    show(&visit, &id, None, &Wrong::default()).await
}

async fn show(
    visit: &Visit,
    id: &str,
    value: Option<&Value>,
    wrong: &Wrong,
) -> Result<Response, Trouble> {
    let path = format!("/v1/workflows/{}", segment(id));
    let definition = visit.get(&path).await?;
    let registered = is_registered(visit, id).await?;
    let recent =
        with_query(&format!("{}/runs", crate::EXTENSION), [("workflowId", id), ("limit", "10")]);
    let recent = visit.find_with("runs:read", &recent).await?;
    let body = html! {
        (heading(text(&definition, "/name"), edits(visit, id, registered)))
        p.ids { code { (id) } " version " (text(&definition, "/version")) }
        @if !text(&definition, "/description").is_empty() { p { (text(&definition, "/description")) } }
        @if let Some(drawn) = graph(&definition, |_| Mark::default()) { (drawn) }
        div.columns {
            section { (starter(visit, id, &definition, value, wrong)) }
            section { (sources(visit, id).await?) }
        }
        @if let Some(recent) = &recent {
            h2 { "Its newest runs" }
            @let runs = items(recent, "/runs");
            @if runs.is_empty() { p.muted { "None yet." } } @else { (runs::table(runs, visit.now(), false)) }
        }
        h2 { "Definition" }
        details.fold { summary { "Show" } (json_view(&definition)) }
    };
    let status = if wrong.0.is_empty() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
    Page::new(Screen::Workflows, text(&definition, "/name"), body)
        .from(path)
        .command(format!("callboard workflows show {id}"))
        .status(status)
        .show(visit)
        .await
}

async fn is_registered(visit: &Visit, id: &str) -> Result<bool, Trouble> {
    let list = visit.find(&list_path()).await?.unwrap_or_default();
    let known =
        items(&list, "/workflows").iter().find(|workflow| text(workflow, "/workflowId") == id);
    Ok(known.is_some_and(|workflow| text(workflow, "/origin") == "registered"))
}

/// What a folder loaded is changed in the folder.
fn edits(visit: &Visit, id: &str, registered: bool) -> Markup {
    html! {
        @if visit.may("workflows:write") && registered {
            a.button href={ "/console/workflows/-/new?of=" (segment(id)) } { "Edit" }
            (act(visit, &format!("/console/workflows/{}/remove", segment(id)), html! { button.danger type="submit" data-sure="Forget this workflow? Its runs go on." { "Remove" } }))
        }
    }
}

fn starter(
    visit: &Visit,
    id: &str,
    definition: &Value,
    value: Option<&Value>,
    wrong: &Wrong,
) -> Markup {
    let schema = form::of_variables(definition);
    html! {
        @if visit.may("runs:create") {
            h2 { "Start it" }
            (act(visit, &format!("/console/workflows/{}/start", segment(id)), html! {
                div.stack {
                    (form::fields(&schema, value, wrong))
                    label for="tags" { "Tags " span.muted { "separated by commas" } }
                    input id="tags" name="tags";
                    button.primary type="submit" { "Start" }
                }
            }))
        }
    }
}

/// What starts it by itself.
async fn sources(visit: &Visit, id: &str) -> Result<Markup, Trouble> {
    let schedules = with_query(&format!("{}/schedules", crate::EXTENSION), [("workflowId", id)]);
    let schedules = visit.find_with("runs:read", &schedules).await?.unwrap_or_default();
    let triggers = visit
        .find_with("webhooks:manage", &format!("{}/trigger-subscriptions", crate::EXTENSION))
        .await?
        .unwrap_or_default();
    let triggers: Vec<&Value> = items(&triggers, "/subscriptions")
        .iter()
        .filter(|trigger| text(trigger, "/workflowId") == id)
        .collect();
    let schedules = items(&schedules, "/schedules");
    Ok(html! {
        h2 { "What starts it by itself" }
        @if schedules.is_empty() && triggers.is_empty() { p.muted { "Nothing." } }
        ul.plain {
            @for schedule in schedules { li { a href={ "/console/schedules/" (segment(text(schedule, "/id"))) } { (text(schedule, "/description")) } } }
            @for trigger in triggers { li { a href={ "/console/triggers/" (segment(text(trigger, "/subscriptionId"))) } { (text(trigger, "/source")) } " " (status(text(trigger, "/state"))) } }
        }
    })
}

/// `POST /console/workflows/{workflowId}/start`
pub(crate) async fn start(
    Path(id): Path<String>,
    Act { visit, form }: Act,
) -> Result<Response, Trouble> {
    let definition = visit.get(&format!("/v1/workflows/{}", segment(&id))).await?;
    let schema = form::of_variables(&definition);
    let inputs = match form::read(&schema, &form) {
        Ok(inputs) => inputs,
        Err(wrong) => return show(&visit, &id, None, &wrong).await,
    };
    let wrong = form::check(&schema, &inputs);
    if !wrong.0.is_empty() {
        return show(&visit, &id, Some(&inputs), &wrong).await;
    }
    let mut asked = json!({ "workflowId": id, "inputs": inputs });
    let tags: Vec<&str> =
        form.get("tags").split(',').map(str::trim).filter(|tag| !tag.is_empty()).collect();
    if !tags.is_empty() {
        asked["tags"] = json!(tags);
    }
    match visit.call(Call::post("/v1/runs", asked)).await {
        Ok(made) => Ok(Redirect::to(&format!("/console/runs/{}", segment(text(&made, "/runId"))))
            .into_response()),
        Err(Trouble::Api(ApiError::Refused(why))) if matches!(why.status.as_u16(), 400 | 422) => {
            show(&visit, &id, Some(&inputs), &Wrong([(String::new(), why.message)].into())).await
        }
        Err(trouble) => Err(trouble),
    }
}

/// `GET /console/workflows/-/new?of`: a definition as text.
pub(crate) async fn new(visit: Visit) -> Result<Response, Trouble> {
    let of = visit.query.get("of");
    let written = match of {
        "" => String::new(),
        of => serde_json::to_string_pretty(
            &visit.get(&format!("/v1/workflows/{}", segment(of))).await?,
        )
        .unwrap_or_default(),
    };
    editor(&visit, &written, None).await
}

async fn editor(
    visit: &Visit,
    written: &str,
    wrong: Option<&Refused>,
) -> Result<Response, Trouble> {
    let body = html! {
        (heading("Register a workflow", html! {}))
        p.muted { "A definition as YAML or JSON. The host checks all of it before anything changes; runs that are under way keep the one that they began with." }
        @if let Some(wrong) = wrong { (problems(written, wrong)) }
        (act(visit, "/console/workflows", html! {
            label.hidden for="definition" { "Definition" }
            textarea.code id="definition" name="definition" rows="28" spellcheck="false" required placeholder="id: hello\nnodes:\n  greet: {type: core.noop}\n" { (written) }
            p { button.primary type="submit" { "Check and register" } }
        }))
    };
    let status = if wrong.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    Page::new(Screen::Workflows, "Register a workflow", body)
        .command("callboard workflows apply FILE.yaml")
        .status(status)
        .show(visit)
        .await
}

/// What is wrong, line by line, each with the line as it was written.
fn problems(written: &str, wrong: &Refused) -> Markup {
    let all = &wrong.problems;
    let line_of = |number: u64| {
        let place = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
        place.and_then(|place| written.lines().nth(place)).unwrap_or_default()
    };
    html! {
        div.wrong role="alert" {
            @if all.is_empty() { (wrong.message) }
            @else {
                p { "Nothing was saved. " (all.len()) @if all.len() == 1 { " thing is" } @else { " things are" } " wrong:" }
                ol.problems { @for problem in all { li {
                    @if let Some(line) = whole(problem, "/line") { b { "line " (line) } " " code { (cut(line_of(line).trim(), 100)) } br; }
                    @if !text(problem, "/path").is_empty() { code { (text(problem, "/path")) } ": " }
                    (text(problem, "/message"))
                    @if !text(problem, "/didYouMean").is_empty() { ". Did you mean " code { (text(problem, "/didYouMean")) } "?" }
                    @if !text(problem, "/hint").is_empty() { " " (text(problem, "/hint")) }
                } } }
            }
        }
    }
}

/// `POST /console/workflows`: sent as it was written, so that the host can say in which line it is wrong.
pub(crate) async fn register(Act { visit, form }: Act) -> Result<Response, Trouble> {
    let written = form.get("definition").replace("\r\n", "\n");
    let is_json = written.trim_start().starts_with('{');
    let media_type = if is_json { "application/json" } else { "application/yaml" };
    match visit.call(Call::text(list_path(), media_type, &written)).await {
        Ok(made) => {
            Ok(Redirect::to(&format!("/console/workflows/{}", segment(text(&made, "/id"))))
                .into_response())
        }
        Err(Trouble::Api(ApiError::Refused(why))) if why.status.is_client_error() => {
            editor(&visit, &written, Some(&why)).await
        }
        Err(trouble) => Err(trouble),
    }
}

/// `POST /console/workflows/{workflowId}/remove`
pub(crate) async fn remove(
    Path(id): Path<String>,
    Act { visit, .. }: Act,
) -> Result<Response, Trouble> {
    visit.call(Call::bare(Method::DELETE, format!("{}/{}", list_path(), segment(&id)))).await?;
    Ok(Redirect::to("/console/workflows").into_response())
}
