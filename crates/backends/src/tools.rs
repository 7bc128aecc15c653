//! The tools that every host has, under the names that published packs use.

mod bm25;
mod compute;
mod fetch;
mod files;
mod retriever;
mod workspace;

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use callboard_agents::{BrokenSchema, FixedTools, Tool, ToolDescriptor, ToolFault, ToolInvocation};
use callboard_protocol::Object;

use crate::egress::Egress;

pub(crate) use fetch::redirected;

/// How much of a page is fetched at most.
pub const MOST_FETCHED: usize = fetch::MOST_BODY;

/// Every built-in tool. Requests go through `egress`.
pub fn built_in(egress: &Egress) -> Result<FixedTools, BrokenSchema> {
    let mut tools: Vec<Arc<dyn Tool>> = vec![
        Arc::new(files::ReadFile(files::READ.descriptor()?)),
        Arc::new(files::WriteFile(files::WRITE.descriptor()?)),
        Arc::new(fetch::Fetch { descriptor: fetch::FETCH.descriptor()?, egress: egress.clone() }),
        Arc::new(retriever::Retriever(retriever::RETRIEVER.descriptor()?)),
    ];
    for (card, compute) in compute::TOOLS {
        tools.push(Arc::new(Computed { descriptor: card.descriptor()?, compute: *compute }));
    }
    Ok(tools.into_iter().collect())
}

type Compute = fn(&Object) -> Result<Value, ToolFault>;

/// A tool that touches nothing: a function of its arguments.
#[derive(Debug)]
struct Computed {
    descriptor: ToolDescriptor,
    compute: Compute,
}

#[async_trait]
impl Tool for Computed {
    fn descriptor(&self) -> &ToolDescriptor {
        &self.descriptor
    }

    async fn invoke(&self, call: ToolInvocation<'_>) -> Result<Value, ToolFault> {
        (self.compute)(&call.arguments)
    }
}

/// A text among the arguments. The schema has seen to it that a required one is there.
fn text<'a>(arguments: &'a Object, name: &str) -> Option<&'a str> {
    arguments.get(name).and_then(Value::as_str)
}
