//! A tool as it was offered to an invocation, whether or not the host still has it.

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use callboard_protocol::{SafetyTier, ToolEgress, ToolReplay, ToolSource, ToolTransport};

use super::{Tool, ToolDescriptor, ToolFault, ToolInvocation, ToolOffer};
use crate::pack::Schema;

/// Kept with the run's effects: fields that are added later must have defaults, and old hosts ignore them.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RecordedTool {
    /// The name that was given to the provider.
    pub(super) name: String,
    pub(super) id: String,
    title: String,
    description: String,
    input: Value,
    source: ToolSource,
    tier: SafetyTier,
    transport: ToolTransport,
    egress: ToolEgress,
    replay: ToolReplay,
    required_scopes: Vec<String>,
}

impl From<ToolOffer<'_>> for RecordedTool {
    fn from(ToolOffer { name, descriptor }: ToolOffer<'_>) -> Self {
        Self {
            name: name.to_owned(),
            id: descriptor.id.clone(),
            title: descriptor.title.clone(),
            description: descriptor.description.clone(),
            input: Value::clone(&descriptor.input.source),
            source: descriptor.source,
            tier: descriptor.tier,
            transport: descriptor.transport,
            egress: descriptor.egress,
            replay: descriptor.replay,
            required_scopes: descriptor.required_scopes.clone(),
        }
    }
}

impl RecordedTool {
    /// The recorded tool, performed by what the host has of it now. The model's view stays as recorded; what the tool
    /// takes and does is for the host to say, as long as it has the tool.
    pub(super) fn restore(&self, now: Option<Arc<dyn Tool>>) -> Result<Arc<dyn Tool>, String> {
        let input = Schema::compile(self.input.to_string().as_bytes())
            .map_err(|why| format!("the schema of {}: {why}", self.id))?;
        let description = self.description.clone();
        let descriptor = match &now {
            Some(tool) => ToolDescriptor { description, input, ..tool.descriptor().clone() },
            None => ToolDescriptor {
                id: self.id.clone(),
                title: self.title.clone(),
                description,
                input,
                source: self.source,
                tier: self.tier,
                transport: self.transport,
                egress: self.egress,
                replay: self.replay,
                required_scopes: self.required_scopes.clone(),
            },
        };
        Ok(Arc::new(Restored { descriptor, now }))
    }
}

#[derive(Debug)]
struct Restored {
    descriptor: ToolDescriptor,
    now: Option<Arc<dyn Tool>>,
}

#[async_trait]
impl Tool for Restored {
    fn descriptor(&self) -> &ToolDescriptor {
        &self.descriptor
    }

    async fn invoke(&self, call: ToolInvocation<'_>) -> Result<Value, ToolFault> {
        match &self.now {
            Some(tool) => tool.invoke(call).await,
            None => Err(ToolFault::Unavailable(format!("{} is not there now", self.descriptor.id))),
        }
    }
}
