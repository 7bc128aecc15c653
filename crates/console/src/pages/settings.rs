//! Keys, secrets, webhooks, the audit log, what clients see of this host, and who is signed in.

mod audit;
mod interface;
mod letters;
mod outside;

use std::time::Duration;

use axum::extract::Path;
use axum::http::Method;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde_json::{Value, json};

use crate::api::{Call, segment};
use crate::layout::{Page, Screen, act, heading, tabs};
use crate::trouble::Trouble;
use crate::value::{flag, items, json as json_view, text, time, whole};
use crate::visit::{Act, Visit};
use crate::words::{duration, id, status, when};

pub(crate) use letters::{change as change_letters, page as webhook_letters};
pub(crate) use outside::probe;

const SCOPES: [&str; 22] = [
    "manifest:read",
    "runs:create",
    "runs:read",
    "runs:cancel",
    "artifacts:read",
    "webhooks:manage",
    "approvals:respond",
    "packs:publish",
    "packs:yank",
    "packs:yank-revert",
    "audit:read",
    "workspace:read",
    "workspace:write",
    "deploy:promote",
    "deploy:rollback",
    "deploy:pause",
    "admin",
    "approvals:delegate",
    "workflows:write",
    "packs:install",
    "roster:write",
    "triggers:write",
];
/// Roles, and what each is for.
const ROLES: [(&str, &str); 5] = [
    ("viewer", "reads"),
    ("approver", "reads, and answers questions"),
    ("operator", "starts and stops runs and their triggers"),
    ("author", "writes workflows and members"),
    ("deployer", "installs packs and changes deployments"),
];

fn host(path: &str) -> String {
    format!("{}/{path}", crate::EXTENSION)
}

fn tab_links(visit: &Visit, here: &str) -> Markup {
    let all = [
        ("", "You", ""),
        ("keys", "Keys", "admin"),
        ("secrets", "Secrets", "admin"),
        ("webhooks", "Webhooks", "webhooks:manage"),
        ("host", "Host", "manifest:read"),
        ("providers", "Providers", "manifest:read"),
        ("tools", "Tools", "manifest:read"),
        ("audit", "Audit", "audit:read"),
        ("http", "HTTP", ""),
    ];
    let links: Vec<(String, &str, bool)> = all
        .iter()
        .filter(|(.., scope)| scope.is_empty() || visit.may(scope))
        .map(|(tab, name, _)| (format!("/console/settings?tab={tab}"), *name, *tab == here))
        .collect();
    tabs("Settings", &links)
}

/// `GET /console/settings?tab`
pub(crate) async fn page(visit: Visit) -> Result<Response, Trouble> {
    let tab = visit.query.get("tab").to_owned();
    let (content, from) = match tab.as_str() {
        "keys" => (keys(&visit).await?, host("keys")),
        "secrets" => (secrets(&visit).await?, host("secrets")),
        "webhooks" => (webhooks(&visit).await?, host("webhooks")),
        "host" => (about(&visit).await?, host("capabilities")),
        "tools" => (outside::tools(&visit).await?, "/v1/tools".to_owned()),
        "providers" => (outside::providers(&visit).await?, host("hosts")),
        "audit" => (audit::log(&visit).await?, host("audit")),
        "http" => (interface::operations(&visit).await?, interface::DOCUMENT.to_owned()),
        _ => (you(&visit), host("whoami")),
    };
    let body = html! { (heading("Settings", html! {})) (tab_links(&visit, &tab)) (content) };
    let command = match tab.as_str() {
        "keys" => "callboard keys list",
        "secrets" => "callboard secrets list",
        "providers" => "callboard hosts",
        "audit" => "callboard audit list",
        "tools" => "callboard tools list",
        _ => "callboard doctor",
    };
    Page::new(Screen::Settings, "Settings", body).from(from).command(command).show(&visit).await
}

