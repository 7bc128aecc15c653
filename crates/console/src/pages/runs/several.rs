//! What is done with the runs that are ticked.

use axum::http::Method;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde_json::{Value, json};

use crate::api::{ApiError, Call, segment, with_query};
use crate::layout::{Page, Screen, heading};
use crate::trouble::Trouble;
use crate::value::{items, text};
use crate::visit::{Act, Visit};
use crate::words::{short, status};

/// Runs that one request is for: a page of them, and what the host takes.
const MOST: usize = 100;

/// What a run came to: the run that goes on in its place, or why there is none.
type Outcome = (String, Result<String, String>);

pub(super) fn buttons(visit: &Visit) -> Markup {
    html! {
        div.inline.several {
            button type="submit" name="act" value="compare" { "Compare two" }
            @if visit.may("runs:create") { button type="submit" name="act" value="retry" { "Retry ticked" } }
            @if visit.may("runs:cancel") { button.danger type="submit" name="act" value="cancel" data-sure="Cancel the runs that are ticked?" { "Cancel ticked" } }
        }
    }
}

/// `POST /console/runs/several`
pub(crate) async fn several(Act { visit, form }: Act) -> Result<Response, Trouble> {
    let ticked: Vec<&str> = form.all("run").take(MOST).collect();
    match (form.get("act"), ticked.as_slice()) {
        ("compare", [b, a]) => {
            Ok(Redirect::to(&with_query("/console/compare", [("a", *a), ("b", *b)]))
                .into_response())
        }
        ("compare", _) => Err(Trouble::Wrong("Tick two runs to compare them.".to_owned())),
        (_, []) => Err(Trouble::Wrong("Tick the runs that are meant.".to_owned())),
        ("retry", ticked) => {
            let outcomes = retry(&visit, ticked).await?;
            show(&visit, "Retried", &outcomes).await
        }
        (_, ticked) => {
            let body = json!({ "runIds": ticked, "reason": "from the console" });
            let answer = visit.call(Call::post("/v1/runs:bulk-cancel", body)).await?;
            let outcomes: Vec<Outcome> = items(&answer, "/results").iter().map(cancelled).collect();
            if outcomes.iter().all(|(_, outcome)| outcome.is_ok()) {
                return Ok(Redirect::to("/console/runs").into_response());
            }
            show(&visit, "Cancelled", &outcomes).await
        }
    }
}

async fn retry(visit: &Visit, ticked: &[&str]) -> Result<Vec<Outcome>, Trouble> {
    let mut outcomes = Vec::new();
    for run_id in ticked {
        let path = format!("{}/runs/{}/retry", crate::EXTENSION, segment(run_id));
        let outcome = match visit.call(Call::bare(Method::POST, path)).await {
            Ok(made) => Ok(text(&made, "/runId").to_owned()),
            Err(Trouble::Api(ApiError::Refused(why))) => Err(why.message),
            Err(trouble) => return Err(trouble),
        };
        outcomes.push(((*run_id).to_owned(), outcome));
    }
    Ok(outcomes)
}

fn cancelled(result: &Value) -> Outcome {
    let run_id = text(result, "/runId").to_owned();
    match text(result, "/error/message") {
        "" => (run_id.clone(), Ok(run_id)),
        why => (run_id, Err(why.to_owned())),
    }
}

async fn show(visit: &Visit, title: &str, outcomes: &[Outcome]) -> Result<Response, Trouble> {
    let done = outcomes.iter().filter(|(_, outcome)| outcome.is_ok()).count();
    let link =
        |run_id: &str| html! { a href={ "/console/runs/" (segment(run_id)) } { (short(run_id)) } };
    let body = html! {
        (heading(title, html! { a.button href="/console/runs" { "Back to the runs" } }))
        p { (done) " of " (outcomes.len()) " runs." }
        div.scroll { table {
            thead { tr { th { "Run" } th { "Outcome" } } }
            tbody { @for (run_id, outcome) in outcomes { tr {
                td.run { (link(run_id)) }
                td { @match outcome {
                    Ok(new) if new == run_id => (status("ok")),
                    Ok(new) => { (status("ok")) " goes on as " (link(new)) }
                    Err(why) => { (status("failed")) " " (why) }
                } }
            } } }
        } }
    };
    Page::new(Screen::Runs, title, body).show(visit).await
}
