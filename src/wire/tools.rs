//! The tools of a host: those that are built in, those of MCP servers, and its workflows.

use std::collections::BTreeSet;
use std::sync::Arc;

use callboard_agents::{
    BrokenSchema, ToolHooks, Toolbox, Toolboxes, WorkflowTools, file_tools, memory_tools,
};
use callboard_backends::{
    Egress, MOST_FETCHED, McpServers, McpSurroundings, Reach, SystemLookup, built_in,
};
use callboard_engine::{KeyMode, Scope, SystemClock};
use callboard_protocol::{
    EgressDecision, EgressPolicyCapability, HttpClientCapability, Supported, ToolSource,
};
use callboard_server::Tools;

use super::sandbox::{self, Places};
use crate::config::Config;
use crate::exit::CommandError;
use crate::handover;

/// Everything about tools that has to be started, attached or stopped.
#[derive(Debug)]
pub(crate) struct ToolParts {
    pub(crate) served: Tools,
    pub(crate) mcp: Arc<McpServers>,
    pub(crate) workflows: Arc<WorkflowTools>,
}

pub(crate) fn assemble(
    config: &Config,
    egress: &Egress,
    places: &Places,
) -> Result<ToolParts, CommandError> {
    let mut boxes = own_tools(egress)?;
    let mcp = Arc::new(servers(config, egress, places));
    let workflows = Arc::new(WorkflowTools::default());
    boxes.extend([mcp.clone() as Arc<dyn Toolbox>, workflows.clone()]);
    let mut sources = vec![ToolSource::NodePack, ToolSource::Workflow];
    if !mcp.is_empty() {
        sources.push(ToolSource::Mcp);
    }
    let served = Tools {
        toolbox: Arc::new(Toolboxes(boxes)),
        hooks: Arc::new(ToolHooks::new(config.tools.rate)),
        sources,
        http_client: http_client(config, egress),
    };
    Ok(ToolParts { served, mcp, workflows })
}

/// The tools that every host of this build has.
fn own_tools(egress: &Egress) -> Result<Vec<Arc<dyn Toolbox>>, CommandError> {
    let broken = |error: BrokenSchema| CommandError::failed(error.to_string());
    Ok(vec![
        Arc::new(built_in(egress).map_err(broken)?),
        Arc::new(memory_tools().map_err(broken)?),
        Arc::new(file_tools().map_err(broken)?),
    ])
}

/// The names of the tools that every host of this build has.
pub(crate) async fn built_in_names() -> Result<BTreeSet<String>, CommandError> {
    let egress = Egress::new(Reach::Public, Arc::new(SystemLookup));
    let anybody = Scope { tenant: "default".into(), workspace: None, mode: KeyMode::Live };
    let tools = Toolboxes(own_tools(&egress)?).list(&anybody).await;
    Ok(tools.into_iter().map(|tool| tool.id).collect())
}

/// The servers of the file, not started yet.
pub(crate) fn servers(config: &Config, egress: &Egress, places: &Places) -> McpServers {
    let surroundings = McpSurroundings {
        egress: egress.clone(),
        environment: handover::variables(),
        clock: Arc::new(SystemClock),
        launcher: Some(sandbox::launcher(config, places)),
        homes: places.homes.clone(),
    };
    McpServers::new(config.mcp.servers.values().cloned().collect(), &surroundings)
}

/// A guard that lets private addresses through is none.
fn http_client(config: &Config, egress: &Egress) -> Option<HttpClientCapability> {
    (egress.reach() == Reach::Public).then(|| HttpClientCapability {
        supported: true,
        ssrf_guard: true,
        max_response_body_bytes: MOST_FETCHED as u64,
        request_timeout_ms: config.limits.tool_timeout_ms,
        methods: vec!["GET".to_owned(), "HEAD".to_owned()],
        safe_fetch: Supported { supported: true },
        egress_policy: EgressPolicyCapability {
            supported: true,
            decisions: vec![EgressDecision::Allowed, EgressDecision::Denied],
        },
    })
}