fn you(visit: &Visit) -> Markup {
    let who = &visit.who;
    html! {
        dl.fields {
            dt { "Key" } dd { (who.name) " " (id(who.key_id.as_str())) }
            dt { "Tenant" } dd { (who.tenant) @if let Some(workspace) = &who.workspace { ", workspace " (workspace) } }
            dt { "Expires" } dd { @match who.expires_at { Some(at) => (when(visit.now(), Some(at))), None => "never" } }
            dt { "May" } dd { @match &who.scopes { None => "everything", Some(scopes) => { @for scope in scopes { span.tag { (scope) } " " } } } }
        }
        div.inline {
            (act(visit, "/console/logout", html! { button type="submit" { "Sign out" } }))
            (act(visit, "/console/logout", html! { button type="submit" name="everywhere" value="1" { "Sign out everywhere" } }))
        }
    }
}

async fn keys(visit: &Visit) -> Result<Markup, Trouble> {
    let answer = visit.get(&host("keys")).await?;
    let now = visit.now();
    Ok(html! {
        div.scroll tabindex="0" { table {
            thead { tr { th { "Key" } th { "May" } th.wide { "Origin" } th { "Made" } th { "Ends" } th {} } }
            tbody { @for key in items(&answer, "/keys") {
                @let is_over = time(key, "/revokedAt").is_some();
                tr {
                    td { (text(key, "/name")) br; (id(text(key, "/id"))) }
                    td { @match key.get("scopes") { None => "everything", Some(_) => { @for scope in items(key, "/scopes") { span.tag { (scope.as_str().unwrap_or_default()) } " " } } } }
                    td.wide { (text(key, "/origin")) @if !text(key, "/workspace").is_empty() { ", " (text(key, "/workspace")) } }
                    td { @if text(key, "/origin") == "stored" { (when(now, time(key, "/createdAt"))) } }
                    td { @if is_over { (status("revoked")) } @else { (when(now, time(key, "/expiresAt"))) } }
                    td { @if !is_over && text(key, "/origin") == "stored" { div.inline {
                        (act(visit, &format!("/console/settings/keys/{}", segment(text(key, "/id"))), html! { button type="submit" name="act" value="rotate" data-sure="Replace this key? The old one stops working at once." { "Rotate" } }))
                        (act(visit, &format!("/console/settings/keys/{}", segment(text(key, "/id"))), html! { button.danger type="submit" name="act" value="revoke" data-sure="Revoke this key? What it made goes on." { "Revoke" } }))
                    } } }
                }
            } }
        } }
        h2 { "Make a key" }
        (act(visit, "/console/settings/keys", html! { div.stack {
            label for="name" { "Name" } input id="name" name="name" required maxlength="200";
            fieldset { legend { "What it may" }
                label { input type="radio" name="role" value="" checked; "what is ticked below; nothing ticked is what you may" }
                @for (role, may) in ROLES { label { input type="radio" name="role" value=(role); b { (role) } " " span.muted { (may) } } }
            }
            details.fold { summary { "Scopes" } @for scope in SCOPES { @if visit.may(scope) { label { input type="checkbox" name="scope" value=(scope); (scope) } } } }
            button.primary type="submit" { "Make it" }
        } }))
    })
}

/// `POST /console/settings/keys`
pub(crate) async fn make_key(Act { visit, form }: Act) -> Result<Response, Trouble> {
    let scopes: Vec<String> = match form.get("role") {
        "" => form.all("scope").map(str::to_owned).collect(),
        role => vec![format!("role:{role}")],
    };
    let mut body = json!({ "name": form.get("name") });
    if !scopes.is_empty() {
        body["scopes"] = json!(scopes);
    }
    let made = visit.call(Call::post(host("keys"), body)).await?;
    shown_once(&visit, "Key", &made, "/key", "/console/settings?tab=keys").await
}

