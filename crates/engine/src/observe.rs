//! What operators learn of runs: counters under the protocol's names, a line per transition, word of every end.

use std::collections::BTreeMap;

use tokio::sync::mpsc;

use callboard_core::{Birth, Entry, Run, Span, SpanContext, TraceContext, spans};
use callboard_protocol::{
    CapBreached, ENGINE_VERSION, Event, InterruptResolved, NodeId, RunId, Timestamp,
};

use crate::engine::{Engine, EngineError};
use crate::store::{KeyMode, Scope};

/// Ended runs that wait for whoever reads them. A reader that is further behind misses some; runs never wait for it.
const ENDED_IN_FLIGHT: usize = 1024;

/// A run that has come to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    pub run: RunId,
    /// What its owner may see, so that whoever hears of the end can read the run.
    pub scope: Scope,
    /// Whether whoever created it wants its trace recorded.
    pub is_sampled: bool,
}

impl Engine {
    /// Word of every run that ends from now on, as recorded by this process. There is one listener; a later one
    /// hears nothing.
    pub fn ended(&self) -> mpsc::Receiver<Ended> {
        let (sender, ended) = mpsc::channel(ENDED_IN_FLIGHT);
        // Whoever came first keeps listening, and the sender that is dropped here ends the new channel.
        let _taken = self.inner.ended.set(sender);
        ended
    }

    /// The spans of a run; none if there is no such run for this caller.
    pub async fn spans(
        &self,
        scope: &Scope,
        run: &RunId,
    ) -> Result<Option<Vec<Span>>, EngineError> {
        let opened = self.inner.store.open(run).await?;
        let Some(opened) = opened.filter(|opened| scope.sees(&opened.birth)) else {
            return Ok(None);
        };
        if opened.birth.is_from_the_future() {
            return Err(EngineError::FutureVersion {
                run: run.clone(),
                persisted: opened.birth.engine_version,
                current: ENGINE_VERSION,
            });
        }
        let plan = self.inner.catalog.plan(&opened.birth.definition, &opened.definition)?;
        let links: Vec<SpanContext> = match &opened.birth.fork {
            Some(fork) => {
                let source = self.inner.store.open(&fork.source).await?;
                source.map(|source| SpanContext::of_run(&source.birth)).into_iter().collect()
            }
            None => Vec::new(),
        };
        Ok(Some(spans(&opened.birth, &plan, &opened.entries, &links)))
    }

    /// Counts what was just recorded, after `run` has folded it.
    pub(crate) fn observe(&self, run: &Run, entries: &[Entry]) {
        let mut started: BTreeMap<&NodeId, Timestamp> = BTreeMap::new();
        for entry in entries {
            if let Event::NodeStarted(payload) = &entry.event {
                started.insert(&payload.node_id, entry.at);
            }
            let began = entry
                .event
                .node_id()
                .and_then(|node| started.get(node).copied().or_else(|| run.node_started_at(node)));
            count_node(run, entry, began);
            match &entry.event {
                Event::RunStarted(_) => run_started(run.birth(), entry.at),
                Event::CapBreached(breach) => cap_exceeded(run, breach),
                Event::RunCompleted(_) | Event::RunFailed(_) | Event::RunCancelled(_) => {
                    self.run_ended(run, entry.at);
                }
                _ => {}
            }
        }
    }

    fn run_ended(&self, run: &Run, at: Timestamp) {
        let birth = run.birth();
        let status = run.status().as_str();
        let duration = at.since(birth.created_at);
        let workflow = birth.workflow_id.to_string();
        metrics::counter!("openwop_run_completed_total", "run_status" => status, "workflow_id" => workflow.clone())
            .increment(1);
        metrics::histogram!("openwop_run_duration_seconds", "run_status" => status, "workflow_id" => workflow)
            .record(duration.as_secs_f64());
        // Runs from before this process were never counted as active here.
        if birth.created_at >= self.inner.since {
            active(birth).decrement(1.0);
        }
        tracing::info!(
            metricKind = "openwop.run.completed",
            openwop.run_id = %birth.run_id,
            openwop.tenant_id = %birth.owner.tenant,
            trace_id = SpanContext::of_run(birth).trace_id,
            status,
            durationMs = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
            "run ended"
        );
        if let Some(listener) = self.inner.ended.get() {
            let scope = Scope {
                tenant: birth.owner.tenant.clone(),
                workspace: birth.owner.workspace.clone(),
                mode: if birth.test { KeyMode::Test } else { KeyMode::Live },
            };
            let is_sampled = birth.trace.as_ref().is_none_or(TraceContext::is_sampled);
            let ended = Ended { run: birth.run_id.clone(), scope, is_sampled };
            if listener.try_send(ended).is_err() {
                tracing::debug!("nobody could be told that a run ended");
            }
        }
    }
}

