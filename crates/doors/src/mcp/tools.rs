//! The tools of a client: what its key may start, and three for the runs that were started.

use std::sync::Arc;

use rmcp::model::{ListToolsResult, Tool, ToolAnnotations};
use serde_json::{Map, Value, json};

use crate::api::ApiError;
use crate::caller::Caller;
use crate::offer::{self, Kind, Offer};

/// Tools of one page; the schema of an agent costs one request.
const PAGE: usize = 50;
/// The longest description; clients show it to a model in full.
const LONGEST_DESCRIPTION: usize = 1000;

pub(super) const WAIT: &str = "callboard_wait";
pub(super) const ANSWER: &str = "callboard_answer";
pub(super) const CANCEL: &str = "callboard_cancel";

/// The argument of every tool that names a call: the same tool with the same key and arguments is the same run.
pub(super) const KEY: &str = "callboard_key";

pub(super) async fn list(
    caller: &Caller,
    cursor: Option<String>,
) -> Result<ListToolsResult, ApiError> {
    let offers = offer::list(caller).await?;
    let after = cursor.unwrap_or_default();
    let mut rest = offers.range(after.clone()..).filter(|(name, _)| **name > after);
    let mut tools = if after.is_empty() { ours() } else { Vec::new() };
    let mut last = None;
    for (name, offer) in rest.by_ref().take(PAGE) {
        tools.push(tool(name, offer, offer.schema(caller).await?));
        last = Some(name.clone());
    }
    let mut result = ListToolsResult::with_all_items(tools);
    result.next_cursor = rest.next().and(last);
    Ok(result)
}

fn tool(name: &str, offer: &Offer, schema: Value) -> Tool {
    let description = crate::run::cut(&offer.description, LONGEST_DESCRIPTION);
    let mut tool = Tool::new(name.to_owned(), description, Arc::new(with_key(schema)));
    tool.title = Some(offer.title.clone());
    let mut hints = ToolAnnotations::new();
    hints.read_only_hint = Some(false);
    hints.open_world_hint = Some(true);
    // A workflow does what its author wrote, which nobody can see from here.
    hints.destructive_hint = Some(offer.kind == Kind::Workflow);
    tool.annotations = Some(hints);
    tool
}

/// The schema of an object with the argument that names the call.
fn with_key(schema: Value) -> Map<String, Value> {
    let mut schema = match schema {
        Value::Object(schema) => schema,
        _ => Map::new(),
    };
    // Clients know one dialect; which one a schema was written in says nothing to them.
    schema.remove("$schema");
    schema.insert("type".to_owned(), "object".into());
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    if let Value::Object(properties) = properties {
        let key = json!({
            "type": "string", "minLength": 1, "maxLength": 200,
            "description": "Names this call. Calling again with the same key and arguments finds the same run.",
        });
        properties.insert(KEY.to_owned(), key);
    }
    schema
}

fn ours() -> Vec<Tool> {
    let run = json!({ "type": "string", "description": "The run's id." });
    let make = |name: &'static str, title: &str, description: &'static str, schema: Value| {
        let schema = match schema {
            Value::Object(schema) => schema,
            _ => Map::new(),
        };
        let mut tool = Tool::new(name, description, Arc::new(schema));
        tool.title = Some(title.to_owned());
        let mut hints = ToolAnnotations::new();
        hints.read_only_hint = Some(name == WAIT);
        hints.destructive_hint = Some(name == CANCEL);
        tool.annotations = Some(hints);
        tool
    };
    vec![
        make(
            WAIT,
            "Wait for a run",
            "Waits for a run that was started before and returns its result, its question, or that it still goes on.",
            json!({ "type": "object", "required": ["run"], "additionalProperties": false,
                "properties": { "run": run } }),
        ),
        make(
            ANSWER,
            "Answer a run",
            "Answers what a run asks, then waits for the run. Approvals cannot be given here: a person gives them.",
            json!({ "type": "object", "required": ["run", "node", "answer"], "additionalProperties": false,
                "properties": {
                    "run": run,
                    "node": { "type": "string", "description": "The step that asks." },
                    "answer": { "description": "What the question expects." },
                } }),
        ),
        make(
            CANCEL,
            "Cancel a run",
            "Ends a run and everything that it has started.",
            json!({ "type": "object", "required": ["run"], "additionalProperties": false,
                "properties": { "run": run } }),
        ),
    ]
}
