//! The check of what this kernel gives to lock children in with.

use super::{Check, State};
use crate::config::Config;
use crate::sandbox::{Walls, look};
use crate::wire::sandbox::starts_programs;

/// Where the host starts no programs, there is nothing to sandbox.
pub(super) fn check(config: &Config, variable: impl Fn(&str) -> Option<String>) -> Option<Check> {
    // What is wrong with the models is said where they are checked.
    let providers = config.provider_settings(&variable).unwrap_or_default();
    let table = config.model_table(&providers, &variable).unwrap_or_default();
    if !starts_programs(config, &table) {
        return None;
    }
    let name = "sandbox";
    let is_root = rustix::process::geteuid().is_root();
    let runs_as_root = is_root && config.sandbox.user.is_none();
    Some(match look() {
        Walls::None => Check::new(
            name,
            State::Warning,
            "this kernel has no Landlock: coding agents and MCP servers can read what the host's user can read",
        )
        .hint("run the host as root with another user in [sandbox], or on Linux 5.13 or newer with Landlock"),
        _ if runs_as_root => Check::new(
            name,
            State::Warning,
            "coding agents and MCP servers are locked in, but run as root without its capabilities",
        )
        .hint("name another user with user in [sandbox]"),
        Walls::Partial => Check::new(
            name,
            State::Ok,
            "coding agents and MCP servers see their own folders and no memory of others; this kernel lets them signal other processes",
        ),
        Walls::Whole => Check::new(
            name,
            State::Ok,
            "coding agents and MCP servers see their own folders, and no other processes",
        ),
    })
}
