//! Runs that write notes and then do something with them, for the doors to memory.

use std::time::Duration;

use callboard_engine::{Due, Order, Target};
use callboard_protocol::{Object, RunId};
use callboard_server::extend::{Caller, Code, Host, Problem, fresh, workflows};
use serde_json::{Value, json};

use super::stage::{definition, ended, node};

/// Longer than any of these runs takes.
pub(super) const PATIENCE: Duration = Duration::from_secs(15);

/// A run that writes notes, one after the other, and then does something with all that is there.
#[derive(Debug)]
pub(super) struct Play<'a> {
    pub(super) memory_ref: &'a str,
    pub(super) notes: Vec<Note>,
    /// The configuration of the last node.
    pub(super) action: Value,
    pub(super) configurable: Object,
    pub(super) scope_id: Option<String>,
    pub(super) due: Option<Due>,
}

impl Play<'_> {
    /// The same with notes that somebody is to be reminded of; answers what was told of the first.
    pub(super) async fn due(
        mut self,
        host: &Host,
        caller: &Caller,
        due: Due,
    ) -> Result<(RunId, Value), Problem> {
        self.due = Some(due);
        self.run(host, caller, "memory.written").await
    }

    /// The run and what it told of the kind that is asked for.
    pub(super) async fn run(
        self,
        host: &Host,
        caller: &Caller,
        kind: &str,
    ) -> Result<(RunId, Value), Problem> {
        let id = fresh("callboard-sample-memory-");
        let definition = self.definition(&id);
        workflows::store(host, caller, definition.to_string().as_bytes()).await?;
        let order = Order {
            configurable: self.configurable,
            scope_id: self.scope_id,
            ..Order::new(Target::Workflow(id.as_str().into()), caller.owner(), caller.scope.mode)
        };
        let created = host.app.engine.create(order, None).await;
        host.app.engine.catalog().remove(&caller.scope, &id.as_str().into()).await?;
        let run = created?.run;
        let events = ended(host, caller, &run, PATIENCE).await?;
        let told = |kind: &str| events.iter().find(|event| event["type"] == kind);
        if let Some(told) = told(kind) {
            return Ok((run, told["payload"].clone()));
        }
        let error = told("run.failed").map(|failed| failed["payload"]["error"].clone());
        let message = error.as_ref().and_then(|error| error["message"].as_str());
        let message = message.unwrap_or("nothing came of it").to_owned();
        let is_over = error.is_some_and(|error| error["code"] == "token_budget_exceeded");
        let code = if is_over { Code::TokenBudgetExceeded } else { Code::InvalidArgument };
        Err(Problem::new(code, &message).with("runId", run.to_string()))
    }

    fn definition(&self, id: &str) -> Value {
        let node = |id: &str, mut config: Value| {
            config["memoryRef"] = json!(self.memory_ref);
            node(id, "core.identity", &config)
        };
        let write = |(place, note): (usize, &Note)| {
            let mut config =
                json!({ "memoryAction": "write", "content": note.content, "tags": note.tags });
            match &self.due {
                Some(Due::At(at)) => config["dueAt"] = json!(at),
                Some(Due::On(heartbeat)) => config["dueOn"] = json!(heartbeat),
                None => {}
            }
            node(&format!("write-{place}"), config)
        };
        let mut nodes: Vec<Value> = self.notes.iter().enumerate().map(write).collect();
        nodes.push(node("tidy", self.action.clone()));
        definition(id, &nodes)
    }
}

/// What a node of such a run writes.
#[derive(Debug, Default)]
pub(super) struct Note {
    pub(super) content: String,
    pub(super) tags: Vec<String>,
}

impl Note {
    /// What the suite means by a source: a text, or something with a `content`.
    pub(super) fn of(source: &Value) -> Self {
        let content = source.get("content").unwrap_or(source);
        content.as_str().map_or_else(|| content.to_string(), str::to_owned).into()
    }
}

impl From<String> for Note {
    fn from(content: String) -> Self {
        Self { content, tags: Vec::new() }
    }
}

impl From<&str> for Note {
    fn from(content: &str) -> Self {
        content.to_owned().into()
    }
}

/// What an entry says now.
pub(super) async fn entry(host: &Host, caller: &Caller, id: &Value) -> Result<String, Problem> {
    let id = id.as_str().unwrap_or_default().into();
    let versions = host.app.engine.memory().history(&caller.scope, &id).await?;
    let newest = versions.into_iter().next().ok_or_else(|| Problem::no_such("memory entry"))?;
    Ok(newest.content)
}
