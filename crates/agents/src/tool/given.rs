//! Tools for tests, which return their arguments.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_protocol::{SafetyTier, ToolEgress, ToolReplay, ToolSource, ToolTransport};

use super::{FixedTools, Tool, ToolDescriptor, ToolFault, ToolInvocation};
use crate::pack::Schema;

#[derive(Debug)]
struct Echo(ToolDescriptor);

#[async_trait]
impl Tool for Echo {
    fn descriptor(&self) -> &ToolDescriptor {
        &self.0
    }

    async fn invoke(&self, call: ToolInvocation<'_>) -> Result<Value, ToolFault> {
        Ok(Value::Object(call.arguments))
    }
}

/// Each wants a text `path` and nothing else.
pub(super) fn tools(names: &[&str]) -> FixedTools {
    let schema = json!({
        "type": "object",
        "required": ["path"],
        "properties": { "path": { "type": "string" } },
        "additionalProperties": false
    });
    let echo = |name: &&str| -> Arc<dyn Tool> {
        Arc::new(Echo(ToolDescriptor {
            id: (*name).to_owned(),
            title: "Echo".to_owned(),
            description: "Answers what it was asked.".to_owned(),
            input: Schema::compile(schema.to_string().as_bytes()).unwrap(),
            source: ToolSource::NodePack,
            tier: SafetyTier::Pure,
            transport: ToolTransport::Native,
            egress: ToolEgress::None,
            replay: ToolReplay::Deterministic,
            required_scopes: Vec::new(),
        }))
    };
    names.iter().map(echo).collect()
}
