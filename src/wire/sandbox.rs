//! The sandbox command that is put before every program that the host starts.

use std::path::{Path, PathBuf};

use callboard_agents::ModelTable;
use callboard_backends::{Launcher, McpServer, McpWay};

use crate::config::Config;
use crate::handover;
use crate::sandbox::{self, Walls};

/// What the folders of children begin with.
pub(crate) const PREFIX: &str = "callboard-";
/// This very program, whatever has happened to its file since it was started.
pub(super) const OURSELVES: &str = "/proc/self/exe";
/// What variables are called that name a file with a key of a provider in it.
const KEY_FILE: &str = "_API_KEY_FILE";

/// Where children have folders of their own, those of one database apart from another's.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    /// What no child sees: the host's own.
    pub(crate) data: PathBuf,
    /// Of runs, with their work.
    pub(crate) runs: PathBuf,
    /// What a coding agent needs for a moment.
    pub(crate) scratch: PathBuf,
    /// Homes of MCP servers.
    pub(crate) homes: PathBuf,
}

impl Places {
    /// Neither the agents' homes nor their work lie beside the host's keys.
    pub(crate) fn of(data: &Path, name: &str) -> Self {
        let place = |kind: &str| std::env::temp_dir().join(format!("{PREFIX}{name}{kind}"));
        Self {
            data: data.to_owned(),
            runs: place(""),
            scratch: place("-tmp"),
            homes: place("-mcp"),
        }
    }
}

/// What is the host's alone: the data folder, the configuration with the tokens of MCP servers, files with keys.
pub(super) fn hidden(config: &Config, places: &Places) -> Vec<PathBuf> {
    let variables = handover::variables();
    let names_secret = |name: &str| name.ends_with(KEY_FILE) || handover::names_secret(name);
    let files = variables.iter().filter(|(name, _)| names_secret(name));
    let files = files.map(|(_, file)| PathBuf::from(file));
    let written = [&config.path, &config.server.api_keys_file].into_iter().flatten().cloned();
    let hidden = [places.data.clone()].into_iter().chain(written).chain(files);
    hidden.map(|path| std::path::absolute(&path).unwrap_or(path)).collect()
}

/// A child sees neither that nor the folders of other children.
pub(crate) fn launcher(config: &Config, places: &Places) -> Launcher {
    let Places { data: _, runs, scratch, homes } = places.clone();
    let hidden = hidden(config, places).into_iter().chain([runs, scratch, homes]);
    let mut command = vec![OURSELVES.to_owned(), "confine".to_owned()];
    for path in hidden {
        command.extend(["--hide".to_owned(), path.to_string_lossy().into_owned()]);
    }
    if config.sandbox.strict {
        command.push("--strict".to_owned());
    }
    if let Some(user) = config.sandbox.user {
        command.extend(["--user".to_owned(), user.to_string()]);
    }
    Launcher { command, folder: "--own".to_owned(), own_walls: "--own-walls".to_owned() }
}

/// The same for coding agents, with what the operator gives them.
pub(crate) fn coding_launcher(config: &Config, places: &Places) -> Launcher {
    let mut launcher = launcher(config, places);
    let cli = &config.cli;
    let read = cli.read.iter().map(|path| ("--read", path));
    let write =
        cli.write.iter().chain(&cli.work_dir).chain(&cli.home).map(|path| ("--write", path));
    for (flag, path) in read.chain(write) {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        launcher.command.extend([flag.to_owned(), path.to_string_lossy().into_owned()]);
    }
    launcher
}

/// Whether the host has children at all.
pub(crate) fn starts_programs(config: &Config, table: &ModelTable) -> bool {
    let is_program = |server: &McpServer| matches!(server.way, McpWay::Command { .. });
    config.mcp.servers.values().any(is_program) || !table.coding.is_empty()
}

/// Says once at the start what the kernel does not do for an operator who starts programs.
pub(crate) fn warn(config: &Config, table: &ModelTable) {
    if !starts_programs(config, table) {
        return;
    }
    if sandbox::look() == Walls::None {
        tracing::warn!(
            "this kernel has no Landlock: coding agents and MCP servers can read what the host's user can read, its data folder included"
        );
    }
    if rustix::process::geteuid().is_root() && config.sandbox.user.is_none() {
        tracing::warn!(
            "coding agents and MCP servers run as root, without its capabilities: name another user with user in [sandbox]"
        );
    }
}
