//! Tools of the MCP servers that the operator named, found as `mcp:NAME.tool`.

mod child;
mod connect;
mod outcome;
mod server;
mod session;
mod settings;
mod tool;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use callboard_agent_api::Launcher;
use callboard_agents::{Tool, ToolDescriptor, ToolFault, Toolbox};
use callboard_engine::{Clock, Scope};
use callboard_protocol::Tenant;

use crate::egress::Egress;
use server::Server;

pub(crate) use session::McpRead;

pub use settings::{McpServer, McpWay};

/// How often servers that died are looked for.
const LOOK: Duration = Duration::from_secs(5);

/// What servers are started with, or called through.
#[derive(Debug, Clone)]
pub struct McpSurroundings {
    pub egress: Egress,
    /// The host's own environment, of which programs get a small part.
    pub environment: BTreeMap<String, String>,
    pub clock: Arc<dyn Clock>,
    /// What locks programs in before they begin.
    pub launcher: Option<Launcher>,
    /// Where each program has a home of its own, where it is locked in.
    pub homes: PathBuf,
}

/// Why a server is not there. For the operator; it repeats nothing of what the server said.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct McpError(pub String);

/// All servers of this host. Every tenant has them.
#[derive(Debug)]
pub struct McpServers {
    servers: BTreeMap<String, Arc<Server>>,
    clock: Arc<dyn Clock>,
}

impl McpServers {
    pub fn new(settings: Vec<McpServer>, surroundings: &McpSurroundings) -> Self {
        let servers = settings.into_iter().map(|server| {
            (server.name.clone(), Arc::new(Server::new(server, surroundings.clone())))
        });
        Self { servers: servers.collect(), clock: Arc::clone(&surroundings.clock) }
    }

    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// Keeps the servers running until asked to stop; then ends them.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        while !stop.is_cancelled() && !self.is_empty() {
            // A server that is being started when the host stops is ended with the others below.
            stop.run_until_cancelled(self.tick()).await;
            let next = self.clock.now().plus(LOOK);
            stop.run_until_cancelled(self.clock.sleep_until(next)).await;
        }
        self.close().await;
    }

    /// Connects to what is not connected and may be tried now.
    pub async fn tick(&self) {
        join_all(self.servers.values().map(|server| async {
            let was_there = server.is_there();
            match server.session().await {
                Ok(session) if !was_there => {
                    let (server, tools) = (&server.settings.name, session.tools().len());
                    tracing::info!(server, tools, "MCP server connected");
                }
                // The failure was logged when it happened.
                Ok(_) | Err(_) => {}
            }
        }))
        .await;
    }

    /// Connects to every server once, and returns how many tools each has.
    pub async fn look(&self) -> Vec<(String, Result<usize, McpError>)> {
        join_all(self.servers.iter().map(|(name, server)| async {
            let session = server.session().await;
            (name.clone(), session.map(|session| session.tools().len()))
        }))
        .await
    }

    /// What a caller must hold to use a server; none where there is no such server.
    pub(crate) fn required_scopes(&self, server: &str) -> Option<&[String]> {
        Some(&self.servers.get(server)?.settings.required_scopes)
    }

    /// Asks a server for something that it has beside its tools.
    pub(crate) async fn read(
        &self,
        tenant: &Tenant,
        server: &str,
        ask: McpRead<'_>,
        within: Duration,
    ) -> Result<Value, ToolFault> {
        let gone =
            |why: String| ToolFault::Unavailable(format!("the MCP server is not there: {why}"));
        let server = self.servers.get(server);
        let server = server.ok_or_else(|| gone("nobody named it".to_owned()))?;
        server.admit(tenant)?;
        let session = server.session().await.map_err(|error| gone(error.to_string()))?;
        match tokio::time::timeout(within, session.read(ask)).await {
            Ok(read) => read,
            Err(_) => Err(ToolFault::Unanswered("no answer in time".to_owned())),
        }
    }

    pub async fn close(&self) {
        join_all(self.servers.values().map(|server| server.close())).await;
    }
}

#[async_trait]
impl Toolbox for McpServers {
    async fn find(&self, _: &Scope, name: &str) -> Option<Arc<dyn Tool>> {
        let (server, tool) = name.strip_prefix("mcp:")?.split_once('.')?;
        let session = self.servers.get(server)?.session().await.ok()?;
        session.refresh().await;
        session.tools().get(tool).cloned()
    }

    /// The tools of servers that are connected now: a list does not wait for programs to start.
    async fn list(&self, _: &Scope) -> Vec<ToolDescriptor> {
        let sessions = self.servers.values().filter_map(|server| server.current());
        let tools = sessions.flat_map(|session| session.tools().into_values());
        tools.map(|tool| tool.descriptor().clone()).collect()
    }
}
