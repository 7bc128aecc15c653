//! Going on with a run that has ended: from what failed, with the newest definition, with other inputs.

use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};
use serde_json::{Value, json};

use super::acts::back;
use crate::api::{ApiError, Call, segment};
use crate::layout::{Page, Screen, act};
use crate::trouble::Trouble;
use crate::value::{fields, text};
use crate::visit::{Act, Fields, Visit};
use crate::words::short;

/// `GET /console/runs/{runId}?retry=1`
pub(super) async fn form(visit: Visit, run_id: String) -> Result<Response, Trouble> {
    show(&visit, &run_id, &Fields::default(), None).await
}

async fn show(
    visit: &Visit,
    run_id: &str,
    form: &Fields,
    wrong: Option<&str>,
) -> Result<Response, Trouble> {
    let run = visit.get(&format!("/v1/runs/{}", segment(run_id))).await?;
    let body = html! {
        h1 { "Retry " a href={ "/console/runs/" (segment(run_id)) } { (short(run_id)) } }
        p.muted { "A new run that keeps what was done and goes on from what failed. The run that it comes from does not change." }
        @if let Some(wrong) = wrong { p.wrong role="alert" { (wrong) } }
        (act(visit, &format!("/console/runs/{}/retry", segment(run_id)), inputs(&run, form)))
    };
    let status = if wrong.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    Page::new(Screen::Runs, format!("Retry {}", short(run_id)), body)
        .from(format!("/v1/runs/{}", segment(run_id)))
        .command(format!("callboard runs retry {run_id}"))
        .status(status)
        .show(visit)
        .await
}

fn inputs(run: &Value, form: &Fields) -> Markup {
    let variables = serde_json::to_string_pretty(&run["variables"]).unwrap_or_default();
    html! {
        div.stack {
            label { input type="checkbox" name="latest" value="1" checked[form.get("latest") == "1"]; "With the newest definition and agents, instead of those that it began with" }
            label for="from" { "Also do again " span.muted { "and what follows from it" } }
            select id="from" name="from" {
                option value="" { "only what failed" }
                @for (node, _) in fields(run, "/nodeStates") { option selected[form.get("from") == node] { (node) } }
            }
            label for="inputs" { "Other inputs " span.muted { "a JSON object; what is not named stays" } }
            textarea id="inputs" name="inputs" rows="5" spellcheck="false" placeholder=(crate::value::cut(&variables, 1000)) { (form.get("inputs")) }
            button.primary type="submit" { "Retry" }
        }
    }
}

/// `POST /console/runs/{runId}/retry`: the new run is shown.
pub(crate) async fn retry(
    Path(run_id): Path<String>,
    Act { visit, form }: Act,
) -> Result<Response, Trouble> {
    let mut asked = json!({});
    if form.get("latest") == "1" {
        asked["latest"] = json!(true);
    }
    if !form.get("from").is_empty() {
        asked["from"] = json!(form.get("from"));
    }
    if !form.get("inputs").trim().is_empty() {
        match serde_json::from_str::<Value>(form.get("inputs")) {
            Ok(inputs) if inputs.is_object() => asked["inputs"] = inputs,
            _ => return show(&visit, &run_id, &form, Some("Inputs are a JSON object.")).await,
        }
    }
    let path = format!("{}/runs/{}/retry", crate::EXTENSION, segment(&run_id));
    match visit.call(Call::post(path, asked)).await {
        Ok(made) => Ok(back(text(&made, "/runId"))),
        Err(Trouble::Api(ApiError::Refused(why))) if why.status.is_client_error() => {
            show(&visit, &run_id, &form, Some(&why.message)).await
        }
        Err(trouble) => Err(trouble),
    }
}
