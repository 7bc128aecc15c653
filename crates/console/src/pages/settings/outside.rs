//! Whom the host can ask: providers of models with a probe, tools with the servers that bring them.

use std::collections::BTreeMap;

use axum::extract::Path;
use axum::http::Method;
use axum::response::Response;
use maud::{Markup, html};
use serde_json::Value;

use super::host;
use crate::api::{Call, segment};
use crate::layout::{Page, Screen, act, heading, nothing};
use crate::trouble::Trouble;
use crate::value::{flag, folded, items, text, whole};
use crate::visit::{Act, Visit};
use crate::words::status;

pub(super) async fn providers(visit: &Visit) -> Result<Markup, Trouble> {
    let found = visit.get(&host("hosts")).await?;
    let all = items(&found, "/providers");
    Ok(html! {
        @if all.is_empty() { (nothing("No provider of models is configured: agents answer from a script. Name one in callboard.toml, or set its key in the environment.", "callboard doctor")) }
        @else { div.scroll tabindex="0" { table {
            thead { tr { th { "Provider" } th { span.hidden { "Acts" } } } }
            tbody { @for provider in all {
                @let name = text(provider, "/name");
                tr {
                    td { (name) }
                    td { @if visit.may("admin") { (act(visit, &format!("/console/settings/providers/{}", segment(name)), html! { button type="submit" { "Probe" } })) } }
                }
            } }
        } } }
    })
}

/// `POST /console/settings/providers/{provider}`
pub(crate) async fn probe(
    Path(name): Path<String>,
    Act { visit, .. }: Act,
) -> Result<Response, Trouble> {
    let path = format!("{}/{}/probe", host("providers"), segment(&name));
    let found = visit.call(Call::bare(Method::POST, path)).await?;
    let body = html! {
        p.muted { a href="/console/settings?tab=providers" { "Providers" } }
        (heading(&name, html! {}))
        @if flag(&found, "/isReady") { p.fine { (status("ok")) " It is there and knows the key." } }
        @else { p.wrong { (status("error")) " " (text(&found, "/problem")) } }
        p.muted { "It took " (whole(&found, "/tookMs").unwrap_or(0)) " ms." }
    };
    Page::new(Screen::Settings, name.clone(), body)
        .command(format!("callboard hosts --probe {name}"))
        .show(&visit)
        .await
}

/// Tools by what brings them; those of an MCP server stand under its name.
pub(super) async fn tools(visit: &Visit) -> Result<Markup, Trouble> {
    let all = visit.get("/v1/tools").await?;
    let mut groups: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for tool in items(&all, "") {
        groups.entry(bringer(tool)).or_default().push(tool);
    }
    Ok(html! {
        @if groups.is_empty() { (nothing("The host has no tools.", "callboard doctor")) }
        @for (name, tools) in &groups {
            h2 { (name) " " span.muted { (tools.len()) } }
            div.scroll tabindex="0" { table {
                thead { tr { th { "Tool" } th.wide { "Reaches out" } th.wide { "Asks first" } th { "Takes" } } }
                tbody { @for tool in tools { tr {
                    td { code { (text(tool, "/toolId")) } br; small { (text(tool, "/description")) } }
                    td.wide { (text(tool, "/egress")) } td.wide { (text(tool, "/approval")) }
                    td { (folded("Schema", &tool["inputSchema"])) }
                } } }
            } }
        }
    })
}

fn bringer(tool: &Value) -> String {
    let (source, id) = (text(tool, "/source"), text(tool, "/toolId"));
    let server = id.strip_prefix("mcp:").or(Some(id)).and_then(|id| id.split_once([':', '.', '/']));
    match (source, server) {
        ("mcp", Some((server, _))) => format!("MCP server {server}"),
        ("node-pack", _) => "Of this host".to_owned(),
        ("workflow", _) => "Workflows as tools".to_owned(),
        _ => source.to_owned(),
    }
}
