//! What can be done with a run: stop it, hold it, fork it, say something of it.

use axum::extract::Path;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde_json::{Map, Value, json};

use crate::api::{ApiError, Call, segment};
use crate::layout::{Page, Screen, act};
use crate::trouble::Trouble;
use crate::value::{text, whole};
use crate::visit::{Act, Fields, Visit};
use crate::words::short;

pub(super) fn back(run_id: &str) -> Response {
    Redirect::to(&format!("/console/runs/{}", segment(run_id))).into_response()
}

/// `POST /console/runs/{runId}/cancel`
pub(crate) async fn cancel(
    Path(run_id): Path<String>,
    Act { visit, .. }: Act,
) -> Result<Response, Trouble> {
    let path = format!("/v1/runs/{}/cancel", segment(&run_id));
    visit.call(Call::post(path, json!({ "reason": "from the console" }))).await?;
    Ok(back(&run_id))
}

/// `POST /console/runs/{runId}/pause`
pub(crate) async fn pause(
    Path(run_id): Path<String>,
    Act { visit, .. }: Act,
) -> Result<Response, Trouble> {
    visit.call(Call::post(format!("/v1/runs/{}:pause", segment(&run_id)), json!({}))).await?;
    Ok(back(&run_id))
}

/// `POST /console/runs/{runId}/resume`
pub(crate) async fn resume(
    Path(run_id): Path<String>,
    Act { visit, .. }: Act,
) -> Result<Response, Trouble> {
    visit.call(Call::post(format!("/v1/runs/{}:resume", segment(&run_id)), json!({}))).await?;
    Ok(back(&run_id))
}

/// `POST /console/runs/{runId}/annotate`
pub(crate) async fn annotate(
    Path(run_id): Path<String>,
    Act { visit, form }: Act,
) -> Result<Response, Trouble> {
    let kind = form.get("kind");
    let mut signal = json!({ "kind": kind });
    match kind {
        "rating" => signal["rating"] = json!(form.number("rating")),
        "label" | "correction" => signal[kind] = json!(form.get("text")),
        _ => {}
    }
    let mut body = json!({ "signal": signal });
    if !form.get("note").is_empty() {
        body["note"] = json!(form.get("note"));
    }
    visit.call(Call::post(format!("/v1/runs/{}/annotations", segment(&run_id)), body)).await?;
    Ok(Redirect::to(&format!("/console/runs/{}?tab=state#said", segment(&run_id))).into_response())
}

/// `POST /console/runs/{runId}/signal`: writes into one of the run's channels.
pub(crate) async fn signal(
    Path(run_id): Path<String>,
    Act { visit, form }: Act,
) -> Result<Response, Trouble> {
    let value = form.get("value");
    // Who writes no JSON means a text.
    let value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
    let (run, channel) = (segment(&run_id), segment(form.get("channel")));
    let path = format!("{}/runs/{run}/channels/{channel}", crate::EXTENSION);
    visit.call(Call::post(path, json!({ "value": value }))).await?;
    Ok(Redirect::to(&format!("/console/runs/{run}?tab=state#channels")).into_response())
}

/// `GET /console/runs/{runId}/bundle`: the debug bundle as a file.
pub(crate) async fn bundle(visit: Visit, Path(run_id): Path<String>) -> Result<Response, Trouble> {
    let bundle = visit.get(&format!("/v1/runs/{}/debug-bundle", segment(&run_id))).await?;
    let saved = HeaderValue::from_static("attachment; filename=\"run.json\"");
    Ok(([(header::CONTENT_DISPOSITION, saved)], axum::Json(bundle)).into_response())
}

/// `POST /console/runs/{runId}/fork`: the new run is shown.
pub(crate) async fn fork(
    Path(run_id): Path<String>,
    Act { visit, form }: Act,
) -> Result<Response, Trouble> {
    let asked = match read(&form) {
        Ok(asked) => asked,
        Err(wrong) => return refused(&visit, &run_id, &form, &wrong).await,
    };
    let made = visit.call(Call::post(format!("/v1/runs/{}:fork", segment(&run_id)), asked)).await;
    match made {
        Ok(made) => Ok(back(text(&made, "/runId"))),
        Err(Trouble::Api(ApiError::Refused(why))) if why.status.is_client_error() => {
            refused(&visit, &run_id, &form, &why.message).await
        }
        Err(trouble) => Err(trouble),
    }
}

