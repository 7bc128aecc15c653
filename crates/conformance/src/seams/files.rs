//! The door to workspaces of owners that a test names, so that it can be two of them with one key.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use callboard_engine::{Condition, Scope};
use callboard_protocol::WorkspaceFileCreate;
use callboard_server::extend::{Answer, Caller, Host, Problem, Shaped, files};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct WorkspaceOp {
    tenant: String,
    workspace: String,
    op: String,
    #[serde(default)]
    path: String,
    content: Option<String>,
    content_type: Option<String>,
    #[serde(default)]
    prefix: String,
    version: Option<u64>,
}

pub(super) async fn workspace(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(body): Shaped<WorkspaceOp>,
) -> Result<Response, Problem> {
    // Below the caller's own name: no test reaches what a real tenant keeps.
    let tenant = format!("sample:{}:{}", caller.scope.tenant, body.tenant);
    let scope = Scope {
        tenant: tenant.into(),
        workspace: Some(body.workspace.into()),
        mode: caller.scope.mode,
    };
    let caller = Caller { scope, ..caller };
    let (owner, always) = (&caller.scope, Condition::Always);
    match body.op.as_str() {
        "put" => {
            let missing = || Problem::invalid_at("content", "is missing");
            let content = body.content.ok_or_else(missing)?;
            let file = WorkspaceFileCreate { content, content_type: body.content_type };
            files::put(&host, &caller, None, &body.path, file, &always).await
        }
        "get" => {
            let found = files::found(&host, owner, &body.path, body.version).await?;
            Ok(Answer::json(StatusCode::OK, &found.shown())?.into_response())
        }
        "list" => Ok(files::listed(&host, owner, &body.prefix).await?.into_response()),
        "delete" => files::delete(&host, &caller, None, &body.path, &always).await,
        _ => Err(Problem::invalid_at("op", "must be put, get, list or delete")),
    }
}