/// Counts a run that was accepted.
pub(crate) fn run_created(birth: &Birth) {
    metrics::counter!(
        "openwop_run_created_total",
        "workflow_id" => birth.workflow_id.to_string(), "tenant_id" => birth.owner.tenant.to_string()
    )
    .increment(1);
    active(birth).increment(1.0);
    // The request that created it has a line of its own.
    tracing::debug!(
        metricKind = "openwop.run.created",
        openwop.run_id = %birth.run_id,
        openwop.workflow_id = %birth.workflow_id,
        openwop.tenant_id = %birth.owner.tenant,
        trace_id = SpanContext::of_run(birth).trace_id,
        "run created"
    );
}

fn active(birth: &Birth) -> metrics::Gauge {
    metrics::gauge!("openwop_run_active", "tenant_id" => birth.owner.tenant.to_string())
}

/// How long the run waited for its first holder.
fn run_started(birth: &Birth, at: Timestamp) {
    let waited = at.since(birth.created_at).as_secs_f64();
    metrics::histogram!(
        "openwop_run_backlog_seconds",
        "workflow_id" => birth.workflow_id.to_string(), "tenant_id" => birth.owner.tenant.to_string()
    )
    .record(waited);
}

fn cap_exceeded(run: &Run, breach: &CapBreached) {
    let kind = serde_json::to_value(breach.kind).unwrap_or_default();
    let kind = kind.as_str().unwrap_or_default().to_owned();
    metrics::counter!("openwop_cap_exceeded_total", "cap_kind" => kind.clone()).increment(1);
    tracing::error!(
        metricKind = "openwop.cap.exceeded",
        openwop.run_id = %run.id(),
        openwop.tenant_id = %run.birth().owner.tenant,
        kind,
        limit = breach.limit,
        observed = breach.observed,
        "run broke a limit"
    );
}

fn count_node(run: &Run, entry: &Entry, began: Option<Timestamp>) {
    match &entry.event {
        Event::NodeCompleted(payload) => {
            node_ended(run, &payload.node_id, "completed", entry, began)
        }
        Event::NodeFailed(payload) => node_ended(run, &payload.node_id, "failed", entry, began),
        Event::NodeSkipped(payload) => node_ended(run, &payload.node_id, "skipped", entry, None),
        Event::NodeCancelled(payload) => {
            node_ended(run, &payload.node_id, "cancelled", entry, began)
        }
        Event::NodeRetried(payload) => {
            let node_type = type_of(run, &payload.node_id);
            metrics::counter!("openwop_node_attempts_total", "node_type" => node_type.clone())
                .increment(1);
            attempt_took(&node_type, "failed", entry.at, began);
        }
        Event::InterruptRequested(payload) => {
            let kind = serde_json::to_value(payload.kind).unwrap_or_default();
            let kind = kind.as_str().unwrap_or_default().to_owned();
            metrics::counter!("openwop_interrupt_requested_total", "interrupt_kind" => kind)
                .increment(1);
        }
        Event::InterruptResolved(payload) => answered(payload, entry.at, began),
        _ => {}
    }
}

fn node_ended(
    run: &Run,
    node: &NodeId,
    status: &'static str,
    entry: &Entry,
    began: Option<Timestamp>,
) {
    let node_type = type_of(run, node);
    metrics::counter!("openwop_node_completed_total", "node_type" => node_type.clone(), "run_status" => status)
        .increment(1);
    attempt_took(&node_type, status, entry.at, began);
    tracing::debug!(
        metricKind = "openwop.node.completed",
        openwop.run_id = %run.id(),
        openwop.node_id = %node,
        nodeType = node_type,
        status,
        "node ended"
    );
}

/// Each attempt is one sample.
fn attempt_took(node_type: &str, status: &'static str, at: Timestamp, began: Option<Timestamp>) {
    let Some(began) = began else { return };
    metrics::histogram!("openwop_node_duration_seconds", "node_type" => node_type.to_owned(), "run_status" => status)
        .record(at.since(began).as_secs_f64());
}

/// A node asks as soon as it starts, so its start is when the question was asked.
fn answered(payload: &InterruptResolved, at: Timestamp, began: Option<Timestamp>) {
    let Some(began) = began else { return };
    let kind = serde_json::to_value(payload.kind).unwrap_or_default();
    let kind = kind.as_str().unwrap_or_default().to_owned();
    let status = if payload.outcome.is_some() { "timeout" } else { "resolved" };
    metrics::histogram!("openwop_interrupt_duration_seconds", "interrupt_kind" => kind, "run_status" => status)
        .record(at.since(began).as_secs_f64());
}

fn type_of(run: &Run, node: &NodeId) -> String {
    run.plan().type_of(node).map(ToString::to_string).unwrap_or_default()
}
