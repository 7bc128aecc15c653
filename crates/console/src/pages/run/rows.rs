//! One event as a row of the story: who, what, and what to open.

use maud::{Markup, html};
use serde_json::Value;

use super::story::{LONGEST, Names, Row};
use crate::value::{cut, fields, glanced, is_empty, number, preview, shown, text, whole};
use crate::words::{count, duration, money};

fn plain(
    sign: &'static str,
    family: &'static str,
    who: impl Into<String>,
    line: Markup,
) -> Option<Row> {
    Some(Row { sign, family, who: who.into(), line, body: html! {}, joins: false })
}

fn with(row: Option<Row>, body: Markup) -> Option<Row> {
    row.map(|row| Row { body, ..row })
}

pub(super) fn read(event: &Value, names: &Names) -> Option<Row> {
    let kind = text(event, "/type");
    let node = names.name(text(event, "/nodeId"));
    match kind.split('.').next().unwrap_or_default() {
        "run" | "roster" | "trigger" => of_run(event, kind, names),
        "node" => of_node(event, kind, &node),
        "agent" => of_agent(event, kind, &node),
        "callboard" => of_callboard(event, kind, &node),
        "interrupt" | "approval" | "clarification" | "conversation" => {
            of_question(event, kind, &node)
        }
        "output" | "provider" | "envelope" | "model" | "prompt" | "budget" => {
            of_model(event, kind, &node)
        }
        _ => of_state(event, kind, &node),
    }
}

fn of_run(event: &Value, kind: &str, names: &Names) -> Option<Row> {
    let payload = &event["payload"];
    let took = || whole(payload, "/durationMs").map(millis).unwrap_or_default();
    let why = || html! { @let reason = text(payload, "/reason"); @if !reason.is_empty() { span.muted { "(" (reason) ")" } } };
    match kind {
        "run.started" => with(
            plain("▸", "busy", "Run", html! { "started " (text(payload, "/workflowId")) }),
            glanced("Inputs", &payload["inputs"]),
        ),
        "roster.run.initiated" => plain(
            "·",
            "quiet",
            text(payload, "/persona"),
            html! { "owns this run; it was fired by " (text(payload, "/triggerSource")) },
        ),
        "run.completed" => with(
            plain("✓", "good", "Run", html! { "completed in " (took()) }),
            glanced("Outputs", &payload["outputs"]),
        ),
        "run.failed" => {
            let place = text(payload, "/failedNodeId");
            let row = plain(
                "✕",
                "bad",
                "Run",
                html! {
                    "failed after " (took()) @if !place.is_empty() { " at " (names.name(place)) }
                },
            );
            // The row of the node has said why.
            with(
                row,
                if place.is_empty() {
                    failure(&payload["error"])
                } else {
                    html! {}
                },
            )
        }
        "run.cancelled" => {
            plain("■", "quiet", "Run", html! { "was cancelled after " (took()) " " (why()) })
        }
        "run.paused" => plain("‖", "wait", "Run", html! { "paused " (why()) }),
        "run.resumed" => plain("▸", "busy", "Run", html! { "resumed " (why()) }),
        "run.dead_lettered" => plain(
            "✕",
            "bad",
            "Run",
            html! { "was given up after " (whole(payload, "/attempts").unwrap_or(0)) " attempts" },
        ),
        "trigger.delivery.attempted" => plain(
            "·",
            "quiet",
            "Delivery",
            html! { (text(payload, "/outcome")) " at attempt " (whole(payload, "/attempt").unwrap_or(1)) },
        ),
        _ => other(event, kind, ""),
    }
}

