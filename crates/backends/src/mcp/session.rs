//! A living connection to a server, with the tools that it has.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use rmcp::handler::client::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, GetPromptRequestParams, Implementation,
    PaginatedRequestParams, ReadResourceRequestParams,
};
use rmcp::service::{NotificationContext, Peer, RoleClient, RunningService};

use callboard_agents::{Tool, ToolFault};
use callboard_protocol::Object;
use serde_json::Value;

use super::McpError;
use super::child::Program;
use super::server::Server;
use super::tool::{McpTool, describe, explain};

pub(super) type Tools = BTreeMap<String, Arc<dyn Tool>>;

/// Servers have dozens of tools; one with more than this would only fill memory.
const MOST_TOOLS: usize = 1_000;
const MOST_PAGES: usize = 50;
/// Asking for the list again happens while an agent waits.
const LIST_WITHIN: Duration = Duration::from_secs(10);

/// The one notification that we handle: that the tools have changed.
#[derive(Debug, Clone, Default)]
pub(super) struct Listener {
    changed: Arc<AtomicBool>,
}

impl ClientHandler for Listener {
    fn get_info(&self) -> ClientConfig {
        let callboard = Implementation::new("callboard", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), callboard)
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.store(true, Ordering::Relaxed);
    }
}

/// What a server has beside its tools.
#[derive(Debug)]
pub(crate) enum McpRead<'a> {
    /// By its URI.
    Resource(&'a str),
    /// By its name, with what it is to be filled with.
    Prompt(&'a str, Object),
}

pub(super) struct Session {
    peer: Peer<RoleClient>,
    running: Mutex<Option<RunningService<RoleClient, Listener>>>,
    program: Mutex<Option<Program>>,
    listener: Listener,
    tools: Mutex<Tools>,
    owner: Weak<Server>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

impl Session {
    /// A connection that was greeted, before its tools are known.
    pub(super) async fn open(
        running: RunningService<RoleClient, Listener>,
        program: Option<Program>,
        owner: Weak<Server>,
    ) -> Result<Self, McpError> {
        let session = Self {
            peer: running.peer().clone(),
            listener: running.service().clone(),
            running: Mutex::new(Some(running)),
            program: Mutex::new(program),
            tools: Mutex::default(),
            owner,
        };
        let tools = session.list().await?;
        *lock(&session.tools) = tools;
        Ok(session)
    }

    pub(super) fn peer(&self) -> &Peer<RoleClient> {
        &self.peer
    }

    /// What the server has under a name, as it says it.
    pub(super) async fn read(&self, ask: McpRead<'_>) -> Result<Value, ToolFault> {
        let read = match ask {
            McpRead::Resource(uri) => {
                let asked = ReadResourceRequestParams::new(uri);
                self.peer.read_resource(asked).await.map(serde_json::to_value)
            }
            McpRead::Prompt(name, arguments) => {
                let mut asked = GetPromptRequestParams::new(name);
                asked.arguments = Some(arguments).filter(|arguments| !arguments.is_empty());
                self.peer.get_prompt(asked).await.map(serde_json::to_value)
            }
        };
        let read = read.map_err(|error| explain(&error))?;
        read.map_err(|_| ToolFault::Failed("the server answered something else".to_owned()))
    }

    pub(super) fn is_alive(&self) -> bool {
        !self.peer.is_transport_closed()
    }

    pub(super) fn tools(&self) -> Tools {
        lock(&self.tools).clone()
    }

    /// Asks for the tools again if the server said that they changed. What cannot be asked now stays as it was.
    pub(super) async fn refresh(&self) {
        if !self.listener.changed.swap(false, Ordering::Relaxed) {
            return;
        }
        match tokio::time::timeout(LIST_WITHIN, self.list()).await {
            Ok(Ok(tools)) => *lock(&self.tools) = tools,
            Ok(Err(_)) | Err(_) => self.listener.changed.store(true, Ordering::Relaxed),
        }
    }

    pub(super) async fn close(&self) {
        let running = lock(&self.running).take();
        if let Some(running) = running {
            // The connection is gone either way.
            let _ = running.cancel().await;
        }
        let program = lock(&self.program).take();
        if let Some(program) = program {
            program.end().await;
        }
    }

    async fn list(&self) -> Result<Tools, McpError> {
        let Some(owner) = self.owner.upgrade() else { return Ok(Tools::new()) };
        let mut tools = Tools::new();
        let mut cursor = None;
        for _ in 0..MOST_PAGES {
            let page = PaginatedRequestParams::default().with_cursor(cursor);
            let page = self.peer.list_tools(Some(page)).await;
            let page = page.map_err(|_| McpError("it does not list its tools".to_owned()))?;
            for tool in page.tools.into_iter().take(MOST_TOOLS - tools.len()) {
                match describe(&owner.settings, &tool) {
                    Ok(descriptor) => {
                        let name = tool.name.to_string();
                        let tool = McpTool::new(name.clone(), descriptor, self.owner.clone());
                        tools.insert(name, Arc::new(tool));
                    }
                    Err(why) => {
                        let server = &owner.settings.name;
                        tracing::warn!(server, why, "a tool of an MCP server was left out");
                    }
                }
            }
            cursor = page.next_cursor;
            if cursor.is_none() || tools.len() >= MOST_TOOLS {
                break;
            }
        }
        Ok(tools)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
