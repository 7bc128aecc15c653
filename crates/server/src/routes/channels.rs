//! Writing into a run's channel from outside, as another engine or a person does.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use callboard_core::OutsideWrite;
use callboard_protocol::{ChannelName, RunId, RunStatus};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::answer::Answer;
use crate::app::Host;
use crate::extract::{MaybeKeyed, Shaped};
use crate::idempotency::settle;
use crate::keys::Caller;
use crate::problem::Problem;

/// As long as the protocol lets a source be named.
const LONGEST_ENGINE: usize = 256;
const LONGEST_RUN: usize = 128;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ChannelWrite {
    #[serde(default, deserialize_with = "present")]
    value: Option<Value>,
    source_engine_id: Option<String>,
    source_run_id: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Place {
    #[serde(rename = "runId")]
    run: String,
    channel: String,
}

/// What the write came to.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct WrittenChannel<'a> {
    run_id: &'a RunId,
    channel: &'a ChannelName,
    status: RunStatus,
}

pub(super) async fn write(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Path(place): Path<Place>,
    MaybeKeyed(keyed): MaybeKeyed,
    Shaped(body): Shaped<ChannelWrite>,
) -> Result<Response, Problem> {
    let (run, channel) = (RunId::from(place.run), ChannelName::from(place.channel));
    check_name("sourceEngineId", body.source_engine_id.as_deref(), LONGEST_ENGINE)?;
    check_name("sourceRunId", body.source_run_id.as_deref(), LONGEST_RUN)?;
    let write = OutsideWrite {
        channel: channel.clone(),
        value: body.value.ok_or_else(|| Problem::invalid_at("value", "is required"))?,
        source_engine_id: body.source_engine_id,
        source_run_id: body.source_run_id.map(RunId::from),
    };
    let describe = move |done: &callboard_engine::Done| {
        let written = WrittenChannel { run_id: &done.run, channel: &channel, status: done.status };
        Answer::of(StatusCode::OK, &written)
    };
    settle(keyed.as_ref(), describe, |remember| {
        host.app.engine.write_channel(&caller.scope, &run, write, remember)
    })
    .await
}

fn check_name(path: &str, name: Option<&str>, longest: usize) -> Result<(), Problem> {
    match name.map(|name| name.chars().count()) {
        Some(length) if length == 0 || length > longest => {
            Err(Problem::invalid_at(path, &format!("must have 1 to {longest} characters")))
        }
        Some(_) | None => Ok(()),
    }
}

/// A value that is there may be null.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}