fn of_node(event: &Value, kind: &str, node: &str) -> Option<Row> {
    let payload = &event["payload"];
    match kind {
        "node.started" => {
            let visit = whole(payload, "/visit").unwrap_or(0);
            let attempt = whole(payload, "/attempt").unwrap_or(0);
            plain(
                "▸",
                "quiet",
                node,
                html! {
                    "started" @if visit > 0 { ", visit " (visit + 1) } @if attempt > 0 { ", attempt " (attempt + 1) }
                    " " span.muted { (text(payload, "/typeId")) }
                },
            )
        }
        "node.completed" => with(
            plain(
                "✓",
                "good",
                node,
                html! { "completed in " (whole(payload, "/durationMs").map(millis).unwrap_or_default()) },
            ),
            glanced("Outputs", &payload["outputs"]),
        ),
        "node.failed" => {
            with(plain("✕", "bad", node, html! { "failed" }), failure(&payload["error"]))
        }
        "node.skipped" => plain(
            "○",
            "quiet",
            node,
            html! { "was skipped: " span.muted { (text(payload, "/reason")) } },
        ),
        "node.cancelled" => plain(
            "■",
            "quiet",
            node,
            html! { "was cancelled " span.muted { (text(payload, "/reason")) } },
        ),
        // The question and its answer have rows of their own.
        "node.suspended" | "node.resumed" => None,
        _ => of_detour(event, kind, node),
    }
}

/// What a node does beside its own work.
fn of_detour(event: &Value, kind: &str, node: &str) -> Option<Row> {
    let payload = &event["payload"];
    match kind {
        "node.retried" => with(
            plain(
                "↻",
                "wait",
                node,
                html! {
                    "is tried again in " (whole(payload, "/delayMs").map(millis).unwrap_or_default())
                    ", attempt " (whole(payload, "/attempt").unwrap_or(0) + 1)
                },
            ),
            failure(&payload["lastError"]),
        ),
        "node.dispatched" => {
            let child = text(payload, "/childRunId");
            plain(
                "▸",
                "busy",
                node,
                html! {
                    "runs " (text(payload, "/childWorkflowId")) " as "
                    a href={ "/console/runs/" (crate::segment(child)) } { (crate::words::short(child)) }
                },
            )
        }
        _ => other(event, kind, node),
    }
}

fn of_agent(event: &Value, kind: &str, node: &str) -> Option<Row> {
    let payload = &event["payload"];
    let agent = || short_agent(text(payload, "/agentId"));
    match kind {
        "agent.invocation.started" => {
            let (provider, model) =
                (text(payload, "/resolvedProvider"), text(payload, "/resolvedModel"));
            plain(
                "◆",
                "busy",
                agent(),
                html! {
                    "goes to work for " (node)
                    @if !model.is_empty() { " on " code { (provider) "/" (model) } }
                    @let tools = whole(payload, "/toolSurfaceCount").unwrap_or(0);
                    @if tools > 0 { ", with " (tools) " tools" }
                },
            )
        }
        "agent.reasoned" => {
            let reasoning = text(payload, "/reasoning");
            let row = plain("…", "quiet", agent(), html! { "reasons" });
            with(
                row,
                html! { details.fold { summary { (cut(reasoning, 120)) } div.prose { (cut(reasoning, LONGEST)) } } },
            )
        }
        "agent.decided" => {
            let row = plain(
                "◆",
                "good",
                agent(),
                html! {
                    "decided" @if let Some(sure) = number(payload, "/confidence") { ", " (sure) " sure" }
                },
            );
            with(row, html! { (shown(&payload["decision"])) })
        }
        "agent.handoff" => plain(
            "→",
            "busy",
            short_agent(text(payload, "/fromAgentId")),
            html! {
                "hands over to " (short_agent(text(payload, "/toAgentId"))) " " span.muted { (text(payload, "/reason")) }
            },
        ),
        "agent.invocation.completed" => match text(payload, "/outcome") {
            "failed" => plain("✕", "bad", agent(), html! { "failed" }),
            _ => None,
        },
        "agent.promptResolved" | "agent.reasoning.delta" => None,
        _ => of_tool(event, kind, node),
    }
}

