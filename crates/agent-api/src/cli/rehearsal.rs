//! Planning a run without starting it, for tests of command lines.

use std::path::{Path, PathBuf};

use super::{CliAgent, Plan, Scene};
use crate::error::AgentError;
use crate::grant::Grant;
use crate::options::{Origin, RunOptions, Selector};

pub(crate) fn rehearse(
    agent: &impl CliAgent,
    options: &RunOptions,
    grants: &[Grant],
) -> Result<Plan, AgentError> {
    rehearse_with_help(agent, options, grants, "")
}

/// The arguments of a run that may not look at some paths.
pub(crate) fn line_with_hidden(
    agent: &impl CliAgent,
    grants: &[Grant],
    hidden: &[PathBuf],
) -> String {
    plan(agent, &RunOptions::default(), grants, "", hidden).unwrap().args.join(" ")
}

pub(crate) fn rehearse_with_help(
    agent: &impl CliAgent,
    options: &RunOptions,
    grants: &[Grant],
    help: &str,
) -> Result<Plan, AgentError> {
    plan(agent, options, grants, help, &[])
}

fn plan(
    agent: &impl CliAgent,
    options: &RunOptions,
    grants: &[Grant],
    help: &str,
    hidden: &[PathBuf],
) -> Result<Plan, AgentError> {
    agent.plan(&Scene {
        prompt: "do it",
        options,
        origin: options.origin.clone(),
        grants: &grants.iter().copied().collect(),
        is_attended: false,
        working_dir: Path::new("/w"),
        home: Path::new("/h"),
        files: &|name| PathBuf::from("/scratch").join(name),
        help,
        hidden,
        has_variable: &|name| name == "GEMINI_API_KEY",
    })
}

/// The arguments of a run that is not refused, as one line.
pub(crate) fn line(agent: &impl CliAgent, options: &RunOptions, grants: &[Grant]) -> String {
    rehearse(agent, options, grants).unwrap().args.join(" ")
}

pub(crate) fn resume(id: &str) -> RunOptions {
    RunOptions { origin: Origin::Resume(Selector::Id(id.into())), ..RunOptions::default() }
}

pub(crate) fn fork(id: &str) -> RunOptions {
    RunOptions { origin: Origin::Fork(Selector::Id(id.into())), ..RunOptions::default() }
}
