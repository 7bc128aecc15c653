//! What starts workflows from outside, and what could not become a run.

mod deliveries;

use axum::extract::Path;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde_json::{Value, json};

use crate::api::{ApiError, Call, segment, with_query};
use crate::layout::{Page, Screen, act, heading, nothing};
use crate::pages::roster::{member, roster};
use crate::trouble::Trouble;
use crate::value::{flag, folded, items, text, time, whole};
use crate::visit::{Act, Fields, Visit};
use crate::words::{id, short, status, when};

pub(crate) use deliveries::letter;

fn base() -> String {
    format!("{}/trigger-subscriptions", crate::EXTENSION)
}

fn page_of(trigger: &str) -> String {
    format!("/console/triggers/{}", segment(trigger))
}

/// `GET /console/triggers`
pub(crate) async fn page(visit: Visit) -> Result<Response, Trouble> {
    show(&visit, &Fields::default(), None).await
}

async fn show(visit: &Visit, form: &Fields, wrong: Option<&str>) -> Result<Response, Trouble> {
    let answer = visit.get(&base()).await?;
    let all = items(&answer, "/subscriptions");
    let roster = roster(visit).await?;
    let body = html! {
        (heading("Triggers", html! {}))
        @if all.is_empty() { (nothing("Nothing from outside starts a workflow: no webhook, form, mail or queue.", "callboard triggers add WORKFLOW --source webhook")) }
        @else { div.scroll { table data-keys="" {
            thead { tr { th { "Source" } th { "Starts" } th.wide { "For" } th { "State" } th.wide { "Verification" } th { "Changed" } th {} } }
            tbody { @for trigger in all {
                tr {
                    td { a href=(page_of(text(trigger, "/subscriptionId"))) { (text(trigger, "/source")) } br; small { (short(text(trigger, "/subscriptionId"))) } }
                    td { a href={ "/console/workflows/" (segment(text(trigger, "/workflowId"))) } { (text(trigger, "/workflowId")) } }
                    td.wide { (member(&roster, text(trigger, "/rosterId"))) } td { (status(text(trigger, "/state"))) } td.wide { (text(trigger, "/verification")) }
                    td { (when(visit.now(), time(trigger, "/updatedAt"))) } td { (acts(visit, trigger)) }
                }
            } }
        } } }
        (new_form(visit, &roster, form, wrong).await?)
    };
    let status = if wrong.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    Page::new(Screen::Triggers, "Triggers", body)
        .from(base())
        .command("callboard triggers list")
        .status(status)
        .show(visit)
        .await
}

fn acts(visit: &Visit, trigger: &Value) -> Markup {
    let path = page_of(text(trigger, "/subscriptionId"));
    let is_active = text(trigger, "/state") == "active";
    html! {
        @if visit.may("triggers:write") { div.inline {
            (act(visit, &path, html! { button type="submit" name="act" value=(if is_active { "paused" } else { "active" }) { @if is_active { "Pause" } @else { "Resume" } } }))
            @if text(trigger, "/source") != "queue" { (act(visit, &path, html! { button type="submit" name="act" value="rotate" data-sure="Make a new signing secret? The last one works for another day." { "Rotate secret" } })) }
            (act(visit, &path, html! { button.danger type="submit" name="act" value="remove" data-sure="Remove this trigger?" { "Remove" } }))
        } }
    }
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
        h2 { "Add a trigger" }
        @if let Some(wrong) = wrong { p.wrong role="alert" { (wrong) } }
        (act(visit, "/console/triggers", html! { div.inline {
            label { "Source " select name="source" { @for source in ["webhook", "queue", "form", "email"] { option selected[form.get("source") == source] { (source) } } } }
            label { "Starts " select name="workflowId" { @for workflow in items(&workflows, "/workflows") { option { (text(workflow, "/workflowId")) } } } }
            label { "For " select name="rosterId" { option value="" { "nobody" } @for member in items(roster, "/roster") { option value=(text(member, "/rosterId")) { (text(member, "/persona")) } } } }
            label { "Input mapping " input name="inputMapping" value=(form.get("inputMapping")) placeholder="{\"message\": \"queue.message\"}" spellcheck="false" size="28"; }
            button type="submit" { "Add" }
        } }))
    })
}