/// What an agent calls, and what comes back.
fn of_tool(event: &Value, kind: &str, node: &str) -> Option<Row> {
    let payload = &event["payload"];
    let agent = || short_agent(text(payload, "/agentId"));
    match kind {
        "agent.toolCalled" => with(
            plain("→", "busy", agent(), html! { "calls " code { (text(payload, "/toolName")) } }),
            glanced("Arguments", &payload["inputs"]),
        ),
        "agent.toolReturned" => {
            let error = &payload["error"];
            let took = whole(payload, "/durationMs").map(|took| format!(" in {}", millis(took)));
            let line = html! { code { (text(payload, "/toolName")) } @if error.is_null() { " returned" } @else { " failed" } (took.unwrap_or_default()) };
            let row = plain("←", if error.is_null() { "good" } else { "bad" }, agent(), line);
            with(row, html! { (glanced("Result", &payload["outcome"])) (failure(error)) })
        }
        _ => other(event, kind, node),
    }
}

fn of_question(event: &Value, kind: &str, node: &str) -> Option<Row> {
    let payload = &event["payload"];
    match kind {
        "interrupt.requested" => with(
            plain(
                "◔",
                "wait",
                node,
                html! { "asks: " (question(text(payload, "/kind"), &payload["data"])) },
            ),
            glanced("What is asked", &payload["data"]),
        ),
        "interrupt.resolved" => {
            let who = text(payload, "/resolvedBy");
            let late = matches!(text(payload, "/reason"), "timeout");
            let row = plain(
                "»",
                if late { "bad" } else { "good" },
                node,
                html! {
                    @if late { "nobody answered in time" } @else { "was answered" }
                    @if !who.is_empty() { span.muted { " by " (crate::words::short(who)) } }
                },
            );
            with(
                row,
                html! { @if !is_empty(&payload["resumeValue"]) { (shown(&payload["resumeValue"])) } },
            )
        }
        "conversation.opened" => with(
            plain("◔", "wait", node, html! { "talks" }),
            shown(&payload["initialTurn"]["content"]),
        ),
        "conversation.exchanged" => with(
            plain("»", "quiet", text(payload, "/turn/role"), html! { "says" }),
            shown(&payload["turn"]["content"]),
        ),
        "conversation.closed" => with(
            plain("»", "good", node, html! { "has talked" }),
            glanced("Outcome", &payload["outcome"]),
        ),
        // The interrupt of the same question is told.
        "approval.requested"
        | "approval.received"
        | "clarification.requested"
        | "clarification.resolved" => None,
        _ => other(event, kind, node),
    }
}

/// What this host tells beyond the protocol.
fn of_callboard(event: &Value, kind: &str, node: &str) -> Option<Row> {
    let payload = &event["payload"];
    match kind {
        "callboard.vote" => plain(
            "»",
            "wait",
            node,
            html! { (text(payload, "/action")) " by " (text(payload, "/voter")) },
        ),
        "callboard.ask" => {
            plain("?", "wait", node, html! { "asks back: " (text(payload, "/question")) })
        }
        "callboard.pause.requested" => plain("‖", "wait", "Run", html! { "is to pause" }),
        "callboard.cancel.requested" => plain(
            "■",
            "wait",
            "Run",
            html! { "is to be cancelled " span.muted { (text(payload, "/reason")) } },
        ),
        "callboard.child.changed" => {
            plain("·", "quiet", node, html! { "child run is " (text(payload, "/status")) })
        }
        "callboard.model.fallback" => plain(
            "↻",
            "wait",
            node,
            html! {
                (text(payload, "/originalModel")) " is in trouble (" (text(payload, "/reason")) "); asks " (text(payload, "/fallbackModel"))
            },
        ),
        _ => other(event, kind, node),
    }
}

