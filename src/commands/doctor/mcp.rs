//! The checks of MCP servers: each is started or called once, asked for its tools, and ended.

use std::path::Path;
use std::sync::Arc;

use callboard_backends::{Egress, Reach, SystemLookup};

use super::{Check, State};
use crate::config::Config;
use crate::wire::{self, sandbox::Places};

/// A server that is missing does not stop a host, so it is no failure here either.
pub(super) async fn check(config: &Config, data: &Path, reach: Reach) -> Vec<Check> {
    let egress = Egress::new(reach, Arc::new(SystemLookup));
    let servers = wire::tools::servers(config, &egress, &Places::of(data, "doctor"));
    let found = servers.look().await;
    servers.close().await;
    let name = "MCP server";
    found
        .into_iter()
        .map(|(server, tools)| match tools {
            Ok(0) => Check::new(name, State::Warning, format!("{server}: there, but without tools")),
            Ok(count) => Check::new(name, State::Ok, format!("{server}: {count} tools")),
            Err(error) => Check::new(name, State::Warning, format!("{server}: {error}")).hint(
                format!("run its command yourself, or check [mcp.servers.{server}]; a private address needs --allow-private-egress"),
            ),
        })
        .collect()
}
