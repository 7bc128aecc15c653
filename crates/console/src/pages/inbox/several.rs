//! Several questions answered with one word, each as if it were alone.

use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde_json::{Value, json};

use super::{actions, asked, needs_no_word};
use crate::api::{Call, segment};
use crate::layout::{Page, Screen};
use crate::trouble::Trouble;
use crate::value::{flag, text};
use crate::visit::{Act, FORM_TOKEN, Visit};

/// The form that the boxes belong to: forms cannot stand within each other.
const FORM: &str = "several";
/// Questions that one press answers.
const MOST: usize = 50;

/// A box for a question that a word answers.
pub(super) fn tick(question: &Value) -> Markup {
    let has_word = actions(question).iter().any(|action| needs_no_word(action));
    let value = json!([question["runId"], question["nodeId"], question["interruptId"]]);
    html! {
        @if flag(question, "/mayDecide") && has_word {
            input type="checkbox" form=(FORM) name="question" value=(value) aria-label={ "Tick the question of " (text(question, "/workflowId")) };
            " "
        }
    }
}

pub(super) fn form(visit: &Visit) -> Markup {
    html! {
        form.act.several #(FORM) method="post" action="/console/inbox/several" {
            input type="hidden" name=(FORM_TOKEN) value=(visit.form_token);
            div.inline {
                span.muted { "Those that are ticked:" }
                button.good type="submit" name="action" value="accept" { "accept" }
                button.danger type="submit" name="action" value="reject" data-sure="Reject all that are ticked?" { "reject" }
                label { "Why " input name="remark" maxlength="2000"; }
            }
        }
    }
}

/// `POST /console/inbox/several`
pub(crate) async fn several(Act { visit, form }: Act) -> Result<Response, Trouble> {
    let ticked: Vec<(String, String, String)> = form
        .all("question")
        .filter_map(|text| serde_json::from_str(text).ok())
        .take(MOST)
        .collect();
    if ticked.is_empty() {
        return Err(Trouble::Wrong("Tick the questions that are to be answered.".to_owned()));
    }
    let mut answer = json!({ "action": form.get("action") });
    if !form.get("remark").trim().is_empty() {
        answer["feedback"] = json!(form.get("remark").trim());
    }
    let mut left = Vec::new();
    for (run, node, interrupt) in &ticked {
        // Only the question that was seen is answered.
        let open = asked(&visit, run, node).await?;
        let is_open = open.is_some_and(|open| text(&open, "/interruptId") == interrupt);
        let path = format!("/v1/runs/{}/interrupts/{}", segment(run), segment(node));
        let call = Call::post(path, json!({ "resumeValue": answer }));
        let answered = if is_open { visit.call(call).await.err() } else { Some(settled()) };
        left.extend(answered.map(|why| (run, node, why.to_string())));
    }
    if left.is_empty() {
        return Ok(Redirect::to("/console/inbox").into_response());
    }
    let body = html! {
        h1 { (ticked.len() - left.len()) " of " (ticked.len()) " were answered" }
        ul.plain { @for (run, node, why) in &left { li { a href={ "/console/inbox/" (segment(run)) "/" (segment(node)) } { (node) } " " (why) } } }
        p { a.button href="/console/inbox" { "Back to the inbox" } }
    };
    Page::new(Screen::Inbox, "Inbox", body).show(&visit).await
}

fn settled() -> Trouble {
    Trouble::Wrong("somebody was quicker, or time ran out".to_owned())
}
