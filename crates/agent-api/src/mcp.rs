//! Managing the MCP servers that an agent knows: no run, no events.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use crate::error::AgentError;

/// Where and how long a management command runs. Its environment wins over everything else.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct McpCommandContext {
    pub working_dir: Option<PathBuf>,
    /// `Duration::ZERO` fails at once.
    pub timeout: Option<Duration>,
    pub env: BTreeMap<String, String>,
}

impl fmt::Debug for McpCommandContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpCommandContext")
            .field("working_dir", &self.working_dir)
            .field("timeout", &self.timeout)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .finish()
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpListRequest {
    pub context: McpCommandContext,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpGetRequest {
    pub name: String,
    pub context: McpCommandContext,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpRemoveRequest {
    pub name: String,
    pub context: McpCommandContext,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpAddRequest {
    pub name: String,
    pub transport: McpAddTransport,
    pub context: McpCommandContext,
}

#[derive(Clone, PartialEq, Eq)]
pub enum McpAddTransport {
    Stdio {
        command: Vec<String>,
        args: Vec<String>,
        env: BTreeMap<String, String>,
    },
    /// `bearer_token_env_var` is the name of a variable; its value is not read here.
    Url {
        url: String,
        bearer_token_env_var: Option<String>,
    },
}

/// Arguments and values may hold secrets.
impl fmt::Debug for McpAddTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio { .. } => f.write_str("Stdio"),
            Self::Url { .. } => f.write_str("Url"),
        }
    }
}

/// What the command printed, each side cut at 64 KiB. An exit that is not 0 is still an output.
#[derive(Clone, PartialEq, Eq)]
pub struct McpCommandOutput {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
    pub stdout_truncated: bool,
    pub stderr_truncated: bool,
}

impl fmt::Debug for McpCommandOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpCommandOutput")
            .field("status", &self.status)
            .field("stdout_bytes", &self.stdout.len())
            .field("stderr_bytes", &self.stderr.len())
            .finish_non_exhaustive()
    }
}

/// The name without the space around it.
pub(crate) fn server_name(name: &str) -> Result<String, AgentError> {
    let name = name.trim();
    // A leading dash would be read as an option.
    if name.is_empty() || name.starts_with('-') {
        return Err(AgentError::invalid("invalid MCP server name"));
    }
    Ok(name.to_owned())
}

/// A transport that was looked at.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Stdio { argv: Vec<String>, env: BTreeMap<String, String> },
    Url { url: String, bearer_token_env_var: Option<String> },
}

pub(crate) fn transport(asked: McpAddTransport) -> Result<Transport, AgentError> {
    match asked {
        McpAddTransport::Stdio { command, args, env } => {
            if command.is_empty() {
                return Err(AgentError::invalid("an MCP server's command is empty"));
            }
            let argv: Vec<String> =
                command.iter().chain(&args).map(|item| item.trim().to_owned()).collect();
            if argv.iter().any(String::is_empty) {
                return Err(AgentError::invalid("an item of an MCP server's command is blank"));
            }
            if !env.keys().all(|name| is_variable(name)) {
                return Err(AgentError::invalid("invalid name of an environment variable"));
            }
            Ok(Transport::Stdio { argv, env })
        }
        McpAddTransport::Url { url, bearer_token_env_var } => {
            let url = url.trim().to_owned();
            if !is_web_address(&url) {
                return Err(AgentError::invalid(
                    "an MCP server's URL must be absolute http or https",
                ));
            }
            if bearer_token_env_var.as_deref().is_some_and(|name| !is_variable(name)) {
                return Err(AgentError::invalid("invalid name of an environment variable"));
            }
            Ok(Transport::Url { url, bearer_token_env_var })
        }
    }
}

/// `^[A-Za-z_][A-Za-z0-9_]*$`
fn is_variable(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// An absolute http or https URL with a host, and nothing that a URL cannot hold.
fn is_web_address(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host_and_port = authority.rsplit('@').next().unwrap_or_default();
    let host = if host_and_port.starts_with('[') {
        host_and_port.split_inclusive(']').next().unwrap_or_default()
    } else {
        host_and_port.split(':').next().unwrap_or_default()
    };
    (scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https"))
        && !host.is_empty()
        && url.chars().all(|c| !c.is_whitespace() && !c.is_control())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stdio(command: &[&str], args: &[&str]) -> McpAddTransport {
        McpAddTransport::Stdio {
            command: command.iter().map(|item| (*item).into()).collect(),
            args: args.iter().map(|item| (*item).into()).collect(),
            env: BTreeMap::new(),
        }
    }

    fn url(url: &str, variable: Option<&str>) -> McpAddTransport {
        McpAddTransport::Url { url: url.into(), bearer_token_env_var: variable.map(Into::into) }
    }

    // T60
    #[test]
    fn names_urls_and_variables_are_checked() {
        assert_eq!(server_name("  files ").unwrap(), "files");
        assert!(server_name(" \n").is_err());
        assert!(server_name("--scope").is_err());
        assert!(transport(stdio(&[], &["a"])).is_err());
        assert!(transport(stdio(&["npx"], &[" "])).is_err());
        assert_eq!(
            transport(stdio(&["npx", "-y "], &["server"])).unwrap(),
            Transport::Stdio {
                argv: ["npx", "-y", "server"].map(Into::into).to_vec(),
                env: BTreeMap::new(),
            }
        );
        for good in ["http://127.0.0.1:8080/mcp", "https://example.org", "HTTPS://[::1]:1/x?y"] {
            assert!(transport(url(good, Some("TOKEN_1"))).is_ok(), "{good}");
        }
        for bad in
            ["/mcp", "ftp://example.org", "http://", "http:///x", "https://:80/", "http://a b"]
        {
            assert!(transport(url(bad, None)).is_err(), "{bad}");
        }
        for bad in ["1A", "A-B", "", "$A", "A=B"] {
            assert!(transport(url("http://a", Some(bad))).is_err(), "{bad}");
        }
    }
}