fn read(form: &Fields) -> Result<Value, String> {
    let mode = form.get("mode");
    let mut asked = json!({ "mode": mode });
    if let Some(from) = form.number("fromSeq") {
        asked["fromSeq"] = json!(from);
    }
    if mode != "branch" {
        return Ok(asked);
    }
    let configurable = form.get("configurable").trim();
    let configurable = if configurable.is_empty() { "{}" } else { configurable };
    let mut configurable: Map<String, Value> = serde_json::from_str(configurable)
        .map_err(|error| format!("What is configured is no JSON object: {error}"))?;
    if !form.get("model").is_empty() {
        configurable.insert("model".to_owned(), json!(form.get("model")));
    }
    let mut overlay = Map::new();
    if !configurable.is_empty() {
        overlay.insert("configurable".to_owned(), Value::Object(configurable));
    }
    let tags: Vec<&str> =
        form.get("tags").split(',').map(str::trim).filter(|tag| !tag.is_empty()).collect();
    if !tags.is_empty() {
        overlay.insert("tags".to_owned(), json!(tags));
    }
    if !overlay.is_empty() {
        asked["runOptionsOverlay"] = Value::Object(overlay);
    }
    Ok(asked)
}

async fn refused(
    visit: &Visit,
    run_id: &str,
    form: &Fields,
    why: &str,
) -> Result<Response, Trouble> {
    let run = visit.get(&format!("/v1/runs/{}", segment(run_id))).await?;
    show(visit, &run, form, Some(why)).await
}

/// `GET /console/runs/{runId}?fork=SEQ`
pub(crate) async fn fork_form(
    visit: Visit,
    run_id: String,
    from: u64,
) -> Result<Response, Trouble> {
    let run = visit.get(&format!("/v1/runs/{}", segment(&run_id))).await?;
    let form = Fields(vec![
        ("fromSeq".to_owned(), from.to_string()),
        ("mode".to_owned(), "branch".to_owned()),
    ]);
    show(&visit, &run, &form, None).await
}

async fn show(
    visit: &Visit,
    run: &Value,
    form: &Fields,
    wrong: Option<&str>,
) -> Result<Response, Trouble> {
    let run_id = text(run, "/runId");
    let body = html! {
        h1 { "Fork " a href={ "/console/runs/" (segment(run_id)) } { (short(run_id)) } }
        p.muted { "A new run that takes over the events before the one that is named, and goes on by itself from there. The run that it comes from does not change." }
        @if let Some(wrong) = wrong { p.wrong role="alert" { (wrong) } }
        (act(visit, &format!("/console/runs/{}/fork", segment(run_id)), fields(run, form)))
    };
    let status = if wrong.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    Page::new(Screen::Runs, format!("Fork {}", short(run_id)), body)
        .command(format!(
            "callboard runs fork {run_id} --mode branch --from-seq {}",
            form.get("fromSeq")
        ))
        .status(status)
        .show(visit)
        .await
}

fn fields(run: &Value, form: &Fields) -> Markup {
    let end = whole(run, "/lastSequence").map_or(0, |last| last + 1);
    html! {
        div.stack {
            label for="fromSeq" { "First event that is not taken over" }
            input id="fromSeq" name="fromSeq" type="number" min="0" max=(end) value=(form.get("fromSeq")) required;
            fieldset {
                legend { "How" }
                label { input type="radio" name="mode" value="branch" checked[form.get("mode") != "replay"]; " Branch: go on from there, with what is changed below; models and tools are asked anew" }
                label { input type="radio" name="mode" value="replay" checked[form.get("mode") == "replay"]; " Replay: tell it again from what was recorded, and say where it differs; nothing below applies" }
            }
            label for="model" { "Another model " span.muted { "provider/model" } }
            input id="model" name="model" value=(form.get("model")) placeholder=(text(run, "/metrics/openwopCost/model"));
            label for="configurable" { "What else is configured " span.muted { "a JSON object, such as {\"temperature\": 0, \"promptOverrides\": {\"system\": \"prompt:…\"}}" } }
            textarea id="configurable" name="configurable" rows="4" spellcheck="false" { (form.get("configurable")) }
            label for="tags" { "Tags " span.muted { "separated by commas" } }
            input id="tags" name="tags" value=(form.get("tags"));
            button.primary type="submit" { "Fork" }
        }
    }
}
