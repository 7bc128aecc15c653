//! `POST /v1/runs`: reads what a caller wants, refuses what it may not have, and orders the run.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use callboard_core::{SpanContext, TraceContext};
use callboard_engine::{DeliverError, EngineError, KeyMode, Order, StoreError, Target};
use callboard_protocol::{CreateRun, CreatedRun, Dialect, Object};
use serde_json::Value;

use super::strict;
use crate::answer::Answer;
use crate::app::Host;
use crate::discovery::FORCED_VERSIONS;
use crate::extract::{MaybeKeyed, Shaped};
use crate::gate::missing_scope;
use crate::idempotency::settle;
use crate::keys::Caller;
use crate::metrics;
use crate::problem::{Code, Problem};
use crate::scopes::RESPOND;
use crate::v2::configurable;
use crate::v2::edge::Speaks;

const MOST_TAGS: usize = 100;
const LONGEST_TAG: usize = 256;
const DEEPEST_METADATA: usize = 4;
const LARGEST_METADATA: usize = 8192;

pub(super) async fn create(
    State(host): State<Arc<Host>>,
    caller: Caller,
    MaybeKeyed(keyed): MaybeKeyed,
    Speaks(dialect): Speaks,
    headers: HeaderMap,
    Shaped(body): Shaped<CreateRun>,
) -> Result<Response, Problem> {
    // Large, and handed on several times: only its address is.
    let order = Box::new(Order { dialect, ..order(&caller, &headers, body)? });
    let options = configurable::read_ones(&order.configurable, dialect);
    strict::order(&host, &caller, &order.target, &order.inputs, &options).await?;
    if let Some(url) = &order.callback_url {
        // What is posted there contains a link that answers the question.
        if !caller.may(RESPOND) {
            return Err(missing_scope(RESPOND));
        }
        let refused = |error: DeliverError| {
            let problem = Problem::invalid_at("callbackUrl", &error.to_string());
            match dialect {
                Dialect::V1 => problem,
                Dialect::V2 => problem.with("field", "callbackUrl"),
            }
        };
        host.app.deliveries.admit_callback(&caller.scope.tenant, url).await.map_err(refused)?;
    }
    host.starts.admit(&caller, Some(&order.target), host.now())?;
    let trace = order.trace.clone();
    let mut span = None;
    let answered = settle(keyed.as_ref(), describe, |remember| async {
        let created = host.app.engine.create(*order, remember).await;
        let done = created.as_ref().ok();
        span = done.map(|done| SpanContext::of_new_run(&done.run, trace.as_ref()));
        if let Err(EngineError::Store(StoreError::ScopeBusy { .. })) = &created {
            metrics::scope_was_busy(caller.scope.tenant.as_str());
        }
        created
    });
    let mut response = answered.await?;
    let header = span.and_then(|span| HeaderValue::from_str(&span.traceparent()).ok());
    if let Some(header) = header {
        response.headers_mut().insert("traceparent", header);
    }
    Ok(response)
}

fn describe(done: &callboard_engine::Done) -> Answer {
    Answer::of(StatusCode::CREATED, &CreatedRun::of(done.run.clone(), done.status))
}

fn order(caller: &Caller, headers: &HeaderMap, body: CreateRun) -> Result<Order, Problem> {
    refuse_what_is_not_here(&body)?;
    let target = target(body.workflow_id, body.agent_id)?;
    if body.tenant_id.is_some_and(|tenant| tenant != caller.scope.tenant.as_str()) {
        return Err(Problem::new(Code::Forbidden, "tenantId: this key belongs to another tenant")
            .with("path", "tenantId"));
    }
    let tags = body.tags.unwrap_or_default();
    check_tags(&tags)?;
    body.metadata.as_ref().map_or(Ok(()), check_metadata)?;
    let configurable = body.configurable.unwrap_or_default();
    if configurable.contains_key("mockProvider") && caller.scope.mode == KeyMode::Live {
        return Err(Problem::new(
            Code::MockProviderForbidden,
            "mock providers answer test keys only",
        ));
    }
    Ok(Order {
        inputs: body.inputs.unwrap_or_default(),
        configurable,
        tags,
        metadata: body.metadata,
        exclusive: is_exclusive(headers, body.scope_id.as_deref())?,
        scope_id: body.scope_id,
        callback_url: body.callback_url,
        forced_engine_version: forced_version(caller, headers)?,
        trace: trace(headers),
        ..Order::new(target, caller.owner(), caller.scope.mode)
    })
}

/// What the run is to be of: a workflow or an agent, never both.
fn target(workflow: Option<String>, agent: Option<String>) -> Result<Target, Problem> {
    let given = |text: Option<String>| text.filter(|text| !text.is_empty());
    match (given(workflow), given(agent)) {
        (Some(workflow), None) => Ok(Target::Workflow(workflow.into())),
        (None, Some(agent)) => Ok(Target::Agent(agent)),
        (Some(_), Some(_)) => {
            Err(Problem::invalid_at("agentId", "cannot be given together with workflowId"))
        }
        (None, None) => Err(Problem::invalid_at("workflowId", "is required")),
    }
}

