//! Reads a log from its first event to its last, opening and closing spans.

use std::collections::BTreeMap;

use callboard_protocol::{
    CapBreached, Event, InterruptResolved, NodeFailed, NodeId, NodeRetried, NodeStarted,
    NodeSuspended, Object, OutputChunk, PROTOCOL_VERSION, ProviderUsage, RunCost, RunTokens,
    Timestamp,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::calls::{OpenCalls, provider_name};
use super::{Content, Span, SpanContext, SpanEvent, SpanKind, SpanStatus, cost_attributes};
use crate::birth::Birth;
use crate::mask::sensitive_fields;
use crate::plan::Plan;
use crate::run::Entry;
use crate::secrets::{redact, redact_text};

/// The spans of a run in the order in which they began, the run's own first; calls of models stand where they ended.
///
/// A run that another started nests under the span in its birth record; one that was derived from another
/// without being its child, such as a fork, carries `links` instead.
pub fn spans(birth: &Birth, plan: &Plan, log: &[Entry], links: &[SpanContext]) -> Vec<Span> {
    spans_with(birth, plan, log, links, Content::Hidden)
}

/// The same, with what tools were given and gave back where that is asked for. Of a run whose definition marks
/// anything sensitive, nothing of it is shown.
pub fn spans_with(
    birth: &Birth,
    plan: &Plan,
    log: &[Entry],
    links: &[SpanContext],
    content: Content,
) -> Vec<Span> {
    let mut tracer = Tracer::new(birth, plan, content);
    tracer.spans[RUN].links = links.to_vec();
    for entry in log {
        tracer.take(entry);
        tracer.take_call(entry);
    }
    let mut spans = tracer.spans;
    for span in &mut spans {
        span.attributes.values_mut().for_each(redact);
        span.status.message = span.status.message.as_deref().map(redact_text);
    }
    spans
}

/// The place of the run's own span.
const RUN: usize = 0;

pub(super) struct Tracer<'a> {
    pub(super) birth: &'a Birth,
    plan: &'a Plan,
    pub(super) content: Content,
    /// What every span of the run says.
    common: Object,
    pub(super) spans: Vec<Span>,
    pub(super) open: BTreeMap<NodeId, OpenNode>,
    /// How often each node has asked something.
    asked: BTreeMap<NodeId, u64>,
}

/// The places of a node's spans that are under way.
pub(super) struct OpenNode {
    pub(super) node: usize,
    pub(super) attempt: Option<usize>,
    interrupt: Option<usize>,
    /// What the calls of the attempt came to so far.
    cost: Option<RunCost>,
    pub(super) calls: OpenCalls,
}

impl<'a> Tracer<'a> {
    fn new(birth: &'a Birth, plan: &'a Plan, content: Content) -> Self {
        let is_sensitive = plan.has_sensitive || compliance_class(plan) != "public";
        let mut tracer = Self {
            birth,
            plan,
            content: if is_sensitive { Content::Hidden } else { content },
            common: common(birth, plan),
            spans: Vec::new(),
            open: BTreeMap::new(),
            asked: BTreeMap::new(),
        };
        let caller = birth.trace.as_ref().and_then(|trace| trace.parent());
        let caller = caller.map(|caller| caller.span_id);
        tracer.begin(
            "openwop.run".to_owned(),
            SpanContext::of_run(birth),
            caller,
            birth.created_at,
        );
        tracer.set(RUN, "openwop.pii_present", is_sensitive);
        if !birth.tags.is_empty() {
            tracer.set(RUN, "openwop.run.tags", birth.tags.clone());
        }
        tracer.set_origin();
        tracer
    }

    /// Where the run came from: the node that started it, or the history that it took over.
    fn set_origin(&mut self) {
        if let Some(parent) = &self.birth.parent {
            self.set(RUN, "openwop.parent.run_id", &parent.run_id);
            self.set(RUN, "openwop.parent.workflow_id", &parent.workflow_id);
            self.set(RUN, "openwop.parent.node_id", &parent.node_id);
        }
        if let Some(fork) = &self.birth.fork {
            self.set(RUN, "openwop.replay.source_run_id", &fork.source);
            self.set(RUN, "openwop.replay.from_seq", fork.from);
            self.set(RUN, "openwop.replay.mode", fork.mode);
        }
    }

