//! The registry of backends, through which every operation goes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::backend::AgentBackend;
use crate::capability;
use crate::error::AgentError;
use crate::handle::{AgentRunControl, AgentRunHandle};
use crate::kind::AgentKind;
use crate::mcp::{
    McpAddRequest, McpCommandOutput, McpGetRequest, McpListRequest, McpRemoveRequest,
};
use crate::request::AgentRunRequest;

/// Backends by kind. Every operation resolves the backend first, then asks whether it offers the operation.
#[derive(Clone, Default)]
pub struct AgentGateway {
    backends: BTreeMap<AgentKind, Arc<dyn AgentBackend>>,
}

impl AgentGateway {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A kind that is taken stays with its first backend.
    pub fn register(&mut self, backend: Arc<dyn AgentBackend>) -> Result<(), AgentError> {
        let kind = backend.kind();
        if self.backends.contains_key(&kind) {
            return Err(AgentError::invalid(format!("{kind} is registered already")));
        }
        self.backends.insert(kind, backend);
        Ok(())
    }

    #[must_use]
    pub fn backend(&self, kind: &AgentKind) -> Option<Arc<dyn AgentBackend>> {
        self.backends.get(kind).cloned()
    }

    pub async fn run(
        &self,
        kind: &AgentKind,
        request: AgentRunRequest,
    ) -> Result<AgentRunHandle, AgentError> {
        self.resolve(kind)?.run(request).await
    }

    pub async fn run_control(
        &self,
        kind: &AgentKind,
        request: AgentRunRequest,
    ) -> Result<AgentRunControl, AgentError> {
        self.offering(kind, capability::CONTROL_CANCEL)?.run_control(request).await
    }

    pub async fn mcp_list(
        &self,
        kind: &AgentKind,
        request: McpListRequest,
    ) -> Result<McpCommandOutput, AgentError> {
        self.offering(kind, capability::MCP_LIST)?.mcp_list(request).await
    }

    pub async fn mcp_get(
        &self,
        kind: &AgentKind,
        request: McpGetRequest,
    ) -> Result<McpCommandOutput, AgentError> {
        self.offering(kind, capability::MCP_GET)?.mcp_get(request).await
    }

    pub async fn mcp_add(
        &self,
        kind: &AgentKind,
        request: McpAddRequest,
    ) -> Result<McpCommandOutput, AgentError> {
        self.offering(kind, capability::MCP_ADD)?.mcp_add(request).await
    }

    pub async fn mcp_remove(
        &self,
        kind: &AgentKind,
        request: McpRemoveRequest,
    ) -> Result<McpCommandOutput, AgentError> {
        self.offering(kind, capability::MCP_REMOVE)?.mcp_remove(request).await
    }

    fn resolve(&self, kind: &AgentKind) -> Result<&Arc<dyn AgentBackend>, AgentError> {
        self.backends
            .get(kind)
            .ok_or_else(|| AgentError::UnknownBackend { agent_kind: kind.clone() })
    }

    fn offering(
        &self,
        kind: &AgentKind,
        capability: &str,
    ) -> Result<&Arc<dyn AgentBackend>, AgentError> {
        let backend = self.resolve(kind)?;
        if backend.capabilities().contains(capability) {
            return Ok(backend);
        }
        Err(AgentError::UnsupportedCapability {
            agent_kind: kind.clone(),
            capability: capability.into(),
        })
    }
}

impl fmt::Debug for AgentGateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.backends.keys()).finish()
    }
}
