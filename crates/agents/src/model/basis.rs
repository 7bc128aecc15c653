//! The inputs of a question that later attempts ask again, by which two of its requests are compared.

use serde_json::{Value, json};

use super::{ModelRequest, ToolSpec};

/// The first request of a visit, by the things that it was made from.
///
/// What an agent remembers and what it said before are left out of the comparison, as is everything else that was put
/// into the first request beside its `sources`: a note may be forgotten while a run waits, and that is no reason to end
/// the run. Limits of the operator are left out as well.
#[derive(Debug)]
pub(crate) struct RequestBasis {
    sources: Value,
    first: ModelRequest,
}

impl RequestBasis {
    pub(crate) fn new(sources: Value, first: &ModelRequest) -> Self {
        Self { sources, first: first.clone() }
    }

    pub(crate) fn sources(&self) -> &Value {
        &self.sources
    }

    /// What a request asks for, beyond what the first one was made from.
    pub(crate) fn compared(&self, request: &ModelRequest) -> Value {
        let first = self.first.system.as_deref().unwrap_or_default();
        let system = request.system.as_deref().unwrap_or_default();
        let since = request.messages.strip_prefix(self.first.messages.as_slice());
        let tool = |tool: &ToolSpec| json!([tool.name, tool.parameters]);
        json!({
            "sources": self.sources,
            "model": request.model.to_string(),
            "words": system.strip_prefix(first).unwrap_or(system),
            "messages": since.unwrap_or(&request.messages),
            "tools": request.tools.iter().map(tool).collect::<Vec<_>>(),
            "schema": request.response_schema,
        })
    }
}