fn of_model(event: &Value, kind: &str, node: &str) -> Option<Row> {
    let payload = &event["payload"];
    match kind {
        "output.chunk" => {
            plain("❯", "quiet", node, html! { "says" }).map(|row| Row { joins: true, ..row })
        }
        "provider.usage" => {
            let (input, output) = (whole(payload, "/inputTokens"), whole(payload, "/outputTokens"));
            plain(
                "·",
                "quiet",
                node,
                html! {
                    span.muted {
                        (count(input.unwrap_or(0))) " tokens in, " (count(output.unwrap_or(0))) " out"
                        @if let Some(cost) = number(payload, "/costEstimateUsd") { ", " (money(cost)) }
                        " · " (text(payload, "/provider")) "/" (text(payload, "/model"))
                        @let run = text(event, "/runId");
                        @if let Some(call) = whole(event, "/sequence").filter(|_| !run.is_empty()) {
                            " · " a href={ "/console/runs/" (crate::segment(run)) "/calls/" (call) } { "what it was sent" }
                        }
                    }
                },
            )
        }
        "envelope.retry.attempted" => {
            plain("↻", "wait", node, html! { "asks the model again: " (text(payload, "/reason")) })
        }
        "envelope.refusal" => plain("✕", "bad", node, html! { "the model declined" }),
        "envelope.truncated" => plain("!", "wait", node, html! { "the answer was cut off" }),
        "budget.exhausted" => plain("✕", "bad", node, html! { "the budget is used up" }),
        "budget.threshold.crossed" => {
            plain("!", "wait", node, html! { "the budget is nearly used up" })
        }
        "prompt.composed" | "budget.reserved" | "budget.consumed" => None,
        _ => other(event, kind, node),
    }
}

fn of_state(event: &Value, kind: &str, node: &str) -> Option<Row> {
    let payload = &event["payload"];
    match kind {
        "channel.written" => plain(
            "◇",
            "quiet",
            text(payload, "/channel"),
            html! { "← " (preview(&payload["value"])) },
        ),
        "variable.changed" => {
            plain("◇", "quiet", text(payload, "/name"), html! { "= " (preview(&payload["next"])) })
        }
        "memory.written" => plain("◇", "quiet", node, html! { "remembers something" }),
        "artifact.created" => {
            plain("◇", "good", node, html! { "left " (text(payload, "/artifactId")) })
        }
        "log.appended" => plain("!", "wait", node, html! { (text(payload, "/message")) }),
        "cap.breached" => plain("!", "bad", "Limit", html! { (text(payload, "/kind")) " reached" }),
        "replay.diverged" | "replay.divergedAtRefusal" => plain(
            "!",
            "bad",
            "Replay",
            html! {
                "differs from its source at event " (whole(payload, "/atSequence").unwrap_or(0))
            },
        ),
        _ => other(event, kind, node),
    }
}

/// Whatever this console does not know is shown as it came.
fn other(event: &Value, kind: &str, node: &str) -> Option<Row> {
    let who = if node.is_empty() { kind } else { node };
    let row = plain("·", "quiet", who, html! { @if !node.is_empty() { code { (kind) } } });
    with(row, glanced("Payload", &event["payload"]))
}

pub(crate) fn failure(error: &Value) -> Markup {
    html! {
        @if error.is_object() {
            div.wrong { code { (text(error, "/code")) } " " (cut(text(error, "/message"), LONGEST)) }
        }
    }
}

/// What a question is about, in one line.
pub(crate) fn question(kind: &str, data: &Value) -> String {
    let named = ["/title", "/question", "/prompt", "/message", "/questions/0/question"];
    let said = named.iter().map(|pointer| text(data, pointer)).find(|said| !said.is_empty());
    match (said, kind) {
        (Some(said), _) => cut(said, 200),
        // A list may name a question without all that it holds.
        (None, "low-confidence") if data.get("observed").is_none() => {
            "an answer that the agent is not sure of".to_owned()
        }
        (None, "low-confidence") => format!(
            "{} is {} sure, {} is needed",
            short_agent(text(data, "/agentId")),
            number(data, "/observed").unwrap_or(0.0),
            number(data, "/threshold").unwrap_or(0.0)
        ),
        (None, kind) => {
            let first = fields(data, "").into_iter().find(|(_, value)| value.is_string());
            first.map_or_else(|| kind.to_owned(), |(_, value)| preview(value))
        }
    }
}

/// The last part of an agent's id, which people know it by.
pub(crate) fn short_agent(id: &str) -> String {
    id.rsplit('.').next().unwrap_or(id).to_owned()
}

fn millis(millis: u64) -> String {
    duration(std::time::Duration::from_millis(millis))
}
