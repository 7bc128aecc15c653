//! The host's own OpenAPI document, to be read by people: every operation, what it takes, and the scope that it needs.

use maud::{Markup, html};
use serde_json::Value;

use crate::layout::nothing;
use crate::trouble::Trouble;
use crate::value::{items, text};
use crate::visit::Visit;

pub(super) const DOCUMENT: &str = "/v1/openapi.json";
/// More than any host of ours has.
const MOST: usize = 1_000;
/// Scopes that are named one by one where each of them is enough.
const MOST_SCOPES: usize = 4;

struct Operation<'d> {
    path: &'d str,
    method: String,
    described: &'d Value,
}

pub(super) async fn operations(visit: &Visit) -> Result<Markup, Trouble> {
    let Some(document) = visit.find(DOCUMENT).await? else {
        return Ok(nothing("This host has no OpenAPI document.", ""));
    };
    let all = listed(&document);
    Ok(html! {
        p.muted {
            "What this host answers over HTTP, as " a href=(DOCUMENT) { "OpenAPI" } " of the protocol's first major; "
            a href="/openapi.json" { "/openapi.json" } " is that of the second. Keys go into the header " code { "Authorization: Bearer …" } "."
        }
        div.scroll tabindex="0" { table {
            thead { tr { th { "Operation" } th { "What it does" } th { "Needs" } th.wide { "Query" } } }
            tbody { @for Operation { path, method, described } in all.iter().take(MOST) { tr {
                td { span.tag { (method) } " " code { (path) } }
                td { (text(described, "/summary")) }
                td { (needs(text(described, "/x-openwop-scope"))) }
                td.wide { @for parameter in query(described) { span.tag title=(text(parameter, "/description")) { (text(parameter, "/name")) } " " } }
            } } }
        } }
    })
}

/// The scope of an operation; where nearly any will do, that.
fn needs(scope: &str) -> Markup {
    html! {
        @if scope.is_empty() { "no key" }
        @else if scope.matches(" or ").count() > MOST_SCOPES { "any key" }
        @else { span.tag { (scope) } }
    }
}

/// By path, and in the order of the document within one.
fn listed(document: &Value) -> Vec<Operation<'_>> {
    let mut all = Vec::new();
    for (path, methods) in document.get("paths").and_then(Value::as_object).into_iter().flatten() {
        for (method, described) in methods.as_object().into_iter().flatten() {
            all.push(Operation { path, method: method.to_uppercase(), described });
        }
    }
    all
}

fn query(described: &Value) -> impl Iterator<Item = &Value> {
    items(described, "/parameters").iter().filter(|it| text(it, "/in") == "query")
}
