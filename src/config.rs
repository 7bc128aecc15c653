//! `callboard.toml`: what an operator may set in a file, with errors that name file, line and key.

mod cli;
mod explain;
mod integrations;
mod limits;
mod mcp;
mod models;
mod nodes;
mod oidc;
mod packs;
mod prices;
mod providers;
mod retention;
mod roles;
mod sections;
mod server;
mod show;
mod telemetry;
mod tenants;
#[cfg(test)]
mod tests;
mod values;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Table;
use toml::de::{DeTable, Deserializer};

use callboard_backends::{CliSettings, DeclaredNode};

use crate::exit::CommandError;

pub(crate) use limits::Limits;
pub(crate) use sections::Agents;
pub(crate) use server::{PUBLIC_URL, TlsFiles, read_origin};

pub(crate) use oidc::{IssuerConfig, OidcClient};

use explain::{Fault, Source};

/// Read when it is there and no other file is named.
const DEFAULT_FILE: &str = "callboard.toml";

/// Everything that the file can say.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// Where it was read from, if there was a file.
    #[serde(skip)]
    pub(crate) path: Option<PathBuf>,
    /// What stands in it, as it was written.
    #[serde(skip)]
    pub(crate) written: Table,
    pub(crate) server: server::Server,
    pub(crate) limits: Limits,
    pub(crate) packs: packs::Packs,
    pub(crate) deployments: sections::Deployments,
    pub(crate) roster: sections::Roster,
    pub(crate) budgets: sections::Budgets,
    pub(crate) agents: Agents,
    pub(crate) models: models::Models,
    #[serde(deserialize_with = "values::named")]
    pub(crate) providers: BTreeMap<String, providers::Provider>,
    #[serde(deserialize_with = "values::named")]
    pub(crate) prices: BTreeMap<String, prices::Priced>,
    pub(crate) mcp: mcp::Mcp,
    #[serde(deserialize_with = "values::named")]
    pub(crate) nodes: BTreeMap<String, DeclaredNode>,
    pub(crate) integrations: integrations::Section,
    #[serde(deserialize_with = "cli::settings")]
    pub(crate) cli: CliSettings,
    pub(crate) tools: sections::Tools,
    pub(crate) sandbox: sections::Sandbox,
    pub(crate) orchestration: sections::Orchestration,
    pub(crate) retention: retention::Retention,
    pub(crate) console: sections::Console,
    #[serde(deserialize_with = "values::named")]
    pub(crate) roles: BTreeMap<String, roles::RoleScopes>,
    pub(crate) telemetry: telemetry::Telemetry,
    pub(crate) tenants: BTreeMap<String, tenants::Tenant>,
    #[serde(deserialize_with = "values::named")]
    pub(crate) oidc: BTreeMap<String, oidc::Oidc>,
}

impl Config {
    /// Reads the named file, or the default one where it exists.
    pub(crate) fn load(named: Option<&Path>) -> Result<Self, CommandError> {
        let path = named.unwrap_or(Path::new(DEFAULT_FILE));
        match std::fs::read_to_string(path) {
            Ok(text) => {
                let mut config = Self::parse(&path.display().to_string(), &text)?;
                config.server.relative_to(path.parent().unwrap_or(Path::new("")));
                config.path = Some(path.to_owned());
                Ok(config)
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && named.is_none() => Ok(Self::default()),
            Err(error) => Err(CommandError::usage(format!("cannot read {}: {error}", path.display()))
                .hint("name the file with --config or CALLBOARD_CONFIG, or leave both out to do without one")),
        }
    }

    fn parse(file: &str, text: &str) -> Result<Self, CommandError> {
        let read = || -> Result<Self, Fault> {
            let mut table = DeTable::parse(text)?;
            cli::gather_agents(table.get_mut())?;
            models::list_models(table.get_mut());
            let config = Self::deserialize(Deserializer::from(table))?;
            config.check_models()?;
            let written = toml::from_str(text)?;
            Ok(Self { written, ..config })
        };
        read().map_err(|fault| Source { file, text }.explain(&fault))
    }
}
