//! The files that came along with what a run was made of: listed, and read one by one.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use callboard_engine::Attachment;
use callboard_protocol::RunId;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::app::Host;
use crate::extract::Named;
use crate::keys::Caller;
use crate::problem::Problem;
use crate::query::Parameters;

/// What a stranger sent may be anything: it is never shown as a page, and never run.
fn shown(ordinal: usize, file: &Attachment) -> Value {
    let mut shown = json!(file.reference());
    shown["attachmentId"] = ordinal.to_string().into();
    shown["contentTrust"] = "untrusted".into();
    shown
}

pub(in crate::routes) async fn attachments(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(run): Named<RunId>,
    uri: Uri,
) -> Result<Answer, Problem> {
    Parameters::closed(&uri, &[])?;
    let files = host.app.triggers.attachments(&caller.scope, &run).await?;
    let files = files.ok_or_else(|| Problem::no_such("run"))?;
    let files: Vec<Value> = files.iter().enumerate().map(|(at, file)| shown(at, file)).collect();
    Ok(Answer::of(StatusCode::OK, &json!({ "attachments": files })))
}

pub(in crate::routes) async fn attachment(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Path((run, id)): Path<(String, String)>,
    uri: Uri,
) -> Result<Answer, Problem> {
    Parameters::closed(&uri, &[])?;
    let files = host.app.triggers.attachments(&caller.scope, &RunId::from(run)).await?;
    let files = files.ok_or_else(|| Problem::no_such("run"))?;
    let found = id.parse::<usize>().ok().and_then(|ordinal| Some((ordinal, files.get(ordinal)?)));
    let (ordinal, file) = found.ok_or_else(|| Problem::no_such("attachment"))?;
    let mut shown = shown(ordinal, file);
    shown["contentBase64"] = file.base64().into();
    Ok(Answer::of(StatusCode::OK, &shown))
}