/// `POST /console/triggers`
pub(crate) async fn add(Act { visit, form }: Act) -> Result<Response, Trouble> {
    let mut body = json!({ "source": form.get("source"), "workflowId": form.get("workflowId") });
    if !form.get("rosterId").is_empty() {
        body["rosterId"] = json!(form.get("rosterId"));
    }
    if !form.get("inputMapping").trim().is_empty() {
        match serde_json::from_str::<Value>(form.get("inputMapping")) {
            Ok(mapping) => body["inputMapping"] = mapping,
            Err(error) => {
                return show(&visit, &form, Some(&format!("The mapping is no JSON: {error}")))
                    .await;
            }
        }
    }
    match visit.call(Call::post(base(), body)).await {
        Ok(made) => revealed(&visit, &made).await,
        Err(Trouble::Api(ApiError::Refused(why))) if why.status.is_client_error() => {
            show(&visit, &form, Some(&why.message)).await
        }
        Err(trouble) => Err(trouble),
    }
}

/// What is shown this once.
async fn revealed(visit: &Visit, made: &Value) -> Result<Response, Trouble> {
    let (trigger, secret) =
        (text(made, "/subscription/subscriptionId"), text(made, "/binding/signingSecret"));
    let body = html! {
        (heading("Trigger", html! {}))
        p.fine { "The trigger takes what comes to it." }
        dl.fields {
            @for (name, pointer) in [("Posts go to", "/binding/ingestUrl"), ("Mail goes to", "/binding/ingestAddress"), ("Deliveries go to", "/binding/deliverUrl")] {
                @if !text(made, pointer).is_empty() { dt { (name) } dd { code data-copy="" { (text(made, pointer)) } } }
            }
            @if !secret.is_empty() { dt { "Signing secret" } dd { code data-copy="" { (secret) } p.hint { "Shown this once. Whoever posts signs with it." } } }
        }
        p { a.button href=(page_of(trigger)) { "Go on" } }
    };
    Page::new(Screen::Triggers, "Trigger", body).show(visit).await
}

/// `GET /console/triggers/{subscriptionId}`
pub(crate) async fn one(visit: Visit, Path(trigger): Path<String>) -> Result<Response, Trouble> {
    let path = format!("{}/{}", base(), segment(&trigger));
    let subscription = visit.get(&path).await?;
    let roster = roster(&visit).await?;
    let letters = with_query(
        &format!("/v1/trigger-subscriptions/{}/dead-letters", segment(&trigger)),
        [("limit", "50"), ("cursor", visit.query.get("cursor"))],
    );
    let dead = visit.find(&letters).await?.unwrap_or_default();
    let came = format!("{path}/deliveries?limit=25");
    let came = visit.find_with("webhooks:manage", &came).await?.unwrap_or_default();
    let body = html! {
        (heading(&format!("{} trigger", text(&subscription, "/source")), acts(&visit, &subscription)))
        p.ids { (id(&trigger)) " " (status(text(&subscription, "/state"))) }
        dl.fields {
            dt { "Starts" } dd { a href={ "/console/workflows/" (segment(text(&subscription, "/workflowId"))) } { (text(&subscription, "/workflowId")) } }
            @if !text(&subscription, "/rosterId").is_empty() { dt { "For" } dd { (member(&roster, text(&subscription, "/rosterId"))) } }
            dt { "Repeats" } dd { "up to " (whole(&subscription, "/retryPolicy/maxAttempts").unwrap_or(0)) " times, " (text(&subscription, "/retryPolicy/backoff")) }
            dt { "The same twice" } dd { @if flag(&subscription, "/dedupEnabled") { "is taken once" } @else { "is taken twice" } }
            dt { "Verification" } dd { (text(&subscription, "/verification")) }
            @for (name, pointer) in [("Posts go to", "/binding/ingestUrl"), ("Mail goes to", "/binding/ingestAddress"), ("Deliveries go to", "/binding/deliverUrl")] {
                @if !text(&subscription, pointer).is_empty() { dt { (name) } dd { code data-copy="" { (text(&subscription, pointer)) } } }
            }
        }
        (folded("Input mapping", &subscription["inputMapping"]))
        (test_form(&visit, &subscription))
        (deliveries::dead_letters(&visit, &trigger, &dead))
        (deliveries::deliveries(&visit, &came))
    };
    Page::new(Screen::Triggers, "Trigger", body)
        .from(path)
        .from(letters)
        .from(format!("{}/{}/deliveries", base(), segment(&trigger)))
        .command(format!("callboard triggers dead-letters {trigger}"))
        .show(&visit)
        .await
}

