//! The router, built from the table of operations: a row holds its handler, and a route without a row cannot exist.

mod activity;
mod agents;
mod annotations;
mod artifacts;
mod audit;
mod budget;
mod bundle;
mod calls;
mod cancel;
mod channels;
mod chat;
mod create;
pub(crate) mod deployments;
mod diff;
mod events;
mod everything;
pub(crate) mod files;
mod fork;
mod heartbeats;
mod hosts;
mod inbox;
pub(crate) mod interrupts;
mod kept_runs;
mod keys;
mod limits;
mod list;
mod made;
mod memory;
mod nodes;
mod org_chart;
mod packs;
mod pause;
pub(crate) mod prompts;
mod read;
mod registry;
pub(crate) mod resource;
mod retry;
mod roles;
pub(crate) mod roster;
pub(crate) mod schedules;
mod secrets;
mod spend;
mod status;
mod strict;
mod table;
mod tools;
pub(crate) mod triggers;
mod webhooks;
pub(crate) mod work;
pub(crate) mod workflows;

use std::sync::Arc;

use axum::Router;
use axum::http::{Method, StatusCode};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use tower_http::compression::Compression;

use crate::app::{App, Host};
use crate::gate::{Gate, admit};
use crate::hosts::HostNames;
use crate::metrics::Answers;
use crate::observe::{Front, Observed};
use crate::path;
use crate::problem::{Code, Problem};

pub use table::operations;

/// The service that `router` makes.
pub type Surface = Compression<Observed>;

/// The whole surface. Also callable in process, without a socket.
pub fn router(app: App) -> Surface {
    let front = Front::of(&app);
    let host = Arc::new(Host::new(app));
    let mut routed = Router::new();
    let seams = host.app.seams.as_ref().map_or(&[][..], |seams| seams.operations());
    for operation in operations().chain(seams) {
        let answers = Arc::new(Answers::of(operation.name));
        let gate = Gate { host: Arc::clone(&host), operation, answers };
        let route = operation.handler.clone().route_layer(from_fn_with_state(gate, admit));
        let seam = host.app.seams.is_some().then(|| operation.seam_path()).flatten();
        let second = operation.second_path().filter(|path| *path != operation.path);
        let first = operation.path.to_owned();
        for path in [Some(first), second, seam].into_iter().flatten() {
            routed = routed.route(&path::routed(&path), route.clone());
        }
    }
    let routed =
        routed.method_not_allowed_fallback(wrong_method).fallback(unrouted).with_state(host);
    Compression::new(Observed::new(routed, front))
}

/// The same with what others have defined beside it: pages for people, at `/` for browsers and below `/console`, and doors,
/// at `/mcp` and below `/openai/v1`.
pub fn with_pages(mut surface: Surface, pages: Router) -> Surface {
    surface.get_mut().show(pages);
    surface
}

/// Pages without an API beside them: it is the one of another host.
pub fn only_pages(pages: Router, hosts: HostNames) -> Surface {
    let nothing = Router::new().fallback(|| async { StatusCode::NOT_FOUND });
    with_pages(Compression::new(Observed::new(nothing, Front::only(hosts))), pages)
}

/// The router adds `Allow`. Asking for the options is no mistake.
async fn wrong_method(method: Method) -> Response {
    match method {
        Method::OPTIONS => StatusCode::NO_CONTENT.into_response(),
        _ => Problem::new(Code::MethodNotAllowed, "this path does not know the method")
            .into_response(),
    }
}

async fn unrouted() -> Problem {
    path::unknown()
}
