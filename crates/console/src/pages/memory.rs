//! What is remembered, and the files of the workspace: search, versions, restoring, forgetting.

use axum::extract::Path;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde_json::{Value, json};

use crate::api::{ApiError, Call, file_path, segment, with_query};
use crate::layout::{Page, Screen, act, heading, nothing};
use crate::trouble::Trouble;
use crate::value::{cut, items, text, time, whole};
use crate::visit::{Act, Visit};
use crate::words::{id, short, when};

const FILES: &str = "/v1/host/workspace/files";

fn base() -> String {
    format!("{}/memory", crate::EXTENSION)
}

/// `GET /console/memory`
pub(crate) async fn page(visit: Visit) -> Result<Response, Trouble> {
    let filters = ["scopeId", "tag", "text", "cursor"].map(|name| (name, visit.query.get(name)));
    let path = with_query(&base(), filters);
    let answer = visit.get(&path).await?;
    let (entries, next) = (items(&answer, "/entries"), text(&answer, "/nextCursor"));
    let body = html! {
        (heading("Memory", html! {}))
        form.filters method="get" action="/console/memory" {
            label { "Words " input name="text" type="search" value=(visit.query.get("text")); }
            label { "Place " input name="scopeId" value=(visit.query.get("scopeId")); }
            label { "Tag " input name="tag" value=(visit.query.get("tag")) size="10"; }
            button type="submit" { "Show" } a href="/console/memory" { "clear" }
        }
        @if entries.is_empty() { (nothing("Nothing is remembered here. Agents with long-term memory keep what their runs found.", "callboard memory list")) }
        @else { div.scroll { table data-keys="" {
            thead { tr { th { "Entry" } th.wide { "Place" } th.wide { "Tags" } th.num { "Version" } th { "Written" } } }
            tbody { @for entry in entries {
                tr {
                    td { a href={ "/console/memory/" (segment(text(entry, "/id"))) } { (cut(text(entry, "/content"), 140)) } }
                    td.wide { (short(text(entry, "/memoryRef"))) }
                    td.wide { @for tag in items(entry, "/tags") { span.tag { (tag.as_str().unwrap_or_default()) } " " } }
                    td.num { (whole(entry, "/version").unwrap_or(1)) }
                    td { (when(visit.now(), time(entry, "/writtenAt"))) }
                }
            } }
        } } }
        @if !next.is_empty() { nav.pages { a rel="next" href=(with_query("/console/memory", filters.into_iter().filter(|(name, _)| *name != "cursor").chain([("cursor", next)]))) { "older ›" } } }
    };
    Page::new(Screen::Memory, "Memory", body)
        .from(path)
        .command("callboard memory list")
        .show(&visit)
        .await
}

/// `GET /console/memory/{memoryId}`
pub(crate) async fn one(visit: Visit, Path(memory): Path<String>) -> Result<Response, Trouble> {
    let path = format!("{}/{}/history", base(), segment(&memory));
    let history = visit.get(&path).await?;
    let versions = items(&history, "/versions");
    let newest = versions.first().and_then(|version| whole(version, "/version")).unwrap_or(0);
    let body = html! {
        (heading("Memory", html! { @if visit.may("runs:create") { (act(&visit, &format!("/console/memory/{}", segment(&memory)), html! { button.danger type="submit" name="act" value="forget" data-sure="Erase this entry with all of its versions?" { "Forget" } })) } }))
        p.ids { (id(&memory)) }
        @if let Some(newest) = versions.first().filter(|_| visit.may("runs:create")) { (edit_form(&visit, &memory, newest)) }
        @for (version, place) in versions.iter().zip(0_usize..) {
            h2 { "Version " (whole(version, "/version").unwrap_or(0)) " " span.muted { (when(visit.now(), time(version, "/writtenAt"))) } }
            p.muted { (author(version)) }
            (changed(version, versions.get(place + 1)))
            @if place > 0 && visit.may("runs:create") {
                (act(&visit, &format!("/console/memory/{}", segment(&memory)), html! {
                    input type="hidden" name="version" value=(whole(version, "/version").unwrap_or(0)); input type="hidden" name="expected" value=(newest);
                    button type="submit" name="act" value="restore" { "Restore this version" }
                }))
            }
        }
    };
    Page::new(Screen::Memory, "Memory", body)
        .from(path)
        .command(format!("callboard memory history {memory}"))
        .show(&visit)
        .await
}

