//! The activity that performs nodes with an agent.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use callboard_agents::{
    AgentDispatch, AgentRegistry, Contracts, LiveAgents, LiveSettings, TaskReader, plain_task,
};
use callboard_backends::{Egress, McpServers, ToolNodes, acting_nodes};
use callboard_engine::Activity;
use callboard_server::{KeyRing, Tools};

use super::cli::Coders;
use super::models::ModelWiring;
use super::{Settings, conformance};

/// The folder of the files of runs, below the host's data.
pub(super) const WORKSPACES: &str = "workspaces";

/// What performs agents here.
#[derive(Debug)]
pub(super) struct Dispatch {
    pub(super) activity: Arc<dyn Activity>,
    /// Whether models are asked, or only the floor of RFC 0070 is there.
    pub(super) is_live: bool,
}

pub(super) fn dispatch(
    settings: &Settings,
    registry: Arc<AgentRegistry>,
    tools: &Tools,
    keys: &KeyRing,
    models: &ModelWiring,
    coders: &Coders,
) -> Dispatch {
    let config = &settings.config;
    let table = models.table.clone();
    let read_task: TaskReader =
        if settings.test_seams { conformance::read_task } else { plain_task };
    if !config.agents.is_live(&table, settings.test_seams) {
        let activity = Arc::new(AgentDispatch::new(registry, read_task));
        return Dispatch { activity, is_live: false };
    }
    let activity = Arc::new(LiveAgents {
        registry,
        models: Arc::clone(&models.models),
        coders: Arc::clone(&coders.agents) as _,
        table,
        prices: models.prices.clone(),
        toolbox: Arc::clone(&tools.toolbox),
        hooks: Arc::clone(&tools.hooks),
        grants: Arc::new(keys.clone()),
        prompt_resolver: models.prompt_resolver.clone(),
        settings: LiveSettings {
            tool_timeout: Duration::from_millis(config.limits.tool_timeout_ms),
            workspaces: Path::new(&settings.data).join(WORKSPACES),
            read_task,
            ..LiveSettings::default()
        },
        contracts: Contracts::default(),
    });
    Dispatch { activity, is_live: true }
}

/// The nodes that reach outside without an agent.
pub(super) fn acting(
    settings: &Settings,
    tools: &Tools,
    keys: &KeyRing,
    egress: &Egress,
    mcp: &Arc<McpServers>,
) -> Vec<(&'static str, Arc<dyn Activity>)> {
    let tool_nodes = ToolNodes {
        toolbox: Arc::clone(&tools.toolbox),
        mcp: Some(Arc::clone(mcp)),
        hooks: Arc::clone(&tools.hooks),
        grants: Arc::new(keys.clone()),
        workspaces: Path::new(&settings.data).join(WORKSPACES),
        timeout: Duration::from_millis(settings.config.limits.tool_timeout_ms),
    };
    let integrations = settings.config.integrations.clone().into();
    acting_nodes(egress, &integrations).into_iter().chain(tool_nodes.types()).collect()
}
