//! What a host has that authors name: the node types of its configuration, its agents and its tools. Asked of a host that
//! was named on the command line, or read from the configuration that `serve` would read here.

use std::path::PathBuf;

use callboard_authoring::{HostNames, NodeType, node_type, node_types};
use callboard_engine::Activity as _;
use clap::Args;
use serde_json::Value;

use crate::args::Connection;
use crate::client::{Client, Kind};
use crate::config::Config;
use crate::exit::CommandError;

#[derive(Debug, Args)]
pub(crate) struct KnownArgs {
    // As help and not as documentation, where the brackets would be a link.
    #[arg(
        help = "Configuration file with [nodes] of your own [default: ./callboard.toml if it is there]"
    )]
    #[arg(long, value_name = "FILE", env = "CALLBOARD_CONFIG", hide_env_values = true)]
    config: Option<PathBuf>,
    #[command(flatten)]
    connection: Connection,
}

impl KnownArgs {
    /// The host to ask, if one was named here: an address in the environment names none, since these commands work
    /// without a host.
    fn host(&self, earlier: &Connection) -> Result<Option<Client>, CommandError> {
        let connection = self.connection.or(earlier);
        connection.names_url().then(|| Client::new(&connection)).transpose()
    }

    /// Every node type, as `GET /v1/host/callboard/nodes` describes it.
    pub(crate) async fn node_types(
        &self,
        earlier: &Connection,
    ) -> Result<Vec<Value>, CommandError> {
        if let Some(client) = self.host(earlier)? {
            return types_of(&client).await;
        }
        let declared = Config::load(self.config.as_deref())?.nodes;
        let own = node_types().iter().map(NodeType::to_json);
        Ok(own.chain(declared.values().filter_map(|node| node.describe())).collect())
    }

    pub(crate) async fn names(&self, earlier: &Connection) -> Result<HostNames, CommandError> {
        let (agents, tools) = match self.host(earlier)? {
            Some(client) => (names(&client, &AGENTS).await, names(&client, &TOOLS).await),
            None => (None, None),
        };
        let described = self.node_types(earlier).await?;
        let types = described.iter().filter_map(|node| node["typeId"].as_str());
        let types = types.filter(|name| node_type(name).is_none()).map(str::to_owned).collect();
        Ok(HostNames { types, agents, tools })
    }
}

/// The agents and tools of a host, as far as the key may read them.
pub(crate) async fn of_host(client: &Client) -> HostNames {
    let (agents, tools) = (names(client, &AGENTS).await, names(client, &TOOLS).await);
    HostNames { agents, tools, ..HostNames::default() }
}

async fn types_of(client: &Client) -> Result<Vec<Value>, CommandError> {
    let mut found = client.list(&Kind::NODE_TYPE, &[]).await?;
    serde_json::from_value(found["nodes"].take()).map_err(|error| CommandError::unreadable(&error))
}

/// A list of things with names: where it is, the field that it stands under, and the name of one.
struct Named(Kind, Option<&'static str>, &'static str);

const AGENTS: Named = Named(Kind::AGENT, Some("agents"), "agentId");
const TOOLS: Named = Named(Kind::TOOL, None, "toolId");

/// None where the key may not ask.
async fn names(client: &Client, Named(kind, field, name): &Named) -> Option<Vec<String>> {
    let found = client.list(kind, &[]).await.ok()?;
    let items = field.map_or(&found, |field| &found[field]).as_array()?;
    items.iter().map(|item| item[name].as_str().map(str::to_owned)).collect()
}