    fn take(&mut self, entry: &Entry) {
        let at = entry.at;
        self.stamp(entry);
        match &entry.event {
            Event::NodeStarted(payload) => self.node_started(payload, entry),
            Event::NodeCompleted(payload) => {
                self.end_calls(&payload.node_id, None, entry);
                self.end_node(&payload.node_id, &SpanStatus::OK, at);
            }
            Event::NodeFailed(payload) => self.node_failed(payload, entry),
            Event::NodeRetried(payload) => self.node_retried(payload, entry),
            Event::NodeSkipped(payload) => self.end_node(&payload.node_id, &SpanStatus::UNSET, at),
            Event::NodeCancelled(payload) => {
                self.end_calls(&payload.node_id, None, entry);
                self.end_node(&payload.node_id, &SpanStatus::UNSET, at);
            }
            Event::NodeSuspended(payload) => self.node_suspended(payload, at),
            Event::InterruptResolved(payload) => self.interrupt_resolved(payload, at),
            Event::OutputChunk(payload) => self.told(payload),
            Event::ProviderUsage(payload) => self.used(payload),
            Event::CapBreached(payload) => self.cap_breached(payload, at),
            Event::RunPaused(_) => self.paused(at),
            Event::RunResumed(_) => self.note(RUN, "run.resumed", at),
            Event::ReplayDiverged(_) | Event::ReplayDivergedAtRefusal(_) => {
                self.set(RUN, "openwop.replay.diverged", true)
            }
            Event::RunCompleted(_) => self.end_run(&SpanStatus::OK, at),
            Event::RunFailed(payload) => {
                self.end_run(&SpanStatus::error(&payload.error.code), at);
            }
            Event::RunCancelled(_) => self.end_run(&SpanStatus::UNSET, at),
            _ => {}
        }
    }

    /// The newest event of a node stands on whatever spans of it are under way.
    fn stamp(&mut self, entry: &Entry) {
        let Some(open) = entry.event.node_id().and_then(|node| self.open.get(node)) else { return };
        for place in [Some(open.node), open.attempt, open.interrupt].into_iter().flatten() {
            self.set(place, "openwop.event_seq", entry.sequence);
        }
    }

    fn node_started(&mut self, payload: &NodeStarted, entry: &Entry) {
        let NodeStarted { node_id, type_id, attempt, visit, .. } = payload;
        let node = self.open_node(node_id, type_id.as_str(), *visit, entry);
        // An attempt that is still open died with its holder; this is when we learn of it.
        self.end_attempt(node_id, &SpanStatus::UNSET, entry.at);
        self.set(node, "openwop.node_attempt", *attempt);
        let context = SpanContext::of_attempt(self.birth, node_id, *visit, *attempt);
        let name = format!("openwop.node.{type_id}.attempt");
        let place = self.begin(name, context, Some(self.spans[node].span_id.clone()), entry.at);
        self.spans[place].attributes = self.spans[node].attributes.clone();
        self.set(place, "openwop.event_seq", entry.sequence);
        if let Some(proposed) = self.plan.proposed_cost(node_id) {
            self.spans[place].attributes.extend(cost_attributes(proposed.clone()));
        }
        if let Some(open) = self.open.get_mut(node_id) {
            open.attempt = Some(place);
            open.cost = None;
        }
    }

    /// The place of the node's span, which begins here unless it is under way.
    fn open_node(&mut self, id: &NodeId, type_id: &str, visit: u32, entry: &Entry) -> usize {
        if let Some(open) = self.open.get(id) {
            return open.node;
        }
        let context = SpanContext::of_node(self.birth, id, visit);
        let parent = Some(self.spans[RUN].span_id.clone());
        let place = self.begin(format!("openwop.node.{type_id}"), context, parent, entry.at);
        self.set(place, "openwop.node_id", id);
        self.set(place, "openwop.node_type", type_id);
        self.set(place, "openwop.node_attempt", 0);
        self.set(place, "openwop.event_seq", entry.sequence);
        let fields = sensitive_fields(self.plan, id);
        self.set(place, "openwop.pii_present", !fields.is_empty());
        if !fields.is_empty() {
            self.set(place, "openwop.sensitive_fields", fields);
        }
        self.open.insert(
            id.clone(),
            OpenNode {
                node: place,
                attempt: None,
                interrupt: None,
                cost: None,
                calls: OpenCalls::new(visit, entry.at),
            },
        );
        place
    }

