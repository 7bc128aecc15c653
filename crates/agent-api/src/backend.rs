//! The port that every agent is reached through.

use std::future::Future;
use std::pin::Pin;

use crate::capability::{self, AgentCapabilities};
use crate::error::AgentError;
use crate::handle::{AgentRunControl, AgentRunHandle};
use crate::kind::AgentKind;
use crate::mcp::{
    McpAddRequest, McpCommandOutput, McpGetRequest, McpListRequest, McpRemoveRequest,
};
use crate::request::AgentRunRequest;

/// A boxed future, spelt out so that the port needs no crate of others.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// One agent. Operations that came later have a body that refuses, so older backends keep compiling.
pub trait AgentBackend: Send + Sync {
    fn kind(&self) -> AgentKind;

    /// At least [`capability::RUN`] and [`capability::EVENTS`].
    fn capabilities(&self) -> AgentCapabilities;

    /// Validates, then starts one run. Nothing is started for a request that is refused.
    fn run(&self, request: AgentRunRequest) -> BoxFuture<'_, Result<AgentRunHandle, AgentError>>;

    /// Like [`AgentBackend::run`], with a handle that cancels.
    fn run_control(
        &self,
        _request: AgentRunRequest,
    ) -> BoxFuture<'_, Result<AgentRunControl, AgentError>> {
        refuse(self.kind(), capability::CONTROL_CANCEL)
    }

    fn mcp_list(
        &self,
        _request: McpListRequest,
    ) -> BoxFuture<'_, Result<McpCommandOutput, AgentError>> {
        refuse(self.kind(), capability::MCP_LIST)
    }

    fn mcp_get(
        &self,
        _request: McpGetRequest,
    ) -> BoxFuture<'_, Result<McpCommandOutput, AgentError>> {
        refuse(self.kind(), capability::MCP_GET)
    }

    fn mcp_add(
        &self,
        _request: McpAddRequest,
    ) -> BoxFuture<'_, Result<McpCommandOutput, AgentError>> {
        refuse(self.kind(), capability::MCP_ADD)
    }

    fn mcp_remove(
        &self,
        _request: McpRemoveRequest,
    ) -> BoxFuture<'_, Result<McpCommandOutput, AgentError>> {
        refuse(self.kind(), capability::MCP_REMOVE)
    }
}

fn refuse<T: Send + 'static>(
    agent_kind: AgentKind,
    capability: &str,
) -> BoxFuture<'static, Result<T, AgentError>> {
    let refused = AgentError::UnsupportedCapability { agent_kind, capability: capability.into() };
    Box::pin(std::future::ready(Err(refused)))
}
