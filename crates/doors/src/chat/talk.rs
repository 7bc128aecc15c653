//! A run told as text: what its tools do, what it asks and what it answers.

use std::time::Duration;

use callboard_protocol::Timestamp;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::problem::Problem;
use crate::caller::{Caller, text};
use crate::question::Question;
use crate::run::{End, Follow, Standing, Usage, cut};

/// How long an answer is waited for. Clients wait for ten minutes; a run goes on for longer than either.
const PATIENCE: Duration = Duration::from_secs(240);
/// How often a stream says that it lives.
const QUIET: Duration = Duration::from_secs(15);
/// The name of a tool in a line.
const LONGEST_NAME: usize = 100;

#[derive(Debug)]
pub(super) struct Talk {
    follow: Follow,
    caller: Caller,
    stop: CancellationToken,
    pub(super) model: String,
    deadline: Instant,
    /// When the run began, in seconds; the same whenever it is asked for.
    pub(super) created: i64,
    pub(super) text: String,
    is_over: bool,
    /// Whether the run had ended when the talk did.
    pub(super) is_whole: bool,
}

pub(super) enum Piece {
    Text(String),
    Nothing,
    Over,
}

/// A talk that is over.
#[derive(Debug)]
pub(super) struct Transcript {
    pub(super) run: String,
    pub(super) model: String,
    pub(super) created: i64,
    pub(super) text: String,
    pub(super) usage: Usage,
    pub(super) is_whole: bool,
}

impl Talk {
    pub(super) fn new(caller: Caller, run: String, model: String, stop: CancellationToken) -> Self {
        let follow = Follow::new(caller.clone(), run);
        let deadline = Instant::now() + PATIENCE;
        let text = String::new();
        Self {
            follow,
            caller,
            stop,
            model,
            deadline,
            created: 0,
            text,
            is_over: false,
            is_whole: false,
        }
    }

    /// What there is already, without waiting for more.
    pub(super) fn again(
        caller: Caller,
        run: String,
        model: String,
        stop: CancellationToken,
    ) -> Self {
        Self { deadline: Instant::now(), ..Self::new(caller, run, model, stop) }
    }

    pub(super) fn run(&self) -> &str {
        &self.follow.run
    }

    pub(super) fn usage(&self) -> Usage {
        self.follow.usage
    }

    pub(super) async fn finish(mut self) -> Result<Transcript, Problem> {
        while !matches!(self.next().await?, Piece::Over) {}
        let usage = self.usage();
        let Self { follow, model, created, text, is_whole, .. } = self;
        Ok(Transcript { run: follow.run, model, created, text, usage, is_whole })
    }

    pub(super) async fn next(&mut self) -> Result<Piece, Problem> {
        if self.is_over {
            return Ok(Piece::Over);
        }
        let until = self.deadline.min(Instant::now() + QUIET);
        // Losing a poll is fine: whoever asks again reads the log from its start.
        let news = tokio::select! {
            news = self.follow.next(until) => news,
            () = self.stop.cancelled() => return Ok(self.say(self.going_on())),
        };
        let (events, standing) = match news {
            Err(error) if error.may_pass() && Instant::now() < self.deadline => {
                tokio::time::sleep(Duration::from_secs(1)).await;
                return Ok(Piece::Nothing);
            }
            news => news?,
        };
        let mut said: String = events.iter().filter_map(|event| self.hear(event)).collect();
        match standing {
            Standing::Ended(end) => said.push_str(&self.answer(&end)?),
            Standing::Asks(open) => said.push_str(&self.asking(&open)),
            Standing::Goes if Instant::now() >= self.deadline => said.push_str(&self.going_on()),
            Standing::Goes | Standing::Behind => return Ok(self.pass(said)),
        }
        Ok(self.say(said))
    }

    /// The line of an event, if it has one.
    fn hear(&mut self, event: &Value) -> Option<String> {
        let at = || serde_json::from_value::<Timestamp>(event["timestamp"].clone()).ok();
        match text(event, "type") {
            "run.started" => {
                self.created = at().map_or(0, |at| at.as_millis() / 1000);
                None
            }
            "agent.toolCalled" => {
                let name = cut(text(&event["payload"], "toolName"), LONGEST_NAME);
                Some(format!("> uses {name} ({})\n\n", self.caller.link(self.run())))
            }
            _ => None,
        }
    }

    fn answer(&mut self, end: &End) -> Result<String, Problem> {
        self.is_whole = true;
        if end.is_success() {
            return Ok(plain(&end.result));
        }
        let why = text(&end.result, "message");
        let code = match text(&end.result, "code") {
            "" => "run_failed",
            code => code,
        };
        let message = format!("the run {}: {why} ({})", end.status, self.caller.link(self.run()));
        Err(Problem::failed(code, message))
    }

    fn asking(&self, open: &[Question]) -> String {
        let ask = |question: &Question| {
            let link = self.caller.question_link(self.run(), &question.node);
            format!(
                "The run asks: {}\n\nAnswer at {link}, then ask here again.\n",
                question.headline()
            )
        };
        open.iter().map(ask).collect()
    }

    fn going_on(&self) -> String {
        format!("The work goes on: {}\n", self.caller.link(self.run()))
    }

    /// The last words.
    fn say(&mut self, said: String) -> Piece {
        self.is_over = true;
        self.pass(said)
    }

    fn pass(&mut self, said: String) -> Piece {
        self.text.push_str(&said);
        if said.is_empty() { Piece::Nothing } else { Piece::Text(said) }
    }
}

/// A result as text: the one text that it has, or all of it as JSON.
pub(super) fn plain(result: &Value) -> String {
    let only_text = |fields: &serde_json::Map<String, Value>| {
        let mut rest = fields.iter().filter(|(name, _)| *name != "confidence");
        let only = rest.next().filter(|_| rest.next().is_none());
        only.and_then(|(_, value)| value.as_str()).map(str::to_owned)
    };
    match result {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Object(fields) => only_text(fields)
            .unwrap_or_else(|| serde_json::to_string_pretty(result).unwrap_or_default()),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_text_is_the_answer_and_anything_more_is_shown_whole() {
        assert_eq!(plain(&json!("Hi")), "Hi");
        assert_eq!(plain(&json!({ "result": "Hi", "confidence": 0.9 })), "Hi");
        assert_eq!(
            plain(&json!({ "kind": "a", "why": "b" })),
            "{\n  \"kind\": \"a\",\n  \"why\": \"b\"\n}"
        );
        assert_eq!(plain(&Value::Null), "");
    }
}
