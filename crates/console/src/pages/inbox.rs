//! Every open question, and the form that answers it.

mod several;

use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use callboard_protocol::Timestamp;
use maud::{Markup, html};
use serde_json::{Value, json};

use crate::api::{ApiError, Call, segment, with_query};
use crate::form::{self, Wrong};
use crate::layout::{Page, Screen, act, heading, nothing};
use crate::pages::run::question;
use crate::trouble::Trouble;
use crate::value::{cut, fields, flag, folded, is_empty, items, preview, shown, text, time};
use crate::visit::{Act, Fields, Visit};
use crate::words::{id, short, when};

pub(crate) use several::several;

/// What fits a phone's patience.
const PAGE: &str = "50";

/// What a list shows of a question's context, and of what is proposed.
const CONTEXT: usize = 240;
const MOST_FIELDS: usize = 6;
/// Of a text that is proposed, in the list; its own page has all of it.
const LONGEST_PROPOSAL: usize = 600;

/// `GET /console/inbox`
pub(crate) async fn page(visit: Visit) -> Result<Response, Trouble> {
    let live = with_query("/console/inbox/live", filters(&visit));
    let list = list(&visit).await?;
    let body = html! { (heading("Inbox", html! {})) div data-live=(live) { (list) } };
    Page::new(Screen::Inbox, "Inbox", body)
        .from(api_path(&visit))
        .command("callboard inbox list")
        .show(&visit)
        .await
}

fn filters(visit: &Visit) -> Vec<(&'static str, &str)> {
    ["kind", "workflowId", "runId", "rosterId", "cursor"]
        .into_iter()
        .map(|name| (name, visit.query.get(name)))
        .collect()
}

fn api_path(visit: &Visit) -> String {
    with_query(
        &format!("{}/inbox", crate::EXTENSION),
        filters(visit).into_iter().chain([("limit", PAGE)]),
    )
}

/// The questions, also for a page that is open.
pub(crate) async fn list(visit: &Visit) -> Result<Markup, Trouble> {
    let answer = visit.get_if_known(&api_path(visit)).await?;
    let Some(answer) = answer else {
        let none = "This host has no inbox. The page of a run leads to what it asks.";
        return Ok(html! { div #list { (nothing(none, "")) } });
    };
    let questions = items(&answer, "/interrupts");
    let next = text(&answer, "/nextCursor");
    Ok(html! {
        div #list {
            @if questions.is_empty() { (nothing("Nobody asks anything. Approvals, clarifications and decisions that an agent was not sure of come here.", "callboard inbox list")) }
            ul.plain data-keys="" { @for asked in questions { (entry(visit, asked)) } }
            @if questions.len() > 1 { (several::form(visit)) }
            @if !next.is_empty() { nav.pages { a rel="next" href=(with_query("/console/inbox", [("cursor", next)])) { "more ›" } } }
        }
    })
}

fn path_of(asked: &Value) -> String {
    format!("/console/inbox/{}/{}", segment(text(asked, "/runId")), segment(text(asked, "/nodeId")))
}

fn entry(visit: &Visit, asked: &Value) -> Markup {
    let path = path_of(asked);
    html! {
        li.question {
            div {
                h3 { (several::tick(asked)) a href=(path) { (question(text(asked, "/kind"), &asked["data"])) } }
                @let description = text(asked, "/data/description");
                @if !description.is_empty() { p { (cut(description, CONTEXT)) } }
                @if let Some(proposal) = proposal(asked) { (summary(proposal)) }
                (about(asked, visit.now()))
            }
            div.inline {
                @if flag(asked, "/mayDecide") {
                    @for action in actions(asked) {
                        @if needs_no_word(&action) { (quick(visit, &path, asked, &action)) }
                    }
                } @else { span.muted { "Your key's answer would not count here." } }
                a.button href=(path) { "Answer …" }
            }
        }
    }
}

/// What is proposed in a few lines: its plain fields, or the whole of it folded away.
fn summary(proposal: &Value) -> Markup {
    let plain: Vec<(&str, &Value)> = fields(proposal, "")
        .into_iter()
        .filter(|(_, value)| !value.is_object() && !value.is_array() && !is_empty(value))
        .take(MOST_FIELDS)
        .collect();
    html! {
        @if let Some(text) = proposal.as_str() { div.prose.proposed { (cut(text, LONGEST_PROPOSAL)) } }
        @else if plain.is_empty() { (folded("What is proposed", proposal)) }
        @else { p.proposed { @for (name, value) in plain { span { span.muted { (name) } " " (cut(&preview(value), CONTEXT)) } " " } } }
    }
}

fn about(asked: &Value, now: Timestamp) -> Markup {
    let run_id = text(asked, "/runId");
    html! {
        p.muted {
            (text(asked, "/kind")) " · " (text(asked, "/workflowId")) " · "
            a href={ "/console/runs/" (segment(run_id)) } { (short(run_id)) }
            " · " (when(now, time(asked, "/requestedAt")))
            @if let Some(end) = time(asked, "/expiresAt") { " · ends " (when(now, Some(end))) }
            @for vote in items(asked, "/votes") { " · " (text(vote, "/action")) " by " (short(text(vote, "/voter"))) }
        }
    }
}

fn quick(visit: &Visit, path: &str, asked: &Value, action: &str) -> Markup {
    let (class, key) = if action == "reject" { ("danger", "r") } else { ("good", "a") };
    act(
        visit,
        path,
        html! {
            input type="hidden" name="interruptId" value=(text(asked, "/interruptId"));
            input type="hidden" name="back" value="list";
            button class=(class) data-key=(key) type="submit" name="action" value=(action) { (action) }
        },
    )
}

/// What can be chosen with a single word.
fn actions(asked: &Value) -> Vec<String> {
    match text(asked, "/kind") {
        "low-confidence" => vec!["accept".to_owned(), "reject".to_owned()],
        _ => items(asked, "/data/actions")
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
    }
}

fn needs_no_word(action: &str) -> bool {
    !matches!(action, "edit-accept" | "refine" | "ask")
}

/// What somebody wants to do; an answer may put something else in its place.
fn proposal(asked: &Value) -> Option<&Value> {
    let data = &asked["data"];
    let found = match text(asked, "/kind") {
        "low-confidence" => data.get("decision"),
        "approval" => data.pointer("/artifactData/decision").or_else(|| data.get("artifactData")),
        _ => None,
    };
    found.filter(|found| !is_empty(found))
}

/// What is known beside a proposal that its agent is not sure of.
fn unsure<'a>(asked: &'a Value, key: &str) -> Option<&'a Value> {
    asked["data"].get(key).filter(|_| text(asked, "/kind") == "low-confidence")
}

