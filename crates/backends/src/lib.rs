//! Everything that reaches outside of the host: guarded requests, model providers, coding agents, tools,
//! traces, and the scripted model of conformance tests.

mod cli;
mod egress;
mod fetch;
mod files_node;
mod folders;
mod issuers;
mod mcp;
mod memory_node;
mod mock;
mod model;
mod nodes;
mod observe;
mod otlp;
mod sweep;
mod tools;

pub use callboard_agent_api::Launcher;
pub use cli::{
    CODING_KINDS, CliAgentSettings, CliAgents, CliSettings, CliSurroundings, CodingKind, KindFacts,
};
pub use egress::{Answer, Egress, EgressError, Lookup, Method, Outgoing, Reach, SystemLookup};
pub use files_node::{FILES, FilesNode};
pub use folders::{RunFolder, RunFolders, private as private_folder};
pub use mcp::{McpError, McpServer, McpServers, McpSurroundings, McpWay};
pub use memory_node::{MemoryNode, MemoryProbes};
pub use mock::CallPrompt;
pub use model::{BaseUrl, BaseUrlError, LiveModel, ProviderKind, ProviderSettings, Timeouts};
pub use nodes::{DeclaredNode, Integrations, TOOL, ToolNodes, acting_nodes};
pub use otlp::{Exporter, OtlpError, OtlpProtocol, OtlpSettings, Traced};
pub use sweep::FolderSweeper;
pub use tools::{MOST_FETCHED, built_in};
