//! Finds screens, runs, workflows, agents and members by a part of their name or id.

use axum::response::{Html, IntoResponse, Response};
use maud::{Markup, html};
use serde_json::Value;

use crate::api::segment;
use crate::layout::{Page, Screen, heading};
use crate::trouble::Trouble;
use crate::value::{cut, items, text};
use crate::visit::Visit;
use crate::words::short;

/// Of each kind.
const MOST: usize = 8;

const SCREENS: [(&str, &str); 14] = [
    ("Overview", "/"),
    ("Runs", "/console/runs"),
    ("Failed runs", "/console/runs?status=failed"),
    ("Compare runs", "/console/compare"),
    ("Inbox", "/console/inbox"),
    ("Agents", "/console/agents"),
    ("Roster", "/console/roster"),
    ("Workflows", "/console/workflows"),
    ("Triggers", "/console/triggers"),
    ("Schedules", "/console/schedules"),
    ("Memory", "/console/memory"),
    ("Files", "/console/files"),
    ("Money", "/console/money"),
    ("Settings", "/console/settings"),
];

struct Found {
    kind: &'static str,
    name: String,
    path: String,
}

/// `GET /console/find?q`
pub(crate) async fn page(visit: Visit) -> Result<Response, Trouble> {
    let wanted = cut(visit.query.get("q").trim(), 200).to_lowercase();
    let found = find(&visit, &wanted).await?;
    if visit.query.get("part") == "1" {
        return Ok(Html(list(&found).into_string()).into_response());
    }
    let body = html! {
        (heading("Find", html! {}))
        form.filters method="get" action="/console/find" { input name="q" type="search" value=(visit.query.get("q")) aria-label="Find"; button type="submit" { "Find" } }
        ul.plain { (list(&found)) }
    };
    Page::new(Screen::Overview, "Find", body).show(&visit).await
}

fn list(found: &[Found]) -> Markup {
    html! {
        @for thing in found { li { a href=(thing.path) { span { (thing.name) } span.muted { (thing.kind) } } } }
        @if found.is_empty() { li.muted { "Nothing is called like that." } }
    }
}

async fn find(visit: &Visit, wanted: &str) -> Result<Vec<Found>, Trouble> {
    let fits = |name: &str| wanted.is_empty() || name.to_lowercase().contains(wanted);
    let mut found: Vec<Found> = SCREENS
        .iter()
        .filter(|(name, _)| fits(name))
        .map(|(name, path)| Found {
            kind: "screen",
            name: (*name).to_owned(),
            path: (*path).to_owned(),
        })
        .collect();
    // A whole id is looked up, however old its run is.
    let by_id = format!("/v1/runs/{}", segment(wanted));
    if wanted.starts_with("run_") && visit.find_with("runs:read", &by_id).await?.is_some() {
        let path = format!("/console/runs/{}", segment(wanted));
        found.insert(0, Found { kind: "run", name: short(wanted), path });
    }
    let sources: [(&'static str, &str, String, &str, [&str; 2]); 4] = [
        (
            "workflow",
            "manifest:read",
            format!("{}/workflows", crate::EXTENSION),
            "/workflows",
            ["/workflowId", "/name"],
        ),
        ("agent", "manifest:read", "/v1/agents".to_owned(), "/agents", ["/agentId", "/persona"]),
        (
            "member",
            "manifest:read",
            format!("{}/roster", crate::EXTENSION),
            "/roster",
            ["/rosterId", "/persona"],
        ),
        (
            "run",
            "runs:read",
            format!("{}/runs?limit=50", crate::EXTENSION),
            "/runs",
            ["/runId", "/workflowId"],
        ),
    ];
    for (kind, scope, path, list, [id, name]) in sources {
        let answer = visit.find_with(scope, &path).await?.unwrap_or_default();
        let of = items(&answer, list)
            .iter()
            .filter(|thing| fits(text(thing, id)) || fits(text(thing, name)));
        for thing in of.take(MOST) {
            let thing = entry(kind, thing, id, name);
            // The run that was looked up by its id is among the newest, too.
            if found.first().is_none_or(|first| first.path != thing.path) {
                found.push(thing);
            }
        }
    }
    Ok(found)
}

fn entry(kind: &'static str, thing: &Value, id: &str, name: &str) -> Found {
    let (id, name) = (text(thing, id), text(thing, name));
    let folder = match kind {
        "workflow" => "workflows",
        "agent" => "agents",
        "member" => "roster",
        _ => "runs",
    };
    Found {
        kind,
        name: format!("{name} {}", short(id)),
        path: format!("/console/{folder}/{}", segment(id)),
    }
}