/// What an answer must look like, where it is more than a word.
fn schema(asked: &Value) -> Option<Value> {
    if text(asked, "/kind") == "clarification" {
        let questions = items(asked, "/data/questions").iter();
        let properties: serde_json::Map<String, Value> = questions
            .map(|part| {
                let mut schema =
                    part.get("schema").cloned().unwrap_or_else(|| json!({ "type": "string" }));
                schema["title"] = part["question"].clone();
                (text(part, "/id").to_owned(), schema)
            })
            .collect();
        let required: Vec<&String> = properties.keys().collect();
        let required = json!(required);
        return Some(json!({ "type": "object", "properties": properties, "required": required }));
    }
    if text(asked, "/kind") == "approval" {
        return None;
    }
    let known = asked.get("resumeSchema").or_else(|| asked.pointer("/data/outcomeSchema"));
    Some(known.cloned().unwrap_or_else(|| match text(asked, "/kind") {
        "conversation.exchange" => json!({ "type": "string" }),
        _ => json!({}),
    }))
}

async fn asked(visit: &Visit, run_id: &str, node: &str) -> Result<Option<Value>, Trouble> {
    let path =
        with_query(&format!("{}/inbox", crate::EXTENSION), [("runId", run_id), ("limit", "200")]);
    let answer = visit.get(&path).await?;
    Ok(items(&answer, "/interrupts").iter().find(|asked| text(asked, "/nodeId") == node).cloned())
}

/// `GET /console/inbox/{runId}/{nodeId}`
pub(crate) async fn one(
    visit: Visit,
    Path((run_id, node)): Path<(String, String)>,
) -> Result<Response, Trouble> {
    match asked(&visit, &run_id, &node).await? {
        Some(asked) => show(&visit, &asked, None, &Wrong::default()).await,
        None => gone(&visit, &run_id).await,
    }
}

/// Somebody was quicker, or time ran out. The run tells how it was settled.
async fn gone(visit: &Visit, run_id: &str) -> Result<Response, Trouble> {
    let body = html! {
        h1 { "Nothing is asked here" }
        p { "This question is settled, or there never was one. " a href={ "/console/runs/" (segment(run_id)) } { "The run" } " tells how. " a href="/console/inbox" { "Back to the inbox" } }
    };
    Page::new(Screen::Inbox, "Settled", body).status(StatusCode::GONE).show(visit).await
}

async fn show(
    visit: &Visit,
    asked: &Value,
    value: Option<&Value>,
    wrong: &Wrong,
) -> Result<Response, Trouble> {
    let title = question(text(asked, "/kind"), &asked["data"]);
    let body = html! {
        p.muted { a href="/console/inbox" { "Inbox" } }
        h1 { (title) }
        (about(asked, visit.now()))
        @let description = text(asked, "/data/description");
        @if !description.is_empty() { p { (description) } }
        @if let Some(task) = unsure(asked, "task") { h2 { "The task" } (shown(task)) }
        @if let Some(proposal) = proposal(asked) { h2 { "What is proposed" } (shown(proposal)) }
        @if let Some(reason) = unsure(asked, "reason") { h2 { "The agent's reason" } (shown(reason)) }
        (answer_form(visit, asked, value, wrong))
        (folded("All that is known of the question", asked))
        p { (id(text(asked, "/interruptId"))) }
    };
    let status = if wrong.0.is_empty() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
    let (run_id, node) = (text(asked, "/runId"), text(asked, "/nodeId"));
    Page::new(Screen::Inbox, title, body)
        .from(with_query(&format!("{}/inbox", crate::EXTENSION), [("runId", run_id)]))
        .command(format!("callboard inbox answer {run_id} {node}"))
        .status(status)
        .show(visit)
        .await
}