fn test_form(visit: &Visit, subscription: &Value) -> Markup {
    html! {
        @if visit.may("triggers:write") && text(subscription, "/source") == "queue" {
            h2 { "Put something in" }
            (act(visit, &page_of(text(subscription, "/subscriptionId")), html! { div.stack {
                label for="id" { "Id " span.muted { "the same id again is the same thing" } } input id="id" name="id" required maxlength="256" size="24";
                label for="payload" { "Payload" } textarea id="payload" name="payload" rows="3" spellcheck="false" placeholder="{\"message\": \"…\"}" required {}
                button type="submit" name="act" value="deliver" { "Deliver" }
            } }))
        } @else if let Some(command) = post_command(subscription) {
            h2 { "Try it" }
            p.muted { "What is refused is listed below with the reason." }
            pre data-copy="" { (command) }
        }
    }
}

/// What somebody outside would post, for a terminal. None for a queue, and where no address is known.
fn post_command(subscription: &Value) -> Option<String> {
    let address = |pointer: &str| {
        let path = Some(text(subscription, pointer)).filter(|it| !it.is_empty())?;
        let is_path = path.starts_with('/');
        Some(if is_path { format!("\"$CALLBOARD_URL{path}\"") } else { path.to_owned() })
    };
    let json = "-H 'content-type: application/json'";
    match text(subscription, "/source") {
        "webhook" => Some(
            [
                "SECRET=whsec_…  # shown when the trigger was made, or its secret rotated",
                "ID=test-$(date +%s) AT=$(date +%s) BODY='{\"message\": \"hello\"}'",
                "KEY=$(printf %s \"${SECRET#whsec_}\" | base64 -d | od -An -vtx1 | tr -d ' \\n')",
                "SIGNATURE=$(printf %s \"$ID.$AT.$BODY\" | openssl dgst -sha256 -mac HMAC -macopt \"hexkey:$KEY\" -binary | base64)",
                &format!("curl {} -H \"webhook-id: $ID\" -H \"webhook-timestamp: $AT\" -H \"webhook-signature: v1,$SIGNATURE\" {json} -d \"$BODY\"", address("/binding/ingestUrl")?),
            ]
            .join("\n"),
        ),
        "form" => Some(format!("curl {} -d message=hello", address("/binding/ingestUrl")?)),
        "email" => Some(format!(
            "curl {} {json} -d '{{\"messageId\": \"test-1\", \"from\": \"a@example.com\", \"to\": \"b@example.com\", \"subject\": \"Hello\", \"text\": \"hello\"}}'",
            address("/binding/ingestAddress")?
        )),
        _ => None,
    }
}

/// `POST /console/triggers/{subscriptionId}`
pub(crate) async fn change(
    Path(trigger): Path<String>,
    Act { visit, form }: Act,
) -> Result<Response, Trouble> {
    let path = format!("{}/{}", base(), segment(&trigger));
    let to_run = |made: &Value| {
        Redirect::to(&format!("/console/runs/{}", segment(text(made, "/runId")))).into_response()
    };
    match form.get("act") {
        "remove" => {
            visit.call(Call::bare(Method::DELETE, path)).await?;
            return Ok(Redirect::to("/console/triggers").into_response());
        }
        "rotate" => {
            let made =
                visit.call(Call::bare(Method::POST, format!("{path}/rotate-secret"))).await?;
            return revealed(&visit, &made).await;
        }
        "replay" => {
            let path = format!("{path}/dead-letters/{}/replay", segment(form.get("delivery")));
            return Ok(to_run(&visit.call(Call::bare(Method::POST, path)).await?));
        }
        "replay-all" => {
            let path = format!("{path}/dead-letters/replay");
            visit.call(Call::bare(Method::POST, path)).await?
        }
        "drop" => {
            let path = format!("{path}/dead-letters/{}", segment(form.get("delivery")));
            visit.call(Call::bare(Method::DELETE, path)).await?
        }
        "deliver" => {
            let payload = serde_json::from_str::<Value>(form.get("payload"))
                .map_err(|error| Trouble::Wrong(format!("The payload is no JSON: {error}")))?;
            let body = json!({ "id": form.get("id"), "payload": payload });
            return Ok(to_run(&visit.call(Call::post(format!("{path}/deliver"), body)).await?));
        }
        state => visit.call(Call::with(Method::PATCH, path, json!({ "state": state }))).await?,
    };
    Ok(Redirect::to(&page_of(&trigger)).into_response())
}