    /// A node that must not run at all fails without having started.
    fn node_failed(&mut self, payload: &NodeFailed, entry: &Entry) {
        if !self.open.contains_key(&payload.node_id)
            && let Some(type_id) = self.plan.type_of(&payload.node_id)
        {
            let type_id = type_id.to_string();
            // Nothing says which visit this is; how often the node was seen keeps the ids apart.
            let is_its = |span: &&Span| {
                span.attributes.get("openwop.node_id") == Some(&json!(payload.node_id))
            };
            let seen = self.spans.iter().filter(is_its).count();
            self.open_node(
                &payload.node_id,
                &type_id,
                u32::try_from(seen).unwrap_or(u32::MAX),
                entry,
            );
        }
        let code = payload.error.code.as_str();
        self.end_calls(&payload.node_id, Some(code), entry);
        if let Some(open) = self.open.get(&payload.node_id) {
            for place in [Some(open.node), open.attempt].into_iter().flatten() {
                self.set(place, "error.type", code);
            }
        }
        self.end_node(&payload.node_id, &SpanStatus::error(code), entry.at);
    }

    fn node_retried(&mut self, payload: &NodeRetried, entry: &Entry) {
        let code = payload.last_error.as_ref().map_or("retried", |error| &error.code);
        self.end_calls(&payload.node_id, Some(code), entry);
        if let Some(attempt) = self.open.get(&payload.node_id).and_then(|open| open.attempt) {
            self.set(attempt, "error.type", code);
        }
        self.end_attempt(&payload.node_id, &SpanStatus::error(code), entry.at);
    }

    fn node_suspended(&mut self, payload: &NodeSuspended, at: Timestamp) {
        let asked = self.asked.entry(payload.node_id.clone()).or_default();
        *asked += 1;
        let asked = *asked;
        let Some(node) = self.open.get(&payload.node_id).map(|open| open.node) else { return };
        let context = SpanContext::of_interrupt(self.birth, &payload.interrupt_id);
        let parent = Some(self.spans[node].span_id.clone());
        let place = self.begin("openwop.interrupt".to_owned(), context, parent, at);
        self.spans[place].attributes = self.spans[node].attributes.clone();
        self.set(place, "openwop.interrupt_kind", payload.kind);
        self.set(place, "openwop.interrupt_id", &payload.interrupt_id);
        self.set(place, "openwop.interrupt_count", asked);
        if let Some(open) = self.open.get_mut(&payload.node_id) {
            open.interrupt = Some(place);
        }
    }

    fn interrupt_resolved(&mut self, payload: &InterruptResolved, at: Timestamp) {
        let place = self.open.get_mut(&payload.node_id).and_then(|open| open.interrupt.take());
        let Some(place) = place else { return };
        // Nobody answered in time: the outcome says so.
        let status = if payload.outcome.is_some() {
            SpanStatus::error(payload.reason.as_deref().unwrap_or("timeout"))
        } else {
            SpanStatus::OK
        };
        self.end(place, &status, at);
    }

    fn told(&mut self, payload: &OutputChunk) {
        let Some(meta) = &payload.meta else { return };
        let Some(attempt) = self.open.get(&payload.node_id).and_then(|open| open.attempt) else {
            return;
        };
        let mut cost = Object::new();
        if let Some(provider) = &meta.provider {
            cost.insert("openwop.cost.provider".into(), provider.as_str().into());
            self.set(attempt, "gen_ai.provider.name", provider_name(provider));
        }
        if let Some(model) = &meta.model {
            self.set(attempt, "gen_ai.response.model", model);
        }
        if let Some(usage) = &meta.usage {
            cost.insert("openwop.cost.tokens.input".into(), usage.prompt_tokens.into());
            cost.insert("openwop.cost.tokens.output".into(), usage.completion_tokens.into());
            cost.insert("openwop.cost.tokens.total".into(), usage.total_tokens.into());
            self.set(attempt, "gen_ai.usage.input_tokens", usage.prompt_tokens);
            self.set(attempt, "gen_ai.usage.output_tokens", usage.completion_tokens);
        }
        self.spans[attempt].attributes.extend(cost_attributes(cost));
    }

    /// The calls of an attempt add up; provider and model are those of the last.
    fn used(&mut self, payload: &ProviderUsage) {
        let open = payload.node_id.as_ref().and_then(|node| self.open.get_mut(node));
        let Some((open, attempt)) = open.and_then(|open| open.attempt.map(|it| (open, it))) else {
            return;
        };
        let sum = RunCost::plus(open.cost.take(), RunCost::of(payload));
        let RunTokens { input, output } = sum.tokens;
        let mut cost = Object::from_iter([
            ("openwop.cost.tokens.input".to_owned(), input.into()),
            ("openwop.cost.tokens.output".to_owned(), output.into()),
            ("openwop.cost.tokens.total".to_owned(), input.saturating_add(output).into()),
            ("openwop.cost.provider".to_owned(), payload.provider.as_str().into()),
            ("openwop.cost.estimated".to_owned(), true.into()),
        ]);
        cost.extend(sum.usd.map(|usd| ("openwop.cost.usd".to_owned(), usd.into())));
        open.cost = Some(sum);
        let attributes = &mut self.spans[attempt].attributes;
        attributes.remove("openwop.cost.usd");
        attributes.extend(cost_attributes(cost));
        self.set(attempt, "gen_ai.provider.name", provider_name(&payload.provider));
        self.set(attempt, "gen_ai.response.model", &payload.model);
        self.set(attempt, "gen_ai.usage.input_tokens", input);
        self.set(attempt, "gen_ai.usage.output_tokens", output);
    }

