//! `[mcp.servers.NAME]`: MCP servers, whose tools agents may use in addition to the built-in ones.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use callboard_backends::{McpServer, McpWay};
use callboard_server::is_scope;

use super::values::{Named, absolute_paths, named};

/// The longest name that leaves room for a tool's in what model providers accept.
const LONGEST_NAME: usize = 32;

/// The section as it was read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Mcp {
    #[serde(deserialize_with = "named")]
    pub(crate) servers: BTreeMap<String, McpServer>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Section {
    command: Vec<String>,
    env: Option<BTreeMap<String, String>>,
    url: Option<String>,
    headers: Option<BTreeMap<String, String>>,
    required_scopes: Vec<String>,
    #[serde(deserialize_with = "absolute_paths")]
    read: Vec<PathBuf>,
    #[serde(deserialize_with = "absolute_paths")]
    write: Vec<PathBuf>,
}

impl Named for McpServer {
    type Section = Section;

    /// What is said of a section that does not fit together repeats none of its values.
    fn new(name: &str, section: Section) -> Result<Self, String> {
        let accepted = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if !(1..=LONGEST_NAME).contains(&name.len()) || !name.chars().all(accepted) {
            return Err(format!(
                "is not a name for an MCP server\nup to {LONGEST_NAME} letters, digits, _ and -"
            ));
        }
        let Section { command, env, url, headers, required_scopes, read, write } = section;
        if let Some(scope) = required_scopes.iter().find(|scope| !is_scope(scope)) {
            return Err(format!("requires {scope:?}, which no key can hold"));
        }
        let mut command = command.into_iter();
        let way = match (command.next(), url) {
            (Some(program), None) if headers.is_none() => McpWay::Command {
                program,
                arguments: command.collect(),
                environment: env.unwrap_or_default(),
            },
            (None, Some(url)) if env.is_none() => {
                if !(url.starts_with("https://") || url.starts_with("http://")) {
                    return Err("has a url that does not begin with https://".to_owned());
                }
                McpWay::Url { url, headers: headers.unwrap_or_default() }
            }
            (Some(_), Some(_)) => return Err("has both a command and a url".to_owned()),
            (None, None) => return Err("needs a command or a url".to_owned()),
            (Some(_), None) => return Err("has headers, which go with a url".to_owned()),
            (None, Some(_)) => return Err("has env, which goes with a command".to_owned()),
        };
        Ok(Self { name: name.to_owned(), way, required_scopes, read, write })
    }
}
