//! Whether a principal may do something, asked as the gate before tools asks it.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use callboard_agents::{Granted, Grants};
use callboard_protocol::{AuthorizationDecided, Principal};
use callboard_server::extend::{Answer, Caller, Host, Shaped};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    principal: Principal,
    action: String,
    resource: String,
}

pub(super) async fn authorize(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(asked): Shaped<Asked>,
) -> Answer {
    let granted = host.app.keys.granted(&caller.scope.tenant, &asked.principal, host.now()).await;
    let allowed = granted.holds(&asked.action);
    let reason = match granted {
        _ if allowed => "the principal holds this scope",
        Granted::Unknown => "nobody knows this principal, so it holds nothing",
        Granted::Only(_) | Granted::Everything => "the principal does not hold this scope",
    };
    let decided = AuthorizationDecided {
        node_id: None,
        principal: asked.principal.to_string(),
        action: asked.action,
        resource: asked.resource,
        allowed,
        reason: reason.to_owned(),
    };
    Answer::of(StatusCode::OK, &decided)
}