/// `POST /console/settings/keys/{keyId}`
pub(crate) async fn change_key(
    Path(key): Path<String>,
    Act { visit, form }: Act,
) -> Result<Response, Trouble> {
    let path = format!("{}/{}", host("keys"), segment(&key));
    if form.get("act") == "rotate" {
        let made = visit.call(Call::bare(Method::POST, format!("{path}/rotate"))).await?;
        return shown_once(&visit, "Key", &made, "/key", "/console/settings?tab=keys").await;
    }
    visit.call(Call::bare(Method::DELETE, path)).await?;
    Ok(Redirect::to("/console/settings?tab=keys").into_response())
}

/// A text that nobody can see again.
async fn shown_once(
    visit: &Visit,
    what: &str,
    made: &Value,
    pointer: &str,
    back: &str,
) -> Result<Response, Trouble> {
    let body = html! {
        h1 { (what) }
        p.fine { "This is the only time that it is shown." }
        pre data-copy="" { (text(made, pointer)) }
        p { a.button href=(back) { "Go on" } }
    };
    Page::new(Screen::Settings, what, body).show(visit).await
}

async fn secrets(visit: &Visit) -> Result<Markup, Trouble> {
    let answer = visit.get(&host("secrets")).await?;
    let all = items(&answer, "/secrets");
    Ok(html! {
        p.muted { "Runs name a secret; nobody reads it, not even here." }
        @if !all.is_empty() { div.scroll { table {
            thead { tr { th { "Name" } th { "Changed" } th { "Ends" } th.wide { "May go to" } th {} } }
            tbody { @for secret in all { tr {
                td { code { (text(secret, "/name")) } } td { (when(visit.now(), time(secret, "/updatedAt"))) } td { (when(visit.now(), time(secret, "/expiresAt"))) }
                td.wide { @for audience in items(secret, "/audiences") { span.tag { (audience.as_str().unwrap_or_default()) } " " } }
                td { (act(visit, "/console/settings/secrets", html! { input type="hidden" name="name" value=(text(secret, "/name")); button.danger type="submit" name="act" value="remove" data-sure="Forget this secret? Runs that need it fail from now on." { "Remove" } })) }
            } } }
        } } }
        h2 { "Store a secret" }
        (act(visit, "/console/settings/secrets", html! { div.stack {
            label for="name" { "Name" } input id="name" name="name" required maxlength="128" autocomplete="off";
            label for="value" { "Value " span.muted { "replaces what is there" } } input id="value" name="value" type="password" required autocomplete="new-password";
            button.primary type="submit" { "Store" }
        } }))
    })
}

/// `POST /console/settings/secrets`
pub(crate) async fn change_secret(Act { visit, form }: Act) -> Result<Response, Trouble> {
    let path = format!("{}/{}", host("secrets"), segment(form.get("name")));
    match form.get("act") {
        "remove" => visit.call(Call::bare(Method::DELETE, path)).await?,
        _ => {
            visit.call(Call::with(Method::PUT, path, json!({ "value": form.get("value") }))).await?
        }
    };
    Ok(Redirect::to("/console/settings?tab=secrets").into_response())
}

