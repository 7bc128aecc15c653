//! Events as lines for people: when, what, where, and the outcome.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use owo_colors::{AnsiColors, OwoColorize};
use serde_json::Value;

use callboard_protocol::{
    Event, Failure, InterruptKind, NodeId, Object, RunEvent, Timestamp, WorkflowDefinition,
};

use crate::screen::words;
use crate::watch::question;

/// Wide enough for most node names; longer ones push their line to the right.
const SUBJECT_WIDTH: usize = 22;

/// What was shown of one run so far: enough to name its nodes and to say what is running now.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    names: BTreeMap<NodeId, String>,
    began: Option<Timestamp>,
    visits: BTreeMap<NodeId, u32>,
    running: BTreeSet<NodeId>,
    is_paused: bool,
}

/// A glyph and its colour.
#[derive(Clone, Copy)]
struct Mark(&'static str, AnsiColors);

const GOES: Mark = Mark("▶", AnsiColors::Cyan);
const BEGUN: Mark = Mark("·", AnsiColors::Cyan);
const DONE: Mark = Mark("✓", AnsiColors::Green);
const BROKEN: Mark = Mark("✗", AnsiColors::Red);
const AGAIN: Mark = Mark("↻", AnsiColors::Yellow);
const HELD: Mark = Mark("‖", AnsiColors::Yellow);
const STOPPED: Mark = Mark("■", AnsiColors::Yellow);
const LIMIT: Mark = Mark("!", AnsiColors::Red);
const WRITTEN: Mark = Mark("◆", AnsiColors::Magenta);
const CHANGED: Mark = Mark("◇", AnsiColors::BrightBlack);
const PASSED: Mark = Mark("○", AnsiColors::BrightBlack);
const ANSWERED: Mark = Mark("»", AnsiColors::Green);
const ASKED: Mark = Mark("?", AnsiColors::Yellow);
const OTHER: Mark = Mark("·", AnsiColors::BrightBlack);

/// One event as a line.
struct Row {
    mark: Mark,
    subject: String,
    detail: String,
}

impl Timeline {
    /// Takes the nodes' names from the definition's text, where there is one that can be read.
    pub(crate) fn of(definition: Option<&str>) -> Self {
        let parsed = definition.and_then(|text| WorkflowDefinition::parse(text.as_bytes()).ok());
        let names = parsed
            .into_iter()
            .flat_map(|parsed| parsed.nodes)
            .map(|node| (node.id, node.name))
            .collect();
        Self { names, ..Self::default() }
    }

    /// The event's line, if it is worth one. Streamed text is not: it is shown as it arrives.
    pub(crate) fn line(&mut self, event: &RunEvent) -> Option<String> {
        let began = *self.began.get_or_insert(event.timestamp);
        let known = Event::read(&event.kind, event.node_id.clone(), event.payload.clone());
        self.note(&known);
        let told = self.tell(&known)?;
        let detail = words::plain(&told.detail).replace('\n', " ");
        let line = format!(
            "{} {} {:<SUBJECT_WIDTH$} {}",
            clock(event.timestamp.since(began)).dimmed(),
            told.mark.0.color(told.mark.1).bold(),
            words::plain(&told.subject),
            detail
        );
        Some(line.trim_end().to_owned())
    }

    /// What is going on right now, for a spinner.
    pub(crate) fn now(&self) -> String {
        if self.is_paused {
            return "paused".into();
        }
        let names: Vec<String> = self.running.iter().map(|node| self.name(node)).collect();
        if names.is_empty() { "waiting".into() } else { words::plain(&names.join(", ")) }
    }

    pub(crate) fn name(&self, node: &NodeId) -> String {
        let name = self.names.get(node).map_or(node.as_str(), String::as_str);
        match self.visits.get(node) {
            Some(visit) if *visit > 0 => format!("{name} #{}", visit + 1),
            _ => name.to_owned(),
        }
    }

    fn note(&mut self, event: &Event) {
        match event {
            Event::NodeStarted(started) => {
                self.visits.insert(started.node_id.clone(), started.visit);
                self.running.insert(started.node_id.clone());
            }
            Event::NodeCompleted(_)
            | Event::NodeFailed(_)
            | Event::NodeSkipped(_)
            | Event::NodeCancelled(_) => {
                event.node_id().map(|node| self.running.remove(node));
            }
            Event::RunPaused(_) => self.is_paused = true,
            Event::RunResumed(_) => self.is_paused = false,
            _ => {}
        }
    }

    fn tell(&self, event: &Event) -> Option<Row> {
        self.tell_run(event)
            .or_else(|| self.tell_question(event))
            .or_else(|| self.tell_decision(event))
            .or_else(|| self.tell_agent(event))
            .or_else(|| self.tell_node(event))
            .or_else(|| self.tell_state(event))
    }

    /// A node's question and its answer.
    fn tell_question(&self, event: &Event) -> Option<Row> {
        let name = self.name(event.node_id()?);
        match event {
            Event::InterruptRequested(asked) if asked.kind.is_asked() => {
                let headline = question::headline(asked.kind, &asked.data);
                told(ASKED, name, format!("{}: {headline}", asked.kind.as_str()))
            }
            Event::Vote(vote) => told(ASKED, name, format!("{} {}", vote.action, by(&vote.voter))),
            Event::Ask(ask) => told(ASKED, name, format!("asked back: {}", ask.question)),
            Event::ApprovalReceived(received) if received.action == "timeout" => {
                told(BROKEN, name, "no decision in time")
            }
            Event::ApprovalReceived(received) => {
                let who = received.decided_by.as_deref().map(by).unwrap_or_default();
                told(ANSWERED, name, format!("{} {who}", received.action))
            }
            Event::ConversationOpened(opened) => {
                let greeting = words::preview(&opened.initial_turn.content);
                told(ASKED, name, format!("talks: {greeting}"))
            }
            Event::ConversationClosed(closed) => {
                told(ANSWERED, name, format!("talked: {}", words::preview(&closed.outcome)))
            }
            Event::InterruptResolved(resolved)
                if resolved.kind != InterruptKind::Approval && resolved.kind.is_asked() =>
            {
                if resolved.reason.as_deref() == Some("timeout") {
                    return told(BROKEN, name, "no answer in time");
                }
                let who = resolved.resolved_by.as_deref().map(by).unwrap_or_default();
                let value = resolved.resume_value.as_ref().unwrap_or(&Value::Null);
                told(ANSWERED, name, format!("{} {who}", words::preview(value)))
            }
            _ => None,
        }
    }

    /// A supervisor's decision, its confidence, and workers that failed.
    fn tell_decision(&self, event: &Event) -> Option<Row> {
        let name = self.name(event.node_id()?);
        match event {
            Event::RunOrchestratorDecided(decided) => {
                told(WRITTEN, name, format!("decided {}", words::preview(&decided.decision)))
            }
            Event::ConfidenceEscalated(unsure) => {
                let (stated, floor) = (unsure.confidence, unsure.floor);
                told(LIMIT, name, format!("is {stated} sure, {floor} is needed"))
            }
            Event::WorkflowChained(step) => {
                let error = step.error.as_ref()?;
                told(BROKEN, name, format!("{}: {}", step.worker_id, reason(error)))
            }
            _ => None,
        }
    }

    /// What an agent does, and what went wrong on the way to its answer.
    fn tell_agent(&self, event: &Event) -> Option<Row> {
        let name = self.name(event.node_id()?);
        match event {
            Event::AgentInvocationStarted(started) => {
                let on = match (&started.resolved_provider, &started.resolved_model) {
                    (Some(provider), Some(model)) => format!("on {provider}/{model}"),
                    _ => "without a model".to_owned(),
                };
                told(GOES, name, format!("{} {on}", started.agent_id))
            }
            Event::AgentToolCalled(called) => {
                let inputs = called.inputs.as_ref().unwrap_or(&Value::Null);
                told(GOES, name, format!("{} {}", called.tool_name, words::preview(inputs)))
            }
            Event::AgentToolReturned(returned) => match (&returned.outcome, &returned.error) {
                (_, Some(error)) => {
                    told(BROKEN, name, format!("{}: {}", returned.tool_name, reason(error)))
                }
                (outcome, None) => {
                    let outcome = words::preview(outcome.as_ref().unwrap_or(&Value::Null));
                    told(DONE, name, format!("{} {outcome}", returned.tool_name))
                }
            },
            Event::EnvelopeRetryAttempted(again) => {
                told(LIMIT, name, format!("asks again: {}", again.reason))
            }
            Event::EnvelopeRefusal(_) => told(BROKEN, name, "the model declined"),
            Event::ProviderUsage(usage) => {
                let cost = usage.cost_estimate_usd.map_or_else(String::new, |cost| match cost {
                    0.0 => ", free".to_owned(),
                    cost => format!(", about {}", words::dollars(cost)),
                });
                let (input, output) = (usage.input_tokens, usage.output_tokens);
                told(WRITTEN, name, format!("{input} tokens in, {output} out{cost}"))
            }
            Event::LogAppended(noted) => told(LIMIT, name, noted.message.clone()),
            _ => None,
        }
    }

    fn tell_run(&self, event: &Event) -> Option<Row> {
        match event {
            Event::RunStarted(started) => {
                told(GOES, "run started", started.workflow_id.to_string())
            }
            Event::RosterRunInitiated(whose) => {
                let fired = format!("{} ({})", whose.roster_id, whose.trigger_source);
                told(GOES, format!("for {}", whose.persona), fired)
            }
            Event::RunPaused(paused) => told(HELD, "run paused", said(&paused.reason)),
            Event::RunResumed(resumed) => told(GOES, "run resumed", said(&resumed.reason)),
            Event::PauseRequested(asked) => told(HELD, "pause requested", said(&asked.reason)),
            Event::CancelRequested(asked) => told(STOPPED, "cancel requested", said(&asked.reason)),
            Event::RunCompleted(done) => told(DONE, "run completed", took(done.duration_ms)),
            Event::RunDeadLettered(given_up) => {
                let attempts = format!("after {} attempts", given_up.attempts);
                told(BROKEN, "run given up", attempts)
            }
            Event::RunFailed(failed) => {
                let place = failed.failed_node_id.as_ref();
                let place = place.map(|node| format!("at {}: ", self.name(node)));
                let why = format!("{}{}", place.unwrap_or_default(), reason(&failed.error));
                told(BROKEN, "run failed", format!("{:<8} {why}", took(failed.duration_ms)))
            }
            Event::RunCancelled(ended) => {
                let took = took(ended.duration_ms);
                told(STOPPED, "run cancelled", format!("{took:<8} {}", said(&ended.reason)))
            }
            _ => None,
        }
    }

    fn tell_node(&self, event: &Event) -> Option<Row> {
        let name = self.name(event.node_id()?);
        match event {
            Event::NodeStarted(started) if started.attempt > 0 => {
                told(BEGUN, name, format!("started, attempt {}", started.attempt + 1))
            }
            Event::NodeStarted(_) => told(BEGUN, name, "started"),
            Event::NodeCompleted(done) => {
                let took = took(done.duration_ms);
                told(DONE, name, format!("{took:<8} {}", outputs(&done.outputs)))
            }
            Event::NodeFailed(failed) => told(BROKEN, name, reason(&failed.error)),
            Event::NodeRetried(retried) => {
                let (attempt, wait) = (retried.attempt + 1, took(retried.delay_ms));
                let why =
                    retried.last_error.as_ref().map(|error| format!(" after {}", reason(error)));
                told(AGAIN, name, format!("attempt {attempt} in {wait}{}", why.unwrap_or_default()))
            }
            Event::NodeSkipped(skipped) => {
                told(PASSED, name, format!("skipped {}", said(&skipped.reason)))
            }
            Event::NodeCancelled(cancelled) => {
                told(STOPPED, name, format!("cancelled {}", said(&cancelled.reason)))
            }
            Event::NodeDispatched(call) => {
                let (workflow, run) = (&call.child_workflow_id, &call.child_run_id);
                told(BEGUN, name, format!("runs {workflow} as {run}"))
            }
            Event::ChildChanged(child) if child.status.is_waiting() => {
                told(ASKED, name, format!("{} is {}", child.child_run_id, child.status.as_str()))
            }
            Event::ModelFallback(fallback) => {
                let (from, to) = (&fallback.original_model, &fallback.fallback_model);
                told(
                    AGAIN,
                    name,
                    format!("{from} keeps failing ({}); falling back to {to}", fallback.reason),
                )
            }
            Event::LoopbackLimit(limit) => {
                told(LIMIT, name, format!("loop ends after {} rounds", limit.iterations))
            }
            Event::Other(other) => {
                told(OTHER, name, format!("{} {}", other.kind, words::preview(&other.payload)))
            }
            _ => None,
        }
    }

    fn tell_state(&self, event: &Event) -> Option<Row> {
        match event {
            Event::ChannelWritten(written) => {
                let value = words::preview(&written.value);
                told(WRITTEN, written.channel.to_string(), format!("← {value}"))
            }
            Event::VariableChanged(changed) => {
                told(CHANGED, &changed.name, format!("= {}", words::preview(&changed.next)))
            }
            Event::VersionPinned(pinned) => {
                told(CHANGED, &pinned.change_id, format!("pinned to version {}", pinned.version))
            }
            Event::CapBreached(cap) => {
                let kind = serde_json::to_value(cap.kind).unwrap_or_default();
                let kind = kind.as_str().unwrap_or_default().to_owned();
                told(LIMIT, "limit reached", format!("{kind}: {} of {}", cap.observed, cap.limit))
            }
            Event::ReplayDiverged(report) => {
                let (source, place) = (&report.source_run_id, report.at_sequence);
                told(LIMIT, "replay diverged", format!("from {source} at {place}"))
            }
            Event::ReplayDivergedAtRefusal(report) => {
                let (was, is) = (report.original_envelope_kind, report.replay_envelope_kind);
                let (source, place) = (&report.source_run_id, report.at_sequence);
                let what = format!("from {source} at {place}: {} → {}", was.as_str(), is.as_str());
                told(LIMIT, "replay diverged", what)
            }
            Event::Other(other) => told(OTHER, &other.kind, words::preview(&other.payload)),
            // Streamed text is shown as it arrives.
            _ => None,
        }
    }
}

fn told(mark: Mark, subject: impl Into<String>, detail: impl Into<String>) -> Option<Row> {
    Some(Row { mark, subject: subject.into(), detail: detail.into() })
}

fn by(who: &str) -> String {
    format!("by {who}")
}

fn took(millis: u64) -> String {
    words::duration(Duration::from_millis(millis))
}

/// Time since the run began, in a column of its own.
fn clock(since: Duration) -> String {
    if since.as_secs() < 1000 {
        format!("{:>7.2}s", since.as_secs_f64())
    } else {
        format!("{:>8}", words::duration(since))
    }
}

fn said(reason: &Option<String>) -> String {
    reason.as_ref().map(|reason| format!("({reason})")).unwrap_or_default()
}

fn reason(failure: &Failure) -> String {
    format!("{}: {}", failure.code, failure.message)
}

fn outputs(outputs: &Object) -> String {
    if outputs.is_empty() {
        return String::new();
    }
    words::preview(&Value::Object(outputs.clone()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lines(events: &[(&str, u64, Value)]) -> Vec<String> {
        let mut timeline = Timeline::default();
        timeline.names.insert("ask".into(), "Ask the bank".into());
        let told = events.iter().zip(0..).filter_map(|((kind, at, payload), sequence)| {
            timeline.line(&RunEvent {
                event_id: "e".into(),
                run_id: "r".into(),
                node_id: payload["nodeId"].as_str().map(Into::into),
                kind: (*kind).into(),
                payload: payload.clone(),
                timestamp: Timestamp::from_millis(0).plus_millis(*at),
                sequence,
                schema_version: 1,
                engine_version: "1".into(),
                causation_id: None,
            })
        });
        told.map(|line| anstream::adapter::strip_str(&line).to_string()).collect()
    }

    #[test]
    fn a_run_reads_from_top_to_bottom() {
        let seen = lines(&[
            ("run.started", 0, json!({ "workflowId": "pay" })),
            ("node.started", 10, json!({ "nodeId": "ask", "typeId": "core.noop", "visit": 1 })),
            (
                "node.retried",
                20,
                json!({ "nodeId": "ask", "attempt": 1, "delayMs": 1000,
                "lastError": { "code": "busy", "message": "try\nlater" } }),
            ),
            (
                "node.completed",
                1500,
                json!({ "nodeId": "ask", "outputs": { "ok": true }, "durationMs": 1490 }),
            ),
            (
                "output.chunk",
                1500,
                json!({ "nodeId": "ask", "runId": "r", "chunk": "x", "isLast": true }),
            ),
            (
                "channel.written",
                1600,
                json!({ "channel": "log", "value": 3, "reducer": "append",
                "writtenAt": "1970-01-01T00:00:00Z" }),
            ),
            (
                "node.dispatched",
                1600,
                json!({ "nodeId": "ask", "childRunId": "run_2", "childWorkflowId": "bank" }),
            ),
            (
                "callboard.child.changed",
                1600,
                json!({ "nodeId": "ask", "childRunId": "run_2", "status": "waiting-approval" }),
            ),
            (
                "replay.diverged",
                1600,
                json!({ "sourceRunId": "run_0", "atSequence": 7, "divergenceKind": "output" }),
            ),
            ("acme.odd", 1700, json!({ "x": 1 })),
            ("run.dead_lettered", 1800, json!({ "runId": "r", "reason": "busy", "attempts": 3 })),
            ("run.completed", 1_000_000, json!({ "durationMs": 1_000_000 })),
        ]);
        let expected = [
            "   0.00s ▶ run started            pay",
            "   0.01s · Ask the bank #2        started",
            "   0.02s ↻ Ask the bank #2        attempt 2 in 1.00 s after busy: try later",
            "   1.50s ✓ Ask the bank #2        1.49 s   {\"ok\":true}",
            "   1.60s ◆ log                    ← 3",
            "   1.60s · Ask the bank #2        runs bank as run_2",
            "   1.60s ? Ask the bank #2        run_2 is waiting-approval",
            "   1.60s ! replay diverged        from run_0 at 7",
            "   1.70s · acme.odd               {\"x\":1}",
            "   1.80s ✗ run given up           after 3 attempts",
            " 16m 40s ✓ run completed          16m 40s",
        ];
        assert_eq!(seen, expected);
    }
}