/// Parts of the protocol that this host does not serve are refused by name, never ignored.
fn refuse_what_is_not_here(body: &CreateRun) -> Result<(), Problem> {
    if body.mode.as_deref().is_some_and(|mode| mode != "eval") {
        return Err(Problem::invalid_at("mode", "must be \"eval\""));
    }
    let asked = [
        ("mode", "eval", body.mode.is_some()),
        ("evalSuiteRef", "eval", body.eval_suite_ref.is_some()),
        ("residency", "residency", body.residency.is_some()),
    ];
    match asked.into_iter().find(|(_, _, is_asked)| *is_asked) {
        Some((field, capability, _)) => Err(Problem::new(
            Code::CapabilityNotProvided,
            format!("{field}: this host does not provide the capability {capability}"),
        )
        .with("capability", capability)),
        None => Ok(()),
    }
}

pub(super) fn check_tags(tags: &[String]) -> Result<(), Problem> {
    if tags.len() > MOST_TAGS {
        return Err(Problem::invalid_at("tags", "must be at most 100"));
    }
    match tags.iter().position(|tag| !(1..=LONGEST_TAG).contains(&tag.chars().count())) {
        Some(index) => {
            Err(Problem::invalid_at(&format!("tags[{index}]"), "must have 1 to 256 characters"))
        }
        None => Ok(()),
    }
}

pub(super) fn check_metadata(metadata: &Object) -> Result<(), Problem> {
    if 1 + metadata.values().map(depth).max().unwrap_or(0) > DEEPEST_METADATA {
        return Err(Problem::invalid_at("metadata", "must be at most 4 levels deep"));
    }
    let size = serde_json::to_string(metadata).map_or(usize::MAX, |text| text.len());
    if size <= LARGEST_METADATA {
        Ok(())
    } else {
        Err(Problem::invalid_at("metadata", "must be at most 8192 bytes as JSON"))
    }
}

/// How many objects and lists stand inside one another. The reader of bodies bounds it, so recursion is safe.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

fn is_exclusive(headers: &HeaderMap, scope_id: Option<&str>) -> Result<bool, Problem> {
    let Some(value) = headers.get("x-dedup") else { return Ok(false) };
    if value.as_bytes() != b"enforce" {
        return Err(Problem::invalid_at("X-Dedup", "must be \"enforce\""));
    }
    match scope_id {
        None | Some("") => Err(Problem::invalid_at("scopeId", "is required with X-Dedup: enforce")),
        Some(_) => Ok(true),
    }
}

fn forced_version(caller: &Caller, headers: &HeaderMap) -> Result<Option<u32>, Problem> {
    let Some(value) = headers.get("x-force-engine-version") else { return Ok(None) };
    if caller.scope.mode == KeyMode::Live {
        return Err(Problem::new(
            Code::ForceEngineVersionForbidden,
            "only test keys may force an engine version",
        ));
    }
    let range = FORCED_VERSIONS;
    let version = value.to_str().ok().and_then(|text| text.trim().parse::<u32>().ok());
    match version.filter(|version| (range.min..=range.max).contains(version)) {
        Some(version) => Ok(Some(version)),
        None => Err(Problem::new(
            Code::UnsupportedForceEngineVersion,
            format!(
                "X-Force-Engine-Version: must be an integer from {} to {}",
                range.min, range.max
            ),
        )
        .with("min", range.min)
        .with("max", range.max)),
    }
}

/// The caller's trace. A header that is malformed, or sent twice, begins no argument: the run has its own trace then.
fn trace(headers: &HeaderMap) -> Option<TraceContext> {
    let mut parents = headers.get_all("traceparent").iter();
    let parent = parents.next().filter(|_| parents.next().is_none())?.to_str().ok()?;
    let states: Vec<&str> =
        headers.get_all("tracestate").iter().filter_map(|state| state.to_str().ok()).collect();
    TraceContext::read(parent, Some(&states.join(",")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn is_fine(metadata: &Value) -> bool {
        metadata.as_object().is_some_and(|metadata| check_metadata(metadata).is_ok())
    }

    #[test]
    fn metadata_is_bounded_in_depth_and_size() {
        assert!(is_fine(&json!({})));
        assert!(is_fine(&json!({ "a": { "b": { "c": { "d": 1 } } } })));
        assert!(!is_fine(&json!({ "a": { "b": { "c": { "d": {} } } } })));
        assert!(!is_fine(&json!({ "a": [[[[1]]]] })));
        // `{"a":"…"}` is eight bytes around the text.
        assert!(is_fine(&json!({ "a": "x".repeat(8184) })));
        assert!(!is_fine(&json!({ "a": "x".repeat(8185) })));
    }
}