async fn webhooks(visit: &Visit) -> Result<Markup, Trouble> {
    let answer = visit.get(&host("webhooks")).await?;
    let all = items(&answer, "/webhooks");
    Ok(html! {
        @if all.is_empty() { p.muted { "Nobody is told of events." } }
        @else { div.scroll { table {
            thead { tr { th { "Address" } th { "Events" } th { "State" } th.wide { "Secret" } th { "Made" } th {} } }
            tbody { @for webhook in all { tr {
                td { (text(webhook, "/url")) br; (id(text(webhook, "/webhookId"))) }
                td { @for event in items(webhook, "/events") { code { (event.as_str().unwrap_or_default()) } " " } @if flag(webhook, "/durable") { span.tag { "durable" } } }
                td { (status(text(webhook, "/state"))) } td.wide { code { (text(webhook, "/secretFingerprint")) } } td { (when(visit.now(), time(webhook, "/createdAt"))) }
                td { div.inline {
                    @if flag(webhook, "/durable") { a href={ "/console/settings/webhooks/" (segment(text(webhook, "/webhookId"))) } { "Deliveries" } }
                    (act(visit, "/console/settings/webhooks", html! { input type="hidden" name="id" value=(text(webhook, "/webhookId")); button.danger type="submit" name="act" value="remove" data-sure="Tell this address nothing more?" { "Remove" } }))
                } }
            } } }
        } } }
        h2 { "Tell an address" }
        (act(visit, "/console/settings/webhooks", html! { div.stack {
            label for="url" { "Address" } input id="url" name="url" type="url" required maxlength="2048" placeholder="https://…";
            label for="events" { "Events " span.muted { "separated by commas: run.completed, interrupt.*" } } input id="events" name="events" required value="run.*";
            label { input type="checkbox" name="durable" value="1"; "repeat what fails, and keep what was given up" }
            button.primary type="submit" { "Tell it" }
        } }))
    })
}

/// `POST /console/settings/webhooks`
pub(crate) async fn change_webhook(Act { visit, form }: Act) -> Result<Response, Trouble> {
    if form.get("act") == "remove" {
        visit
            .call(Call::bare(Method::DELETE, format!("/v1/webhooks/{}", segment(form.get("id")))))
            .await?;
        return Ok(Redirect::to("/console/settings?tab=webhooks").into_response());
    }
    let events: Vec<&str> =
        form.get("events").split(',').map(str::trim).filter(|event| !event.is_empty()).collect();
    let body =
        json!({ "url": form.get("url"), "events": events, "durable": form.get("durable") == "1" });
    let made = visit.call(Call::post("/v1/webhooks", body)).await?;
    shown_once(
        &visit,
        "Signing secret of the webhook",
        &made,
        "/secret",
        "/console/settings?tab=webhooks",
    )
    .await
}

/// What is kept for so many days, where discovery says it.
const KEPT: [(&str, &str); 2] = [
    ("Runs are kept", "/deadLetter/retentionDays"),
    ("Dead letters of triggers are kept", "/triggerBridge/deadLetter/retentionDays"),
];

/// A limit in words; one that this page does not know stands as it came.
fn limit(name: &str, value: &Value) -> (String, String) {
    let known = match name {
        "maxNodeExecutions" => "Steps of a run",
        "maxRunDurationMs" => "Longest run",
        "maxLoopIterations" => "Rounds of a loop",
        "maxRequestBodyBytes" => "Largest request",
        "clarificationRounds" => "Questions back of an agent",
        "schemaRounds" => "Attempts at a valid answer of a model",
        "envelopesPerTurn" => "Envelopes of one answer",
        other => other,
    };
    let number = value.as_u64().unwrap_or(0);
    let shown = match name {
        "maxRunDurationMs" => duration(Duration::from_millis(number)),
        "maxRequestBodyBytes" if number >= 1 << 20 => format!("{} MiB", number >> 20),
        _ => value.to_string(),
    };
    (known.to_owned(), shown)
}

async fn about(visit: &Visit) -> Result<Markup, Trouble> {
    let seen = visit.get(&host("capabilities")).await?;
    Ok(html! {
        dl.fields {
            dt { "Build" } dd { (text(&seen, "/implementation/name")) " " (text(&seen, "/implementation/version")) }
            dt { "Protocol" } dd { "OpenWOP " (text(&seen, "/protocolVersion")) }
            @for (name, value) in crate::value::fields(&seen, "/limits") { @let (name, value) = limit(name, value); dt { (name) } dd { (value) } }
            @for (name, pointer) in KEPT { @if let Some(days) = whole(&seen, pointer) { dt { (name) } dd { "for " (days) @if days == 1 { " day" } @else { " days" } } } }
        }
        h2 { "What clients see of this host" }
        (json_view(&seen))
    })
}