    fn cap_breached(&mut self, payload: &CapBreached, at: Timestamp) {
        let node = payload.node_id.as_ref().and_then(|node| self.open.get(node));
        let places: Vec<usize> =
            [Some(RUN), node.map(|open| open.node)].into_iter().flatten().collect();
        for place in places {
            self.set(place, "openwop.cap_kind", payload.kind);
            self.set(place, "openwop.cap_limit", payload.limit);
            self.set(place, "openwop.cap_observed", payload.observed);
            self.note(place, "cap.breached", at);
        }
    }

    /// A pause stops every attempt but those that only wait for an answer.
    fn paused(&mut self, at: Timestamp) {
        self.note(RUN, "run.paused", at);
        let stopped: Vec<NodeId> = self
            .open
            .iter()
            .filter(|(_, open)| open.interrupt.is_none())
            .map(|(id, _)| id.clone())
            .collect();
        for id in stopped {
            self.end_attempt(&id, &SpanStatus::UNSET, at);
        }
    }

    fn end_attempt(&mut self, node: &NodeId, status: &SpanStatus, at: Timestamp) {
        if let Some(place) = self.open.get_mut(node).and_then(|open| open.attempt.take()) {
            self.end(place, status, at);
        }
    }

    fn end_node(&mut self, node: &NodeId, status: &SpanStatus, at: Timestamp) {
        let Some(open) = self.open.remove(node) else { return };
        if let Some(interrupt) = open.interrupt {
            self.end(interrupt, &SpanStatus::UNSET, at);
        }
        for place in [open.attempt, Some(open.node)].into_iter().flatten() {
            self.end(place, status, at);
        }
    }

    fn end_run(&mut self, status: &SpanStatus, at: Timestamp) {
        let left: Vec<NodeId> = self.open.keys().cloned().collect();
        for node in left {
            self.end_node(&node, &SpanStatus::UNSET, at);
        }
        self.end(RUN, status, at);
    }

    pub(super) fn begin(
        &mut self,
        name: String,
        context: SpanContext,
        parent_span_id: Option<String>,
        at: Timestamp,
    ) -> usize {
        self.spans.push(Span {
            name,
            trace_id: context.trace_id,
            span_id: context.span_id,
            parent_span_id,
            trace_state: self.birth.trace.as_ref().and_then(|trace| trace.tracestate.clone()),
            kind: SpanKind::Internal,
            status: SpanStatus::UNSET,
            started_at: at,
            ended_at: None,
            attributes: self.common.clone(),
            events: Vec::new(),
            links: Vec::new(),
        });
        self.spans.len() - 1
    }

    pub(super) fn end(&mut self, place: usize, status: &SpanStatus, at: Timestamp) {
        self.spans[place].status = status.clone();
        self.spans[place].ended_at = Some(at);
    }

    fn note(&mut self, place: usize, name: &str, at: Timestamp) {
        let event = SpanEvent { name: name.to_owned(), at, attributes: Object::new() };
        self.spans[place].events.push(event);
    }

    pub(super) fn set(&mut self, place: usize, name: &str, value: impl Serialize) {
        self.spans[place].attributes.insert(name.to_owned(), json!(value));
    }
}

fn common(birth: &Birth, plan: &Plan) -> Object {
    let mut common = Object::new();
    let mut say = |name: &str, value: Value| common.insert(name.to_owned(), value);
    say("openwop.run_id", json!(birth.run_id));
    say("openwop.workflow_id", json!(birth.workflow_id));
    say("openwop.protocol_version", json!(PROTOCOL_VERSION));
    say("openwop.tenant_id", json!(birth.owner.tenant));
    say("openwop.compliance_class", json!(compliance_class(plan)));
    if let Some(scope) = &birth.scope_id {
        say("openwop.scope_id", json!(scope));
    }
    common
}

fn compliance_class(plan: &Plan) -> &str {
    plan.definition().metadata.compliance_class.as_deref().unwrap_or("public")
}
