//! Where a client finds who gives tokens for this host (RFC 9728).

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use serde_json::json;

use crate::answer::Answer;
use crate::app::Host;
use crate::client::base_of;
use crate::problem::Problem;
use crate::scopes::SCOPES;

/// Where the metadata of the whole host is.
pub(crate) const METADATA: &str = "/.well-known/oauth-protected-resource";
/// Where a client of the Model Context Protocol looks first.
pub(crate) const METADATA_OF_MCP: &str = "/.well-known/oauth-protected-resource/mcp";

pub(super) async fn metadata(
    State(host): State<Arc<Host>>,
    request: Request,
) -> Result<Answer, Problem> {
    of(&host, &request, "")
}

pub(super) async fn metadata_of_mcp(
    State(host): State<Arc<Host>>,
    request: Request,
) -> Result<Answer, Problem> {
    of(&host, &request, "/mcp")
}

fn of(host: &Host, request: &Request, door: &str) -> Result<Answer, Problem> {
    let issuers = &host.app.issuers;
    let base = base_of(host.app.config.public_url.as_deref(), request);
    let base = base.filter(|_| !issuers.is_empty()).ok_or_else(|| Problem::no_such("path"))?;
    let document = json!({
        "resource": format!("{base}{door}"),
        "authorization_servers": issuers.addresses(),
        "bearer_methods_supported": ["header"],
        "scopes_supported": SCOPES,
        "resource_name": "Callboard",
    });
    Answer::json(StatusCode::OK, &document)
}