/// Writes over the version that is shown, and over no other.
fn edit_form(visit: &Visit, memory: &str, newest: &Value) -> Markup {
    html! {
        details.fold {
            summary { "Edit" }
            (act(visit, &format!("/console/memory/{}", segment(memory)), html! { div.stack {
                input type="hidden" name="expected" value=(whole(newest, "/version").unwrap_or(0));
                label.hidden for="content" { "Content" }
                textarea id="content" name="content" rows="8" required { (text(newest, "/content")) }
                button.primary type="submit" name="act" value="edit" { "Write" }
            } }))
        }
    }
}

fn author(version: &Value) -> Markup {
    let (run, agent) = (text(version, "/author/runId"), text(version, "/author/agentId"));
    html! {
        @if !agent.is_empty() { (agent) " " }
        @if !run.is_empty() { "in " a href={ "/console/runs/" (segment(run)) } { (short(run)) } } @else { (short(text(version, "/author/principal"))) }
        @for tag in items(version, "/tags") { " " span.tag { (tag.as_str().unwrap_or_default()) } }
    }
}

/// A version with what is new in it against the one before.
fn changed(version: &Value, before: Option<&Value>) -> Markup {
    let old: Vec<&str> =
        before.map(|before| text(before, "/content").lines().collect()).unwrap_or_default();
    let new: Vec<&str> = text(version, "/content").lines().collect();
    html! {
        pre { @for line in &new { span class=(if before.is_some() && !old.contains(line) { "added" } else { "" }) { (line) } "\n" }
            @for line in old.iter().filter(|line| !new.contains(line)) { span.removed { (line) } "\n" } }
    }
}

/// `POST /console/memory/{memoryId}`
pub(crate) async fn change(
    Path(memory): Path<String>,
    Act { visit, form }: Act,
) -> Result<Response, Trouble> {
    let path = format!("{}/{}", base(), segment(&memory));
    if form.get("act") == "forget" {
        visit.call(Call::bare(Method::DELETE, path)).await?;
        return Ok(Redirect::to("/console/memory").into_response());
    }
    let call = if form.get("act") == "edit" {
        let content = form.get("content").replace("\r\n", "\n");
        let body = json!({ "content": content, "expectedVersion": form.number("expected") });
        Call::with(Method::PUT, path, body)
    } else {
        let version = form.number("version");
        let body = json!({ "version": version, "expectedVersion": form.number("expected") });
        Call::post(format!("{path}/restore"), body)
    };
    visit.call(call).await?;
    Ok(Redirect::to(&format!("/console/memory/{}", segment(&memory))).into_response())
}

/// `GET /console/files`
pub(crate) async fn files(visit: Visit) -> Result<Response, Trouble> {
    let path = with_query(FILES, [("prefix", visit.query.get("prefix"))]);
    let answer = visit.get(&path).await?;
    let files = items(&answer, "/files");
    let body = html! {
        (heading("Files", html! { @if visit.may("workspace:write") { a.button href="/console/file?path=" { "Write a file" } } }))
        form.filters method="get" action="/console/files" { label { "Begins with " input name="prefix" value=(visit.query.get("prefix")); } button type="submit" { "Show" } }
        @if files.is_empty() { (nothing("No files here. Agents read those of their workspace at the start of a run.", "")) }
        @else { div.scroll { table data-keys="" {
            thead { tr { th { "Path" } th.wide { "Type" } th.num { "Version" } th { "Changed" } } }
            tbody { @for file in files {
                tr {
                    td.anywhere { a href=(with_query("/console/file", [("path", text(file, "/path"))])) { (text(file, "/path")) } } td.wide { (text(file, "/contentType")) }
                    td.num { (whole(file, "/version").unwrap_or(1)) } td { (when(visit.now(), time(file, "/updatedAt"))) }
                }
            } }
        } } }
    };
    Page::new(Screen::Files, "Files", body).from(path).show(&visit).await
}

/// `GET /console/file?path&version`
pub(crate) async fn file(visit: Visit) -> Result<Response, Trouble> {
    let path = visit.query.get("path").to_owned();
    if path.is_empty() {
        return editor(&visit, &json!({ "contentType": "text/markdown" }), None).await;
    }
    let api = with_query(
        &format!("{FILES}/{}", file_path(&path)),
        [("version", visit.query.get("version"))],
    );
    let file = visit.get(&api).await?;
    if visit.query.get("version").is_empty() {
        return editor(&visit, &file, None).await;
    }
    old_version(&visit, &file).await
}