fn answer_form(visit: &Visit, asked: &Value, value: Option<&Value>, wrong: &Wrong) -> Markup {
    if !flag(asked, "/mayDecide") {
        return html! { p.waits { "An answer of your key would not count: the question is for others." } };
    }
    let kind = text(asked, "/kind");
    let actions = actions(asked);
    let schema = schema(asked);
    let edited = value.or_else(|| proposal(asked));
    html! {
        h2 { "Answer" }
        (act(visit, &path_of(asked), html! {
            input type="hidden" name="interruptId" value=(text(asked, "/interruptId"));
            div.stack {
                @if matches!(kind, "approval" | "low-confidence") {
                    @if kind == "approval" {
                        @if let Some(wrong) = wrong.0.get("") { p.wrong role="alert" { (wrong) } }
                        label for="remark" { "Remark " span.muted { "why, or what should be different" } }
                        textarea id="remark" name="remark" rows="2" {}
                        @if actions.iter().any(|action| action == "edit-accept") {
                            label for="edited" { "What is accepted instead " span.muted { "JSON, for edit-accept" } }
                            textarea id="edited" name="edited" rows="6" spellcheck="false" { (edited.map(|it| serde_json::to_string_pretty(it).unwrap_or_default()).unwrap_or_default()) }
                        }
                    }
                    div.inline { @for action in &actions { button class=(if action == "reject" { "danger" } else { "good" }) type="submit" name="action" value=(action) { (action) } } }
                }
                @if let Some(schema) = schema {
                    @if kind == "low-confidence" { p.label { "Or put another result in its place" } }
                    (form::fields(&schema, edited, wrong))
                    div.inline { button.primary type="submit" name="action" value="" { @if kind == "low-confidence" { "Use this instead" } @else { "Answer" } } }
                }
            }
        }))
    }
}

/// `POST /console/inbox/{runId}/{nodeId}`
pub(crate) async fn answer(
    Path((run_id, node)): Path<(String, String)>,
    Act { visit, form }: Act,
) -> Result<Response, Trouble> {
    let Some(asked) = asked(&visit, &run_id, &node).await? else {
        return gone(&visit, &run_id).await;
    };
    // Two tabs, or a node that asks again: only the question that was seen is answered.
    if text(&asked, "/interruptId") != form.get("interruptId") {
        return gone(&visit, &run_id).await;
    }
    let answer = match read(&asked, &form) {
        Ok(answer) => answer,
        Err((value, wrong)) => return show(&visit, &asked, value.as_ref(), &wrong).await,
    };
    let path = format!("/v1/runs/{}/interrupts/{}", segment(&run_id), segment(&node));
    match visit.call(Call::post(path, json!({ "resumeValue": answer }))).await {
        Ok(_) if form.get("back") == "list" => Ok(Redirect::to("/console/inbox").into_response()),
        Ok(_) => Ok(Redirect::to(&format!("/console/runs/{}", segment(&run_id))).into_response()),
        Err(Trouble::Api(ApiError::Refused(why))) if matches!(why.status.as_u16(), 400 | 422) => {
            show(&visit, &asked, Some(&answer), &Wrong([(String::new(), why.message)].into())).await
        }
        Err(Trouble::Api(ApiError::Refused(why)))
            if matches!(why.status.as_u16(), 404 | 409 | 410) =>
        {
            gone(&visit, &run_id).await
        }
        Err(trouble) => Err(trouble),
    }
}

/// What the form says, as an answer; or what to show again with what is wrong.
fn read(asked: &Value, form: &Fields) -> Result<Value, (Option<Value>, Wrong)> {
    let (kind, action) = (text(asked, "/kind"), form.get("action"));
    if !action.is_empty() {
        let mut answer = json!({ "action": action });
        let remark = form.get("remark").trim();
        match (action, remark) {
            ("edit-accept", _) => {
                let edited = serde_json::from_str::<Value>(form.get("edited"));
                answer["editedArtifactData"] = edited.map_err(|error| {
                    (
                        None,
                        Wrong(
                            [(
                                String::new(),
                                format!("What is accepted instead is no JSON: {error}"),
                            )]
                            .into(),
                        ),
                    )
                })?;
            }
            (_, "") => {}
            ("refine", remark) => {
                answer["refineFeedback"] = json!({ "scope": "whole", "text": remark })
            }
            ("ask", remark) => answer["question"] = json!(remark),
            (_, remark) => answer["feedback"] = json!(remark),
        }
        return Ok(answer);
    }
    let schema = schema(asked).unwrap_or_default();
    let value = form::read(&schema, form).map_err(|wrong| (None, wrong))?;
    let wrong = form::check(&schema, &value);
    match (wrong.0.is_empty(), kind) {
        (false, _) => Err((Some(value), wrong)),
        (true, "clarification") => Ok(json!({ "answers": value })),
        (true, _) => Ok(value),
    }
}
