//! `…/runs/{runId}/calls`: what models were sent and what they answered.
//!
//! A call is named by the event of its usage. What was sent is not in the log: it is kept with the answer, and
//! rebuilt from the calls of the same visit before it. It is cleaned as the debug bundle is.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use callboard_agents::recorded_calls;
use callboard_core::redact;
use callboard_engine::{Recorded, USAGE};
use callboard_protocol::{NodeId, ProviderUsage, RunId, Timestamp};
use serde::Serialize;
use serde_json::Value;

use crate::answer::Answer;
use crate::app::Host;
use crate::extract::Named;
use crate::keys::Caller;
use crate::log::Pages;
use crate::page::PageSize;
use crate::problem::Problem;
use crate::query::Parameters;

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct CallLine {
    /// The sequence of its event.
    call_id: u64,
    at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_id: Option<NodeId>,
    visit: u32,
    ordinal: usize,
    provider: String,
    model: String,
    input_tokens: u64,
    output_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cached_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_usd: Option<f64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CallList {
    calls: Vec<CallLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_from: Option<u64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ModelCall {
    call: CallLine,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<Value>,
    is_whole: bool,
    troubled_before: usize,
}

/// The calls of a log, found while it is read from its start.
#[derive(Debug, Default)]
struct Reader {
    /// The visit that each node is in, with its calls so far.
    visits: BTreeMap<Option<NodeId>, (u32, usize)>,
}

impl Reader {
    fn read(&mut self, event: &Recorded) -> Option<CallLine> {
        if event.kind == "node.started" {
            let payload: Value = serde_json::from_str(&event.payload).unwrap_or_default();
            let visit = payload["visit"].as_u64().unwrap_or(0);
            let visit = u32::try_from(visit).unwrap_or(u32::MAX);
            let known = self.visits.entry(event.node.clone()).or_default();
            if known.0 != visit {
                *known = (visit, 0);
            }
            return None;
        }
        let told: ProviderUsage =
            (event.kind == USAGE).then(|| serde_json::from_str(&event.payload).ok()).flatten()?;
        let node_id = event.node.clone().or(told.node_id);
        let (visit, calls) = self.visits.entry(node_id.clone()).or_default();
        let ordinal = *calls;
        *calls += 1;
        Some(CallLine {
            call_id: event.sequence,
            at: event.at,
            node_id,
            visit: *visit,
            ordinal,
            provider: told.provider,
            model: told.model,
            input_tokens: told.input_tokens,
            output_tokens: told.output_tokens,
            cached_tokens: told.cache_read_tokens,
            cost_usd: told.cost_estimate_usd,
        })
    }
}

/// The calls from an event on, and no more than asked for; none if there is no such run for the caller.
async fn find(
    host: &Host,
    caller: &Caller,
    run: &RunId,
    from: u64,
    most: usize,
) -> Result<Option<Vec<CallLine>>, Problem> {
    let (mut reader, mut calls) = (Reader::default(), None::<Vec<CallLine>>);
    let mut pages = Pages::new(host, caller, run, 0);
    while let Some(page) = pages.next().await? {
        let found = calls.get_or_insert_default();
        let new = page.events.iter().filter_map(|event| reader.read(event));
        found.extend(new.filter(|call| call.call_id >= from));
        if found.len() >= most {
            found.truncate(most);
            pages.stop();
        }
    }
    Ok(calls)
}

pub(super) async fn list(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(run): Named<RunId>,
    uri: Uri,
) -> Result<Answer, Problem> {
    let query = Parameters::closed(&uri, &["from", "limit"])?;
    let size = PageSize::read(&query)?;
    let from = query.read("from", "the sequence of an event", |text| text.parse().ok())?;
    let found = find(&host, &caller, &run, from.unwrap_or(0), size.and_one()).await?;
    let mut calls = found.ok_or_else(|| Problem::no_such("run"))?;
    let next_from = size.cut(&mut calls).map(|last| last.call_id + 1);
    Answer::json(StatusCode::OK, &CallList { calls, next_from })
}

pub(super) async fn read(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Path((run, call)): Path<(RunId, String)>,
    uri: Uri,
) -> Result<Response, Problem> {
    Parameters::closed(&uri, &[])?;
    let unknown = || Problem::no_such("call");
    let id: u64 = call.parse().map_err(|_| unknown())?;
    let found = find(&host, &caller, &run, id, 1).await?;
    let found = found.ok_or_else(|| Problem::no_such("run"))?.into_iter().next();
    let call = found.filter(|call| call.call_id == id).ok_or_else(unknown)?;
    let mut shown = serde_json::to_value(recorded(&host, &caller, &run, call).await?)
        .map_err(|error| Problem::internal(&error))?;
    redact(&mut shown);
    let mut response = Answer::json(StatusCode::OK, &shown)?.into_response();
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// The call with what is kept of it.
async fn recorded(
    host: &Host,
    caller: &Caller,
    run: &RunId,
    call: CallLine,
) -> Result<ModelCall, Problem> {
    let outcomes = match &call.node_id {
        Some(node) => host.app.engine.call_outcomes(&caller.scope, run, node, call.visit).await?,
        None => None,
    };
    let (mut answered, mut troubled_before) = (0, 0);
    for kept in recorded_calls(outcomes.unwrap_or_default()) {
        // A failed call of a provider has no usage.
        if kept.answer.get("trouble").is_some() {
            troubled_before += 1;
        } else if answered == call.ordinal {
            let request = Some(Value::Object(kept.request));
            let (answer, is_whole) = (Some(kept.answer), kept.is_whole);
            return Ok(ModelCall { call, request, answer, is_whole, troubled_before });
        } else {
            answered += 1;
        }
    }
    Ok(ModelCall { call, request: None, answer: None, is_whole: false, troubled_before })
}