/// One version of a file: what it changed, and the way back to it.
async fn old_version(visit: &Visit, file: &Value) -> Result<Response, Trouble> {
    let (path, version) = (text(file, "/path"), whole(file, "/version").unwrap_or(0));
    let api = format!("{FILES}/{}", file_path(path));
    let newest = visit.find(&api).await?.unwrap_or_default();
    let of = |version: u64| with_query(&api, [("version", version.to_string().as_str())]);
    let before = if version > 1 { visit.find(&of(version - 1)).await? } else { None };
    let link = |version: u64| {
        with_query("/console/file", [("path", path), ("version", &version.to_string())])
    };
    let is_newest = whole(&newest, "/version") == Some(version);
    let body = html! {
        (heading(path, html! { @if visit.may("workspace:write") && !is_newest { (act(visit, "/console/file", html! {
            @for (name, value) in [("path", path), ("contentType", text(file, "/contentType")), ("content", text(file, "/content")), ("etag", text(&newest, "/etag"))] { input type="hidden" name=(name) value=(value); }
            button type="submit" { "Restore this version" }
        })) } }))
        p.ids {
            "version " (version) " " (when(visit.now(), time(file, "/updatedAt"))) " · " a href=(with_query("/console/file", [("path", path)])) { "the newest" }
            @if version > 1 { " · " a href=(link(version - 1)) { "the version before" } }
        }
        (changed(file, before.as_ref()))
    };
    Page::new(Screen::Files, path, body).from(of(version)).show(visit).await
}

async fn editor(visit: &Visit, file: &Value, wrong: Option<&str>) -> Result<Response, Trouble> {
    let (path, version) = (text(file, "/path"), whole(file, "/version").unwrap_or(0));
    let is_new = text(file, "/etag").is_empty();
    let body = html! {
        (heading(if is_new { "Write a file" } else { path }, html! { @if visit.may("workspace:write") && !is_new { (act(visit, "/console/file", html! { input type="hidden" name="path" value=(path); button.danger type="submit" name="act" value="remove" data-sure="Remove this file? Its versions stay for the runs that saw them." { "Remove" } })) } }))
        @if version > 0 { p.ids { "version " (version) " " (when(visit.now(), time(file, "/updatedAt"))) @if version > 1 { " · " a href=(with_query("/console/file", [("path", path), ("version", &(version - 1).to_string())])) { "the version before" } } } }
        @if let Some(wrong) = wrong { p.wrong role="alert" { (wrong) } }
        @if visit.may("workspace:write") {
            (act(visit, "/console/file", html! { div.stack {
                label for="path" { "Path" } input id="path" name="path" value=(path) required readonly[!is_new] pattern="[A-Za-z0-9][A-Za-z0-9._\\/\\-]{0,255}";
                label for="contentType" { "Type" } input id="contentType" name="contentType" value=(text(file, "/contentType"));
                input type="hidden" name="etag" value=(text(file, "/etag"));
                label for="content" { "Content" } textarea id="content" name="content" rows="20" spellcheck="false" { (text(file, "/content")) }
                button.primary type="submit" { "Write" }
            } }))
        } @else { pre { (text(file, "/content")) } }
    };
    let status = if wrong.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    Page::new(Screen::Files, if is_new { "Write a file" } else { path }, body)
        .from(format!("{FILES}/{}", file_path(path)))
        .status(status)
        .show(visit)
        .await
}

/// `POST /console/file`: written only as long as nobody else did since.
pub(crate) async fn change_file(Act { visit, form }: Act) -> Result<Response, Trouble> {
    let path = form.get("path");
    let api = format!("{FILES}/{}", file_path(path));
    if form.get("act") == "remove" {
        visit.call(Call::bare(Method::DELETE, api)).await?;
        return Ok(Redirect::to("/console/files").into_response());
    }
    let content = form.get("content").replace("\r\n", "\n");
    let mut body = json!({ "content": content });
    if !form.get("contentType").is_empty() {
        body["contentType"] = json!(form.get("contentType"));
    }
    let if_match = Some(form.get("etag").to_owned()).filter(|tag| !tag.is_empty());
    let call = Call { if_match, ..Call::with(Method::PUT, api, body) };
    match visit.call(call).await {
        Ok(_) => Ok(Redirect::to(&with_query("/console/file", [("path", path)])).into_response()),
        Err(Trouble::Api(ApiError::Refused(why))) if why.status.is_client_error() => {
            let kept = json!({ "path": path, "contentType": form.get("contentType"), "content": content, "etag": form.get("etag") });
            editor(&visit, &kept, Some(&why.message)).await
        }
        Err(trouble) => Err(trouble),
    }
}
