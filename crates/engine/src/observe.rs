//! What operators learn of runs: counters under the protocol's names, a line per transition, word of every end.

use std::collections::BTreeMap;

use tokio::sync::mpsc;

use callboard_core::{Birth, Content, Entry, Run, Span, SpanContext, TraceContext, spans_with};
use callboard_protocol::{
    CapBreached, ENGINE_VERSION, Event, InterruptResolved, NodeId, RunId, RunStatus, Timestamp,
    TypeId,
};

use crate::engine::{Engine, EngineError};
use crate::store::{Scope, StoreError};

/// Ended runs that wait for their reader. A reader that is further behind misses some; runs never wait for it.
const ENDED_IN_FLIGHT: usize = 1024;

/// Runs whose spans were not sent, by reason.
pub const UNTRACED: &str = "callboard_traces_dropped_total";

/// A run that has come to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    pub run: RunId,
    /// What its owner may see, so that the reader can read the run.
    pub scope: Scope,
    /// Whether its creator wants its trace recorded.
    pub is_sampled: bool,
}

impl Engine {
    /// Word of every run that ends from now on, as recorded by this process. There is one listener; a later one
    /// receives nothing.
    pub fn ended(&self) -> mpsc::Receiver<Ended> {
        let (sender, ended) = mpsc::channel(ENDED_IN_FLIGHT);
        // The first reader keeps its channel, and the sender that is dropped here ends the new one.
        let _taken = self.inner.ended.set(sender);
        ended
    }

    /// The spans of a run; none if there is no such run for this caller.
    pub async fn spans(
        &self,
        scope: &Scope,
        run: &RunId,
    ) -> Result<Option<Vec<Span>>, EngineError> {
        self.spans_with(scope, run, Content::Hidden).await
    }

    /// The same, with what tools were given and gave back where that is asked for.
    pub async fn spans_with(
        &self,
        scope: &Scope,
        run: &RunId,
        content: Content,
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
        let plan = self.inner.catalog.plan(&opened.birth.definition, &opened.definition).await;
        let plan = plan.map_err(StoreError::from)?;
        let links: Vec<SpanContext> = match &opened.birth.fork {
            Some(fork) => {
                let source = self.inner.store.open(&fork.source).await?;
                source.map(|source| SpanContext::of_run(&source.birth)).into_iter().collect()
            }
            None => Vec::new(),
        };
        Ok(Some(spans_with(&opened.birth, &plan, &opened.entries, &links, content)))
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
            self.count_node(run, entry, began);
            match &entry.event {
                Event::RunStarted(_) => self.run_started(run.birth(), entry.at),
                Event::CapBreached(breach) => cap_exceeded(run, breach),
                Event::RunCompleted(_) | Event::RunCancelled(_) => {
                    self.run_ended(run.birth(), run.status(), entry.at, None);
                }
                Event::RunFailed(failed) => {
                    let code = Some(failed.error.code.as_str());
                    self.run_ended(run.birth(), run.status(), entry.at, code);
                }
                _ => {}
            }
        }
    }

    /// Counts an ended run and logs what the protocol's production profile asks for, with the code of a failure.
    pub(crate) fn run_ended(
        &self,
        birth: &Birth,
        status: RunStatus,
        at: Timestamp,
        code: Option<&str>,
    ) {
        let status = status.as_str();
        let duration = at.since(birth.created_at);
        let tallies = &self.inner.tallies;
        tallies.ended(birth, status).increment(1);
        tallies.duration(birth, status).record(duration.as_secs_f64());
        self.inner.families.leave(birth);
        // Runs from before this process were never counted as active here.
        if birth.created_at >= self.inner.since {
            tallies.active(birth).decrement(1.0);
        }
        tracing::info!(
            metricKind = "openwop.run.completed",
            openwop.run_id = %birth.run_id,
            openwop.tenant_id = %birth.owner.tenant,
            trace_id = SpanContext::of_run(birth).trace_id,
            status,
            code,
            durationMs = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
            "run ended"
        );
        if let Some(listener) = self.inner.ended.get() {
            let scope = Scope::of(birth);
            let is_sampled = birth.trace.as_ref().is_none_or(TraceContext::is_sampled);
            let ended = Ended { run: birth.run_id.clone(), scope, is_sampled };
            if listener.try_send(ended).is_err() {
                // Its reader is too far behind; the run is not held up for it.
                metrics::counter!(UNTRACED, "reason" => "queue-full").increment(1);
            }
        }
    }

    /// Counts a run that was accepted.
    pub(crate) fn run_created(&self, birth: &Birth) {
        self.inner.tallies.created(birth).increment(1);
        self.inner.tallies.active(birth).increment(1.0);
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

    fn run_started(&self, birth: &Birth, at: Timestamp) {
        self.inner.tallies.backlog(birth).record(at.since(birth.created_at).as_secs_f64());
    }

    fn count_node(&self, run: &Run, entry: &Entry, began: Option<Timestamp>) {
        let (node, status) = match &entry.event {
            Event::NodeCompleted(payload) => (&payload.node_id, "completed"),
            Event::NodeFailed(payload) => (&payload.node_id, "failed"),
            Event::NodeSkipped(payload) => (&payload.node_id, "skipped"),
            Event::NodeCancelled(payload) => (&payload.node_id, "cancelled"),
            Event::NodeRetried(payload) => {
                let node_type = type_of(run, &payload.node_id);
                let label = node_type.to_string();
                metrics::counter!("openwop_node_attempts_total", "node_type" => label).increment(1);
                return self.attempt_took(&node_type, "failed", entry.at, began);
            }
            Event::InterruptRequested(payload) => {
                let kind = serde_json::to_value(payload.kind).unwrap_or_default();
                let kind = kind.as_str().unwrap_or_default().to_owned();
                metrics::counter!("openwop_interrupt_requested_total", "interrupt_kind" => kind)
                    .increment(1);
                return;
            }
            Event::InterruptResolved(payload) => return answered(payload, entry.at, began),
            _ => return,
        };
        let node_type = type_of(run, node);
        self.inner.tallies.nodes(&node_type, status).increment(1);
        // A node that was skipped was not tried, whatever an earlier visit did.
        let began = began.filter(|_| status != "skipped");
        self.attempt_took(&node_type, status, entry.at, began);
        tracing::debug!(
            metricKind = "openwop.node.completed",
            openwop.run_id = %run.id(),
            openwop.node_id = %node,
            nodeType = %node_type,
            status,
            "node ended"
        );
    }

    /// Each attempt is one sample.
    fn attempt_took(
        &self,
        node_type: &TypeId,
        status: &'static str,
        at: Timestamp,
        began: Option<Timestamp>,
    ) {
        let Some(began) = began else { return };
        self.inner.tallies.attempts(node_type, status).record(at.since(began).as_secs_f64());
    }
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
        limit = breach.limit.get(),
        observed = breach.observed.get(),
        "run broke a limit"
    );
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

fn type_of(run: &Run, node: &NodeId) -> TypeId {
    run.plan().type_of(node).cloned().unwrap_or_else(|| "".into())
}
