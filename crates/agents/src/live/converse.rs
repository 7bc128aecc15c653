//! The conversation with a model that may call tools, until it answers.

use serde_json::Value;

use callboard_protocol::Failure;

use super::Work;
use crate::ask::{End, Exchange, Reply};
use crate::model::{Exhausted, ExhaustedReason, Message, ToolReply, Turn};

impl Work<'_> {
    /// Asks, has tools called, asks again: until there is an answer that can be taken.
    pub(super) async fn converse(&mut self, mut exchange: Exchange) -> Result<Value, End> {
        let mut rounds = 0;
        loop {
            match self.asker.ask(&mut exchange).await? {
                Reply::Answer(value) => return Ok(value),
                Reply::Exhausted(end, _) => return Err(self.exhausted(end)),
                Reply::CallTools(turn) => {
                    rounds += 1;
                    if rounds > self.host.settings.tool_rounds {
                        let message = format!("the model called tools in {rounds} rounds");
                        return Err(End::Failed(Failure::new("tool_rounds_exceeded", message)));
                    }
                    self.use_tools(&mut exchange.request.messages, turn).await?;
                    exchange.made = 0;
                }
            }
        }
    }

    /// Ends the invocation of an agent whose answers could not be taken.
    pub(super) fn exhausted(&mut self, end: Exhausted) -> End {
        // A repair is made once, and the token budget has a limit: there may be fewer tries than rounds.
        self.asker.exhausted(end, end.attempts);
        let (code, what) = match end.reason {
            ExhaustedReason::Truncation => (end.reason.code(), "was cut off"),
            ExhaustedReason::SchemaViolation => {
                ("handoff_return_schema_violation", "does not match the schema of its result")
            }
            ExhaustedReason::ParseError => ("handoff_return_schema_violation", "is not JSON"),
        };
        let message = format!("the model's answer {what}, in {} tries", end.attempts);
        End::Failed(Failure::new(code, message))
    }

    async fn use_tools(&mut self, messages: &mut Vec<Message>, turn: Turn) -> Result<(), End> {
        let Turn { text, tool_calls, .. } = turn;
        messages.push(Message::Assistant { text, calls: tool_calls.clone() });
        for wanted in tool_calls {
            let content = self.use_tool(&wanted).await?;
            let result = ToolReply { call_id: wanted.id, name: wanted.name, content };
            messages.push(Message::Tool { result });
        }
        Ok(())
    }
}
