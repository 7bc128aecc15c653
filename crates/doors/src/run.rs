//! A run as somebody waits for it at a door: its news as they come, and how it stands when waiting is over.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::api::{ApiError, segment};
use crate::caller::{Caller, text};
use crate::question::Question;

/// Events of one answer; a page of a long log is still small.
const PAGE: &str = "64";
/// The longest poll, so that a waiting door learns soon that a key has ended.
const LONGEST_POLL: Duration = Duration::from_secs(20);
/// The longest line of news.
const LONGEST_LINE: usize = 200;

/// A run that is followed from its first event on.
#[derive(Debug)]
pub(crate) struct Follow {
    caller: Caller,
    pub(crate) run: String,
    seen: Option<u64>,
    /// Tokens that its calls of models used so far.
    pub(crate) usage: Usage,
}

/// Tokens in and out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) input: u64,
    pub(crate) output: u64,
}

/// How a run stands after some news.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Standing {
    Ended(End),
    /// It waits for somebody.
    Asks(Vec<Question>),
    Goes,
    /// It has ended, and its log is not read to the end yet.
    Behind,
}

/// What a run came to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct End {
    pub(crate) status: String,
    /// What it returned, or why it failed.
    pub(crate) result: Value,
}

impl End {
    pub(crate) fn is_success(&self) -> bool {
        self.status == "completed"
    }
}

impl Follow {
    pub(crate) fn new(caller: Caller, run: String) -> Self {
        Self { caller, run, seen: None, usage: Usage::default() }
    }

    /// The events that came next, and how the run stands then. Waits for them until the deadline at most.
    pub(crate) async fn next(
        &mut self,
        deadline: Instant,
    ) -> Result<(Vec<Value>, Standing), ApiError> {
        let left = deadline.saturating_duration_since(Instant::now()).min(LONGEST_POLL);
        let seconds = left.as_secs().max(1);
        let seen = self.seen.unwrap_or(0);
        let path = format!(
            "/v1/runs/{}/events/poll?lastSequence={seen}&timeout={seconds}&limit={PAGE}",
            segment(&self.run)
        );
        let mut page = self.caller.get(path).await?;
        let Value::Array(mut events) = page["events"].take() else { return Ok(nothing()) };
        // A cursor of zero is the start, so the first event may come twice.
        let is_new = |event: &Value| self.seen.is_none() || event["sequence"].as_u64() > self.seen;
        events.retain(is_new);
        self.seen = events.last().and_then(|event| event["sequence"].as_u64()).or(self.seen);
        for event in &events {
            self.usage.add(event);
        }
        let standing = self.standing(&events, text(&page, "runStatus")).await?;
        Ok((events, standing))
    }

    async fn standing(&self, events: &[Value], status: &str) -> Result<Standing, ApiError> {
        if let Some(end) = events.iter().rev().find_map(end) {
            return Ok(Standing::Ended(end));
        }
        if matches!(status, "completed" | "failed" | "cancelled") && !events.is_empty() {
            return Ok(Standing::Behind);
        }
        if !status.starts_with("waiting-") {
            return Ok(Standing::Goes);
        }
        let open = self.caller.questions(&self.run).await?;
        let open: Vec<Question> = open.into_iter().filter_map(Question::read).collect();
        Ok(if open.is_empty() { Standing::Goes } else { Standing::Asks(open) })
    }
}

fn nothing() -> (Vec<Value>, Standing) {
    (Vec::new(), Standing::Goes)
}

impl Usage {
    fn add(&mut self, event: &Value) {
        if event["type"] != "provider.usage" {
            return;
        }
        let tokens = |name: &str| event["payload"][name].as_u64().unwrap_or(0);
        self.input = self.input.saturating_add(tokens("inputTokens"));
        self.output = self.output.saturating_add(tokens("outputTokens"));
    }
}

/// The last event of a run says what it came to.
fn end(event: &Value) -> Option<End> {
    let status = match text(event, "type") {
        "run.completed" => "completed",
        "run.failed" => "failed",
        "run.cancelled" => "cancelled",
        _ => return None,
    };
    let payload = &event["payload"];
    let result = match status {
        "completed" => &payload["outputs"],
        _ => payload.get("error").unwrap_or(&payload["reason"]),
    };
    Some(End { status: status.to_owned(), result: result.clone() })
}

/// An event as a line of news; none for those that only matter to readers of the whole log.
pub(crate) fn line(event: &Value) -> Option<String> {
    let payload = &event["payload"];
    let node = text(payload, "nodeId");
    let line = match text(event, "type") {
        "node.started" => format!("step {node} started"),
        "node.completed" => format!("step {node} completed"),
        "node.failed" => format!("step {node} failed"),
        "node.retried" => format!("step {node} is tried again"),
        "agent.toolCalled" => format!("tool {} called", text(payload, "toolName")),
        "agent.toolReturned" => format!("tool {} returned", text(payload, "toolName")),
        "interrupt.requested" => format!("asks: {}", crate::question::headline_of(payload)),
        "interrupt.resolved" => "the question is answered".to_owned(),
        _ => return None,
    };
    Some(cut(&line, LONGEST_LINE))
}

/// A text of one line and bounded length.
pub(crate) fn cut(line: &str, most: usize) -> String {
    let plain: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match plain.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &plain[..at]),
        None => plain,
    }
}
